# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An update or a rename of an instance over an engine. One transaction writes the intent and takes what is new beside what the instance
has. Once its host has claimed that, the intent is written again, unless another run or an audit has taken this one for dead. At
the end the instance holds what its host shows.

An intent of a run that was killed stays: the next change of the instance, or an audit, ends it.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Dict, List, Mapping, Optional, Set, Tuple

from ...model import hints
from ...model.address_clash import AddressTaken, Index
from ...model.errors import BerthError
from ...model.identity import group_uuid
from ...model.lifecycle import OWN
from ...model.messages import Document
from ...model.quota import Amounts
from ...model.volumes import volume_uuid
from .. import addressing, quotas
from ..errors import ClaimConflict
from ..fleet import own_name
from ..procedures.steps import Ask, Procedure
from . import holdings, hosts, keys
from .engine import Known, addresses
from .transactions import Draft, heard, of_each, transacted

Task = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class ChangesOnEngine:
    """``run``: its id; ``known``: what the engine knew when the instances were located; ``quotas``: by project; ``kept``: addresses
    that are not given out, whoever has them."""

    run: str
    known: Known
    new_token: Callable[[], str]
    quotas: Mapping[str, Amounts] = dataclasses.field(default_factory=dict)
    kept: Index = dataclasses.field(default_factory=dict)

    def begin(self, tasks: Mapping[str, Any]) -> Procedure[Dict[str, BerthError]]:
        return (yield from of_each(self._begin, tasks))

    def stand(self, tasks: Mapping[str, Any]) -> Procedure[Dict[str, BerthError]]:
        return (yield from of_each(self._stand, tasks))

    def _begin(self, name: str, task: Any) -> Procedure[None]:
        while True:
            try:
                yield from transacted(functools.partial(self._begun, name=name, task=task))
                return
            except AddressTaken:
                only = task.get("only_new")
                if not only or not addressing.choose_again(only, (yield from addresses()), self.kept):
                    raise
                task["spec"] = addressing.with_chosen(task["spec"], only["spec"]["networks"])

    def _begun(self, draft: Draft, name: str, task: Task) -> Procedure[None]:
        uuid, key = task["uuid"], keys.instance(task["uuid"])
        yield from draft.read(key)
        entry, found = draft.get(key), draft.found[key]
        if entry and self._own(entry):
            return  # the answer was lost
        at = next((each for each in keys.hosts_of(entry) if self._is_at(each, task)), None) if entry else None
        if found is None or at is None or found.revision != self.known.versions.get(uuid):
            raise _other_run(name)
        project, before = entry["project"], _of_changes(entry)
        wanted = {"name": name, "uuid": uuid, "project": project, "spec": _wanted(entry, uuid, task)}
        holds = holdings.held_by(wanted["spec"], project)
        yield from draft.read(keys.quota(project), *holds)
        yield from holdings.hold(draft, wanted, holds)
        yield from _seat(draft, uuid, (task.get("spec") or {}).get("group"), at)
        needs, going, sizes = _growth(task, before[0].get("sizes", {}) if before else {})
        over = quotas.over([quotas.Request(uuid, project, needs)], {project: _used(draft, project)}, self.quotas)
        if over:
            raise over[uuid]
        if any(needs.values()):
            draft.put(keys.quota(project), holdings.more(_used(draft, project), needs))
        intent = {**keys.intent(self.run, keys.CHANGE, at, self.new_token(), claimed=False), "sizes": sizes}
        now = {
            "holds": list(dict.fromkeys([*entry["holds"], *holds])),
            "amounts": holdings.more(entry["amounts"], going),
            "pending": [*(each for each in entry["pending"] if each not in before), intent],
        }
        draft.put(key, {**entry, **now})

    def _stand(self, name: str, task: Task) -> Procedure[None]:
        yield from transacted(functools.partial(self._stood, name=name, uuid=task["uuid"], op=self.new_token()))

    def _stood(self, draft: Draft, name: str, uuid: str, op: str) -> Procedure[None]:
        """What an audit has read before, it does not write any more."""
        key = keys.instance(uuid)
        yield from draft.read(key)
        entry = draft.get(key)
        own = self._own(entry) if entry else None
        if own is None:
            raise _other_run(name)
        if own["op"] != op:
            pending = [{**each, "op": op, "claimed": True} if each == own else each for each in entry["pending"]]
            draft.put(key, {**entry, "pending": pending})

    def end(self, tasks: Mapping[str, Any]) -> Procedure[None]:
        """What cannot be told now is told by a later run."""
        scans = yield Ask("rescan", {host: {} for host in sorted({task["hosts"][-1] for task in tasks.values()})})
        for task in tasks.values():
            scan = scans[task["hosts"][-1]]
            records = [
                each for each in scan.get("instances") or () if (each["uuid"], each["role"]) == (task["uuid"], OWN)
            ]
            if records:
                yield from heard(functools.partial(self._ended, task=task, record=records[0], scan=scan))

    def _ended(self, draft: Draft, task: Task, record: Document, scan: Document) -> Procedure[None]:
        uuid, key = task["uuid"], keys.instance(task["uuid"])
        yield from draft.read(key)
        entry = draft.get(key)
        own = self._own(entry) if entry else None
        if own is None or own["host"] != scan["host_uuid"]:
            return
        project, sizes = entry["project"], {each["uuid"]: each["size_gb"] for each in scan["volumes"]}
        named = own_name(record) or record["name"]
        holds = holdings.held_of(record, project, named, _volumes(entry, task, sizes))
        yield from draft.read(keys.quota(project), *entry["holds"], *holds)
        holdings.let_go(draft, uuid, set(entry["holds"]) - set(holds))
        back, going = _not_made(task, own["sizes"], sizes)
        if any(back.values()):
            draft.put(keys.quota(project), holdings.less(_used(draft, project), back))
        now = {
            **entry,
            "name": named,
            "holds": holds,
            "group": group_uuid(project, record["group"]) if record["group"] else None,
            "amounts": holdings.less(entry["amounts"], going),
            "pending": [each for each in entry["pending"] if each != own],
        }
        asked = (task.get("spec") or {}).get("group") or {}
        for left in {entry["group"], asked.get("uuid")} - {now["group"], None}:
            yield from draft.read(keys.group(left))
            draft.put(keys.group(left), holdings.others(draft, left, uuid))
        draft.put(key, now)

    def _own(self, entry: Document) -> Optional[Document]:
        return next((each for each in _of_changes(entry) if each["run"] == self.run), None)

    def _is_at(self, host_uuid: str, task: Task) -> bool:
        return self.known.names.get(host_uuid) == task["hosts"][-1]


