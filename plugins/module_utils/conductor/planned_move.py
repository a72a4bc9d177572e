# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move as it was planned, and how far it has come in this run. procedures/move.py carries it out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple, cast

from ..model.messages import Document, View
from ..model.migration import SAID
from . import downtime
from .plan import Attempt, in_zone
from .sequences import DESTINATION, SEQUENCES, SOURCE, Leg

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
    names, ``machines``: of these to their uuids; ``version``: of what the registry had of the instance; ``look``: the hosts that
    are read again after the claim; ``goes_with``: uuid -> where it is, of the members of its affinity group
    that follow it; ``again``: the run has looked a second time."""

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
    machines: Mapping[str, str] = field(default_factory=dict)
    version: int = 0
    goes_with: Mapping[str, str] = field(default_factory=dict)
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


@dataclass
class Walk:
    """How far a move has come in this run: with this ``candidate``, in this ``sequence``.

    ``said``: the last view of each side, ``unsure``: the sides that may have done more since; ``last``: of the host that
    answered last; ``taken``: this run has taken the move up; ``failure``: why the move is given up, ``error``: the last error
    of a host; ``attempts``: the hosts that were tried without success; ``changed``: anything was, in this run; ``prepared``:
    room is claimed, and it ends there; ``met_end``: the move had ended before this run took it up, so the run looks again;
    ``away``: see downtime.py."""

    move: Move
    candidate: Optional[Candidate] = None
    sequence: str = ""
    token: Token = Token(None)
    said: Dict[str, View] = field(default_factory=dict)
    unsure: Set[str] = field(default_factory=set)
    last: View = field(default_factory=View)
    taken: bool = False
    gives_up: bool = False
    failure: Optional[str] = None
    error: Document = field(default_factory=dict)
    attempts: List[Attempt] = field(default_factory=list)
    changed: bool = False
    prepared: bool = False
    met_end: bool = False
    away: Dict[str, float] = field(default_factory=dict)

    def begin(self, candidate: Optional[Candidate]) -> None:
        """Start the planned sequence, with the next candidate if the plan has some."""
        self.candidate, self.sequence, self.taken = candidate, self.move.sequence, False
        self.gives_up, self.failure = False, None
        self.token = Token(candidate.op) if candidate else self.move.token
        self.said, self.unsure = {side: self.move.views[side] for side in (SOURCE, DESTINATION)}, set()

    def destination(self) -> str:
        return self.candidate.host if self.candidate else self.move.destination

    def machine(self, side: str) -> Optional[str]:
        """The uuid of the host of this side."""
        if side == DESTINATION and self.candidate:
            return str(self.candidate.destination["uuid"])
        return self.move.machines.get(self.move.source if side == SOURCE else self.move.destination)

    def host_of(self, leg: Leg) -> str:
        return self.move.source if leg.side == SOURCE else self.destination()

    def arguments(self, leg: Leg, settings: Mapping[str, Any]) -> Document:
        """The arguments of module migration, with those of ``settings`` that the leg needs."""
        known = {**settings, **self._decided()}
        needed = {name: known[name] for name in (*leg.needs, "lost") if known.get(name) is not None}
        return {
            "uuid": self.move.uuid,
            "steps": list(leg.steps),
            "token": asdict(self.token),
            "peer": dict(self.said[OTHER_SIDE[leg.side]]),
            **needed,
        }

    def answered(self, leg: Leg, answer: Mapping[str, Any]) -> None:
        """Take the answer of module migration, and when it came (``at``, seconds of the controller's clock).

        A leg that had to take the move up and changed nothing found it past that: an earlier run is still at work."""
        view: View = answer["move"]
        kept = {name: said for name, said in self.said[leg.side].items() if name in SAID}
        self.said[leg.side] = cast(View, {**kept, **view})
        self.unsure.discard(leg.side)
        self.last, self.changed = view, self.changed or bool(answer["changed"])
        if leg.takes_token:
            self.token, self.taken = Token(**answer["token"]), bool(answer["changed"])
        known = downtime.after(self.away, leg.steps, answer.get("took") or {}, answer.get("at", 0.0))
        self.away = downtime.measured(view) or known

    def _decided(self) -> Dict[str, Any]:
        """What was decided before the move began, and what a person has said about it."""
        move = self.move
        decided: Dict[str, Any] = {"kind": move.kind, "spec": move.spec, "source": move.source_host}
        if self.candidate:
            decided.update(limits=self.candidate.limits, destination=self.candidate.destination)
            decided["spec"] = in_zone(dict(move.spec or {}), self.candidate.zone)
        return {**decided, "when_due": move.when_due, "lost": SEQUENCES[self.sequence].lost}
