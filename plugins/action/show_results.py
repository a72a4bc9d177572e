# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action show_results: see plugins/modules/show_results.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.operations import OPERATIONS
from ..module_utils.conductor.procedures.operate import Done
from ..module_utils.conductor.report import error_of, failure
from ..plugin_utils import end_of_operation
from ..plugin_utils.controller import ControllerAction, controller_facts, outcomes_reported
from ..plugin_utils.end_of_operation import FAILURE, is_gone
from ..plugin_utils.inventory_variables import raw_vars
from ..plugin_utils.plain import plain


class ActionModule(ControllerAction):
    argument_spec = {"operation": {"type": "str", "required": True}}

    def reported(self, result):
        return outcomes_reported(result)

    def act(self, args, task_vars):
        facts, operation = plain(controller_facts(task_vars)), args["operation"]
        located = facts["berth_located"] if operation in OPERATIONS else {}
        done = {name: _done(task_vars, name) for name in located.get("names", ())}
        return end_of_operation.end(self, task_vars, operation, located, facts.get("berth_moves") or {}, done)


def _done(task_vars, name):
    """Of an operation that only shows something: why it failed."""
    values = raw_vars(task_vars, name)
    why = failure({**({FAILURE: values[FAILURE]} if FAILURE in values else {}), "gone": is_gone(task_vars, name)})
    return Done(errors=[error_of(why)] if why else [])
