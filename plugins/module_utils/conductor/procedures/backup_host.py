# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups that a backup host keeps: what it is asked, and what the KVM host of each instance, in which order.

    backup:   looked, planned, opened, sent, kept, noted; after a failure closed
    restore:  found, fits, served, fetched, closed
    delete:   let go, deleted

The disks, the record and what the firmware keeps go from host to host; the controller makes the key and sees names and sizes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ...model import backup_hints
from ...model.backups import BackupDamaged
from ...model.errors import BerthError, shortened
from ...model.messages import Document
from .operate import FAILED, Done, Tasks, error_of_answer, operate
from .steps import Ask, Procedure, said

HOST = "host"
MOST_AT_ONCE = 16  # each has a port for each disk, and a host has 128 of them
OF_STORE = {"backup": ("full", "chain"), "backups": ("of", "deep"), "restore": ("of", "backup")}
RETENTION = ("keep", "keep_days")


class BackupHostNotFound(BerthError):
    """The backup host that a variable names is none of the inventory's. Nothing was changed."""


class Run(NamedTuple):
    """``hosts``: those for backups, and the address of each where its variables name one; ``dry``: in check mode."""

    hosts: Mapping[str, Optional[str]]
    at_once: int
    new_key: Callable[[], str]
    dry: bool = False


@dataclasses.dataclass
class Case:
    """One instance. ``home``: its KVM host; ``host``: the backup host; ``given``: what its variables say."""

    name: str
    uuid: str
    project_id: str
    home: str
    host: str
    given: Document
    address: Optional[str]
    key: str
    known: Document = dataclasses.field(default_factory=dict)
    done: Done = dataclasses.field(default_factory=Done)

    @property
    def place(self) -> str:
        return "%s:%s" % (self.host, self.given.get("to"))


Cases = Sequence[Case]
Arguments = Callable[[Case], Document]


def operate_anywhere(
    operation: str, tasks: Tasks, given: Mapping[str, Document], run: Run
) -> Procedure[Dict[str, Done]]:
    """Carry out a backup, a list of backups or a restore, of each instance where its variables say that backups are."""
    away = {name for name in tasks if given.get(name, {}).get(HOST) and tasks[name]["hosts"]}
    here = {name: task for name, task in tasks.items() if name not in away}
    own = {name: {part: value for part, value in given.get(name, {}).items() if part != HOST} for name in tasks}
    done = yield from operate(operation, here, own)
    cases = []
    for name in sorted(away):
        host = given[name][HOST]
        if host not in run.hosts:
            done[name] = Done(errors=[no_host(name, host, run.hosts).to_dict()])
            continue
        task = tasks[name]
        project = task.get("project_id") or ""
        cases.append(
            Case(name, task["uuid"], project, task["hosts"][-1], host, own[name], run.hosts[host], run.new_key())
        )
    at_once = min(run.at_once, MOST_AT_ONCE)
    for start in range(0, len(cases), at_once):
        now = cases[start : start + at_once]
        yield from ORDERS[operation](now, run.dry)
        done.update({case.name: case.done for case in now})
    return done


def list_backups(tasks: Tasks, given: Mapping[str, Document], run: Run) -> Procedure[Dict[str, Done]]:
    """The backups of each instance, for people: a damaged one is an error."""
    done = yield from operate_anywhere("backups", tasks, given, run)
    for name, each in done.items():
        each.errors += _damaged(name, each.instance.get("backups", ()))
    return done


def _damaged(name: str, backups: Sequence[Document]) -> List[Document]:
    """The error of a list that has backups from which nothing can be restored."""
    damaged = [str(each["id"]) for each in backups if each["faults"]]
    said = "%d of the %d backups of %s cannot be restored: %s" % (
        len(damaged), len(backups), name, shortened(damaged),
    )  # fmt: skip
    return [BackupDamaged(said, hint=backup_hints.back_up_again(name)).to_dict()] if damaged else []


def no_host(name: str, host: Any, hosts: Collection[str]) -> BackupHostNotFound:
    return BackupHostNotFound(
        "%s: there is no backup host %s" % (name, host),
        field="berth_backup_host",
        value=host,
        rule="the group berth_backup_hosts has %s" % (", ".join(sorted(hosts)) or "none"),
        hint=backup_hints.name_backup_host(),
    )


def _back_up(cases: Cases, dry: bool) -> Procedure[None]:
    looked = yield from _stored("looked", cases, lambda case: _of(case, OF_STORE["backup"]))
    for case in looked:
        case.known["stands"] = {part: case.known[part] for part in ("newest", "full", "spare")}
    planned = yield from _at_home("planned", looked, lambda case: case.known["stands"])
    if dry:
        _would_change(planned)
        return
    opened = yield from _stored("opened", planned, _parts_and_newest)
    sent = yield from _at_home("sent", opened, _sending)
    failed = [case for case in opened if case.done.errors]
    kept = yield from _stored("kept", sent, lambda case: {"backup": case.known["backup"], **_of(case, RETENTION)})
    yield from _stored("closed", failed, lambda case: {"backup": case.known["backup"]}, may_fail=True)
    for case in kept:
        case.known["made"] = case.known["backups"]
    noted = yield from _at_home(
        "noted", kept, lambda case: {"backup": case.known["backup"], "parts": case.known["parts"]}
    )
    for case in noted:
        case.done.instance = {**case.done.instance, "backups": case.known["made"]}


