# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proves that each moment of a plan is legal, before anything of it runs. It walks the plan from the state of the fleet and
asks placement about each move; what rules are broken before may not become worse."""

from __future__ import annotations

from collections import Counter
from typing import Collection, Mapping, Sequence, Tuple

from ..model import fleet_hints
from ..model.errors import BerthError
from .state import Fleet, State
from .waves import Move, bound_for


class PlanNotLegal(BerthError):
    """A plan has a move that placement refuses at the moment when it would run, so nothing of it runs. Make a new plan."""


def check(
    fleet: Fleet,
    waves: Sequence[Sequence[Move]],
    closed: Collection[str] = (),
    begun: Collection[Tuple[str, str, str]] = (),
) -> State:
    """Return the state at the end. ``closed``: hosts that take nothing in; ``begun``: the moves (from, uuid, to) that end before
    the first wave. Raises PlanNotLegal about the first fault."""
    state = State(fleet)
    for source, uuid, host in begun:
        state.end(source, uuid, host)
    begin = state.broken()
    for number, wave in enumerate(waves, 1):
        before = state.broken()
        bound = bound_for(move for each in waves[number - 1 :] for move in each)
        _enter(state, number, wave, closed, bound)
        _compare(before, state, "during wave %d" % number)
        state.arrive()
        _compare(before, state, "after wave %d" % number)
    _compare(begin, state, "at the end")
    return state


def _enter(
    state: State, number: int, wave: Sequence[Move], closed: Collection[str], bound: Mapping[str, Collection[str]]
) -> None:
    uuids = [uuid for uuid, _host in wave]
    for at, (uuid, host) in enumerate(wave):
        why = _refused(state, uuid, host, uuids[:at], closed) or state.enter(uuid, [host], bound[host])[1]
        if why:
            instance = state.fleet.instances.get(uuid)
            name = instance.name if instance else uuid
            raise PlanNotLegal(
                "wave %d of the plan: %s may not move to %s: %s" % (number, name, host, why),
                hint=fleet_hints.plan_again(),
            )


def _refused(state: State, uuid: str, host: str, before: Collection[str], closed: Collection[str]) -> str:
    instance = state.fleet.instances.get(uuid)
    if instance is None or uuid not in state.where:
        return "no host has it"
    if host not in state.hosts:
        return "there is no such host"
    if uuid in before:
        return "the wave moves it twice"
    if state.where[uuid] == host:
        return "it is there already"
    if host in closed:
        return "the host takes nothing in"
    return instance.fixed or ""


def _compare(before: Counter[Tuple[str, ...]], state: State, when: str) -> None:
    worse = [what for what, by in state.broken().items() if by > before[what]]
    if worse:
        raise PlanNotLegal(
            "%s the plan breaks a rule: %s" % (when, "; ".join(" ".join(what) for what in sorted(worse))),
            hint=fleet_hints.plan_again(),
        )
