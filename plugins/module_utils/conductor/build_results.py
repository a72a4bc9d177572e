# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from the results of a round's builds. A host that fell silent may have built: no other is tried."""

from __future__ import annotations

from typing import Dict

from ..model import fleet_hints
from .errors import HostUnknown
from .next_host import attempt_failed, said_by
from .plan import (
    ACTIVE,
    BUILDING,
    PLANNED,
    Built,
    Plan,
    fail,
    host_of,
    planned_instance,
    withdraw_claim,
)


def settle(plan: Plan, built: Dict[str, Built]) -> None:
    """Apply the results of the hosts' builds, given by inventory name."""
    silent: Built = {"reason": "was not asked"}
    for name in plan["build"]:
        instance, result = plan["instances"][name], built.get(name) or silent
        if instance["state"] == PLANNED:
            continue
        if "reason" in result:
            # the build may still run there: another host could build a second instance now
            instance.setdefault("uncertain", []).append(planned_instance(plan, instance))
            fail(
                instance,
                HostUnknown(
                    "%s stopped answering while it built %s: %s"
                    % (instance["host"], instance["name"], result["reason"]),
                    hint=fleet_hints.create_again_when_back(host_of(instance)),
                ),
            )
        elif "error" in result:
            error = result["error"]
            retryable = bool(error.get("retryable")) and instance["state"] == BUILDING
            if instance["state"] == BUILDING:
                withdraw_claim(plan, instance)  # a build that ended removed it; one that did not begin left it there
            if not retryable:
                instance.setdefault("uncertain", []).append(planned_instance(plan, instance))
            instance["generation"] = [(instance.get("generation") or [0])[0] + 1, 0]
            attempt_failed(
                plan, instance, error.get("code", "BuildFailed"), said_by(error, "the build failed"), retryable
            )
        else:
            instance["state"] = ACTIVE
            instance["changed"] = bool(result.get("changed"))
            instance["result"] = result.get("instance") or {}
    plan["build"] = []
