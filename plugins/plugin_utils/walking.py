# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move between two of its tasks: the fact of the instance that says how far it has come and what is next.

A fact, because a leg that failed registers its failure alone.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Mapping, Optional

from ..module_utils.conductor import downtime
from ..module_utils.conductor.errors import HostUnknown
from ..module_utils.conductor.sequences import FLEET
from ..module_utils.conductor.walk import Move, Walk
from ..module_utils.model.move_errors import MigrationEnded
from .plain import plain

FACT = "berth_walk"


def restored(plan: Mapping[str, Any], at: Mapping[str, Any]) -> Walk:
    """The walk that had come so far, or a new one: that of another plan is from an earlier play, or an earlier run."""
    move, state = Move.from_plan(plan), at.get("walk") or {}
    return Walk.restore(move, state) if state.get("plan") == move.id else Walk.begin(move)


def of_plan(variables: Mapping[str, Any], plan: Optional[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What the fact among an instance's variables says of this move; nothing if it is of another one."""
    at = (variables.get("ansible_facts") or {}).get(FACT) or {}
    return at if plan and at.get("walk", {}).get("plan") == plan.get("id") else {}


def has_met_end(variables: Mapping[str, Any], plan: Optional[Mapping[str, Any]]) -> bool:
    """Whether the walk of this plan found the move ended, and the run has to look again."""
    at = of_plan(variables, plan)
    return bool(at and at["walk"]["met_end"] and at["failure"] is not None)


def take(walk: Walk, answer: Mapping[str, Any]) -> None:
    """Take the result of the leg, without what Ansible adds, which is not plain data."""
    if answer.get("failed"):
        reason = str(answer.get("msg") or "no reason was given")
        code = answer.get("error_code")
        walk.failed(reason, silent=code == HostUnknown.__name__, ended=code == MigrationEnded.__name__)
        return
    turn = walk.turn()
    if turn is None:
        raise ValueError("an answer came, and no leg of the move was to be run")
    if turn.leg.side == FLEET:
        walk.stands()
    else:
        view, took = plain(answer["move"]), plain(answer.get("took") or {})
        known = downtime.after(walk.away, turn.leg.steps, took, time.monotonic())
        walk.away = downtime.measured(view) or known
        walk.answered(view, plain(answer["token"]), bool(answer.get("changed")))


def fact(walk: Walk, number: int, only_prepare: bool, settings: Mapping[str, Any]) -> Dict[str, Any]:
    """The result of a task that knows how far the walk has come."""
    turn = None if only_prepare and walk.is_prepared() else walk.turn()
    found: Dict[str, Any] = {
        "walk": walk.state(),
        "number": number,
        "only_prepare": only_prepare,
        "settings": dict(settings),
        "labels": [],
        "tasks": None,
        "host": None,
        "failure": None,
        "attempts": [],
        "destination": None,
        "away": None,
        "move": None if walk.turn() or walk.failure else walk.last,
    }
    if turn:
        tasks = "look.yml" if turn.leg.side == FLEET else "leg.yml"
        found.update(labels=[turn.leg.label], tasks=tasks, host=turn.host)
    else:
        found.update(failure=walk.failure, attempts=walk.attempts, destination=walk.destination())
        found["away"] = walk.away.get(downtime.SECONDS)
    if found["failure"] is not None and walk.met_end:
        found.update(labels=["Look again, since the move has just ended"], tasks="look_again.yml")
    elif found["failure"] is not None:
        found.update(labels=["Fail, since the move failed"], tasks="failed.yml")
    return {"ansible_facts": {FACT: found}}
