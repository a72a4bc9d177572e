# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one operation does on the hosts of the instances that it was to find: stop, start and the others of the table that
have a state. Instances do not wait for each other."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional

from ...model.messages import Document
from .. import renaming
from ..closing_table import error_of
from ..operations import OPERATIONS
from ..registry.interface import Changes, Takes
from ..silence import is_there, named, unanswered
from .steps import Ask, Procedure, said

CONSOLE_LINES = 50  # that are shown
SHOWN = ("instance", "instance_copy")
FAILED = {"error", "reason"}  # of which an answer has one or both if the host did not do what it was asked


@dataclasses.dataclass
class Done:
    """What became of one instance. ``instance``: as its last host shows it; ``host``: where it is now, if it has moved;
    ``set_aside``: host -> where its copy is;
    ``errors``: of each host that refused, or whose
    result is unknown, {code, message, ...}."""

    changed: bool = False
    instance: Document = dataclasses.field(default_factory=dict)
    host: Optional[str] = None
    gives_up: List[str] = dataclasses.field(default_factory=list)
    diff: List[Any] = dataclasses.field(default_factory=list)
    warnings: List[str] = dataclasses.field(default_factory=list)
    set_aside: Dict[str, List[str]] = dataclasses.field(default_factory=dict)
    errors: List[Document] = dataclasses.field(default_factory=list)


Tasks = Mapping[str, Mapping[str, Any]]  # name -> what what_to_operate.where() found, and the uuid


def operate(operation: str, tasks: Tasks, given: Mapping[str, Document]) -> Procedure[Dict[str, Done]]:
    """``given``: name -> arguments that the variables of the instance say. Return what became of each."""
    row = OPERATIONS[operation]
    done = {name: Done() for name in tasks}
    left = {name: list(task["hosts"] if row.everywhere else task["hosts"][-1:]) for name, task in tasks.items()}
    while any(left.values()):
        at = {name: hosts.pop(0) for name, hosts in left.items() if hosts}
        arguments = {name: _arguments(row, tasks[name], given.get(name, {})) for name in at}
        yield from asked(done, row.module, arguments, at)
    return done


def adopt(tasks: Tasks, given: Mapping[str, Document], hosts: Collection[str]) -> Procedure[Dict[str, Done]]:
    """``hosts``: all that the run has asked, which then know who owns it; none over an engine, which knows it."""
    done = yield from operate("adopt", tasks, given)
    known: Dict[str, Dict[str, List[int]]] = {}
    names: Dict[str, str] = {}
    for name, task in tasks.items():
        if done[name].instance.get("generation") and not done[name].errors:
            names[task["owner"]] = task["hosts"][-1]
            known.setdefault(task["owner"], {})[task["uuid"]] = done[name].instance["generation"]
    if known and hosts:
        # nothing is lost if one does not take it: a later run tells it again
        yield Ask("rescan", {host: {"told": {"hosts": names, "known": known}} for host in hosts})
    return done


def rename(
    tasks: Tasks, given: Mapping[str, Document], dry: bool, changes: Optional[Changes] = None
) -> Procedure[Dict[str, Done]]:
    """One that may not keep the new name, by what the hosts say afterwards, or an engine in their place, gets its old one again."""
    for task in tasks.values():
        told = None if changes else renaming.announced(task, task["hosts"][-1])
        if told:
            yield Ask("rescan", {host: {"told": told} for host in task["asked"]})
    done = yield from operate(renaming.OPERATION, tasks, given)
    for name, task in {} if dry else tasks.items():
        taken = None
        if not done[name].errors and changes:
            taken = (yield from changes.stand({name: task})).get(name)
        elif not done[name].errors:
            taken = renaming.taken_since(name, task, (yield Ask("rescan", renaming.look_again(task))))
        if taken:
            back = {**_arguments(OPERATIONS[renaming.OPERATION], task, {}), "new_name": name}
            yield from asked(done, "instance", {name: back}, {name: task["hosts"][-1]})
            done[name].errors.append(taken.to_dict())
        if done[name].errors and not changes:
            yield Ask("rescan", {host: {"told": renaming.given_up(task)} for host in task["asked"]})
    return done


def over(
    takes: Takes, tasks: Tasks, carry_out: Callable[[Tasks], Procedure[Dict[str, Done]]], dry: bool
) -> Procedure[Dict[str, Done]]:
    """``carry_out``: does the operation for those of the tasks that get what they take from an engine."""
    refused = yield from takes.begin(tasks)
    left = {name: task for name, task in tasks.items() if name not in refused}
    done = yield from carry_out(left)
    if left and not dry:
        yield from takes.end(left)
    return {**done, **{name: Done(errors=[error.to_dict()]) for name, error in refused.items()}}


def look(operation: str, tasks: Tasks, given: Mapping[str, Document]) -> Procedure[Dict[str, Done]]:
    """Look at the instances: ``instance`` of each has its ``state`` and its ``console`` or ``snapshots``; nothing of one that is on
    no host."""
    at = {name: task["hosts"][-1] for name, task in tasks.items() if task["hosts"]}
    more = {"console_lines": CONSOLE_LINES} if operation == "console" else {}
    arguments = {name: {"uuids": [tasks[name]["uuid"]], **more, **given[name]} for name in at}
    done = {name: Done() for name in tasks}
    answers = yield Ask(OPERATIONS[operation].module, arguments, at)
    for name, answer in answers.items():
        if answer.keys() & FAILED:
            done[name].errors.append(error_of_answer(at[name], answer))
            continue
        for shown in answer["instances"]:
            parts = (operation, "state") if operation in shown else ()
            done[name].instance = {part: shown[part] for part in parts if part in shown}
    return done


def _arguments(row: Any, task: Mapping[str, Any], given: Document) -> Document:
    found = {part: task[part] for part in row.found if part in task}
    return {"uuid": task["uuid"], "state": row.state, **found, **given}


def asked(
    done: Dict[str, Done], module: str, arguments: Mapping[str, Document], at: Mapping[str, str], check: bool = False
) -> Procedure[None]:
    """Ask for each instance its host, and add the answers to what is ``done``; of a ``check``, only why it fails."""
    answers = yield Ask(module, dict(arguments), dict(at), check)
    for name, host in at.items():
        if check and "changed" in answers[name] and not answers[name].keys() & FAILED:
            continue
        _add(done[name], host, arguments[name]["state"], answers[name])
        if answers[name].get("changed") and done[name].instance:
            yield said(name, arguments[name]["uuid"], host, done[name].instance)


def _add(done: Done, host: str, state: str, answer: Mapping[str, Any]) -> None:
    done.changed = done.changed or bool(answer.get("changed"))
    done.instance = next((answer[part] for part in SHOWN if part in answer), {})
    done.gives_up += done.instance.get("gives_up") or ()
    done.diff += [answer["diff"]] if "diff" in answer else []
    done.warnings += answer.get("warnings", ())
    done.set_aside.update({host: done.instance["paths"]} if state == "set_aside" and done.instance.get("paths") else {})
    if answer.keys() & FAILED:
        done.errors.append(error_of_answer(host, answer))


def error_of_answer(host: str, answer: Mapping[str, Any]) -> Document:
    """Why the host did not do what it was asked. Of a host that answers, the reason is an error and begins with its code."""
    if "error" in answer:
        return named(host, answer["error"])
    reason = str(answer["reason"])
    return error_of(reason) if is_there(reason) else unanswered(host, reason).to_dict()
