# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a create: nothing is left to build, so its claims, failures and results reach hosts, records and people."""

from __future__ import annotations

from typing import Any, Dict

from ansible.plugins.action import ActionBase

from ..module_utils.conductor import report_creation, stale_claims
from ..module_utils.conductor.plan import FAILED, Plan
from . import failed_requests, fleet_filters
from .asking import answers, ask
from .controller import plan_result, results_fact
from .plain import plain
from .screen import say


def end(action: ActionBase, task_vars: Dict[str, Any], plan: Plan) -> Dict[str, Any]:
    """Show the results. Return them and the plan, as the result of the run's last task."""
    _withdraw_and_tell(action, task_vars, plan)
    fleet_filters.follow(action, task_vars, plan["reachable"])
    _keep(action, task_vars, plan)
    say("", *report_creation.creation(plan), "")
    results = results_fact(report_creation.outcomes(plan), report_creation.left_out(plan))
    results["ansible_facts"].update(plan_result(plan)["ansible_facts"])
    return results


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
    failed_requests.settle(action, task_vars, "create", failures, done)


def _withdraw_and_tell(action: ActionBase, task_vars: Dict[str, Any], plan: Plan) -> None:
    """Withdraw unused claims, record build failures, and tell all hosts who owns the instances now."""
    left = set(stale_claims.hosts(plan)) & set(plan["reachable"])
    stale_claims.withdraw_outdated(plan, plain(answers(ask(action, task_vars, sorted(left), "rescan", {}))))
    hosts = [host for host in plan["reachable"] if host in plan["withdraw"] or host in plan["faults"]]
    ask(action, task_vars, hosts, "claim", {}, {"withdraw": plan["withdraw"], "failed": plan["faults"]})
    if plan["tell"]:
        # nothing is lost if one does not take it: it was told of the plan before the build, and that counts on
        ask(action, task_vars, plan["reachable"], "rescan", {"told": plan["tell"]})
