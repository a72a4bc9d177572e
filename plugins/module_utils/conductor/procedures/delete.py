# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A delete, and a leave, after which all hosts forget the instance. One in a move is deleted as the plan of its move says; one
whose move has ended meanwhile is looked for again, and deleted with those at rest."""

from __future__ import annotations

from typing import Callable, Collection, Dict, Iterable, Mapping, NamedTuple, Optional, Tuple

from ...model.messages import Document
from ..planned_move import Walk
from ..registry.embedded import Embedded
from ..registry.interface import Removes
from .operate import Done, Tasks, operate
from .steps import Look, Procedure, side_by_side


class Moving(NamedTuple):
    """The instances in a move. ``plan``: reads the hosts; name -> what deletes it, of those that are not refused; ``ended``: of
    the others those whose move has ended, also by a second look."""

    names: Collection[str]
    plan: Callable[[], Procedure[Mapping[str, Procedure[Walk]]]]
    ended: Callable[[], Collection[str]]


def delete(
    tasks: Tasks,
    moving: Moving,
    given: Mapping[str, Document],
    hosts: Iterable[str],
    registry: Optional[Removes] = None,
) -> Procedure[Tuple[Dict[str, Done], Dict[str, Walk]]]:
    """What became of those at rest, and of those in a move. ``hosts``: all that the run has asked, which then forget them."""
    walks: Dict[str, Walk] = {}
    if moving.names:
        walks = yield from side_by_side((yield from moving.plan()))
        ended = moving.ended()
        if ended:
            tasks = {**tasks, **(yield Look(tuple(ended)))}
    return (yield from and_forget("delete", tasks, given, hosts, registry)), walks


def and_forget(
    operation: str,
    tasks: Tasks,
    given: Mapping[str, Document],
    hosts: Iterable[str],
    registry: Optional[Removes] = None,
) -> Procedure[Dict[str, Done]]:
    """The owner of an instance removes its part last. The same for a leave, which removes nothing else."""
    done = yield from operate(operation, tasks, given)
    yield from (registry or Embedded()).removed([task for name, task in tasks.items() if not done[name].errors], hosts)
    return done
