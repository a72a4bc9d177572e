# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run did, as plain text for people."""

from __future__ import annotations

from typing import List, Mapping, Optional, Tuple

from ..model import hints
from ..placement.text import table
from .plan import ACTIVE, EXISTING, FAILED, PLANNED, UNCONFIRMED, Instance, Plan


def creation(plan: Plan) -> List[str]:
    """One line per instance, then what the failed ones tried, then the hosts that had no say."""
    lines: List[str] = table(
        ("INSTANCE", "STATE", "HOST", "ADDRESS", "WHY"),
        [_instance(*entry) for entry in plan["instances"].items()],
        indent="",
    )
    for name, instance in plan["instances"].items():
        error = instance.get("error")
        if error:
            lines += ["", "%s: %s: %s" % (name, error["code"], error["message"])]
        if instance["attempts"] and instance["state"] == FAILED:
            rows = [(entry["attempt"], entry["host"], entry["code"], entry["cause"]) for entry in instance["attempts"]]
            lines += table(("ATTEMPT", "HOST", "ERROR", "CAUSE"), rows)
    return lines + silent({name: host["reason"] for name, host in plan["hosts"].items() if "reason" in host})


def _instance(name: str, instance: Instance) -> Tuple[str, ...]:
    state = instance["state"]
    if state in (ACTIVE, EXISTING, UNCONFIRMED):
        state = "active" if instance.get("changed") else "unchanged"
    elif state == PLANNED:
        state = "would be made"
    addresses = ",".join(
        str(nic["address"]).partition("/")[0] for nic in instance["spec"].get("networks") or () if nic.get("address")
    )
    why = instance.get("why") or ""
    if instance["attempts"] and instance["state"] == ACTIVE:
        why = "attempt %d, after %s" % (
            len(instance["attempts"]) + 1,
            ", ".join("%s on %s" % (entry["code"], entry["host"]) for entry in instance["attempts"]),
        )
    error = instance.get("error")
    if error:
        why = error["code"]
    if instance.get("existing") and instance["state"] == ACTIVE:
        why = left_as_found(instance) or why
    return name, state, instance["host"] or "-", addresses or "-", why


def left_as_found(instance: Instance) -> Optional[str]:
    """Why an instance that was there does not run, and what starts it; None where it runs."""
    found = instance.get("result") or {}
    if found.get("state") == "running":
        return None
    if found.get("state") in ("paused", "suspended"):
        what = found["state"]
    elif found.get("power_state") == "shutdown":
        what = "stopped"
    else:
        what = "off, though nobody stopped it with berth.kvm.stop"
    return "%s; %s" % (what, "locked" if instance.get("locked") else hints.start())


def silent(verdicts: Mapping[str, str]) -> List[str]:
    """The hosts that were left out, each with the reason."""
    return [""] + ["host %s left out: %s" % entry for entry in sorted(verdicts.items())] if verdicts else []
