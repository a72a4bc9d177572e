# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action instance: see plugins/modules/instance.py for its documentation."""

from __future__ import annotations

from ..plugin_utils.host_reply import HostAction
from ..plugin_utils.named_instances import with_uuid


class ActionModule(HostAction):
    def on_host(self, task_vars):
        self._task.args = with_uuid(self._task.args)
        return super().on_host(task_vars)
