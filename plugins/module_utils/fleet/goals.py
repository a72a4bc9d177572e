# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan is to reach, and how good a state is by it: a tuple of numbers, the less the better.

- drain (hosts): nothing that may move is left on these hosts, which take nothing in; then few moves.
- return (hosts): what left these hosts by a drain is there again.
- repair: no rule is broken, or as little as possible; then few moves.
- balance (resource, max_moves, least_gain): the fullest host is as little full as it can be; then few moves.
- consolidate (max_moves): as many hosts as possible are empty; then few moves.
"""

from __future__ import annotations

import dataclasses
from typing import Collection, Dict, FrozenSet, Mapping, Optional, Tuple

from .state import Fleet, State, limits
from .terms import Empty

DRAIN, RETURN, REPAIR, BALANCE, CONSOLIDATE = "drain", "return", "repair", "balance", "consolidate"
GOALS = (DRAIN, RETURN, REPAIR, BALANCE, CONSOLIDATE)
OF_HOSTS = (DRAIN, RETURN)
STEPS = 10000  # how fine fullness is measured


@dataclasses.dataclass(frozen=True)
class Goal:
    """``hosts``: which to drain, or to return. ``least_gain``: by how much of its capacity the fullest host must become less full, 0 to 1,
    for a balance to be worth it."""

    name: str
    hosts: FrozenSet[str] = frozenset()
    max_moves: Optional[int] = None
    resource: str = "MEMORY_MB"
    least_gain: float = 0.0

    @property
    def closed(self) -> FrozenSet[str]:
        """The hosts that take nothing in."""
        return self.hosts if self.name == DRAIN else frozenset()

    def is_worth(self, gain: float) -> bool:
        """``gain``: by how much the first part of score() becomes less. A balance that wins too little is none."""
        return self.name != BALANCE or gain > self.least_gain


def score(goal: Goal, state: State, moves: int, empty: Optional[Empty] = None) -> Tuple[float, ...]:
    if goal.name == DRAIN:
        return (len(left(goal, state)), moves)
    if goal.name == RETURN:
        return (len(away(goal, state.fleet, state.where)), moves)
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


def away(goal: Goal, fleet: Fleet, where: Mapping[str, str]) -> Dict[str, str]:
    """uuid -> the host that it left by a drain, and is not on."""
    homes = {fleet.documents[host]["uuid"]: host for host in goal.hosts if host in fleet.documents}
    found = {uuid: homes.get(fleet.instances[uuid].home) for uuid in where}
    return {uuid: home for uuid, home in found.items() if home is not None and where[uuid] != home}


def begun(goal: Goal, fleet: Fleet) -> Dict[str, str]:
    """uuid -> where a move of it goes that was begun and not ended, and that the goal would begin."""
    going = {uuid: each.going for uuid, each in fleet.instances.items() if each.going}
    home = away(goal, fleet, {uuid: fleet.instances[uuid].host for uuid in going}) if goal.name == RETURN else {}
    leaves = {uuid for uuid in going if fleet.instances[uuid].host in goal.closed}
    return {uuid: to for uuid, to in going.items() if uuid in leaves or home.get(uuid) == to}


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
