# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action check_variables: see plugins/modules/check_variables.py for its documentation."""

from __future__ import annotations

from ..plugin_utils.controller import ControllerAction
from ..plugin_utils.variables import check_variables


class ActionModule(ControllerAction):
    def act(self, args, task_vars):
        check_variables(self, task_vars)
        return {}
