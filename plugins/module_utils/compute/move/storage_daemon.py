# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives a qemu-storage-daemon by QEMU's monitor protocol: it copies a part of the disk of a guest that is off."""

from __future__ import annotations

import contextlib
import json
import select
import shutil
import subprocess
import time

from ...model.move_errors import TransferFailed
from ..run import PATH
from . import watchdog

DAEMON = "qemu-storage-daemon"
POLL = 0.02
JOB = "copy"


def is_there():
    return bool(shutil.which(DAEMON, path=PATH))


@contextlib.contextmanager
def started(arguments, log):
    """Gives the process, which is ended in any case. ``log``: a file for its errors."""
    command = [DAEMON, *arguments, "--chardev", "stdio,id=monitor", "--monitor", "chardev=monitor"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=watchdog.ENVIRONMENT, bufsize=0
    )
    try:
        yield process
    finally:
        process.stdin.close()
        process.stdout.close()
        watchdog.end(process)


def copy(monitor, wanted, *checks):
    """Carry out the blockdev-backup ``wanted``, and return the job: {error, total-progress (bytes), ...}. ``checks``: what else
    than no progress breaks it off."""
    monitor.ask("blockdev-backup", {"job-id": JOB, "auto-dismiss": False, **wanted})
    job = {}
    come = watchdog.Advance(lambda: (job.get("status"), job.get("current-progress")))
    while True:
        job.update(next(entry for entry in monitor.ask("query-jobs") if entry["id"] == JOB))
        if job["status"] == "concluded":
            return job
        for check in (*checks, come):
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
            if not select.select([self.process.stdout], [], [], watchdog.STALLED_SECONDS)[0]:
                raise TransferFailed("%s has not answered for %d s" % (DAEMON, watchdog.STALLED_SECONDS))
            part = self.process.stdout.read(65536)
            if not part:
                raise TransferFailed("%s ended" % DAEMON)
            self.said += part
        line, _end, self.said = self.said.partition(b"\n")
        return line
