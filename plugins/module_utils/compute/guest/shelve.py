# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's shelve, offloaded, and its way back on the host that has the record of the instance: a move takes it to another one. Its
disks are in a backup meanwhile.

    shelve:   record: shelved, with the backup -> no definition -> no disks -> record: no room
    unshelve: record: its room, unshelving -> backup/restore.py makes the disks, and the record active -> start

From the first record to the restore no guest starts: vm_state says it. Seed, boot files, UEFI variables, volumes and packet filters
stay on the host. What a killed unshelve has made is given back by the next shelve.
"""

from __future__ import annotations

from typing import Any, Dict, List

from ...model import operation_hints, shelves, snapshot_hints, snapshots, vm_states
from ...model.errors import BerthError
from ...model.lifecycle import SHELVING_OFFLOADING, UNSHELVING
from ...model.move_errors import InstanceInvalidState
from ...model.request_spec import RequestSpec
from .. import paths
from ..disk import disk as disks
from ..disk import disk_chain
from ..host import mdev
from ..record import claim, drained, journal, ledger
from . import delete, domain, gate, startable

SHELVE, UNSHELVE = "shelve", "unshelve"


class ShelveNotPossible(BerthError):
    """The instance would lose more than its backup has. It keeps its disks."""


def shelve(instance: Any, params: Dict[str, Any]) -> bool:
    """``shelve_to``: {backup, to, host, generation: of the record once it was made}; without it, finish what a killed run has begun.
    Return whether anything changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = _checked(instance)
        if not shelves.of(record.spec) and params["shelve_to"]:
            record = _begin(instance, record, params["shelve_to"])
        if not shelves.of(record.spec) or record.task_state is None:
            return False
        _offload(instance, record)
        return True


def would_shelve(instance: Any, _params: Dict[str, Any]) -> bool:
    record = _checked(instance)
    return not shelves.of(record.spec) or record.task_state is not None


def _checked(instance: Any) -> Any:
    record, host = instance.at_rest(SHELVE), instance.host
    host.require_prepared()
    startable.check_owner(host, record)
    if shelves.of(record.spec):
        return record
    disk_chain.check_unsaved(host, record)
    names = [each["name"] for each in snapshots.of(record.spec)]
    if names:
        raise ShelveNotPossible(
            "%s has the snapshots %s, which are in no backup" % (record.name, ", ".join(names)),
            hint=snapshot_hints.delete_one(record.name, names[0]),
        )
    return record


def _begin(instance: Any, record: Any, backup: Dict[str, Any]) -> Any:
    """A guest that ran since the backup has changed its record: each start does."""
    if domain.is_active(instance.host.connection, record.uuid):
        hint = operation_hints.shelve_again(record.name)
        raise InstanceInvalidState(record.name, "power_state", "running", SHELVE, hint=hint)
    if list(record.generation) != list(backup["generation"]):
        raise ShelveNotPossible(
            "%s was changed since its backup %s was made" % (record.name, backup["backup"]),
            hint=operation_hints.shelve_again(record.name),
        )
    startable.own_disks(instance.host, record)
    instance.observe("shelve begin")
    shelved = record.replace(
        spec=shelves.begun(record.spec, backup["backup"], backup["to"], backup["host"]),
        task_state=SHELVING_OFFLOADING,
        **vm_states.said(vm_states.SHELVED),
    )
    return instance.swap(journal.noted(shelved, SHELVE, backup=backup["backup"], to=shelves.place(backup)))


def _offload(instance: Any, record: Any) -> None:
    """The room is free when the disks are gone."""
    delete.check_pool(instance.host, record)
    if record.task_state != SHELVING_OFFLOADING:
        record = instance.swap(record.replace(task_state=SHELVING_OFFLOADING))
    instance.observe("shelve domain")
    gate.revoke(instance.uuid, instance.host.run_dir)
    domain.remove(instance.host.connection, instance.uuid)
    mdev.remove(instance.host.connection, instance.uuid, record)
    for disk in disks.plan(shelves.ended(record.spec)):
        instance.observe("shelve disk")
        path = paths.instance(instance.host.pool_of(record), record.uuid, disk.file)
        paths.remove(path)
        paths.remove(path + ".tmp")
    instance.observe("shelve room")
    instance.swap(record.replace(resources={}, task_state=None))


def unshelve(instance: Any, _params: Dict[str, Any]) -> bool:
    """Take the room of the instance, for the restore that follows. Return whether anything changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = instance.at_rest(UNSHELVE)
        if not shelves.of(record.spec) or record.task_state == UNSHELVING:
            return False
        if record.task_state is not None:
            _offload(instance, record)
            record = instance.store.read(instance.uuid)
        instance.observe("unshelve room")
        with instance.store.host_lock():
            resources = _room(instance, record)
            instance.swap(record.replace(resources=resources, task_state=UNSHELVING))
        return True


def would_unshelve(instance: Any) -> bool:
    record = instance.at_rest(UNSHELVE)
    if not shelves.of(record.spec):
        return record.task_state is not None
    if record.task_state is None:
        _room(instance, record)
    return True


def _room(instance: Any, record: Any) -> Dict[str, Any]:
    """Return what the instance takes of this host. Raise what a claim does if it does not fit."""
    host, spec = instance.host, shelves.ended(record.spec)
    host.require_prepared()
    drained.check_open(host.store.state_dir, record.name)
    try:
        allocation = ledger.Ledger(host).allocate(RequestSpec.from_dict(spec), None)
    except BerthError as error:
        error.hint = error.hint or operation_hints.make_room_to_unshelve(record.name, host.connection.getHostname())
        raise
    return dict(claim.without_volumes(allocation, spec))


def kept(instance: Any) -> List[str]:
    """What stays of a shelved instance that is deleted, in words."""
    record = instance.store.read(instance.uuid)
    shelved = shelves.of(record.spec) if record is not None else None
    return ["backup %s in %s" % (shelved["backup"], shelves.place(shelved))] if shelved else []
