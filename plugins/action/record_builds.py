# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action record_builds: see plugins/modules/record_builds.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.build_results import settle
from ..module_utils.conductor.plan import prepare_round
from ..plugin_utils import end_of_create
from ..plugin_utils.answers_of_hosts import answer
from ..plugin_utils.controller import ControllerAction, current_plan, new_token, outcomes_reported, plan_result
from ..plugin_utils.inventory_variables import raw_vars
from ..plugin_utils.plain import plain


class ActionModule(ControllerAction):
    def reported(self, result):
        return outcomes_reported(result)

    def act(self, args, task_vars):
        plan = current_plan(task_vars)
        built = {name: raw_vars(task_vars, name).get("__create_built") for name in plan["build"]}
        settle(plan, {name: plain(answer(result)) for name, result in built.items() if result})
        prepare_round(plan, new_token)
        return plan_result(plan) if plan["claims"] else end_of_create.end(self, task_vars, plan)
