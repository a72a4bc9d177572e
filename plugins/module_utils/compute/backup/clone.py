# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of an instance that is built as a clone: whole copies of those of another one on this host, as they are at one
moment, whether its guest runs or is off.

They are written beside their places while the new one is in phase building, so a clone that is cut off has never run, and is
made anew by the next run or removed by a delete.
"""

from __future__ import annotations

import os
from typing import Any, List, Sequence

from ...model import adopted, clones, volumes
from ...model.clones import OPERATION, CloneNotPossible
from .. import durable, paths
from ..disk import disk as disks
from ..disk import owner, room
from ..move import disks as moved_disks
from ..move import left_backup, watchdog
from ..record import journal
from . import backup_chain, make, off, running
from .make import Part

LONGEST = 4 * 3600  # s: a build is killed after 5 hours, and what QEMU keeps for its copy would grow on


def build(instance: Any, record: Any) -> Any:
    """Make all disks of the instance. Return its record, which says from what."""
    source = instance.beside(clones.of(record.spec))
    pool = instance.host.pool_of(record)
    with source.store.instance_lock(source.uuid, timeout=source.timeout):
        cloned = checked(source, OPERATION)
        parts = _parts(source.host, cloned, record, pool)
        check_room(pool, record.name, parts, CloneNotPossible)
        paths.make_directory(os.path.join(pool, "instances"))
        paths.make_directory(paths.instance(pool, record.uuid))
        owner.write(pool, record.uuid, instance.host.identify())
        instance.observe("clone copy")
        frozen = copy(source.host, cloned, parts, watchdog.Limit(LONGEST))
        instance.observe("clone copied")
        source.swap(journal.noted(cloned, OPERATION, into=record.name))
    _publish(pool, record, parts)
    disks.build_boot_files(pool, record.uuid, record.spec, instance.host.settings)
    return instance.swap(journal.noted(record, OPERATION, of=cloned.name, uuid=cloned.uuid, frozen=frozen))


def checked(source: Any, operation: str) -> Any:
    """Return the record of the instance that is copied."""
    record = source.at_rest(operation)
    if adopted.of(record.spec) and operation == OPERATION:
        raise adopted.refused(record.name, operation)
    if volumes.boot(record.spec):
        text = "%s boots from its volume %s: volumes are not copied"
        raise CloneNotPossible(text % (record.name, volumes.boots_from(record.spec)))
    make.check_disks(source.host, record)
    return record


def check_room(directory: str, name: str, parts: Sequence[Part], error: Any) -> None:
    copies = [(room.of_file(part.path, part.format), part.target, part.target_format) for part in parts]
    room.check(directory, "the copies for %s" % name, copies, error)


def copy(host: Any, record: Any, parts: Sequence[Part], *also: Any) -> bool:
    """Write the disks of the instance, whose lock the caller holds, to new files. Return whether the guest's agent had written out
    its file systems."""
    found = left_backup.end(host, record)
    with durable.private():
        for part in parts:
            paths.remove(part.target)
        frozen = False
        try:
            if found is not None:
                frozen = running.copy(found, None, None, parts, *also)
            else:
                off.copy(None, None, parts)
        except make.failures():
            make.end_copy(host, record)
            raise
    for part in parts:
        backup_chain.settle(part.target)
    return frozen


def part_of(record: Any, pool: str, disk: Any, directory: str, form: str = "qcow2") -> Part:
    """The disk of ``record`` to copy into ``directory``."""
    path = paths.instance(pool, record.uuid, disk.file)
    target = os.path.join(directory, "%s%s-%s" % (paths.PARTIAL, record.uuid, disk.name))
    return Part(disk.name, path, disk.format, moved_disks.virtual_size(path, disk.format), make.FULL, "", target, form)


def _parts(host: Any, cloned: Any, record: Any, pool: str) -> List[Part]:
    """Raise CloneNotPossible for all disks that do not fit, together."""
    own = {disk.name: disk for disk in disks.plan(record.spec) if disk.kind != "swap"}
    parts, faults = [], []
    for disk in disks.plan(cloned.spec):
        if disk.kind == "swap":
            continue  # nothing in it outlives a boot
        if disk.name not in own:
            faults.append("it has no disk %s" % disk.name)
            continue
        directory = paths.instance(pool, record.uuid)
        part = part_of(cloned, host.pool_of(cloned), disk, directory, own[disk.name].format)
        if (own[disk.name].size or part.size) < part.size:
            faults.append(
                "its disk %s has %d bytes, that of %s %d" % (disk.name, own[disk.name].size, cloned.name, part.size)
            )
        parts.append(part)
    if faults:
        raise CloneNotPossible("%s is no clone of %s: %s" % (record.name, cloned.name, "; ".join(faults)))
    return parts


def _publish(pool: str, record: Any, parts: Sequence[Part]) -> None:
    """Give the copies their names and the size that the request says. Disks that only the new instance has are empty."""
    copied = {part.name: part.target for part in parts}
    for disk in disks.plan(record.spec):
        path = paths.instance(pool, record.uuid, disk.file)
        made = copied.get(disk.name, path + ".tmp")
        if disk.name in copied:
            moved_disks.grow(disk, made, disk.size)
        else:
            disks.make(disk, made, None)
        os.chmod(made, 0o600)
        paths.publish(made, path)
