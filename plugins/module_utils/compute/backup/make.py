# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backup of an instance to a directory of its host, on or off.

    files in .partial-ID -> read back -> backup.json -> renamed to ID -> record -> what no wish keeps is removed

Until the rename there is no new backup, and the last one is whole. The next run removes what a killed one left, as it finds
it in libvirt, the disks and the directory. The record does not say that one is under way: nothing has to wait for that end.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from typing import Any, List, NamedTuple, Optional, Sequence

from ...model import backup_hints, backups, host_hints
from ...model.backups import FULL, INCREMENT, LONGEST_CHAIN, Backup
from ...model.errors import BerthError
from ...model.safe_text import clean
from .. import durable, paths
from ..connection import require_libvirt
from ..disk import disk_chain
from ..guest import domain, startable
from ..move import block_jobs, left_backup
from ..move import disks as moved_disks
from ..record import journal
from . import backup_chain, firmware_state, off, place, running
from .place import Place

OPERATION = "backup"
CLOSED = "client socket is closed"  # as libvirt says that its daemon ended meanwhile
RESTART_SECONDS, PAUSE_SECONDS = 60.0, 1.0  # in which libvirtd is there again, and between two looks


class BackupFailed(BerthError):
    """The backup was not made, and nothing of it was left. The backups before it are as they were, and so is the guest."""


class Wish(NamedTuple):
    """``to``: the directory; ``full``: copy whole disks; ``chain``: the most backups that stand on each other; ``keep`` and
    ``keep_days``: see backup_chain.removable."""

    to: str
    full: bool = False
    chain: int = LONGEST_CHAIN
    keep: Optional[int] = None
    keep_days: Optional[int] = None


class Part(NamedTuple):
    """A disk to copy: the file ``path`` of ``format`` to the file ``target``, or to the ``port`` of a backup host, see port.py.
    ``why``: see backups.Disk. Only a clone has a raw target."""

    name: str
    path: str
    format: str
    size: int
    kind: str
    why: str
    target: str
    target_format: str = "qcow2"
    port: Any = None


def would_back_up(instance: Any, wish: Wish) -> bool:
    _checked(instance, wish)
    return True


def back_up(instance: Any, wish: Wish) -> Backup:
    """Return the backup that was made."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = _checked(instance, wish)
        where = Place(wish.to, record.uuid)
        found = left_backup.end(instance.host, record)
        where.remove_partial()
        instance.observe("backup")
        try:
            made = _made(instance, record, wish, where, found)
        except failures() as error:
            end_copy(instance.host, record)
            failure = failed(instance, record, wish.to, error, backup_chain.spare(where))
            with contextlib.suppress(*failures()):
                where.remove_partial()
            instance.swap(journal.faulted(record, failure))
            raise failure
        instance.observe("backup made")
        instance.swap(journal.noted(record, OPERATION, backup=made.id, kind=made.kind, to=wish.to))
        backup_chain.remove_old(where, wish.keep, wish.keep_days, made)
        return made


def _checked(instance: Any, wish: Wish) -> Any:
    record = instance.at_rest(OPERATION)
    host = instance.host
    place.check(host.connection.getHostname(), wish.to, host.pool_of(record))
    host.require_prepared()
    check_disks(host, record)
    return record


def check_disks(host: Any, record: Any) -> bool:
    """Raise what keeps the disks from being copied as they are at one moment. Return whether the guest has a QEMU."""
    startable.check_owner(host, record)
    startable.check_reverted(record)
    active = bool(domain.is_active(host.connection, record.uuid))
    disk_chain.check_backup(host, record, active)
    if active:
        block_jobs.check_no_others_jobs(host.connection, record, host.connection.getHostname())
    return active


def _made(instance: Any, record: Any, wish: Wish, where: Place, found: Any) -> Backup:
    newest, backup_id = next(where.whole(), None), backup_chain.next_id(where)
    previous = newest if newest and not (wish.full or backup_chain.is_full_due(where, newest, wish.chain)) else None
    paths.make_directory(where.path())
    directory = where.partial(backup_id)
    paths.make_directory(directory)
    parts = parts_of(instance.host, record, previous, found, directory, wish.to)
    drop_bitmaps(parts, found, mark_of(wish.to, newest))
    files = firmware_state.copy(instance.host, record, directory, found is not None)
    with durable.private():
        for part in parts:
            if part.kind == INCREMENT and previous:
                backup_chain.make_target(where, backup_id, part.name, part.size, previous.id)
        frozen = copied(instance, found, mark(wish.to, backup_id), mark_of(wish.to, previous), parts)
    draft = described(instance, record, backup_id, previous and previous.id, frozen, parts, files)
    made = draft._replace(disks=tuple(backup_chain.read_back(directory, disk) for disk in draft.disks))
    backup_chain.publish(where, made, instance.observe)
    leave_one_bitmap(parts, found, mark(wish.to, backup_id))
    return made


def mark(to: str, backup_id: str) -> str:
    """What a bitmap is called by. Each place counts by a clock of its own, so two may have a backup of one id."""
    return "%s-%s" % (backup_id, hashlib.sha256(to.encode()).hexdigest()[:8])


def mark_of(to: str, backup: Optional[Backup]) -> str:
    return mark(to, backup.id) if backup else ""


def copied(instance: Any, found: Any, now: str, since: str, parts: Sequence[Part]) -> bool:
    """Copy the disks. ``now`` and ``since``: marks. Return whether the guest's agent had written out its file systems."""
    frozen = False
    instance.observe("backup copy")
    if found is not None:
        frozen = running.copy(found, now, since, parts)
    else:
        off.copy(now, since, parts)
    instance.observe("backup copied")
    return frozen


