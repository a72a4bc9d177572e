# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shelve: a full backup, then the host gives up the disks that it has. Unshelve: the host takes the room again, and the disks are
restored from that backup.

    shelve:   looked, backups listed, stopped, backed up, offloaded
    unshelve: room, restored, started; after a restore that failed the room is given back

Each is asked of the host that keeps the record. If that has no room, or was drained, the instance first moves to one that placement
chooses. A run that was killed is run again: what the record says is where it goes on.
"""

from __future__ import annotations

from typing import Any, Callable, Collection, Dict, Mapping, NamedTuple, Optional, Tuple

from ...model.lifecycle import POWERING_ON, UNSHELVING
from ...model.messages import Document
from ...model.shelves import KEY
from ..closing_table import error_of
from ..planned_move import Walk
from ..silence import unanswered
from .backup import LISTED
from .backup_host import HOST, Run, operate_anywhere
from .operate import Done, Tasks, operate
from .steps import Procedure, side_by_side

SHUTDOWN_TIMEOUT = "shutdown_timeout"


class Elsewhere(NamedTuple):
    """``names``: of those whose move a killed run has left; ``plan``: reads the hosts; names -> (what moves each to another host,
    the errors of those for which there is none)."""

    names: Collection[str]
    plan: Callable[[Collection[str]], Procedure[Tuple[Mapping[str, Procedure[Walk]], Mapping[str, Document]]]]


def shelve(tasks: Tasks, given: Mapping[str, Document], run: Run) -> Procedure[Dict[str, Done]]:
    """``given``: name -> where backups are, and how long a guest may take to shut down. Return what became of each."""
    done = yield from operate("shelve", tasks, {})
    left: Tasks = {name: tasks[name] for name in _good(done) if run.dry or KEY not in done[name].instance}
    places = {name: _only(given.get(name, {}), LISTED) for name in left}
    # a place that is not there is found while the guest still runs
    listed = yield from operate_anywhere("backups", left, places, run)
    left = _and_errors(done, left, listed)
    if run.dry:
        return done
    graces = {name: _only(given.get(name, {}), (SHUTDOWN_TIMEOUT,)) for name in left}
    left = _and_all(done, left, (yield from operate("stop", left, graces)))
    full = {name: {**places[name], "full": True} for name in left}
    backed_up = yield from operate_anywhere("backup", left, full, run)
    for name in left:  # who says that it made one tells which
        if not backed_up[name].errors and len(backed_up[name].instance.get("backups", ())) != 1:
            host = left[name]["hosts"][-1]
            backed_up[name].errors.append(unanswered(host, "it did not tell which backup was made").to_dict())
    left = _and_all(done, left, backed_up)
    to = {name: {"shelve_to": _shelve_to(places[name], backed_up[name].instance)} for name in left}
    _and_all(done, left, (yield from operate("shelve", left, to)))
    for name in to:
        done[name].instance["backups"] = backed_up[name].instance["backups"]
    return done


def unshelve(
    tasks: Tasks, run: Run, elsewhere: Optional[Elsewhere] = None, stay_off: Collection[str] = ()
) -> Procedure[Dict[str, Done]]:
    """Return what became of each instance. ``tasks``: of those in a move without hosts; without ``elsewhere`` each stays on its
    host; ``stay_off``: the names of those that are not started."""
    done = yield from operate("unshelve", tasks, {})
    refused = [name for name, each in done.items() if each.errors and each.errors[0].get("retryable")]
    moved = (yield from _moved(done, tasks, [*elsewhere.names, *refused], elsewhere)) if elsewhere else {}
    if run.dry:
        return done
    tasks = {**tasks, **moved}
    _and_all(done, moved, (yield from operate("unshelve", moved, {})))
    now = {name: done[name].instance for name in _good(done)}
    waiting = {name: tasks[name] for name, each in now.items() if each.get("task_state") == UNSHELVING and KEY in each}
    starting = {name: tasks[name] for name, each in now.items() if each.get("task_state") == POWERING_ON}
    where = {name: _restore_from(done[name].instance) for name in waiting}
    restored = _and_all(done, waiting, (yield from operate_anywhere("restore", waiting, where, run)))
    # what a host does not give back now, the next run of either takes up
    yield from operate("shelve", {name: task for name, task in waiting.items() if name not in restored}, {})
    starting.update(restored)
    for operation in ("start", "stop"):
        some = {name: task for name, task in starting.items() if (name in stay_off) == (operation == "stop")}
        _and_all(done, some, (yield from operate(operation, some, {})))
    return done


def _moved(
    done: Dict[str, Done], tasks: Tasks, names: Collection[str], elsewhere: Elsewhere
) -> Procedure[Dict[str, Mapping[str, Any]]]:
    """Return the tasks of those that are on another host now. The others keep why their own host refused them."""
    if not names:
        return {}
    moves, errors = yield from elsewhere.plan(names)
    walks = yield from side_by_side(moves)
    moved: Dict[str, Mapping[str, Any]] = {}
    for name, walk in walks.items():
        done[name].changed = done[name].changed or walk.changed
        if walk.failure:
            done[name].errors.append(walk.error or error_of(walk.failure))
            continue
        host = walk.destination()
        done[name].errors, done[name].host = [], host
        done[name].diff.append({"before": "%s\n" % walk.move.source, "after": "%s\n" % host})
        moved[name] = {**tasks[name], "uuid": walk.move.uuid, "hosts": [host]}
    for name, error in errors.items():
        done[name].errors.append(error)
    return moved


def _good(done: Mapping[str, Done]) -> Any:
    return [name for name, each in done.items() if not each.errors]


def _only(given: Document, names: Any) -> Document:
    return {name: given[name] for name in names if name in given}


def _shelve_to(place: Document, instance: Document) -> Document:
    (backup,) = instance["backups"]
    return {"backup": backup["id"], "to": place["to"], HOST: place.get(HOST), "generation": instance["generation"]}


def _restore_from(instance: Document) -> Document:
    shelved = instance[KEY]
    host = {HOST: shelved[HOST]} if shelved[HOST] else {}
    return {"to": shelved["to"], **host, "backup": shelved["backup"], "discards": instance["name"]}


def _and_errors(done: Dict[str, Done], tasks: Tasks, more: Mapping[str, Done]) -> Tasks:
    """Add why they fail. Return the tasks of those that go on."""
    for name, each in more.items():
        done[name].errors += each.errors
        done[name].warnings += each.warnings
    return {name: task for name, task in tasks.items() if not done[name].errors}


def _and_all(done: Dict[str, Done], tasks: Tasks, more: Mapping[str, Done]) -> Tasks:
    """Add what was done, too."""
    for name, each in more.items():
        done[name].changed = done[name].changed or each.changed
        done[name].instance = each.instance or done[name].instance
        done[name].diff += each.diff
    return _and_errors(done, tasks, more)
