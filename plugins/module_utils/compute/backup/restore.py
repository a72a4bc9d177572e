# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The restore of a backup into the disks of an instance that is off: its own backup, or that of another instance, which then
goes on under the new name.

    the whole chain is read and compared -> new files beside the disks -> record: vm_state error -> renamed -> record: stopped

A guest in vm_state error is not started: a run that is killed between two renames leaves that, and the next one ends it. A shelved
instance, which is not started either, is active afterwards, and its start has begun.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...model import adopted, backup_hints, hints, shelves, snapshot_hints, snapshots, volumes
from ...model.backups import Backup, Disk
from ...model.errors import BerthError
from ...model.lifecycle import UNSHELVING
from ...model.move_errors import InstanceInvalidState
from ...model.vm_states import ACTIVE, CHANGES, ERROR, STOPPED, said
from .. import durable, paths
from ..disk import disk_chain, owner, room, volume
from ..disk.disk import VOLUME
from ..guest import domain
from ..move import disks as moved_disks
from ..record import journal
from ..run import run
from . import firmware_state, off, place
from .place import Place

OPERATION = "restore"


class RestoreDiscards(BerthError):
    """A restore replaces the disks of the instance, and what was written to them since the backup is lost. Nothing was
    changed."""


class RestoreFailed(BerthError):
    """The new disks could not be written beside the old ones, for example for lack of room. Nothing was changed."""


class DisksOfBackupDiffer(BerthError):
    """The instance and the backup do not have the same disks, or a disk in the backup is larger. Nothing was changed."""


class Wish(NamedTuple):
    """``to``: the directory; ``of``: the uuid or name of the instance that was backed up, by default this one; ``backup``: the id,
    by default that of the newest; ``discards``: the name of the instance whose disks may be replaced."""

    to: str
    of: Optional[str] = None
    backup: Optional[str] = None
    discards: Optional[str] = None


class Target(NamedTuple):
    """A disk to write: to ``path``, out of a file of this host or a ``port`` of a backup host, see port.py."""

    source: Sequence[str]
    path: str
    format: str
    size: int
    port: Any = None

    @property
    def made(self) -> str:
        return self.path + ".tmp"


class Origin:
    """A backup in a directory of this host."""

    def __init__(self, where: Place, backup: Backup):
        self.where, self.backup = where, backup

    def check(self) -> None:
        """Raise BackupDamaged unless all that is read is as it was written."""
        place.check_whole(self.where, self.backup, deep=True)

    def file(self, name: str) -> str:
        """The path of a file of the guest's firmware."""
        return self.where.path(self.backup.id, name)

    def port(self, _disk: str) -> Any:
        return None

    def source(self, disk: Disk) -> Sequence[str]:
        return room.of_file(self.where.path(self.backup.id, disk.file), "qcow2")


def would_restore(instance: Any, wish: Wish) -> bool:
    record, origin = _found(instance, wish)
    plan(instance.host, record, origin, wish)
    return True


