# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action report_host: see plugins/modules/report_host.py for its documentation."""

from __future__ import annotations

from ..plugin_utils import host_ends
from ..plugin_utils.controller import ControllerAction, documented

UNKNOWN = {"message": "a task failed that does not belong to berth.kvm: see the output of the run"}


class ActionModule(ControllerAction):
    argument_spec = documented("report_host")

    def act(self, args, task_vars):
        return {"ended": {"state": host_ends.FAILED, "error": UNKNOWN} if args["failed"] else {"state": host_ends.OK}}

    def reported(self, result):
        return result["ended"]
