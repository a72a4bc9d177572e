# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a create for each instance, for the closing table."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..model import hints, operation_hints, vm_states
from ..model.lifecycle import PAUSED
from ..placement.text import WIDTH
from . import drift
from .closing_table import Outcome, address_of, closing, details_of, disks_gone, left_off, named, not_running, tried
from .plan import ACTIVE, EXISTING, FAILED, PLANNED, UNCONFIRMED

Plan = Dict[str, Any]


def creation(plan: Plan, known: List[Outcome], width: int = WIDTH) -> List[str]:
    """The closing table of a create with its outcomes, and the hosts that failed instances were tried on."""
    return closing(known, {**left_out(plan), **plan.get("unprepared", {})}, attempts(plan), width=width)


def outcomes(plan: Plan, check_mode: bool = False) -> List[Outcome]:
    return [_outcome(name, instance, check_mode) for name, instance in plan["instances"].items()]


def left_out(plan: Plan) -> Dict[str, str]:
    """Host -> why it does not count. An unprepared host has no uuid to answer with later, so that is the reason."""
    unprepared = plan.get("unprepared", {})
    silent = {name: host["reason"] for name, host in plan["hosts"].items() if "reason" in host}
    return {name: unprepared.get(name, reason) for name, reason in silent.items()}


def attempts(plan: Plan) -> List[str]:
    failed = {name: instance for name, instance in plan["instances"].items() if instance["state"] == FAILED}
    return [line for name, instance in failed.items() for line in tried(name, instance["uuid"], instance["attempts"])]


def _outcome(name: str, instance: Dict[str, Any], check_mode: bool) -> Outcome:
    spec, error = instance["spec"], instance["error"] or {}
    failed = instance["state"] == FAILED
    return Outcome(
        instance=name,
        state=_state(instance, check_mode),
        host=instance["host"] or "",
        flavor=((instance.get("result") or {}).get("flavor") or (spec.get("flavor") or {}).get("name") or ""),
        address=address_of(spec.get("networks")) or instance.get("known_address") or "",
        why=error["code"] if failed else _why(instance),
        error=named("%s: %s" % (error["code"], error["message"]), instance["uuid"], name) if failed else "",
        error_details=details_of(error) if failed else {},
    )


def _state(instance: Dict[str, Any], check_mode: bool) -> str:
    state = instance["state"]
    if state in (ACTIVE, EXISTING, UNCONFIRMED):
        would = "would be " if check_mode else ""
        return would + power_of(instance) if instance.get("changed") else "unchanged"
    return "would be made" if state == PLANNED else state


def _why(instance: Dict[str, Any]) -> str:
    return "; ".join(part for part in (instance.get("gives_up"), _reason(instance)) if part)


def _reason(instance: Dict[str, Any]) -> str:
    if instance.get("existing") and instance["state"] == ACTIVE:
        followed = instance.get("changed") and instance.get("berth_state")
        power = "inventory says berth_state: %s" % instance["berth_state"] if followed else left_as_found(instance)
        return "; ".join(part for part in (power, differs(instance)) if part) or instance.get("why") or ""
    if instance.get("take_over") and instance["state"] == ACTIVE:
        return "with the disks that it had"
    if instance["attempts"] and instance["state"] == ACTIVE:
        failed = ", ".join("%s on %s" % (entry["code"], entry["host"]) for entry in instance["attempts"])
        return "attempt %d, after %s" % (len(instance["attempts"]) + 1, failed)
    return instance.get("why") or ""


def power_of(instance: Dict[str, Any]) -> str:
    """The state of an instance that was created, started or stopped: stopped only if the inventory says so."""
    return "stopped" if instance.get("berth_state") == "stopped" and not instance.get("locked") else "active"


def differs(instance: Dict[str, Any]) -> Optional[str]:
    """How the inventory differs from the instance, and how to resolve it: from the host's answer in this run, and for
    the rest from the facts (``differs``)."""
    result, name = instance.get("result") or {}, instance.get("name", "")
    attached, wanted = result.get("volumes") or {}, drift.said(instance)
    parts = (
        drift.of_flavor_name(name, result.get("flavor"), wanted.get("flavor") or {}, instance.get("content")),
        drift.of_shown(name, result.get("networks") or (), wanted.get("networks") or ()),
        drift.of_data_disks(name, result.get("disks") or {}, wanted),
        *drift.of_boot_order(name, attached, result.get("boot_order") or {}, wanted),
        drift.of_volumes(name, attached, result.get("delete_on_termination") or (), wanted),
        *instance.get("differs", ()),
        result.get("mended"),
        drift.of_domain(name, result.get("domain_differs")),
    )
    return "; ".join(part for part in parts if part) or None


def left_as_found(instance: Dict[str, Any]) -> Optional[str]:
    """Why an existing instance does not run, and what starts it; None if it runs."""
    result = instance.get("result") or {}
    gone = disks_gone(instance.get("host") or "its host", instance.get("name", ""), result)
    if gone:
        return gone
    locked, wanted = instance.get("locked"), instance.get("berth_state")
    if result.get("state") == "running" and result.get("vm_state") == vm_states.RESCUED:
        return "%s; %s" % (vm_states.RESCUED, "locked" if locked else operation_hints.go_back())
    if result.get("state") == "running":
        return "running; locked" if locked and wanted == "stopped" else None
    vm_state, state = str(result.get("vm_state")), result.get("state")
    if vm_state == wanted == vm_states.STOPPED:
        return "stopped, as the inventory says"
    meant = vm_states.VM_STATES.get(vm_state)
    back = meant.back if meant else None
    if not (meant and back) or (state in PAUSED) != (meant.power_state in PAUSED):
        return "%s; locked" % not_running(state) if locked else left_off(instance.get("name", ""), state, back)
    return "%s; %s" % (vm_state, "locked" if locked else hints.run_it(back))