def restore(instance: Any, wish: Wish) -> Backup:
    """Return the backup that the instance has now."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        return restored(instance, wish, *_found(instance, wish))


def restored(instance: Any, wish: Wish, record: Any, origin: Any) -> Backup:
    """The caller holds the lock of the instance, and has checked it."""
    backup: Backup = origin.backup
    targets, firmware = plan(instance.host, record, origin, wish)
    origin.check()
    kept = {path: place.content(source) for path, source in firmware.items()}
    paths.make_directory(paths.instance(instance.host.pool_of(record), record.uuid))
    _make_all(instance, record, targets)
    instance.observe("restore")
    shelved = shelves.of(record.spec)
    if not shelved:  # which no state lets start
        record = instance.swap(record.replace(**said(ERROR), task_state=CHANGES[OPERATION].task))
    for target in targets:
        instance.observe("restore disk")
        paths.publish(target.made, target.path)
    firmware_state.publish(kept)
    instance.observe("restored")
    noted = journal.noted(record, _method(record), backup=backup.id, of=backup.name, uuid=backup.uuid)
    if shelved:  # it is to run: a start goes on from here
        volume.mark_used(instance.store, record)  # they have data
        noted = noted.replace(
            spec=shelves.ended(volumes.used(record.spec)), **said(ACTIVE), task_state=CHANGES["start"].task
        )
    else:
        noted = noted.replace(**said(STOPPED), task_state=None)
    instance.swap(noted)
    return backup


def _method(record: Any) -> str:
    """An instance that is shelved is restored once it has its room."""
    return "unshelve" if record is not None and record.task_state == UNSHELVING else OPERATION


def _found(instance: Any, wish: Wish) -> Tuple[Any, Origin]:
    """Return the record and the backup that is meant."""
    record = checked(instance)
    place.check(instance.host.connection.getHostname(), wish.to, instance.host.pool_of(record))
    where = place.of_instance(wish.to, wish.of or record.uuid, record.project_id)
    hint = backup_hints.list_backups(record.name, wish.to)
    return record, Origin(where, place.chosen(where, wish.backup, wish.of or record.name, hint))


def checked(instance: Any) -> Any:
    """Return the record of the instance. Raise what keeps its disks from being replaced."""
    record = instance.at_rest(_method(instance.store.read(instance.uuid)))
    if adopted.of(record.spec):
        raise adopted.refused(record.name, OPERATION)
    host = instance.host
    host.require_prepared()
    _check_off(host, record)
    owner.check(host.pool_of(record), record.uuid, record.name, host.identify())
    disk_chain.check_unsaved(host, record)
    disk_chain.check_restore(host, record.replace(spec=shelves.ended(record.spec)))
    _check_no_snapshots(record)
    return record


def plan(host: Any, record: Any, origin: Any, wish: Wish) -> Tuple[List[Target], Dict[str, str]]:
    """Return the disks to write, and {path: source} of what the firmware keeps. Raise if they do not fit, or nobody said that
    what is there may be lost."""
    backup = origin.backup
    targets = targets_of(host, record, origin)
    firmware = firmware_state.wanted(host, record, backup.files, origin.file)
    check_discards(record, backup, wish.discards)
    copies = [(target.source, target.made, target.format) for target in targets]
    what = "the new disks of %s, beside the old ones," % record.name
    room.check(host.pool_of(record), what, copies, RestoreFailed)
    return targets, firmware


def check_discards(record: Any, backup: Backup, discards: Optional[str]) -> None:
    if discards != record.name:
        raise RestoreDiscards(
            "%s would lose what was written to its disks after the backup %s of %s"
            % (record.name, backup.id, backup.name),
            field="berth_restore_discards",
            value=discards,
            rule="the name of the instance, %s" % record.name,
            hint=backup_hints.discard_writes(record.name),
        )


def _check_off(host: Any, record: Any) -> None:
    if domain.is_active(host.connection, record.uuid):
        raise InstanceInvalidState(
            record.name, "power_state", "running", OPERATION, hint=hints.stop_to_restore(record.name)
        )


def _check_no_snapshots(record: Any) -> None:
    """Snapshots are inside the disks that are replaced."""
    names = [each["name"] for each in snapshots.of(record.spec)]
    if names:
        raise RestoreDiscards(
            "%s has the snapshots %s, which would be lost with its disks" % (record.name, ", ".join(names)),
            hint=snapshot_hints.delete_one(record.name, names[0]),
        )


def targets_of(host: Any, record: Any, origin: Any) -> List[Target]:
    """Raise DisksOfBackupDiffer for all disks that do not fit, together."""
    backup: Backup = origin.backup
    faults, targets = [], []
    spec = shelves.ended(record.spec)
    found = moved_disks.seen_by_guest(host.pool_of(record), record.uuid, spec)
    own = {disk.name: (disk, path) for disk, path in found}
    new = {entry["name"] for entry in volumes.of(spec) if entry.get("new")}
    stay = {
        disk.name for disk, _path in found if disk.kind == VOLUME and shelves.of(record.spec) and disk.serial not in new
    }
    faults += ["the backup has no disk %s" % name for name in own if backup.disk(name) is None]
    for disk in backup.disks:
        if disk.name not in own:
            faults.append("%s has no disk %s, which is in the backup" % (record.name, disk.name))
            continue
        if disk.name in stay:
            continue  # the volumes of a shelved instance are as they were, but for those that were made again with it
        planned, path = own[disk.name]
        if planned.size and planned.size < disk.size:
            faults.append("disk %s has %d bytes, %d in the backup" % (disk.name, planned.size, disk.size))
        size = max(planned.size or 0, disk.size)
        targets.append(Target(origin.source(disk), path, planned.format, size, origin.port(disk.name)))
    if faults:
        lost = shelves.of(record.spec) and record.spec.get(shelves.EVACUATED)
        again = backup_hints.evacuate_again(record.name, lost) if lost else backup_hints.resize_to_restore(record.name)
        raise DisksOfBackupDiffer(
            "the backup %s of %s does not fit %s: %s" % (backup.id, backup.name, record.name, "; ".join(faults)),
            hint=again,
        )
    return targets


def _make_all(instance: Any, record: Any, targets: List[Target]) -> None:
    """That takes long, so whether the guest is off is looked at once more."""
    try:
        for target in targets:
            _make(target)
        _check_off(instance.host, record)
    except BerthError:
        for target in targets:
            paths.remove(target.made)
        raise


def _make(target: Target) -> None:
    """Write the disk beside its place, whole in itself and as large as the instance has it."""
    paths.remove(target.made)
    with durable.private():
        if target.port:
            target.port.read(target.made, target.format, target.source)
        else:
            convert = ["qemu-img", "convert", "-q", "-O", target.format, *target.source, target.made]
            run(convert, timeout=off.LONGEST, error=RestoreFailed)
    run(["qemu-img", "resize", "-q", "-f", target.format, "--", target.made, str(target.size)], error=RestoreFailed)
