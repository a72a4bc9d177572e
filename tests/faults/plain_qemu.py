#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How often an emulated guest does not survive a live migration between two plain QEMUs, without libvirt and without berth.

    tests/faults/plain_qemu.py [TIMES]     until it happens, at most TIMES (default 500) migrations of the lab's guest

QEMU before 9.0 forgets to reset the emulated CPU's TLB when it clears dirty bits (its commit 03bfc2188f mends that), so a
page that the guest writes during the copy may arrive as it was before. Whoever sees a guest stand still after a live
migration in the kill sweep can compare.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IMAGE = Path(__file__).resolve().parents[2] / ".cache" / "image" / "guest.qcow2"
BANDWIDTH = 40 << 20  # bytes/s: the copy takes long enough for the guest to write meanwhile
SILENCE = 60  # seconds
TICK = re.compile(r"berth-guest facts .*? seq=(\d+) end")
MACHINE = "-machine q35 -accel tcg -m 160 -smp 1 -nodefaults -display none -device isa-serial,chardev=console"


class Qemu:
    """One QEMU of the guest; ``incoming``: it waits for one that is migrated to it."""

    def __init__(self, directory, number, incoming):
        self.path = directory / str(number)
        self.arrival = "unix:%s.arrival" % self.path
        disk = {"driver": "qcow2", "node-name": "disk", "file": {"driver": "file", "filename": str(directory / "disk")}}
        command = ["qemu-system-x86_64", *MACHINE.split(), "-blockdev", json.dumps(disk)]
        command += ["-device", "virtio-blk-pci,drive=disk", "-chardev", "file,id=console,path=%s.console" % self.path]
        command += ["-qmp", "unix:%s.qmp,server=on,wait=off" % self.path]
        self.process = subprocess.Popen(command + ["-incoming", self.arrival] * incoming)
        self.monitor = self._connected()
        self.ask("qmp_capabilities")

    def _connected(self):
        for _each in range(200):
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect("%s.qmp" % self.path)
                return connection.makefile("rw")
            except OSError:
                time.sleep(0.05)
        raise SystemExit("QEMU did not start")

    def ask(self, command, **arguments):
        self.monitor.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.monitor.flush()
        while True:
            message = json.loads(self.monitor.readline())
            if "error" in message:
                raise SystemExit(message["error"]["desc"])
            if "return" in message:
                return message["return"]

    def migrate_to(self, other):
        self.ask("migrate-set-parameters", **{"max-bandwidth": BANDWIDTH})
        self.ask("migrate", uri=other.arrival)
        while self.ask("query-migrate")["status"] != "completed":
            time.sleep(0.05)
        self.end()

    def is_silent(self, seconds=SILENCE):
        """Whether the guest says nothing on its console for so long: it says its facts every 10 s."""
        console, until = Path("%s.console" % self.path), time.monotonic() + seconds
        while time.monotonic() < until:
            if TICK.search(console.read_text(errors="replace") if console.exists() else ""):
                return False
            time.sleep(0.2)
        return True

    def end(self):
        self.process.kill()
        self.process.wait()


def main(times):
    with tempfile.TemporaryDirectory() as directory:
        shutil.copy(IMAGE, Path(directory) / "disk")
        here = Qemu(Path(directory), 0, incoming=False)
        if here.is_silent(2 * SILENCE):
            raise SystemExit("the guest did not boot")
        for number in range(1, times + 1):
            there = Qemu(Path(directory), number, incoming=True)
            here.migrate_to(there)
            here = there
            if here.is_silent():
                print(
                    "the guest is silent after migration %d; QEMU says that it is %s"
                    % (number, here.ask("query-status")["status"])
                )
                break
        else:
            print("the guest survived %d migrations" % times)
        here.end()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
