# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instance may go to which host now, how, and why not to the others."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple

from .order import enter_together
from .state import Fleet, State


class Movable(NamedTuple):
    """``how``: live, cold, or no; ``to``: the hosts that would take it; ``reasons``: why not -> the hosts of which that is so."""

    name: str
    host: str
    how: str
    to: List[str]
    reasons: Dict[str, List[str]]


def movability(live: Fleet, cold: Fleet) -> List[Movable]:
    """``cold``: the same fleet with what runs stopped for its move. Members of an affinity group go with the others."""
    state, found = State(cold), []
    together: Dict[Tuple[str, str], List[str]] = {}
    for uuid, each in sorted(cold.instances.items()):
        if each.goes_with and not each.fixed:
            together.setdefault((each.goes_with, each.host), []).append(uuid)
    for uuid, instance in sorted(live.instances.items(), key=lambda entry: entry[1].name):
        others = together.get((instance.goes_with, instance.host), ()) if instance.goes_with else ()
        unit = [uuid, *(other for other in others if other != uuid)]
        lives = all(live.instances[each].fixed is None for each in unit)
        moves = (live if lives else cold).instances[uuid]
        to: List[str] = []
        reasons: Dict[str, List[str]] = {}
        for host in sorted(set(state.hosts) - {instance.host}):
            why = moves.fixed or enter_together(state, [(each, host) for each in unit])
            if why:
                reasons.setdefault(why, []).append(host)
            else:
                state.withdraw(unit)
                to.append(host)
        found.append(Movable(instance.name, instance.host, moves.how if to else "no", to, reasons))
    return found
