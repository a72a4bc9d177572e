# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places what leaves some hosts one after the other, by placement with its weighers, what few hosts can take first. Needs no
solver, and where everything gets a place no plan has fewer moves."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from .state import State
from .terms import Empty
from .waves import Move, Ordered, enter_together


def placed(state: State, empty: Empty, uuids: Sequence[str], targets: Sequence[str]) -> Ordered:
    """Carry out on ``state`` one wave in which as many of ``uuids`` as find a place there go to ``targets``."""
    found = Ordered([[]], {})
    for unit in _units(state, empty, uuids, targets):
        wave, why = _place(state, unit, targets)
        found.waves[0] += wave
        if not wave:
            found.refused.update(dict.fromkeys(unit, why))
    state.arrive()
    found.waves = [wave for wave in found.waves if wave]
    return found


def _place(state: State, unit: List[str], targets: Sequence[str]) -> Tuple[List[Move], str]:
    """Enter one instance, or all members of an affinity group, which have to be on one host."""
    remaining = list(targets)
    while True:
        host, why = state.enter(unit[0], remaining, unit)
        if host is None:
            return [], why
        moves = [(uuid, host) for uuid in unit]
        if len(unit) == 1:
            return moves, ""
        state.withdraw(unit[:1])
        why = enter_together(state, moves)
        if not why:
            return moves, ""
        remaining.remove(host)
        if not remaining:
            return [], why


def _units(state: State, empty: Empty, uuids: Sequence[str], targets: Sequence[str]) -> List[List[str]]:
    """The most constrained first, the larger first among those."""
    by: Dict[str, List[str]] = {}
    for uuid in uuids:
        group = state.fleet.instances[uuid].goes_with
        by.setdefault("group %s" % group if group else uuid, []).append(uuid)

    def hardness(unit: List[str]) -> Tuple[int, int, List[str]]:
        room = min(sum(empty.takes(uuid, host)[0] for host in targets) for uuid in unit)
        return (room, -sum(state.fleet.instances[uuid].request["flavor"]["memory_mb"] for uuid in unit), unit)

    return sorted(by.values(), key=hardness)
