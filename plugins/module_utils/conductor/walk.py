# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Walks the legs of one move: gives out the next one, takes the answer, and knows what follows a failure.

Pure: it asks no host and waits for nothing. The caller runs a leg on its host and brings the answer back. If a leg
fails before the source has let go, the move is given up; then the next candidate is tried if the leg allows it
(``other_candidate`` in sequences.py).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple, cast

from ..model import hints
from ..model.messages import View
from ..model.migration import SAID
from .plan import Attempt, in_zone
from .sequences import DESTINATION, FLEET, SEQUENCES, SOURCE, Leg, Sequence

OTHER_SIDE = {SOURCE: DESTINATION, DESTINATION: SOURCE}


@dataclass(frozen=True)
class Token:
    """The fencing token: which operation, and whose turn it is. A step that carries an older one is refused."""

    op: Optional[str]
    attempt: int = 0


@dataclass(frozen=True)
class Candidate:
    """A host where room may be claimed, as placement selected it: inventory name, {uuid, name}, limits of the decision,
    availability zone."""

    op: str
    host: str
    destination: Mapping[str, Any]
    limits: Mapping[str, Any]
    zone: Optional[str] = None


@dataclass(frozen=True)
class Move:
    """One move as it was planned, see moving.py. ``id`` is the plan's own, ``source`` and ``destination`` are inventory
    names; ``again``: the run has looked a second time."""

    id: str
    uuid: str
    name: str
    sequence: str
    source: str
    destination: str
    token: Token
    views: Mapping[str, View]
    kind: Optional[str] = None
    spec: Optional[Mapping[str, Any]] = None
    source_host: Optional[Mapping[str, Any]] = None
    candidates: Tuple[Candidate, ...] = ()
    look: Tuple[str, ...] = ()
    when_due: bool = False
    settles: bool = False
    again: bool = False

    @classmethod
    def from_plan(cls, plan: Mapping[str, Any]) -> Move:
        given = {name: plan[name] for name in cls.__dataclass_fields__ if name in plan}
        candidates = tuple(Candidate(**candidate) for candidate in plan.get("candidates") or ())
        return cls(
            **{
                **given,
                "token": Token(**plan["token"]),
                "candidates": candidates,
                "look": tuple(plan.get("look") or ()),
            }
        )


@dataclass(frozen=True)
class Turn:
    """The leg to run now: on which host, with which token, and what its steps are given."""

    leg: Leg
    host: str
    uuid: str
    token: Token
    peer: View
    decided: Mapping[str, Any]

    def arguments(self, settings: Mapping[str, Any]) -> Dict[str, Any]:
        """The arguments of module migration, with those of ``settings`` that the leg needs."""
        known = {**settings, **self.decided}
        needed = {name: known[name] for name in (*self.leg.needs, "lost") if known.get(name) is not None}
        return {
            "uuid": self.uuid,
            "steps": list(self.leg.steps),
            "token": asdict(self.token),
            "peer": dict(self.peer),
            **needed,
        }