def described(
    instance: Any, record: Any, backup_id: str, since: Optional[str], frozen: bool, parts: Sequence[Part], files: Any
) -> Backup:
    """The backup, whose disks are not read back yet."""
    return Backup(
        backup_id, record.uuid, record.name, record.project_id, instance.host.connection.getHostname(),
        backup_chain.stands_on(parts, since), frozen, tuple(map(backup_chain.disk_of, parts)), record.to_dict(), files,
    )  # fmt: skip


def leave_one_bitmap(parts: Sequence[Part], found: Any, kept: str) -> None:
    """The backup is made, also if the guest has ended since: the next run does what could not be done."""
    failed = BerthError, require_libvirt().libvirtError
    with contextlib.suppress(*failed):
        drop_bitmaps(parts, found, kept)
    if found is not None:
        with contextlib.suppress(*failed):
            left_backup.forget(found)


def drop_bitmaps(parts: Sequence[Part], found: Any, kept: str) -> None:
    """Leave in the disks only the bitmap of that mark: runs that were killed left theirs."""
    for part in parts:
        if part.format == "qcow2" and found is not None:
            running.drop(found, part.path, paths.bitmap_of(kept))
        elif part.format == "qcow2":
            off.drop(part.path, paths.bitmap_of(kept))


def parts_of(host: Any, record: Any, previous: Optional[Backup], found: Any, directory: str, to: str) -> List[Part]:
    parts = []
    for disk, path in moved_disks.seen_by_guest(host.pool_of(record), record.uuid, record.spec):
        size = moved_disks.virtual_size(path, disk.format)
        why = _why_full(disk, path, size, previous, found, to) if previous else ""
        kind = INCREMENT if previous and not why else FULL
        target = os.path.join(directory, backups.file_of(disk.name))
        parts.append(Part(disk.name, path, disk.format, size, kind, why, target))
    return parts if found is None else _in_one_way(parts)


def _in_one_way(parts: List[Part]) -> List[Part]:
    """At one moment libvirt shows whole disks, or writes what changed: if one that records writes has to be copied whole, all are."""
    whole = [part.name for part in parts if part.format == "qcow2" and part.kind == FULL]
    why = clean("%s is copied whole at the same moment" % ", ".join(whole))  # as long as a description may say it
    return [part._replace(kind=FULL, why=why) if whole and part.kind == INCREMENT else part for part in parts]


def _why_full(disk: Any, path: str, size: int, previous: Backup, found: Any, to: str) -> str:
    """Return why all of the disk is copied, nothing if what its bitmap marks is enough."""
    before = previous.disk(disk.name)
    if disk.format != "qcow2":
        return "a raw disk records no writes"
    if before is None:
        return "it is not in the backup before"
    if before.size != size:
        return "it was resized"
    known = running.usable(found, path) if found is not None else off.usable(path)
    if known.get(paths.bitmap_of(mark_of(to, previous))):
        return ""
    return "what was written since %s was not recorded, as after a move, a restore or a crash" % previous.id


def _reach_again(host: Any) -> None:
    """libvirtd may have been restarted while disks were copied. QEMU goes on with a backup that nobody ends, and what the guest
    overwrites would fill the pool."""
    until = time.monotonic() + RESTART_SECONDS
    while time.monotonic() < until:
        try:
            host.connection.getHostname()
            return
        except (BerthError, require_libvirt().libvirtError):
            vars(host).pop("connection", None)
            time.sleep(PAUSE_SECONDS)


def end_copy(host: Any, record: Any) -> None:
    """After a copy that failed: nothing goes on beside the guest. What cannot be removed now, the next copy removes."""
    _reach_again(host)
    with contextlib.suppress(*failures()):
        left_backup.end(host, record)


def failures() -> Any:
    """How a copy may fail."""
    return BerthError, OSError, require_libvirt().libvirtError


def failed(instance: Any, record: Any, to: str, error: Any, spare: Sequence[str]) -> BerthError:
    """``spare``: the ids of the backups that may go."""
    name = instance.host.connection.getHostname()
    words = error.message if isinstance(error, BerthError) else str(error)
    hint = error.hint if isinstance(error, BerthError) else None
    if host_hints.FULL in words:  # of a copy, whose other end is no pool
        hint = backup_hints.make_room_for_backups(record.name, to, spare)
    elif CLOSED in words:
        hint = host_hints.libvirt_ended(name)
    return BackupFailed(
        "the backup of %s on %s to %s failed: %s" % (record.name, name, to, words),
        hint=hint,
        instance=record.name,
        host=name,
    )
