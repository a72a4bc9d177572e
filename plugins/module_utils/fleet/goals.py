# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan is to reach, and how good a state is by it: a tuple of numbers, the less the better.

- drain (hosts): nothing that may move is left on these hosts, which take nothing in; then few moves.
- repair: no rule is broken, or as little as possible; then few moves.
- balance (resource, max_moves, least_gain): the fullest host is as little full as it can be; then few moves.
- consolidate (max_moves): as many hosts as possible are empty; then few moves.
"""

from __future__ import annotations

import dataclasses
from typing import Collection, Dict, FrozenSet, Optional, Tuple

from .state import State, limits
from .terms import Empty

DRAIN, REPAIR, BALANCE, CONSOLIDATE = "drain", "repair", "balance", "consolidate"
GOALS = (DRAIN, REPAIR, BALANCE, CONSOLIDATE)
STEPS = 10000  # how fine fullness is measured


@dataclasses.dataclass(frozen=True)
class Goal:
    """``hosts``: which to drain. ``least_gain``: by how much of its capacity the fullest host must become less full, 0 to 1,
    for a balance to be worth it."""

    name: str
    hosts: FrozenSet[str] = frozenset()
    max_moves: Optional[int] = None
    resource: str = "MEMORY_MB"
    least_gain: float = 0.0


def score(goal: Goal, state: State, moves: int, empty: Optional[Empty] = None) -> Tuple[float, ...]:
    if goal.name == DRAIN:
        return (len(left(goal, state)), moves)
    if goal.name == REPAIR:
        return (sum(state.broken().values()) + len(misplaced(state, empty)), moves)
    if goal.name == BALANCE:
        return (max(fullness(state, goal.resource).values(), default=0), moves)
    return (len(set(state.where.values())), moves)


def left(goal: Goal, state: State) -> Collection[str]:
    """The instances that may move and are on a host to be drained."""
    return [
        uuid for uuid, host in state.where.items() if host in goal.hosts and state.fleet.instances[uuid].fixed is None
    ]


def misplaced(state: State, empty: Optional[Empty]) -> Collection[str]:
    """The instances that their host would not take even if it was empty."""
    return [uuid for uuid, host in state.where.items() if empty and not empty.takes(uuid, host)[0]]


def fullness(state: State, resource: str) -> Dict[str, float]:
    """host -> 0 to 1 of what it can hold."""
    found: Dict[str, float] = {}
    for host, each in state.hosts.items():
        limit = limits(each).get(resource, 0)
        found[host] = each.used.get(resource, 0) / limit if limit > 0 else 0
    return found
