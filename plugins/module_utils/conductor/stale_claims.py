# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims that killed runs left on other hosts than the one that has the instance by now: a create withdraws them.

The hosts are read again for it. A claim goes only if it is at rest and was not made after a later owner than the one that
answers: the instance was made after the claim, or the claim was made to replace this owner, such as while its host was
given up as lost. Its host withdraws it by its token, as any claim: one that a run has taken over stays. A run that has
not ended, and finds its claim gone, builds nothing.
"""

from __future__ import annotations

from typing import Iterator, List, Mapping, Tuple

from ..model.lifecycle import CLAIM, CLAIMED, OWN
from ..model.messages import ScannedRecord
from .commit import Scan
from .plan import Instance, Plan, host_of, withdraw


def hosts(plan: Plan) -> List[str]:
    """The hosts to read: those with such claims, and the owners of their instances."""
    return sorted({host for instance, claimed in _left(plan) for host in (host_of(instance), claimed)})


def withdraw_outdated(plan: Plan, scans: Mapping[str, Scan]) -> None:
    """Have the hosts drop these claims at their next request, by what they say now: ``scans`` is by host."""
    held = {(host, record["uuid"]): record for host, scan in scans.items() for record in scan.get("instances") or ()}
    for instance, host in _left(plan):
        uuid = instance["uuid"]
        claim, owner = held.get((host, uuid)), held.get((host_of(instance), uuid))
        if claim and owner and _is_outdated(claim, owner):
            withdraw(plan, host, uuid, claim["token"])


def _left(plan: Plan) -> Iterator[Tuple[Instance, str]]:
    """(instance, host with a claim of it) of the instances that have a host."""
    for instance in plan["instances"].values():
        for host in instance.get("stale_claims") or ():
            if instance["host"] and instance["host"] != host:
                yield instance, host


def _is_outdated(claim: ScannedRecord, owner: ScannedRecord) -> bool:
    at_rest = (claim["role"], claim["phase"]) == (CLAIM, CLAIMED)
    return at_rest and owner["role"] == OWN and owner["generation"][0] >= claim["generation"][0]
