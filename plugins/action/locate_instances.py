# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action locate_instances: see plugins/modules/locate_instances.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.operations import OPERATIONS
from ..plugin_utils.controller import documented
from ..plugin_utils.locating import LocateInstances


class ActionModule(LocateInstances):
    argument_spec = documented("locate_instances", method=list(OPERATIONS))

    def reported(self, result):
        located = result["ansible_facts"]["berth_located"]
        return None if located["names"] else {"outcomes": [], "hosts_left_out": located["left_out"]}

    def act(self, args, task_vars):
        located = self.located(args, task_vars)
        return {"ansible_facts": {"berth_located": located}, "verdicts": located["left_out"]}