def _of_changes(entry: Document) -> List[Document]:
    return [each for each in entry["pending"] if each["kind"] == keys.CHANGE]


def _other_run(name: str) -> ClaimConflict:
    return ClaimConflict("another run has begun or ended with %s" % name, hint=hints.another_run())


def _wanted(entry: Document, uuid: str, task: Task) -> Document:
    """As a request: what it is to have beside what it has."""
    networks = task["only_new"]["spec"]["networks"] if task.get("only_new") else []
    return {
        "uuid": uuid,
        "name": task.get("new_name") or entry["name"],
        "networks": networks,
        "volumes": task.get("volumes") or [],
    }


def _seat(draft: Draft, uuid: str, group: Any, host_uuid: str) -> Procedure[None]:
    """Take its seat in the group. What it leaves, it leaves at the end."""
    if not group:
        return
    key = keys.group(group["uuid"])
    yield from draft.read(key)
    members = holdings.others(draft, group["uuid"], uuid)
    names = yield from hosts.names(sorted({at for where in members.values() for at in where}))
    holdings.check_seat({"group": group}, members, host_uuid, names)
    if uuid not in (draft.get(key) or {}):
        draft.put(key, {**members, uuid: [host_uuid]})


def _used(draft: Draft, project: str) -> Amounts:
    return draft.get(keys.quota(project)) or {}


def _growth(task: Task, counted: Mapping[str, int]) -> Tuple[Amounts, Amounts, Dict[str, int]]:
    """(what its project needs, what of it goes with the instance, the sizes that count). ``counted``: those of an earlier run, which
    was killed."""
    goes, sizes, needs, going = _goes(task), dict(counted), _nothing(), _nothing()
    for volume in [*(task.get("new_volumes") or ()), *(task.get("grown_volumes") or ())]:
        uuid, size_gb = volume["uuid"], volume["size_gb"]
        has = sizes.get(uuid, volume.get("from_gb"))
        for amounts in (needs, going) if volume["name"] in goes else (needs,):
            amounts["volumes"] += has is None
            amounts["gigabytes"] += max(0, size_gb - (has or 0))
        sizes[uuid] = max(size_gb, has or 0)
    return needs, going, sizes


def _not_made(task: Task, sizes: Mapping[str, int], has: Mapping[str, int]) -> Tuple[Amounts, Amounts]:
    """(what its project does not need, what of it was to go with the instance). ``has``: the sizes of the volumes of its host."""
    names = {each["uuid"]: each["name"] for part in ("new_volumes", "grown_volumes") for each in task.get(part) or ()}
    goes, back, going = _goes(task), _nothing(), _nothing()
    for uuid, size_gb in sizes.items():
        for amounts in (back, going) if names.get(uuid) in goes else (back,):
            amounts["volumes"] += uuid not in has
            amounts["gigabytes"] += max(0, size_gb - has.get(uuid, 0))
    return back, going


def _nothing() -> Dict[str, int]:
    return {"volumes": 0, "gigabytes": 0}


def _goes(task: Task) -> Set[str]:
    return {each["name"] for each in task.get("volumes") or () if each.get("delete_on_termination")}


def _volumes(entry: Document, task: Task, has: Mapping[str, int]) -> List[str]:
    """The keys of its volumes: of those that it is to have by now those that are there."""
    if task.get("volumes") is None:
        return [key for key in entry["holds"] if key.startswith(keys.VOLUMES)]
    uuids = (volume_uuid(entry["project"], each["name"]) for each in task["volumes"])
    return [keys.volume(uuid) for uuid in uuids if uuid in has]
