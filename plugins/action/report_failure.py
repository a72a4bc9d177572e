# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action report_failure: see plugins/modules/report_failure.py for its documentation."""

from __future__ import annotations

from ansible import constants as C  # noqa: N812 -- Ansible's usual name for them

from ..module_utils.conductor.closing_table import error_code
from ..plugin_utils.controller import ControllerAction, current_results, documented
from ..plugin_utils.screen import is_for_programs, tell_once


class ActionModule(ControllerAction):
    argument_spec = documented("report_failure")

    def act(self, args, task_vars):
        if args["msg"]:
            return {"failed": True, "msg": tell_once(args["msg"]) if self._task.run_once else args["msg"]}
        name, results = task_vars["inventory_hostname"], current_results(task_vars)
        if name in results["failed"]:
            error = results["failed"][name]
            code = error_code(error)
            return {"failed": True, "msg": _short(error, "%s: %s" % (name, code)), "error_code": code}
        host = results["left_out"][name]
        return {"unreachable" if host["silent"] else "failed": True, "msg": _short(host["reason"], "left out")}


def _short(text, begin):
    """What was told below the table is not told again; a document for programs has the whole text."""
    return text if is_for_programs(C.DEFAULT_STDOUT_CALLBACK) else "%s. See the table above" % begin
