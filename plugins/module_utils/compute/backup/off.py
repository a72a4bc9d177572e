# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backup of a guest that is off: qemu-img copies whole disks, a qemu-storage-daemon what a bitmap marks."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from typing import Any, Mapping, Sequence

from ...model.backups import INCREMENT
from ...model.move_errors import TransferFailed
from ..disk import inside
from ..move import following
from ..move.increment import DAEMON, POLL, Monitor
from ..paths import BITMAP, bitmap_of
from ..run import PATH, run

LONGEST = 72 * 3600  # s: the time that the controller gives the whole module


def usable(path: str) -> Mapping[str, bool]:
    """Return {bitmap: whether it has recorded all writes since it began} of a qcow2 disk. QEMU marks those of a disk that it did
    not close as in use."""
    if not shutil.which(DAEMON, path=PATH):
        return {}
    return {
        name: "auto" in flags and "in-use" not in flags for name, flags in inside.bitmaps(path, TransferFailed).items()
    }


def drop(path: str, kept: str) -> None:
    """Remove all bitmaps of backups from a disk but the one that is kept."""
    for name in inside.bitmaps(path, TransferFailed):
        if name.startswith(BITMAP) and name != kept:
            run(["qemu-img", "bitmap", "--remove", "-f", "qcow2", "--", path, name], error=TransferFailed)


def copy(backup_id: str, previous: Any, parts: Sequence[Any]) -> None:
    """Write the disks to the files of ``parts`` (see make.Part), then begin their bitmaps."""
    for part in parts:
        if part.kind == INCREMENT:
            _copy_changes(part.path, part.target, bitmap_of(previous))
        else:
            command = ["qemu-img", "convert", "-q", "-f", part.format, "-O", "qcow2", "--", part.path, part.target]
            run(command, timeout=LONGEST, error=TransferFailed)
    for part in parts:
        if part.format == "qcow2":
            command = ["qemu-img", "bitmap", "--add", "-f", "qcow2", "--", part.path, bitmap_of(backup_id)]
            run(command, error=TransferFailed)


def _copy_changes(path: str, target: str, bitmap: str) -> None:
    """The backing files are not opened: what the bitmap marks is in the disk itself."""
    nodes = {"source": (path, True), "target": (target, False)}
    command = [DAEMON, "--chardev", "stdio,id=monitor", "--monitor", "chardev=monitor"]
    for name, (file, read_only) in nodes.items():
        below = {"driver": "file", "filename": file}
        node = {"driver": "qcow2", "node-name": name, "read-only": read_only, "file": below, "backing": None}
        command += ["--blockdev", json.dumps(node)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=following.ENVIRONMENT, bufsize=0
        )
        try:
            monitor = Monitor(process)
            wanted = {"job-id": "backup", "device": "source", "target": "target", "auto-dismiss": False}
            monitor.ask("blockdev-backup", {**wanted, "sync": "bitmap", "bitmap": bitmap, "bitmap-mode": "never"})
            _await(monitor)
            for name in nodes:
                monitor.ask("blockdev-del", {"node-name": name})  # all is written out
        finally:
            following.end(process)


def _await(monitor: Monitor) -> None:
    job = {"status": "created"}
    checks = following.Asked(), following.Advance(lambda: (job.get("status"), job.get("current-progress")))
    while True:
        job.update(next(entry for entry in monitor.ask("query-jobs") if entry["id"] == "backup"))
        if job["status"] == "concluded":
            if job.get("error"):
                raise TransferFailed("copying what changed: %s" % job["error"])
            monitor.ask("job-dismiss", {"id": "backup"})
            return
        for check in checks:
            check.check()
        time.sleep(POLL)
