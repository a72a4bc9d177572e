# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a create: its failures and results reach records and people."""

from __future__ import annotations

from typing import Any, Dict, List

from ansible.plugins.action import ActionBase

from ..module_utils.conductor import outcome_of_create
from ..module_utils.conductor.closing_table import Outcome
from ..module_utils.conductor.plan import FAILED, Plan
from . import fleet_filters, guest_addresses, remembered_failures
from .berth_name import addressed
from .controller import results_fact
from .inventory_variables import kvm_hosts
from .screen import columns, say


def end(action: ActionBase, task_vars: Dict[str, Any], plan: Plan) -> Dict[str, Any]:
    """Show the results, and return them as those of the run's last task."""
    # over a registry the plan has only the hosts that acted
    fleet_filters.follow(action, task_vars, kvm_hosts(task_vars) if plan.get("registry") else plan["reachable"])
    _keep(action, task_vars, plan)
    outcomes = outcome_of_create.outcomes(plan, bool(action._task.check_mode))
    _find_addresses(action, task_vars, plan, outcomes)
    outcomes = addressed(outcomes, task_vars)
    say("", *outcome_of_create.creation(plan, outcomes, columns()), "")
    return results_fact(outcomes, outcome_of_create.left_out(plan))


def _find_addresses(action: ActionBase, task_vars: Dict[str, Any], plan: Plan, outcomes: List[Outcome]) -> None:
    """Of the instances that run and whose NICs have no fixed address."""
    instances = plan["instances"]
    lacking = [
        row
        for row in outcomes
        if row.host in plan["reachable"]
        and not row.address
        and instances[row.instance]["state"] != FAILED
        and "known_address" not in instances[row.instance]
        and instances[row.instance]["spec"].get("networks")
    ]
    if not action._task.check_mode:
        uuids = {name: instance["uuid"] for name, instance in instances.items()}
        guest_addresses.find(action, task_vars, lacking, uuids)


def _keep(action: ActionBase, task_vars: Dict[str, Any], plan: Plan) -> None:
    """Keep the failures that no host remembers."""
    faulty = {fault["uuid"] for faults in plan["faults"].values() for fault in faults}
    instances = plan["instances"].values()
    failed = [instance for instance in instances if instance["state"] == FAILED and instance["uuid"] not in faulty]
    errors = [(instance, instance["error"] or {"code": "Failed", "message": ""}) for instance in failed]
    failures = [
        {
            "name": instance["name"],
            "project": instance["project"],
            "code": error["code"],
            "message": error["message"],
        }
        for instance, error in errors
    ]
    done = [instance["uuid"] for instance in instances if instance["state"] != FAILED or instance["uuid"] in faulty]
    remembered_failures.settle(action, task_vars, "create", failures, done)
