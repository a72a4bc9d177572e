# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The room that an instance has on its host, over an engine: a shelve that has ended gives it back, and an unshelve takes it, in one
transaction, before its host hears of it, whose lock decides. Its owner, name, addresses and quota stay.

What a run could not tell the next word of the host does; what one that was killed has taken, the next unshelve takes over.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Dict, Mapping

from ...model import hints
from ...model.errors import BerthError
from ...model.shelves import KEY
from ..errors import ClaimConflict, RegistryUnknown
from ..procedures.operate import Done, Tasks
from ..procedures.steps import Ask, Procedure
from . import hosts, keys
from .engine import Known
from .transactions import Draft, RegistryBusy, transacted

Procedures = Procedure[Dict[str, Done]]


def shelved(tasks: Tasks, shelve: Procedures) -> Procedures:
    done = yield from shelve
    yield from _give_back(tasks)
    return done


def unshelved(tasks: Tasks, unshelve: Callable[[Tasks], Procedures], known: Known) -> Procedures:
    """``known``: what the engine knew when they were located."""
    refused: Dict[str, Done] = {}
    for name, task in tasks.items():
        try:
            if task["shelved"]:
                yield from transacted(functools.partial(_taken, name=name, task=task, known=known))
        except BerthError as error:
            refused[name] = Done(errors=[error.to_dict()])
    left = {name: task for name, task in tasks.items() if name not in refused}
    done = yield from unshelve(left)
    yield from _give_back(left)
    return {**done, **refused}


def _taken(draft: Draft, name: str, task: Mapping[str, Any], known: Known) -> Procedure[None]:
    key = keys.instance(task["uuid"])
    yield from draft.read(key)
    entry, found = draft.get(key), draft.found[key]
    if not (found and entry["owner"] and found.revision == known.versions.get(task["uuid"])):
        raise ClaimConflict("another run has begun or ended with %s" % name, hint=hints.another_run())
    epoch, writes = task["after"]
    yield from hosts.change_room(draft, entry["owner"], task["uuid"], [epoch, writes + 1], is_taken=True)


def _give_back(tasks: Tasks) -> Procedure[None]:
    """That of the instances which their hosts say to be shelved."""
    at = {task["uuid"]: task["hosts"][-1] for task in tasks.values() if task["hosts"]}
    scans = yield Ask("rescan", {host: {} for host in sorted(set(at.values()))})
    for host, scan in scans.items():
        for record in scan.get("instances") or ():
            if at.get(record["uuid"]) == host and KEY in record:
                without = functools.partial(
                    hosts.change_room,
                    host_uuid=scan["host_uuid"],
                    uuid=record["uuid"],
                    generation=record["generation"],
                    is_taken=False,
                )
                with contextlib.suppress(RegistryUnknown, RegistryBusy):
                    yield from transacted(without)
