# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives a qemu-storage-daemon, by QEMU's monitor protocol, that copies a part of a disk to the other host."""

from __future__ import annotations

import json
import select
import subprocess
import time

from ...model.move_errors import TransferFailed
from . import following, transfer

DAEMON = "qemu-storage-daemon"
POLL = 0.02


def copy(uuid, disk, path, target, bandwidth, wanted):
    """Copy the part ``wanted`` (the synchronization mode of QEMU's blockdev-backup) of the file ``path`` to the target
    of ``disk``, which has the rest. The key is in place. Return the bytes copied."""
    credentials, options = transfer.target_options(uuid, disk, target)
    command = [
        DAEMON, credentials[0], credentials[1],
        "--blockdev", "driver=file,node-name=file,filename=%s,read-only=on,auto-read-only=off" % path,
        # The backup's file names the disk itself as its backing file, which the guest has locked.
        "--blockdev", '{"driver": "qcow2", "node-name": "source", "file": "file", "read-only": true, "backing": null}',
        "--blockdev", options + ",node-name=arriving",
        # The disk may be larger there, and a backup needs the same size on both sides.
        "--blockdev", "driver=raw,size=%d,file=arriving,node-name=target" % disk["size"],
        "--chardev", "stdio,id=monitor", "--monitor", "chardev=monitor",
    ]  # fmt: skip
    with open(transfer.directory(uuid, "daemon.log"), "wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=following.ENVIRONMENT, bufsize=0
        )
    with open(transfer.directory(uuid, transfer.PID_FILE), "w") as file:
        file.write(str(process.pid))
    try:
        monitor = Monitor(process)
        arguments = {
            "job-id": "rest", "device": "source", "target": "target", "auto-dismiss": False, **wanted,
        }  # fmt: skip
        if bandwidth:
            arguments["speed"] = int(bandwidth)
        monitor.ask("blockdev-backup", arguments)
        return _await(monitor, target)
    finally:
        process.stdin.close()
        process.stdout.close()
        following.end(process)


def _await(monitor, target):
    job = {}
    come = following.Advance(lambda: (job.get("status"), job.get("current-progress")))
    checks = following.Asked(), following.OtherEnd(target), come
    while True:
        job.update(next(entry for entry in monitor.ask("query-jobs") if entry["id"] == "rest"))
        if job["status"] == "concluded":
            if job.get("error"):
                raise following.failed("copying the rest: %s" % job["error"])
            return job["total-progress"]
        for check in checks:
            check.check()
        time.sleep(POLL)


class Monitor:
    """QEMU's monitor protocol over a program's standard streams."""

    def __init__(self, process):
        self.process, self.said = process, b""
        self._read("QMP")
        self.ask("qmp_capabilities")

    def ask(self, command, arguments=None):
        text = json.dumps({"execute": command, "arguments": arguments or {}}) + "\n"
        self.process.stdin.write(text.encode())
        return self._read("return")["return"]

    def _read(self, key):
        while True:
            message = json.loads(self._line())
            if "error" in message:
                raise TransferFailed("%s: %s" % (DAEMON, message["error"].get("desc")))
            if key in message:
                return message

    def _line(self):
        while b"\n" not in self.said:
            if not select.select([self.process.stdout], [], [], following.STALLED_SECONDS)[0]:
                raise TransferFailed("%s has not answered for %d s" % (DAEMON, following.STALLED_SECONDS))
            part = self.process.stdout.read(65536)
            if not part:
                raise TransferFailed("%s ended" % DAEMON)
            self.said += part
        line, _end, self.said = self.said.partition(b"\n")
        return line
