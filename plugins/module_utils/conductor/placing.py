# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The placement of a run's instances: requests to the scheduler, its selections back into the instances of the plan."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..placement.options import read_options
from ..placement.scheduler import select_destinations
from .plan import CLAIMING, fail


@dataclasses.dataclass
class Decision:
    """``max_attempts`` is what the options say; ``result`` the scheduler's, None where there was nothing to place."""

    max_attempts: int
    result: Any = None


def place(instances, fleet, options, aggregates=(), seed=0, pci_aliases=()):
    """Give the instances without a state their hosts. Those of one batch (-e berth_count) all get one, or none does (S07)."""
    given = {**options, "pci_alias": [*options.get("pci_alias", ()), *pci_aliases]}
    decision = Decision(max_attempts=read_options({"max_attempts": given["max_attempts"]} if "max_attempts" in given else {})["max_attempts"])
    waiting = {instance["uuid"]: instance for instance in instances.values() if "state" not in instance}
    if not waiting:
        return decision
    decision.result = select_destinations(
        list(fleet.documents.values()), [instance["spec"] for instance in waiting.values()], given, aggregates, seed, explain=True
    )
    for answer in decision.result.requests:
        instance = waiting[answer.spec.instance_uuids[0]]
        if answer.error:
            fail(instance, answer.error)
        else:
            selection = answer.selections[0].to_dict()
            instance.update({key: selection[key] for key in ("host", "host_uuid", "alternates", "allocation", "limits")})
            instance["state"] = CLAIMING
            instance["why"] = _why(answer)
    return decision


def _why(answer):
    """In one line what put the chosen host first."""
    last = answer.explanation["instances"][-1]
    order, weights = last["order"], last["weights"]
    if len(order) < 2:
        return "the only host that fits"
    return "weight %.2f, first of %d hosts that fit" % (weights[last["host"]], len(order))
