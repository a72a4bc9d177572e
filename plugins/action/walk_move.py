# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action walk_move: see plugins/modules/walk_move.py for its documentation."""

from __future__ import annotations

import functools

from ..module_utils.model.errors import together
from ..plugin_utils import move_options, walking
from ..plugin_utils.controller import ControllerAction
from ..plugin_utils.plain import number, plain

RULES = {
    **move_options.SETTINGS,
    **dict.fromkeys(("changed_disks", "crashed", "revert_volumes"), move_options.Switch()),
}


class ActionModule(ControllerAction):
    argument_spec = {
        "move": {"type": "dict", "required": True},
        "at": {"type": "dict", "default": {}},
        "answer": {"type": "dict", "default": {}},
        "only_prepare": {"type": "bool", "default": False},
        "settings": {"type": "dict", "default": {}},
    }

    def act(self, args, task_vars):
        at, plan = plain(args["at"]), plain(args["move"])
        answers = walking.answers_of(plan, at)
        if args["answer"]:
            run = walking.run_of(self, task_vars, at)
            asked = walking.after(plan, answers, run).step
            answers = [*answers, walking.answer_to(asked, args["answer"])]
        else:
            settings = {
                name: number(value) for name, value in plain(args["settings"]).items() if value not in ("", None)
            }
            _check(settings)
            run = walking.run_of(self, task_vars, {"settings": settings, "only_prepare": args["only_prepare"]})
        return walking.fact(plan, walking.after(plan, answers, run), at["number"] + 1 if args["answer"] else 1, run)


def _check(settings):
    """Check the settings before the first leg: a host would refuse one only after others have changed something."""
    together([functools.partial(RULES[name].check, settings[name], name) for name in RULES if name in settings])
