# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies and records of an instance that exists: of two copies one stays, one that was set aside comes back, a record that was
lost is written. All hosts hear first which record becomes the latest."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ...model.errors import BerthError
from ...model.messages import Document
from .operate import FAILED, Done, Tasks, asked, error_of_answer, operate
from .steps import Ask, Look, Procedure
from .telling import tell_latest

COPY = "instance_copy"


def keep_one(tasks: Tasks, given: Mapping[str, Document], dry: bool) -> Procedure[Dict[str, Done]]:
    """The others are stopped while the one that stays can be kept, it counts from then on, and the others are set aside. Or
    it comes back, since the host of the copy that had stayed is lost. ``tasks``: name -> a keep_one.Choice as data, with the
    uuid; ``given``: name -> how long guests may take to shut down; ``dry``: in check mode."""
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
    more: Optional[Mapping[str, Document]] = None,
    check: bool = False,
) -> Procedure[None]:
    """One step for all for whom no step before it has failed: on each host of an instance, one after the other."""
    left = {name: hosts_of(tasks[name]) for name in names if not done[name].errors}
    while any(left.values()):
        at = {name: hosts.pop(0) for name, hosts in left.items() if hosts}
        arguments = {name: {"uuid": tasks[name]["uuid"], "state": state, **(more or {}).get(name, {})} for name in at}
        yield from asked(done, COPY, arguments, at, check)


def counts_at(tasks: Tasks) -> Dict[str, str]:
    """Instance uuid -> the host whose copy or record counts after keep_one or recover_record."""
    hosts = {task["uuid"]: task.get("stays") or [None, *task["hosts"]][-1] for task in tasks.values()}
    return {uuid: host for uuid, host in hosts.items() if host}


def recover(tasks: Tasks, given: Mapping[str, Document], dry: bool) -> Procedure[Dict[str, Done]]:
    """Start what should run. A host that is back first hears who owns what others have taken over from it, then forgets its copies, or
    sets them aside. ``dry``: in check mode."""
    old = {name: task for name, task in tasks.items() if task.get("outdated")}
    done = {name: Done() for name in old}
    if old and not dry:
        yield from _tell_new_owners(old, done)
    new_owners = {name: {"new_owner": task["owner"]} for name, task in old.items()}
    yield from _ask(done, old, list(old), "forgotten", _to_forget, new_owners)
    yield from _ask(done, old, list(old), "set_aside", lambda task: list(task["aside"]))
    started = yield from operate("recover", {name: tasks[name] for name in tasks if name not in old}, given)
    return {**done, **started}


def _to_forget(task: Mapping[str, Any]) -> List[str]:
    return [host for host in task["outdated"] if host not in task["aside"]]


def _tell_new_owners(tasks: Tasks, done: Dict[str, Done]) -> Procedure[None]:
    """Whoever forgets its copy remembers from then on who has the instance, also while that host is silent."""
    told: Dict[str, Any] = {}
    for task in tasks.values():
        for host in task["outdated"]:
            of_host = told.setdefault(host, {"hosts": {}, "known": {}})
            of_host["hosts"][task["owner"]] = task["stays"]
            of_host["known"].setdefault(task["owner"], {})[task["uuid"]] = task["generation"]
    answers = yield Ask("rescan", {host: {"told": of_host} for host, of_host in told.items()})
    for name, task in tasks.items():
        refused = [host for host in task["outdated"] if answers[host].keys() & FAILED]
        done[name].errors += [error_of_answer(host, answers[host]) for host in refused]


def recover_record(tasks: Tasks, given: Mapping[str, Document], dry: bool) -> Procedure[Dict[str, Done]]:
    """One that was lost, or is older than what hosts have heard of. ``given``: as of operate; ``dry``: in check mode."""
    done = {name: Done() for name in tasks}
    if not dry:
        yield from tell_all(tasks, done)
    written = yield from operate(
        "recover_record", {name: tasks[name] for name in tasks if not done[name].errors}, given
    )
    return {**done, **written}


def tell_all(tasks: Mapping[str, Mapping[str, Any]], done: Dict[str, Done]) -> Procedure[None]:
    """For each task that has something ``to_tell``. Who is not told by all has the error in ``done``."""
    for name, task in tasks.items():
        if task.get("to_tell"):
            try:
                yield from tell_latest(name, **task["to_tell"])
            except BerthError as error:
                done[name].errors.append(error.to_dict())
