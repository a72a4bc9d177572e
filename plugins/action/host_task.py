# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action host_task: see plugins/modules/host_task.py for its documentation."""

from __future__ import annotations

from ..plugin_utils.host_reply import HostAction, run_builtin

MODULES = ("package", "service", "systemd_service", "reboot", "wait_for")


class ActionModule(HostAction):
    def on_host(self, task_vars):
        _result, args = self.validate_argument_spec(
            argument_spec={
                "module": {"type": "str", "required": True, "choices": list(MODULES)},
                "arguments": {"type": "dict", "required": True},
            }
        )
        return run_builtin(self, args["module"], args["arguments"], task_vars)
