# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action run_leg: see plugins/modules/run_leg.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor import report
from ..plugin_utils import walking
from ..plugin_utils.asking import ask
from ..plugin_utils.controller import ControllerAction
from ..plugin_utils.host_reply import failed_if_silent
from ..plugin_utils.plain import plain


class ActionModule(ControllerAction):
    argument_spec = {
        "move": {"type": "dict", "required": True},
        "at": {"type": "dict", "required": True},
        "key": {"type": "str", "no_log": True},
    }

    def act(self, args, task_vars):
        at, plan = plain(args["at"]), plain(args["move"])
        run = walking.run_of(self, task_vars, at, args["key"])
        before = walking.after(plan, walking.answers_of(plan, at), run)
        [(host, arguments)] = before.step.arguments.items()
        result = failed_if_silent(ask(self, task_vars, [host], before.step.module, arguments)[host], host)
        told = {name: value for name, value in result.items() if not name.startswith("_ansible_")}
        if told.get("failed"):
            return dict(told, msg=report.named(str(told.get("msg")), plan["uuid"], plan["name"]))
        answers = [*before.answers, walking.answer_to(before.step, told)]
        return {**told, **walking.fact(plan, walking.after(plan, answers, run), at["number"] + 1, run)}
