# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action read_hosts: see plugins/modules/read_hosts.py for its documentation."""

from __future__ import annotations

from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.reading import read


class ActionModule(ControllerAction):
    argument_spec = documented("read_hosts")

    def act(self, args, task_vars):
        return read(self, args, task_vars)
