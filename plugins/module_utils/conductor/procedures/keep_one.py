# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of two copies of an instance one stays: the others are stopped while it can be kept, it counts from then on, and the others
are set aside. Or a copy that was set aside comes back, since the host of the one that had stayed is lost."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence

from ...model.messages import Document
from .operate import Done, Tasks, asked
from .steps import Look, Procedure
from .tell_latest import tell_all

COPY = "instance_copy"


def keep_one(tasks: Tasks, given: Mapping[str, Document], dry: bool) -> Procedure[Dict[str, Done]]:
    """``tasks``: name -> a keep_one.Choice as data, with the uuid; ``given``: name -> how long guests may take to shut down;
    ``dry``: in check mode. Return what became of each, also of those that the second look refuses."""
    done = {name: Done() for name in tasks}
    listed = [name for name in tasks if tasks[name]["listed"]]
    yield from _ask(done, tasks, listed, "recorded", _stays)
    if listed and not dry:
        # Another run may have claimed room to make the instance anew: of two that write and then look, one sees the other.
        found = yield Look()
        tasks = {name: found[name] for name in tasks if name in found}
    if not dry:
        yield from tell_all({name: task for name, task in tasks.items() if not done[name].errors}, done)
    keeping = [name for name in tasks if tasks[name]["others"]]
    above = {name: {"above": tasks[name]["above"]} for name in tasks}
    yield from _ask(done, tasks, keeping, "kept", _stays, above, check=True)
    # while the copy that stays does not count yet: the hosts of the others may be silent once it does
    yield from _ask(done, tasks, keeping, "stopped", _others, given)
    yield from _ask(done, tasks, keeping, "kept", _stays, above)
    yield from _ask(done, tasks, keeping, "set_aside", _others, given)
    back = [name for name in tasks if tasks[name]["comes_back"]]
    both = {name: {**above[name], **given.get(name, {})} for name in back}
    yield from _ask(done, tasks, back, "brought_back", _stays, both)
    return done


def _stays(task: Mapping[str, Any]) -> List[str]:
    return [task["stays"]]


def _others(task: Mapping[str, Any]) -> List[str]:
    return list(task["others"])


def _ask(
    done: Dict[str, Done],
    tasks: Tasks,
    names: Sequence[str],
    state: str,
    hosts_of: Callable[[Mapping[str, Any]], List[str]],
    more: Mapping[str, Document] = {},
    check: bool = False,
) -> Procedure[None]:
    """One step for all for whom no step before it has failed: on each host of an instance, one after the other."""
    left = {name: hosts_of(tasks[name]) for name in names if not done[name].errors}
    while any(left.values()):
        at = {name: hosts.pop(0) for name, hosts in left.items() if hosts}
        arguments = {name: {"uuid": tasks[name]["uuid"], "state": state, **more.get(name, {})} for name in at}
        yield from asked(done, COPY, arguments, at, check)
