# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backup of a guest that is off: qemu-img copies whole disks, a qemu-storage-daemon what a bitmap marks."""

from __future__ import annotations

import json
import tempfile
from typing import Any, Mapping, Optional, Sequence

from ...model.backups import INCREMENT
from ...model.move_errors import TransferFailed
from ..disk import inside
from ..move import following, storage_daemon
from ..paths import BITMAP, bitmap_of
from ..run import run

LONGEST = 72 * 3600  # s: the time that the controller gives the whole module


def usable(path: str) -> Mapping[str, bool]:
    """Return {bitmap: whether it has recorded all writes since it began} of a qcow2 disk."""
    if not storage_daemon.is_there():
        return {}
    return {name: inside.is_recording(flags) for name, flags in inside.bitmaps(path, TransferFailed).items()}


def drop(path: str, kept: str) -> None:
    """Remove all bitmaps of backups from a disk but the one that is kept."""
    for name in inside.bitmaps(path, TransferFailed):
        if name.startswith(BITMAP) and name != kept:
            inside.remove_bitmap(path, name, TransferFailed)


def copy(backup_id: Optional[str], previous: Any, parts: Sequence[Any]) -> None:
    """Write the disks to the files of ``parts`` (see make.Part), then begin their bitmaps, without a ``backup_id`` none."""
    for part in parts:
        if part.kind == INCREMENT:
            copy_part(part.path, part.target, {"sync": "bitmap", "bitmap": bitmap_of(previous), "bitmap-mode": "never"})
        else:
            copy_whole(part.path, part.format, part.target, part.target_format)
    for part in parts:
        if part.format == "qcow2" and backup_id:
            command = ["qemu-img", "bitmap", "--add", "-f", "qcow2", "--", part.path, bitmap_of(backup_id)]
            run(command, error=TransferFailed)


def copy_whole(path: str, form: str, target: str, target_format: str) -> None:
    command = ["qemu-img", "convert", "-q", "-f", form, "-O", target_format, "--", path, target]
    run(command, timeout=LONGEST, error=TransferFailed)


def copy_part(path: str, target: str, part: Mapping[str, str]) -> None:
    """Copy that part of a qcow2 file to one that is there. The backing files are not opened: it is in the file itself."""
    nodes, arguments = {"source": (path, True), "target": (target, False)}, []
    for name, (file, read_only) in nodes.items():
        below = {"driver": "file", "filename": file}
        node = {"driver": "qcow2", "node-name": name, "read-only": read_only, "file": below, "backing": None}
        arguments += ["--blockdev", json.dumps(node)]
    wanted = {"device": "source", "target": "target", **part}
    with tempfile.TemporaryFile() as log, storage_daemon.started(arguments, log) as process:
        monitor = storage_daemon.Monitor(process)
        job = storage_daemon.copy(monitor, wanted, following.Asked())
        if job.get("error"):
            raise TransferFailed("copying what changed: %s" % job["error"])
        monitor.ask("job-dismiss", {"id": storage_daemon.JOB})
        for name in nodes:
            monitor.ask("blockdev-del", {"node-name": name})  # all is written out
