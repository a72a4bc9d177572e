# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an operation acts on each of the instances that it is about, by what all hosts reported. Hosts are asked for what a
report leaves out: what they remember of guests to adopt, and the addresses of copies that were set aside."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from ...model.errors import BerthError
from ...model.identity import DEFAULT_PROJECT, instance_uuid
from ...model.messages import Document
from ...model.quota import Amounts
from ...model.vm_states import SHELVED
from .. import addressing, adopting, locks, new_volumes, own_uuids, renaming, what_to_operate
from ..closing_table import why_of
from ..errors import HostUnknown, InstanceMoving
from ..fleet import Fleet, Place
from ..operations import OPERATIONS
from .steps import Ask, Procedure


@dataclasses.dataclass(frozen=True)
class Wanted:
    """One instance, as the inventory has it. ``locked``: true, or who locked it; ``described``: whether it has a flavor."""

    uuid: str
    project: str = DEFAULT_PROJECT
    locked: Any = None
    described: bool = True


@dataclasses.dataclass(frozen=True)
class Run:
    """``more``: (name, task) -> what the inventory adds to the task; ``not_found``: name -> the error of an instance that is on
    no host; None: there is nothing to do; ``over_registry``: the fleet has what an engine knows, and that decides about quotas."""

    operation: str
    said: what_to_operate.Said
    more: Callable[[str, Document], Document] = lambda _name, _task: {}
    not_found: Callable[[str], Optional[BerthError]] = lambda _name: None
    quotas: Callable[[], Mapping[str, Amounts]] = dict
    over_registry: bool = False


@dataclasses.dataclass
class Located:
    """``tasks``: by name, as what_to_operate.where() and ``more`` say; ``errors``: why the others are not acted on; ``moving``:
    of these those in a move that a delete ends, or an unshelve of what is shelved."""

    tasks: Dict[str, Document] = dataclasses.field(default_factory=dict)
    errors: Dict[str, BerthError] = dataclasses.field(default_factory=dict)
    moving: List[str] = dataclasses.field(default_factory=list)

    def refuse(self, name: str, error: BerthError) -> None:
        self.tasks.pop(name, None)
        self.errors[name] = error


def locate(run: Run, fleet: Fleet, wanted: Mapping[str, Wanted]) -> Procedure[Located]:
    """``wanted``: by inventory name. Raises HostUnknown if a host does not say what it remembers of guests to adopt."""
    if run.operation in ("adopt", renaming.OPERATION) and not run.over_registry:
        yield from _hear_of(run, fleet, wanted)
    found = Located()
    for name, instance in wanted.items():
        try:
            found.tasks[name] = _task_of(run, fleet, name, instance)
            _check_found(run, fleet, name, instance, found.tasks[name])
        except BerthError as error:
            found.refuse(name, error)
            if isinstance(error, InstanceMoving) and _ends_moves(run, fleet.places.get(instance.uuid, ())):
                found.moving.append(name)
    yield from _check_addresses(fleet, found)
    grows = any(task.get("new_volumes") or task.get("grown_volumes") for task in found.tasks.values())
    if grows and not run.over_registry:
        for name, over in new_volumes.before_the_claims(found.tasks, fleet, run.quotas()).items():
            found.refuse(name, over)
    return found


def _hear_of(run: Run, fleet: Fleet, wanted: Mapping[str, Wanted]) -> Procedure[None]:
    """Have the fleet know what hosts remember of the guests to adopt, and of the instances of the names that are given."""
    about = []
    for name, instance in wanted.items():
        with contextlib.suppress(BerthError):
            if run.operation == "adopt":
                about.append(_guest(run, fleet, name, instance).uuid)
            about.append(instance_uuid(instance.project, run.said.new_name or name))
    told = (yield Ask("rescan", {host: {"about": about} for host in fleet.documents})) if about else {}
    for host, answer in told.items():
        if "notes" not in answer:
            raise HostUnknown("%s does not say what it remembers: %s" % (host, why_of(answer)))
        fleet.notes[fleet.uuids()[host]].update(answer["notes"])


def _guest(run: Run, fleet: Fleet, name: str, instance: Wanted) -> adopting.Guest:
    return adopting.find(fleet, name, instance.project, instance.uuid, run.said.adopt_on)


def _task_of(run: Run, fleet: Fleet, name: str, instance: Wanted) -> Document:
    """What to do about one instance: {uuid, hosts, ...}; nothing if there are no hosts."""
    if run.operation == "adopt":
        locks.check(run.operation, name, instance.locked, ())
        guest = _guest(run, fleet, name, instance)
        task = adopting.where(fleet, name, instance.project, guest, run.said.lost)
        return {**task, **run.more(name, task)}
    places = fleet.places.get(instance.uuid, ())
    if run.operation != "leave":
        adopting.check_adopted(fleet, name, instance.project, instance.uuid)
    if run.operation != renaming.OPERATION:
        own_uuids.check_name(name, instance.project, instance.uuid, places)
    if run.operation in adopting.ONLY_OF_CREATED:
        adopting.check_created(name, places, run.operation)
    locks.check(run.operation, name, instance.locked, places)
    task = what_to_operate.where(run.operation, fleet, name, instance.uuid, run.said)
    if run.operation == renaming.OPERATION:
        task |= renaming.task(fleet, name, instance.project, task, str(run.said.new_name), run.said.run, run.said.lost)
    return {**task, **run.more(name, task)}


def _check_found(run: Run, fleet: Fleet, name: str, instance: Wanted, task: Document) -> None:
    """Raise if the instance is nowhere, although the operation needs one or the inventory does not know it either."""
    is_nowhere = not task["hosts"] and not fleet.places.get(task["uuid"])
    told = instance.described and not fleet.own_names.get((instance.project, name))
    error = run.not_found(name) if is_nowhere and (OPERATIONS[run.operation].needs_one or not told) else None
    if error:
        raise error


def _ends_moves(run: Run, places: Iterable[Place]) -> bool:
    """Over a registry an unshelve moves nothing."""
    is_shelved = any(place["vm_state"] == SHELVED for place in places)
    return run.operation == "delete" or run.operation == "unshelve" and is_shelved and not run.over_registry


def _check_addresses(fleet: Fleet, found: Located) -> Procedure[None]:
    """Of the copies that were set aside: no record says their addresses any more."""
    listed = {name: task for name, task in found.tasks.items() if task.get("listed")}
    if not listed:
        return
    arguments = {name: {"uuid": task["uuid"], "state": "listed"} for name, task in listed.items()}
    answers = yield Ask("instance_copy", arguments, {name: task["stays"] for name, task in listed.items()})
    for name, task in listed.items():
        # a host without such a copy says so when it is to bring it back
        own = (answers[name].get("instance_copy") or {}).get("nics") or []
        try:
            addressing.check_addresses_kept(fleet, name, task["uuid"], task["stays"], own)
        except BerthError as error:
            found.refuse(name, error)
