# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action record_builds: see plugins/modules/record_builds.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor import report_creation, stale_claims
from ..module_utils.conductor.build_results import settle
from ..module_utils.conductor.plan import FAILED, prepare_round
from ..plugin_utils import failed_requests, fleet_filters
from ..plugin_utils.answers_of_hosts import answer
from ..plugin_utils.asking import answers, ask
from ..plugin_utils.controller import (
    ControllerAction,
    current_plan,
    new_token,
    outcomes_reported,
    plan_result,
    results_fact,
)
from ..plugin_utils.inventory_variables import raw_vars
from ..plugin_utils.plain import plain
from ..plugin_utils.screen import say


class ActionModule(ControllerAction):
    def reported(self, result):
        return outcomes_reported(result)

    def act(self, args, task_vars):
        plan = current_plan(task_vars)
        built = {name: raw_vars(task_vars, name).get("__create_built") for name in plan["build"]}
        settle(plan, {name: plain(answer(result)) for name, result in built.items() if result})
        prepare_round(plan, new_token)
        if plan["claims"]:
            return plan_result(plan)
        self._withdraw_and_tell(plan, task_vars)
        fleet_filters.follow(self, task_vars, plan["reachable"])
        self._keep(plan, task_vars)
        say("", *report_creation.creation(plan), "")
        results = results_fact(report_creation.outcomes(plan), report_creation.left_out(plan))
        results["ansible_facts"].update(plan_result(plan)["ansible_facts"])
        return results

    def _keep(self, plan, task_vars):
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
        failed_requests.settle(self, task_vars, "create", failures, done)

    def _withdraw_and_tell(self, plan, task_vars):
        """Withdraw unused claims, record build failures, and tell all hosts who owns the instances now."""
        left = set(stale_claims.hosts(plan)) & set(plan["reachable"])
        stale_claims.withdraw_outdated(plan, plain(answers(ask(self, task_vars, sorted(left), "rescan", {}))))
        hosts = [host for host in plan["reachable"] if host in plan["withdraw"] or host in plan["faults"]]
        ask(self, task_vars, hosts, "claim", {}, {"withdraw": plan["withdraw"], "failed": plan["faults"]})
        if plan["tell"]:
            # nothing is lost if one does not take it: it was told of the plan before the build, and that counts on
            ask(self, task_vars, plan["reachable"], "rescan", {"told": plan["tell"]})
