# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a backup comes to be in its directory, wherever that is: its id, the files for what changed, what is read back of
them, its description and its name, and which older ones go."""

from __future__ import annotations

import datetime
import json
import os
from typing import Any, Callable, Dict, Optional

from ...model import backups
from ...model.backups import INCREMENT, Backup, Disk
from ...model.move_errors import TransferFailed
from .. import durable, paths
from ..run import run
from . import place
from .place import Place

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


def remove_old(where: Place, keep: Optional[int], keep_days: Optional[int], made: Backup) -> None:
    known: Dict[str, Backup] = where.known()
    for backup_id in backups.removable(list(known.values()), keep, keep_days, made.id):
        where.remove(backup_id)


def disk_of(part: Any) -> Disk:
    """The disk of a make.Part that is not read back yet."""
    return Disk(part.name, part.kind, part.why, part.size, *UNREAD)


def stands_on(parts: Any, since: Optional[str]) -> Optional[str]:
    return since if any(part.kind == INCREMENT for part in parts) else None
