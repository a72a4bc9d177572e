# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action instance_copy: see plugins/modules/instance_copy.py for its documentation."""

from __future__ import annotations

from ..plugin_utils.host_reply import host_of
from ..plugin_utils.named_instances import NamedAction


class ActionModule(NamedAction):
    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        if "instance_copy" in result:
            asked = {"state": self._task.args["state"], "host": {"name": host_of(self, task_vars)}}
            result["instance_copy"] = {**result["instance_copy"], **asked}
        return result
