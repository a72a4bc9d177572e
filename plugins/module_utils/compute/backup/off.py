# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backup of a guest that is off: qemu-img copies whole disks, a qemu-storage-daemon what a bitmap marks."""

from __future__ import annotations

import json
import tempfile
from typing import Any, List, Mapping, Optional, Sequence

from ...model.backups import INCREMENT
from ...model.move_errors import TransferFailed
from ..disk import inside
from ..move import storage_daemon, watchdog
from ..paths import BITMAP, bitmap_of
from ..run import run

# many requests at once, in any order: QEMU answers each between two looks at its guest
CONVERT = ["qemu-img", "convert", "-p", "-m", "16", "-W"]
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


def copy(mark: Optional[str], before: Any, parts: Sequence[Any]) -> None:
    """Write the disks to where ``parts`` (see make.Part) go, then begin their bitmaps, without a ``mark`` none.
    ``before``: the mark since which parts are copied."""
    for part in parts:
        if part.kind == INCREMENT:
            copy_part(part, part.path, {"sync": "bitmap", "bitmap": bitmap_of(before), "bitmap-mode": "never"})
        else:
            copy_whole(part, part.path, part.format)
    for part in parts:
        if part.format == "qcow2" and mark:
            command = ["qemu-img", "bitmap", "--add", "-f", "qcow2", "--", part.path, bitmap_of(mark)]
            run(command, error=TransferFailed)


def copy_whole(part: Any, path: str, form: str) -> None:
    """Write the disk in the file ``path``."""
    if part.port:
        part.port.write_file(path, form)
        return
    command = ["qemu-img", "convert", "-q", "-f", form, "-O", part.target_format, "--", path, part.target]
    run(command, timeout=LONGEST, error=TransferFailed)


def copy_part(part: Any, path: str, wanted: Mapping[str, str]) -> None:
    """Write the part ``wanted`` of the qcow2 file ``path``. The backing files are not opened: it is in the file itself."""
    arguments = _opened("source", path, True) + (
        part.port.blockdevs(part.size) if part.port else _opened("target", part.target, False)
    )
    checks = [watchdog.Asked(), *([part.port.other_end()] if part.port else [])]
    with tempfile.TemporaryFile() as log, storage_daemon.started(arguments, log) as process:
        if part.port:
            part.port.note(process.pid)
        monitor = storage_daemon.Monitor(process)
        job = storage_daemon.copy(monitor, {"device": "source", "target": "target", **wanted}, *checks)
        if job.get("error"):
            raise TransferFailed("copying what changed: %s" % job["error"])
        monitor.ask("job-dismiss", {"id": storage_daemon.JOB})
        for name in ("source", "target"):
            monitor.ask("blockdev-del", {"node-name": name})  # all is written out
    if part.port:
        part.port.flush()


def _opened(name: str, path: str, read_only: bool) -> List[str]:
    """The argument of a qemu-storage-daemon that makes a qcow2 file a node."""
    below = {"driver": "file", "filename": path}
    node = {"driver": "qcow2", "node-name": name, "read-only": read_only, "file": below, "backing": None}
    return ["--blockdev", json.dumps(node)]
