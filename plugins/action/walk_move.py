# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action walk_move: see plugins/modules/walk_move.py for its documentation."""

from __future__ import annotations

import functools
import time

from ..module_utils.conductor import downtime, unconfirmed
from ..module_utils.conductor.errors import HostUnknown
from ..module_utils.conductor.sequences import FLEET
from ..module_utils.conductor.walk import Move, Walk
from ..module_utils.model.errors import together
from ..module_utils.model.schema import OneOf, Whole
from ..plugin_utils.controller import ControllerAction
from ..plugin_utils.plain import number, plain

DAY = 86400  # seconds
SETTINGS = {
    "bandwidth": Whole(0, 1 << 20, "MiB/s"),
    "confirm_window": Whole(0, 366 * DAY, "seconds"),
    "stop_timeout": Whole(0, DAY, "seconds"),
    "timeout": Whole(0, 7 * DAY, "seconds"),
    "timeout_action": OneOf("abort", "force_complete"),
}


class ActionModule(ControllerAction):
    argument_spec = {
        "move": {"type": "dict", "required": True},
        "walk": {"type": "dict", "default": {}},
        "answer": {"type": "dict", "default": {}},
        "only_prepare": {"type": "bool", "default": False},
        "settings": {"type": "dict", "default": {}},
    }

    def act(self, args, task_vars):
        move, state, answer = Move.from_plan(plain(args["move"])), plain(args["walk"]), args["answer"]
        settings = plain(args["settings"])
        if not answer:
            _check(settings)
        # A walk of another plan is from an earlier play of this run.
        walk = Walk.restore(move, state) if state.get("plan") == move.id else Walk.begin(move)
        if answer:
            _take(walk, answer)
        return _told(walk, args["only_prepare"], settings)


def _check(settings):
    """Check the settings before the first leg: a host would refuse one only after others have changed something."""
    given = [name for name in SETTINGS if name in settings]
    together(functools.partial(SETTINGS[name].check, number(settings[name]), name) for name in given)


def _take(walk, answer):
    """Take the registered result of the leg, without what Ansible adds, which is not plain data."""
    if answer.get("failed"):
        walk.failed(
            str(answer.get("msg") or "no reason was given"), silent=answer.get("error_code") == HostUnknown.__name__
        )
    elif walk.turn().leg.side == FLEET:
        walk.stands()
    else:
        view, took = plain(answer["move"]), plain(answer.get("took") or {})
        known = downtime.after(walk.away, walk.turn().leg.steps, took, time.monotonic())
        walk.away = downtime.measured(view) or known
        walk.answered(view, plain(answer["token"]))


def _told(walk, only_prepare, settings):
    turn = None if only_prepare and walk.is_prepared() else walk.turn()
    told = {
        "walk": walk.state(),
        "labels": [turn.leg.label] if turn else [],
        "tasks": "look.yml" if turn and turn.leg.side == FLEET else "leg.yml",
        "host": turn and turn.host,
        "leg": turn and turn.arguments(settings),
        "needs_key": bool(turn) and "key" in turn.leg.needs,
        "failure": None if turn else walk.failure,
        "attempts": [] if turn else walk.attempts,
        "destination": None if turn else walk.destination(),
        "away": None if turn else walk.away.get(downtime.SECONDS),
        "move": None if walk.turn() or walk.failure else walk.last,
        "says": None,
    }
    if walk.waits_for_confirm():
        told["says"] = "%s is on %s and %s" % (
            walk.move.name,
            walk.destination(),
            unconfirmed.told(walk.last.get("confirm_in")),
        )
    return told
