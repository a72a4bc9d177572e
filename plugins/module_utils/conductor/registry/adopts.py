# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest is adopted over an engine as an instance is created there, but that its host has it already: it takes its name and its
addresses, and counts in the quota, which does not refuse it. If a run was killed in between, adopting it again ends it."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Dict, Mapping

from ...model import hints, registry_hints
from ...model.errors import BerthError, InstanceExists
from ...model.lifecycle import OWN
from ..errors import ClaimConflict
from ..procedures.steps import Ask, Procedure
from . import holdings, keys
from .engine import given_back, owned
from .transactions import Draft, heard, of_each, transacted


@dataclasses.dataclass(frozen=True)
class AdoptsOnEngine:
    """``run``: its id."""

    run: str
    new_token: Callable[[], str]

    def begin(self, tasks: Mapping[str, Any]) -> Procedure[Dict[str, BerthError]]:
        """Each begins in a later epoch than the engine knows of it."""
        return (yield from of_each(self._begin, tasks))

    def _begin(self, _name: str, task: Any) -> Procedure[None]:
        epoch = yield from transacted(functools.partial(self._begun, task=task))
        task["after"] = max(task["after"], [epoch, 0])

    def _begun(self, draft: Draft, task: Mapping[str, Any]) -> Procedure[int]:
        uuid, name, project, guest = (task[part] for part in ("uuid", "name", "project_id", "guest"))
        key, quota, host_key = keys.instance(uuid), keys.quota(project), keys.host(task["owner"])
        yield from draft.read(key, host_key)
        entry = draft.get(key) or keys.new_instance(name, project)
        epoch: int = entry["epoch"]
        if entry["owner"] == task["owner"] or any(each["run"] == self.run for each in entry["pending"]):
            return epoch  # it is an instance, or the answer was lost
        if set(keys.hosts_of(entry)) - {task["owner"]}:
            text = "the registry has the guest %s on another host, as the instance %s"
            raise InstanceExists(text % (uuid, entry["name"]), hint=hints.another_name())
        host = draft.get(host_key)
        if not host:
            at = task["hosts"][-1]
            raise ClaimConflict("the registry knows %s no more" % at, hint=registry_hints.enrol_host(at))
        draft.put(host_key, host)  # written, so that it does not leave meanwhile
        holds = holdings.held_of(guest, project, name, ())
        yield from draft.read(quota, *entry["holds"], *holds)
        holdings.let_go(draft, uuid, set(entry["holds"]) - set(holds))
        spec = {"uuid": uuid, "name": name}
        yield from holdings.hold(draft, {"uuid": uuid, "name": name, "project": project, "spec": spec}, holds)
        amounts = {"instances": 1, "cores": guest["vcpus"], "ram": guest["memory_mb"]}
        draft.put(quota, holdings.more(holdings.less(draft.get(quota) or {}, entry["amounts"]), amounts))
        intent = keys.intent(self.run, keys.CREATE, task["owner"], self.new_token())
        now = {"name": name, "project": project, "amounts": amounts, "holds": holds, "pending": [intent]}
        draft.put(key, {**entry, **now})
        return epoch

    def end(self, tasks: Mapping[str, Any]) -> Procedure[None]:
        """What cannot be told now is told by a later run."""
        scans = yield Ask("rescan", {host: {} for host in sorted({task["hosts"][-1] for task in tasks.values()})})
        for task in tasks.values():
            uuid, scan = task["uuid"], scans[task["hosts"][-1]]
            if "instances" not in scan:
                continue
            epochs = [keys.epoch_of(each) for each in scan["instances"] if (each["uuid"], each["role"]) == (uuid, OWN)]
            if epochs:
                change = functools.partial(owned, uuid=uuid, host_uuid=task["owner"], epoch=epochs[0])
            else:
                change = functools.partial(given_back, run=self.run, uuid=uuid, without=[task["owner"]])
            yield from heard(change)
