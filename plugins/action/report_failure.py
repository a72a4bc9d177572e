# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action report_failure: see plugins/modules/report_failure.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.report import error_code
from ..plugin_utils.controller import ControllerAction, current_results


class ActionModule(ControllerAction):
    def act(self, args, task_vars):
        name, results = task_vars["inventory_hostname"], current_results(task_vars)
        if name in results["failed"]:
            error = results["failed"][name]
            return {"failed": True, "msg": error, "error_code": error_code(error)}
        host = results["left_out"][name]
        return {"unreachable" if host["silent"] else "failed": True, "msg": host["reason"]}
