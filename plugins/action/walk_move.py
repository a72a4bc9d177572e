# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action walk_move: see plugins/modules/walk_move.py for its documentation."""

from __future__ import annotations

import functools

from ..module_utils.model.errors import together
from ..module_utils.model.schema import OneOf, Whole
from ..plugin_utils import walking
from ..plugin_utils.controller import ControllerAction
from ..plugin_utils.inventory_variables import is_true
from ..plugin_utils.plain import number, plain

DAY = 86400  # seconds
SETTINGS = {
    "bandwidth": Whole(0, 1 << 20, "MiB/s"),
    "confirm_window": Whole(0, 366 * DAY, "seconds"),
    "stop_timeout": Whole(0, DAY, "seconds"),
    "timeout": Whole(0, 7 * DAY, "seconds"),
    "timeout_action": OneOf("abort", "force_complete"),
}
SWITCHES = ("changed_disks", "copy_while_running", "crashed", "revert_volumes", "tls")


class ActionModule(ControllerAction):
    argument_spec = {
        "move": {"type": "dict", "required": True},
        "at": {"type": "dict", "default": {}},
        "answer": {"type": "dict", "default": {}},
        "only_prepare": {"type": "bool", "default": False},
        "settings": {"type": "dict", "default": {}},
    }

    def act(self, args, task_vars):
        at, answer = plain(args["at"]), args["answer"]
        walk = walking.restored(plain(args["move"]), at)
        if answer:
            walking.take(walk, answer)
            return walking.fact(walk, at["number"] + 1, at["only_prepare"], at["settings"])
        settings = plain(args["settings"])
        _check(settings)
        return walking.fact(walk, 1, args["only_prepare"], settings)


def _check(settings):
    """Check the settings before the first leg: a host would refuse one only after others have changed something."""
    given = [name for name in SETTINGS if name in settings]
    checks = [functools.partial(SETTINGS[name].check, number(settings[name]), name) for name in given]
    together([*checks, *(functools.partial(is_true, settings, name) for name in SWITCHES)])