def _list(cases: Cases, _dry: bool) -> Procedure[None]:
    listed = yield from _stored("listed", cases, lambda case: _of(case, OF_STORE["backups"]))
    for case in listed:
        case.done.instance = {"uuid": case.uuid, "backups": case.known["backups"], "backup_host": case.host}


def _restore(cases: Cases, dry: bool) -> Procedure[None]:
    found = yield from _stored("found", cases, lambda case: _of(case, OF_STORE["restore"]))
    fitting = yield from _at_home("fits", found, _restoring)
    if dry:
        _would_change(fitting)
        return
    served = yield from _stored(
        "served", fitting, lambda case: {"of": case.known["newest"]["uuid"], "backup": case.known["newest"]["id"]}
    )
    yield from _at_home("fetched", served, _restoring)
    yield from _stored("closed", served, lambda case: {"of": case.known["newest"]["uuid"]}, may_fail=True)


def _delete(cases: Cases, _dry: bool) -> Procedure[None]:
    """Its own host says whether the instance stands on the backup, as a shelved one does."""
    let_go = yield from _at_home("let_go", cases, lambda case: {})
    for case in (yield from _stored("deleted", let_go, lambda case: _of(case, ("backup",)))):
        found = case.known["backups"]
        case.done.changed = case.known["changed"]
        case.done.instance = {**case.done.instance, "backups": found, "backup_host": case.host}
        case.done.diff.append({"before": "".join("backup %s\n" % one["id"] for one in found), "after": ""})


ORDERS: Dict[str, Callable[[Cases, bool], Procedure[None]]] = {
    "backup": _back_up,
    "delete_backup": _delete,
    "backups": _list,
    "restore": _restore,
}


def _would_change(cases: Cases) -> None:
    for case in cases:
        case.done.changed = True


def _parts_and_newest(case: Case) -> Document:
    newest = case.known["stands"]["newest"]
    return {"parts": case.known["parts"], "backup": newest and newest["id"]}


def _sending(case: Case) -> Document:
    told = {part: case.known[part] for part in ("backup", "parts", "targets")}
    return {**case.known["stands"], **told, "key": case.key}


def _restoring(case: Case) -> Document:
    opened = {"targets": case.known["targets"], "key": case.key} if "targets" in case.known else {}
    return {"newest": case.known["newest"], **opened, **_of(case, ("discards",))}


def _of(case: Case, names: Sequence[str]) -> Document:
    return {name: case.given[name] for name in names if name in case.given}


def _stored(state: str, cases: Cases, more: Arguments, may_fail: bool = False) -> Procedure[List[Case]]:
    """Ask the backup hosts. Return the cases of which that was done."""
    arguments = {
        case.name: {
            "uuid": case.uuid,
            "name": case.name,
            "state": state,
            "to": case.given.get("to"),
            "project_id": case.project_id,
            "address": case.address,
            **({"key": case.key} if state in ("opened", "served") else {}),
            **more(case),
        }
        for case in cases
    }
    return (yield from _asked("backup_store", cases, arguments, lambda case: case.host, may_fail))


def _at_home(state: str, cases: Cases, more: Arguments) -> Procedure[List[Case]]:
    """Ask the KVM hosts."""
    arguments = {case.name: {"uuid": case.uuid, "state": state, "to": case.place, **more(case)} for case in cases}
    good = yield from _asked("instance_backup", cases, arguments, lambda case: case.home)
    for case in good:
        case.done.instance = case.known.pop("instance")
        case.known.update({part: case.done.instance.pop(part) for part in ("parts",) if part in case.done.instance})
        if case.known.pop("changed"):
            case.done.changed = True
            yield said(case.name, case.uuid, case.home, case.done.instance)
    return good


def _asked(
    module: str, cases: Cases, arguments: Mapping[str, Document], where: Callable[[Case], str], may_fail: bool = False
) -> Procedure[List[Case]]:
    if not cases:
        return []
    answers = yield Ask(module, dict(arguments), {case.name: where(case) for case in cases})
    good = []
    for case in cases:
        answer = answers[case.name]
        case.done.warnings += answer.get("warnings", ())
        if not answer.keys() & FAILED:
            case.known.update(answer)
            good.append(case)
        elif not may_fail:
            case.done.errors.append(error_of_answer(where(case), answer))
    return good
