# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts moves in an order in which each is legal: waves of moves that run side by side.

A wave may use no room that another of its moves will free. The members of an affinity group that go from one host to another
go in one wave; those of a broken group that come from other hosts may follow. Placement decides each move again on the state
of that moment.
"""

from __future__ import annotations

import dataclasses
from typing import Collection, Dict, Iterable, List, Mapping, Sequence, Set, Tuple

from .state import Fleet, State

Move = Tuple[str, str]  # instance uuid, host


@dataclasses.dataclass
class Ordered:
    """``refused``: uuid -> why placement refuses the move, after all the others."""

    waves: List[List[Move]]
    refused: Dict[str, str]

    @property
    def moves(self) -> List[Move]:
        return [move for wave in self.waves for move in wave]


def after(fleet: Fleet, waves: Sequence[Sequence[Move]]) -> State:
    """The state of the fleet when all waves have arrived."""
    state = State(fleet)
    bound = bound_for(move for wave in waves for move in wave)
    for wave in waves:
        for uuid, host in wave:
            state.enter(uuid, [host], bound[host])
        state.arrive()
    return state


def bound_for(moves: Iterable[Move]) -> Dict[str, Set[str]]:
    """host -> the instances that come there: those of one affinity group do not hold one another back."""
    found: Dict[str, Set[str]] = {}
    for uuid, host in moves:
        found.setdefault(host, set()).add(uuid)
    return found


def ordered(state: State, moves: Sequence[Mapping[str, str]]) -> Ordered:
    """Carry out on ``state`` what of ``moves`` [{uuid: host}] can be carried out, the largest of each part first, and nothing
    of a part before all that can be of the parts before it."""
    found = Ordered([], {})
    bound = bound_for(move for part in moves for move in part.items())
    for part in moves:
        _order(state, _units(state, part), bound, found)
    return found


def _order(state: State, units: List[List[Move]], bound: Mapping[str, Collection[str]], found: Ordered) -> None:
    while units:
        wave: List[Move] = []
        rest: List[List[Move]] = []
        refused: Dict[str, str] = {}
        for unit in units:
            why = enter_together(state, unit, bound[unit[0][1]])
            if why:
                refused.update(dict.fromkeys((uuid for uuid, _host in unit), why))
                rest.append(unit)
            else:
                wave += unit
        if not wave:
            found.refused.update(refused)
            return
        state.arrive()
        found.waves.append(wave)
        units = rest


def enter_together(state: State, unit: List[Move], bound: Collection[str] = ()) -> str:
    """Have all instances of the unit enter their hosts, or none. Return why not, "" if they have. ``bound``: what else comes
    to their host by the same plan."""
    together = [*(uuid for uuid, _host in unit), *bound]
    entered: List[str] = []
    for uuid, host in unit:
        chosen, why = state.enter(uuid, [host], together)
        if chosen is None:
            state.withdraw(entered)
            return why
        entered.append(uuid)
    return ""


def _units(state: State, moves: Mapping[str, str]) -> List[List[Move]]:
    """The moves that have to go together, the largest first."""
    by: Dict[Tuple[str, ...], List[Move]] = {}
    for uuid, host in moves.items():
        group = state.fleet.instances[uuid].goes_with
        by.setdefault((group, state.where.get(uuid, ""), host) if group else (uuid,), []).append((uuid, host))
    return sorted(by.values(), key=lambda unit: (-sum(_size(state, uuid) for uuid, _host in unit), unit))


def _size(state: State, uuid: str) -> int:
    return int(state.fleet.instances[uuid].request["flavor"]["memory_mb"])


def batches(wave: List[Move], fleet: Fleet, at_once: int, per_host: int) -> List[List[Move]]:
    """Parts of a wave that run one after the other: at most ``at_once`` moves, and ``per_host`` from or to a host."""
    found: List[List[Move]] = []
    for uuid, host in wave:
        ends = {fleet.instances[uuid].host, host}
        for batch in found:
            busy = [end for each, to in batch for end in (fleet.instances[each].host, to)]
            if len(batch) < at_once and all(busy.count(end) < per_host for end in ends):
                batch.append((uuid, host))
                break
        else:
            found.append([(uuid, host)])
    return found
