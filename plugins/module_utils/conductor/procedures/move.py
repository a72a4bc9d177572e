# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move of one instance, from its plan to its end.

The legs of its sequence (sequences.py) run one after the other, each on its host, and each hears the other side's last
word. If one fails, what this run began is given up; if the guest is as before then, the next candidate is tried. What more than
these two hosts have to agree on is for the registry.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping, NamedTuple, Optional, cast

from ...model import hints
from ...model.errors import BerthError
from ...model.messages import Document
from ...model.move_errors import MigrationEnded
from .. import closing_table
from ..errors import GroupPolicyViolation, HostUnknown
from ..planned_move import Move, Walk
from ..registry.embedded import EmbeddedMoves
from ..registry.interface import Moves
from ..sequences import FLEET, SEQUENCES, SOURCE, Leg
from ..silence import named, unanswered
from .steps import STATES, Ask, Procedure, Say


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run knows beside the plan: ``settings`` are arguments of module migration, of which each leg gets those that
    it needs. ``only_prepare``: claim room, and touch no guest."""

    settings: Mapping[str, Any]
    registry: Moves = EmbeddedMoves()
    only_prepare: bool = False


class Failed(NamedTuple):
    """Why a leg failed: {code, message, hint}, and as people read it."""

    leg: Leg
    error: Document
    text: str


def operation(plan: Move, run: Run, plan_again: Callable[[], Procedure[Optional[Move]]]) -> Procedure[Walk]:
    """Carry a plan out, and return how far that came. If it only ended what an earlier run had left, or the move had ended
    before this run took it up, read the hosts and plan again, once. ``plan_again`` returns None if nothing is to be done, and
    raises a BerthError if the hosts cannot be read again."""
    walk = Walk(plan)
    yield from move(walk, dataclasses.replace(run, only_prepare=run.only_prepare and not plan.settles))
    if not (plan.settles or walk.met_end):
        return walk
    try:
        again = yield from plan_again()
    except BerthError as error:
        walk.failure = walk.failure or closing_table.text_of(error.to_dict())
        return walk
    if again is None:
        walk.failure = None if walk.met_end else walk.failure
        return walk
    second = Walk(again, changed=walk.changed)
    yield from move(second, run)
    return second


def move(walk: Walk, run: Run) -> Procedure[None]:
    """Carry a plan out; ``walk`` knows all the time how far it has come."""
    candidates = walk.move.candidates or (None,)
    for candidate in candidates:
        walk.begin(candidate)
        next_one = yield from _tried(walk, run)
        yield from run.registry.follow(walk)
        if not next_one:
            return
    if len(candidates) > 1:  # of one host its own error tells more
        walk.failure = "MaxRetriesExceeded: Exhausted all hosts available for moving %s. Last cause: %s" % (
            walk.move.name,
            walk.failure,
        )


def _tried(walk: Walk, run: Run) -> Procedure[bool]:
    """Try the walk's candidate. Return whether the next one is to be tried."""
    refused = yield from _refusal(run.registry.begin_move(walk))
    if refused:
        walk.error = refused
        _note(walk, closing_table.named(closing_table.text_of(refused), walk.move.uuid, walk.move.name))
        return refused["code"] == GroupPolicyViolation.__name__
    failed = yield from _legs(walk, run)
    if failed is None:
        return False
    if _met_end(walk, failed):
        # A move that was only to be ended is fine: the run reads the hosts again anyway.
        walk.met_end, walk.failure = True, None if walk.move.settles else failed.text
        return False
    _note(walk, failed.text)
    given_up = _is_to_give_up(walk, failed) and (yield from _give_up(walk, run))
    return given_up and failed.leg.other_candidate


def _legs(walk: Walk, run: Run) -> Procedure[Optional[Failed]]:
    """Run the legs of the walk's sequence. Return what failed."""
    sequence = SEQUENCES[walk.sequence]
    prepares = None if sequence.prepares is None else sequence.prepares if walk.candidate else 0
    for number, leg in enumerate(sequence.legs):
        if run.only_prepare and prepares is not None and number >= prepares:
            walk.prepared = True
            return None
        if leg.side == FLEET and not run.registry.judges(walk):
            continue
        yield _said(walk, leg, {"leg": leg.label})
        error = yield from (_refusal(run.registry.stands(walk)) if leg.side == FLEET else _asked(walk, leg, run))
        if error:
            walk.error = error
            return Failed(leg, error, closing_table.named(closing_table.text_of(error), walk.move.uuid, walk.move.name))
        if leg.may_be_last and walk.last.get("ended"):
            return None
    return None


def _asked(walk: Walk, leg: Leg, run: Run) -> Procedure[Optional[Document]]:
    """Have the leg's host run its steps. Return its error."""
    host = walk.host_of(leg)
    walk.unsure.add(leg.side)
    answer = (yield Ask("migration", {host: walk.arguments(leg, run.settings)}))[host]
    if "error" in answer:
        if leg.side == SOURCE and not walk.taken:
            walk.unsure.discard(SOURCE)  # it refused what was to be the first step of this run
        return named(host, answer["error"])
    if "reason" in answer:
        return unanswered(host, answer["reason"]).to_dict()
    walk.answered(leg, answer)
    states = {part: walk.last[part] for part in STATES if part in walk.last}  # type: ignore[literal-required]
    ended = {"changed": bool(answer["changed"]), "took": answer.get("took") or {}}
    yield _said(walk, leg, {"ended": leg.label, **ended, **states})
    return None


def _refusal(decision: Procedure[None]) -> Procedure[Optional[Document]]:
    try:
        yield from decision
    except BerthError as error:
        return error.to_dict()
    return None


def _said(walk: Walk, leg: Leg, event: Mapping[str, Any]) -> Say:
    return Say(walk.move.name, {"uuid": walk.move.uuid, "host": walk.host_of(leg), **event})


def _met_end(walk: Walk, failed: Failed) -> bool:
    """Whether the move has ended since the run looked, which has changed nothing of it yet: it looks again, once."""
    return failed.error.get("code") == MigrationEnded.__name__ and not (walk.taken or walk.move.again)


def _note(walk: Walk, text: str) -> None:
    walk.failure = text
    if walk.candidate:
        code, _colon, cause = text.partition(": ")
        number = len(walk.attempts) + 1
        walk.attempts.append({"attempt": number, "host": walk.candidate.host, "code": code, "cause": cause or code})


def _is_to_give_up(walk: Walk, failed: Failed) -> bool:
    """Nothing is given up that this run has not begun. A host that fell silent is not asked again: what it may still be
    doing, such as a live migration, continues."""
    abandoned = SEQUENCES[walk.sequence].abandoned
    silent = failed.error.get("code") == HostUnknown.__name__
    return (
        abandoned is not None and walk.taken and not (silent and SEQUENCES[abandoned].legs[0].side == failed.leg.side)
    )


def _give_up(walk: Walk, run: Run) -> Procedure[bool]:
    """Give up what was begun; whether that went well. If not, the next run does it."""
    walk.gives_up, walk.sequence = True, cast(str, SEQUENCES[walk.sequence].abandoned)
    failed = yield from _legs(walk, run)
    if failed:
        walk.failure = "%s. The attempt to give the move up failed, too: %s" % (walk.failure, failed.text)
        if not failed.text.endswith(" again"):
            walk.failure += ". " + hints.run_again()
    return failed is None
