# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action settle_builds: see plugins/modules/settle_builds.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.plan import prepare_round, settle
from ..plugin_utils.controller import ControllerAction, answer, current_plan, new_token, plan_result, raw_vars
from ..plugin_utils.plain import plain


class ActionModule(ControllerAction):
    def act(self, args, task_vars):
        plan = current_plan(task_vars)
        built = {name: raw_vars(task_vars, name).get("__create_built") for name in plan["build"]}
        settle(plan, {name: plain(answer(result)) for name, result in built.items() if result})
        prepare_round(plan, new_token)
        return plan_result(plan)
