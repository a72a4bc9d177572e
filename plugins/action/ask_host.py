# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action ask_host: see plugins/modules/ask_host.py for its documentation."""

from __future__ import annotations

from ansible.plugins.action import ActionBase

from ..plugin_utils.ask import ask

MODULES = ("host_facts", "claim", "instance", "migration", "rescan")


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _requires_connection = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        _result, args = self.validate_argument_spec(
            argument_spec={
                "module": {"type": "str", "required": True, "choices": list(MODULES)},
                "arguments": {"type": "dict", "default": {}},
            }
        )
        return ask(self, "berth.kvm." + args["module"], args["arguments"], task_vars)