@dataclass
class Walk:
    """How far a move has come in this run. ``said``: the last view of each side; ``failure``: why the move is given up;
    ``attempts``: the hosts that were tried without success; ``met_end``: the move had ended before this run took it
    up, so the run looks again; ``away``: see downtime.py."""

    move: Move
    sequence: str = ""
    at: int = 0
    candidate: int = 0
    token: Token = Token(None)
    said: Dict[str, View] = field(default_factory=dict)
    taken: bool = False
    gives_up: bool = False
    tries_others: bool = False
    failure: Optional[str] = None
    attempts: List[Attempt] = field(default_factory=list)
    last: View = field(default_factory=View)
    met_end: bool = False
    away: Dict[str, float] = field(default_factory=dict)

    @classmethod
    def begin(cls, move: Move) -> Walk:
        walk = cls(move)
        walk._begin()
        return walk

    @classmethod
    def restore(cls, move: Move, state: Mapping[str, Any]) -> Walk:
        """The walk that had reached this ``state``."""
        known = {name: state[name] for name in state if name != "plan"}
        return cls(move, **{**known, "token": Token(**state["token"])})

    def state(self) -> Dict[str, Any]:
        """Plain data from which ``restore`` makes the walk again."""
        state = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "move"}
        return {**state, "token": asdict(self.token), "plan": self.move.id}

    def turn(self) -> Optional[Turn]:
        """The next leg, or None if the walk is over."""
        if self._is_over():
            return None
        leg = self._sequence().legs[self.at]
        hosts = {SOURCE: self.move.source, DESTINATION: self.destination(), FLEET: self.destination()}
        peer = self.said[OTHER_SIDE[leg.side]] if leg.side in OTHER_SIDE else {}
        return Turn(leg, hosts[leg.side], self.move.uuid, self.token, peer, self._decided())

    def is_prepared(self) -> bool:
        """Whether all room is claimed that is needed, and the next leg would touch the guest."""
        prepares = self._sequence().prepares
        return prepares is not None and self.at >= (prepares if self.move.candidates else 0)

    def answered(self, view: View, token: Mapping[str, Any], changed: bool) -> None:
        """The leg was run: ``view`` shows the record after it, ``token`` is the fencing token from module migration.

        One that had to take the move up and ``changed`` nothing found it past that: an earlier run is still at work."""
        leg = self._sequence().legs[self.at]
        if leg.side in OTHER_SIDE:
            kept = {name: said for name, said in self.said[leg.side].items() if name in SAID}
            self.said[leg.side] = cast(View, {**kept, **view})
            self.last = view
        if leg.takes_token:
            self.token, self.taken = Token(**token), changed
        ended = leg.may_be_last and view.get("ended")
        self.at = len(self._sequence().legs) if ended else self.at + 1
        self._skip()

    def stands(self) -> None:
        """The claim was judged valid."""
        self.answered({}, {}, False)

    def failed(self, reason: str, silent: bool = False, ended: bool = False) -> None:
        """The leg failed: give up what was begun. If that fails too, the next run does it.

        A ``silent`` host is not asked again: what it may still be doing, such as a live migration, continues. A move that
        has ``ended`` since the run looked is looked at again, once: this run has changed nothing of it yet."""
        if ended and not (self.taken or self.gives_up or self.move.again):
            self.met_end, self.at = True, len(self._sequence().legs)
            # Of a move that was only to be ended, all is well: the run reads the hosts again after it anyway.
            self.failure = None if self.move.settles else reason
            return
        if self.gives_up:
            self.failure = "%s. The attempt to give the move up failed, too: %s" % (self.failure, reason)
            if not reason.endswith(" again"):
                self.failure += ". " + hints.run_again()
            self.at = len(self._sequence().legs)
            return
        abandoned, leg = self._sequence().abandoned, self._sequence().legs[self.at]
        self.tries_others = leg.other_candidate
        self.failure = reason
        if self.move.candidates:
            code, _colon, cause = reason.partition(": ")
            number = len(self.attempts) + 1
            self.attempts.append({"attempt": number, "host": self.destination(), "code": code, "cause": cause or code})
        if abandoned is None or not self.taken or (silent and SEQUENCES[abandoned].legs[0].side == leg.side):
            self.at = len(self._sequence().legs)
            return
        self.gives_up, self.sequence, self.at = True, abandoned, 0

    def _is_over(self) -> bool:
        return self.at >= len(self._sequence().legs)

    def _begin(self) -> None:
        """Start the planned sequence with the current candidate."""
        move = self.move
        self.sequence, self.at, self.taken = move.sequence, 0, False
        self.gives_up, self.tries_others, self.failure = False, False, None
        self.token = Token(move.candidates[self.candidate].op) if move.candidates else move.token
        self.said = {side: move.views[side] for side in (SOURCE, DESTINATION)}
        self._skip()

    def _skip(self) -> None:
        """Skip legs that nobody has to run; when giving up has ended, go on to the next candidate."""
        legs = self._sequence().legs
        while self.at < len(legs) and legs[self.at].side == FLEET and not self.move.look:
            self.at += 1
        if self.gives_up and self.tries_others and self._is_over():
            self._try_next()

    def _try_next(self) -> None:
        if self.candidate + 1 < len(self.move.candidates):
            self.candidate += 1
            self._begin()
        elif len(self.move.candidates) > 1:  # of one host its own error tells more
            self.failure = "MaxRetriesExceeded: Exhausted all hosts available for moving %s. Last cause: %s" % (
                self.move.name,
                self.failure,
            )

    def _sequence(self) -> Sequence:
        return SEQUENCES[self.sequence]

    def destination(self) -> str:
        return self.move.candidates[self.candidate].host if self.move.candidates else self.move.destination

    def _decided(self) -> Dict[str, Any]:
        """What was decided before the move began, and what a person has said about it."""
        move = self.move
        decided: Dict[str, Any] = {"kind": move.kind, "spec": move.spec, "source": move.source_host}
        if move.candidates:
            candidate = move.candidates[self.candidate]
            decided.update(limits=candidate.limits, destination=candidate.destination)
            decided["spec"] = in_zone(dict(move.spec or {}), candidate.zone)
        return {**decided, "when_due": move.when_due, "lost": self._sequence().lost}
