# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action creation_report: see plugins/modules/creation_report.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor import report
from ..plugin_utils.controller import ControllerAction, current_plan
from ..plugin_utils.screen import say


class ActionModule(ControllerAction):
    def act(self, args, task_vars):
        _blank, *lines, _end = say("", *report.creation(current_plan(task_vars)), "")
        return {"report": lines}
