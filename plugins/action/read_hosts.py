# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action read_hosts: see plugins/modules/read_hosts.py for its documentation."""

from __future__ import annotations

from ..module_utils.model.messages import BESIDE_FACTS
from ..plugin_utils.controller import ControllerAction
from ..plugin_utils.reading import read


class ActionModule(ControllerAction):
    argument_spec = {
        "instances": {"type": "list", "elements": "str", "required": True},
        "hosts": {"type": "list", "elements": "str"},
        "most": {"type": "int"},
        "operation": {"type": "str", "default": "show_fleet"},
        **{part: {"type": "bool", "default": False} for part in BESIDE_FACTS},
        "must_answer": {"type": "bool", "default": True},
    }

    def act(self, args, task_vars):
        return read(self, args, task_vars)
