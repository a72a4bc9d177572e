# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chain of an instance's backups in its directory, wherever that is: the id of the next one, its files for what changed,
what is read back of them, its description and its name, and which older ones go, by a retention or a person's word."""

from __future__ import annotations

import datetime
import itertools
import json
import os
from typing import Any, Callable, Collection, Dict, Iterable, List, Mapping, Optional, Sequence, Set

from ...model import backup_hints, backups
from ...model.backups import INCREMENT, Backup, Disk
from ...model.errors import BerthError
from ...model.move_errors import TransferFailed
from ...model.safe_text import clean
from .. import durable, paths
from ..run import run
from . import place
from .place import Place


class BackupNeeded(BerthError):
    """Other backups stand on this one, and could not be restored without it. Nothing was deleted."""


UNREAD = 1, "0" * 64  # size and digest of a file until it is read back


def next_id(where: Place) -> str:
    """Return the time, or that after the last backup, also one that is being made, if the clock is not later."""
    now = datetime.datetime.now(datetime.timezone.utc)
    names = (
        name[len(paths.PARTIAL) :] if name.startswith(paths.PARTIAL) else name for name in paths.entries(where.path())
    )
    last = max(filter(backups.ID.pattern.match, names), default="")
    while now.strftime(backups.TIME) <= last:
        now = datetime.datetime.strptime(last, backups.TIME) + datetime.timedelta(seconds=1)
    return now.strftime(backups.TIME)


def is_full_due(where: Place, newest: Backup, chain: int) -> bool:
    """Whether as many backups stand on each other as may."""
    return len(backups.chain(newest, where.known())) >= chain


def make_target(where: Place, backup_id: str, name: str, size: int, below: Optional[str]) -> str:
    """Make the empty file of a disk; of an increment on the backup ``below``."""
    path = os.path.join(where.partial(backup_id), backups.file_of(name))
    on = ["-F", "qcow2", "-b", backups.below(below, name)] if below else []
    run(["qemu-img", "create", "-q", "-f", "qcow2", *on, "--", path, str(size)], timeout=60, error=TransferFailed)
    return path


def read_back(directory: str, disk: Disk) -> Disk:
    """Return the disk as it is in the backup, from what the storage has."""
    path = os.path.join(directory, disk.file)
    settle(path)
    place.check_qcow2(path, TransferFailed)
    return disk._replace(bytes=os.path.getsize(path), sha256=place.digest(path))


def settle(path: str) -> None:
    """Only root can read the file, and a power cut does no harm to it."""
    os.chmod(path, durable.FILE_MODE)
    paths.sync(path)


def publish(where: Place, made: Backup, observe: Callable[[str], None]) -> None:
    directory = where.partial(made.id)
    texts = {backups.RECIPE: backups.recipe(made), backups.FILE: json.dumps(made.to_dict(), indent=1) + "\n"}
    for name, text in texts.items():
        durable.write_at(os.path.join(directory, name), text.encode(), durable.FILE_MODE)
    observe("backup written")
    os.rename(directory, where.path(made.id))
    paths.sync_directory(where.path())
    observe("backup named")


def deleted(where: Place, ids: Sequence[str], name: str, dry: bool) -> List[Any]:
    """Delete those of ``ids`` that are there, also if they do not describe themselves. Return how they were told. ``name``: of the
    instance."""
    for each in ids:
        backups.ID.check(each, "berth_backup")
    there = where.read()
    going = [each for each in sorted(ids, reverse=True) if each in there]
    stand = needed(list(where.known().values()), going)
    if stand:
        with_all = sorted({*going, *itertools.chain(*stand.values())}, reverse=True)
        raise BackupNeeded(
            "of %s in %s, %s" % (name, where.to, "; ".join("on %s stands %s" % (each, ", ".join(stand[each])) for each in sorted(stand))),
            hint=backup_hints.delete_backups(name, with_all),
        )  # fmt: skip
    shown = [one for one in all_told(where, False) if one["id"] in going]
    for each in [] if dry else going:
        where.remove(each)
    return shown


def spare(where: Place) -> List[str]:
    """The ids of those on which the newest does not stand, so many as a hint may name."""
    known = list(where.known().values())
    return removable(known, 1, None, "")[: backups.MOST_NAMED] if known else []


def remove_old(where: Place, keep: Optional[int], keep_days: Optional[int], made: Backup) -> None:
    known: Dict[str, Backup] = where.known()
    for backup_id in removable(list(known.values()), keep, keep_days, made.id):
        where.remove(backup_id)


def removable(made: Sequence[Backup], keep: Optional[int], keep_days: Optional[int], now: str) -> List[str]:
    """The ids of those that no wish keeps and on which none that stays stands, the newest first, so that what is left after a
    cut is whole. The newest ``keep`` stay, and those of the last ``keep_days``; without both, all. What one of them
    stands on may be there and not describe itself: then all older ones stay. ``now``: an id."""
    known = {backup.id: backup for backup in made}
    newest = sorted(known, reverse=True)
    if keep is None and keep_days is None:
        return []
    kept = newest[: max(keep or 0, 1)]
    if keep_days is not None:
        since = datetime.datetime.strptime(now, backups.TIME) - datetime.timedelta(days=keep_days)
        kept += [each for each in newest if each >= since.strftime(backups.TIME)]
    stays = _with_below(known, kept)
    return [each for each in newest if each not in stays]


def needed(made: Sequence[Backup], going: Collection[str]) -> Dict[str, List[str]]:
    """{id of ``going``: the others that stand on it}."""
    known = {backup.id: backup for backup in made}
    found: Dict[str, List[str]] = {}
    for each in sorted(set(known) - set(going)):
        for below in _with_below(known, [each]) & set(going):
            found.setdefault(below, []).append(each)
    return found


def _with_below(known: Mapping[str, Backup], kept: Iterable[str]) -> Set[str]:
    stays = set(kept)
    for each in list(stays):
        while known[each].previous in known:
            each = str(known[each].previous)
            stays.add(each)
        lost = known[each].previous or ""  # it may be there
        stays.update([lost, *(older for older in known if older < lost)])
    return stays


def disk_of(part: Any) -> Disk:
    """The disk of a make.Part that is not read back yet."""
    return Disk(part.name, part.kind, part.why, part.size, *UNREAD)


def stands_on(parts: Any, since: Optional[str]) -> Optional[str]:
    return since if any(part.kind == INCREMENT for part in parts) else None


def all_told(where: Place, deep: bool) -> List[Dict[str, Any]]:
    """Return the backups, the oldest first."""
    known, shown = where.known(), []
    for name, found in where.read().items():
        if isinstance(found, Backup):
            shown.append(told(found, where.faults(found, known, deep)))
        else:
            shown.append({"id": name, "faults": [found]})
    return shown


def told(backup: Backup, faults: Any = ()) -> Dict[str, Any]:
    return {
        "id": backup.id,
        "kind": backup.kind,
        "previous": backup.previous,
        "bytes": backup.bytes,
        "of": clean(backup.name),
        "frozen": backup.frozen,
        "files": [file.name for file in backup.files],
        "why": [clean("%s: %s" % (disk.name, disk.why)) for disk in backup.disks if disk.why],
        "faults": [clean(fault, 500) for fault in faults],
    }


def fitting(backup: Backup) -> Dict[str, Any]:
    """What another host needs to know to stand on the backup, or to see whether it fits an instance."""
    disks = [{"name": disk.name, "size": disk.size} for disk in backup.disks]
    return {"id": backup.id, "uuid": backup.uuid, "name": clean(backup.name), "disks": disks}
