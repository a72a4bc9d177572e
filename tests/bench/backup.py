# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The backup of a running guest that writes: how fast its disk is copied, against ``qemu-img convert`` of the same disk to the
same directory, in turns; with --backup-host to another host, against convert to a port there with the same TLS. And how much an
increment of 1 % changed blocks reads, and how long the guest's writer stands still.

The files say when they were made and written last, so the seconds are those of the copy on the host, without Ansible and
without reading the backup back, which a row of its own shows. What is read is counted by the kernel for the guest's QEMU.
The writer's gap is the longest time in which it acknowledged nothing, as its web server says, beside that of the same
guest while convert runs, and while nothing does. Needs root; writes .bench/backup.json or
backup_host.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "faults"))

import cases  # noqa: E402
from move import DISK, fill  # noqa: E402
from whole import make_whole  # noqa: E402

# The file system of the host's disk: it knows when a file was made.
TO, BY_HAND = "/var/lib/libvirt/backups", "/var/lib/libvirt/by-hand.qcow2"
FLAVOR, GIB, MIB_OF_DATA = "bench4", 4, 2048
CLUSTER = 64 << 10
SPEED, READS, GAP = 0.9, 0.02, 1.0  # of convert's; of the disk; s


class Writer(threading.Thread):
    """Asks the guest for its last acknowledged block all the time; ``gap``: the longest time in s without a new one."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.gap, self.last, self.seen, self.done = address, 0.0, time.monotonic(), None, False

    def run(self):
        while not self.done:
            try:
                said = urllib.request.urlopen("http://%s/ack" % self.address, timeout=5).read()
            except OSError:
                continue
            now = time.monotonic()
            if said != self.seen:
                self.gap = max(self.gap, now - self.last)
                self.seen, self.last = said, now
            time.sleep(0.02)

    @classmethod
    def watching(cls, address, act):
        """-> (the longest gap while ``act`` was done, what that returned)"""
        writer = cls(address)
        writer.start()
        result = act()
        writer.done = True
        writer.join()
        return max(writer.gap, time.monotonic() - writer.last), result


KEYS, KEY, PORT = "/run/by-hand", "7" * 64, 10809
# A port as those of a backup, by hand.
SERVE = """mkdir -p {keys}; (umask 077; echo berth:{key} > {keys}/keys.psk); rm -f {file}; qemu-img create -q -f qcow2 {file} {gib}G
qemu-nbd --fork --port {port} --object tls-creds-psk,id=tls0,endpoint=server,dir={keys} --tls-creds tls0 --format qcow2 \
    --discard unmap --detect-zeroes unmap --export-name disk {file}"""
SEND = """mkdir -p {keys}; (umask 077; echo berth:{key} > {keys}/keys.psk); qemu-img convert -U -T none -n --target-is-zero \
    --object tls-creds-psk,id=tls0,endpoint=client,username=berth,dir={keys} --image-opts --target-image-opts \
    driver=qcow2,file.driver=file,file.filename={path} \
    driver=nbd,server.type=inet,server.host={address},server.port={port},export=disk,tls-creds=tls0"""


class Bench:
    """``keeper``: the host with the directory of backups."""

    def __init__(self, case, backup_host):
        self.case, self.lab, self.host = case, case.lab, case.owner()
        self.keeper = next(host for host in case.lab.hosts if host != self.host) if backup_host else self.host
        self.uuid = case.look(self.host)["active"][0]
        self.path = DISK % self.uuid

    def seconds(self, file, last=None):
        """From when the file was made until it, or the file ``last``, was written."""
        return float(
            self.lab.sh(
                self.keeper, "echo $(stat -c %%.6Y %s) - $(stat -c %%.6W %s) | bc" % (last or file, file)
            ).stdout
        )

    def convert(self):
        self.lab.sh(self.keeper, "sync; rm -f %s" % BY_HAND)
        if self.keeper != self.host:
            return self.send()
        # as QEMU reads the disk of a guest
        command = "qemu-img convert -U -T none -f qcow2 -O qcow2 %s %s" % (self.path, BY_HAND)
        self.lab.sh(self.host, command, timeout=900)
        return self.seconds(BY_HAND)

    def send(self):
        parts = {"keys": KEYS, "key": KEY, "port": PORT, "file": BY_HAND, "path": self.path, "gib": GIB}
        self.lab.sh(self.keeper, SERVE.format(**parts))
        address = self.lab.sh(self.keeper, "hostname -I").stdout.split()[0]
        self.lab.sh(self.host, SEND.format(address=address, **parts), timeout=900)
        return self.seconds(BY_HAND)

    def back_up(self, **more):
        """-> (seconds of the copy, seconds with all that is read back)"""
        self.lab.sh(self.host, "sync")
        where = {"berth_backup_host": self.keeper} if self.keeper != self.host else {}
        self.case.play("backup", {"mover_flavor": FLAVOR, "berth_backup_to": TO, **where, **more}, timeout=900)
        directory = self.lab.sh(self.keeper, "ls -d %s/%s/2* | tail -1" % (TO, self.uuid)).stdout.strip()
        file = directory + "/root.qcow2"
        return self.seconds(file), self.seconds(file, directory + "/backup.json")

    def change(self, share):
        """Write so much of all blocks, anywhere, while the guest is off; the disk's bitmap records it."""
        self.case.play("stop", {"mover_flavor": FLAVOR})
        clusters = (GIB << 30) // CLUSTER
        chosen = random.Random(1).sample(range(clusters // 16, clusters), int(clusters * share))
        writes = " ".join("-c 'write -q -P 7 %d %d'" % (each * CLUSTER, CLUSTER) for each in chosen)
        self.lab.sh(self.host, "qemu-io -f qcow2 %s %s" % (writes, self.path), timeout=600)
        self.case.play("start", {"mover_flavor": FLAVOR})
        self.lab.guest_facts(cases.NAME, self.host, timeout=180, until=lambda facts: facts["ack"])

    def bytes_read(self):
        """By the guest's QEMU, since it began."""
        count = "awk '/rchar/{print $2}' /proc/$(pgrep -f '[g]uest=%s')/io" % self.uuid
        return int(self.lab.sh(self.host, count).stdout)


def machine(case, backup_host):
    """A running guest whose disk has data. -> Bench"""
    make_whole(case.lab)
    case.play("create", {"mover_flavor": FLAVOR})
    bench = Bench(case, backup_host)
    case.lab.sh(bench.keeper, "rm -rf %s; mkdir %s" % (TO, TO))
    case.play("stop", {"mover_flavor": FLAVOR})
    fill(case.lab, bench.host, bench.path, MIB_OF_DATA)
    case.play("start", {"mover_flavor": FLAVOR})
    return bench


def measure(case, rounds, backup_host):
    """-> {by hand, copy, whole, gap, gap by hand, idle: [s], read: [share of the disk]}"""
    bench, seen = (
        machine(case, backup_host),
        {name: [] for name in ("by hand", "copy", "whole", "gap", "gap by hand", "idle", "read")},
    )
    said = case.lab.guest_facts(cases.NAME, bench.host, timeout=180, until=lambda facts: facts["ip"] and facts["ack"])
    address = said["ip"].split("/")[0]
    for _round in range(rounds):
        seen["idle"].append(Writer.watching(address, lambda: time.sleep(20))[0])
        gap, seconds = Writer.watching(address, bench.convert)
        for name, found in (("gap by hand", gap), ("by hand", seconds)):
            seen[name].append(found)
        gap, (copy, whole) = Writer.watching(address, lambda: bench.back_up(berth_backup_full=True))
        for name, found in (("gap", gap), ("copy", copy), ("whole", whole)):
            seen[name].append(found)
        bench.change(0.01)
        before = bench.bytes_read()
        bench.back_up()
        seen["read"].append((bench.bytes_read() - before) / (GIB << 30))
        print({name: round(found[-1], 4) for name, found in seen.items()}, "load", os.getloadavg()[0], flush=True)
    return seen


def rows_of(seen):
    middle = {name: statistics.median(found) for name, found in seen.items()}
    against = "qemu-img convert, %.2f s" % middle["by hand"]
    still = "1 s (%.2f s while qemu-img convert runs, %.2f s without either)" % (middle["gap by hand"], middle["idle"])
    return [
        row("speed of the copy of a full backup", middle["copy"], "s", against, middle["by hand"] / middle["copy"]),
        row("the same with what is read back", middle["whole"], "s", against, middle["by hand"] / middle["whole"]),
        row("an increment of 1 % changed blocks reads", middle["read"], "of the disk", "2 %", middle["read"] / READS),
        row(
            "the writer's longest gap",
            middle["gap"],
            "s",
            still,
            middle["gap"] / GAP,
        ),
    ]


def row(name, value, unit, against, ratio):
    return {"name": name, "value": round(value, 3), "unit": unit, "against": against, "ratio": round(ratio, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lab", default="bench")
    parser.add_argument("--rounds", type=int, default=3, help="each way (default: %(default)s)")
    parser.add_argument("--backup-host", action="store_true", help="to another host, which keeps them")
    options = parser.parse_args()
    name = "backup_host" if options.backup_host else "backup"
    with tempfile.TemporaryDirectory() as directory:
        case = cases.make(options.lab, directory)
        tree = json.loads(case.path.read_text())
        tree["all"]["children"]["berth_backup_hosts"] = {"hosts": {host: {} for host in case.lab.hosts}}
        tree["all"]["vars"]["berth_flavors"][FLAVOR] = {"vcpus": 1, "memory_mb": 128, "root_gb": GIB}
        case.path.write_text(json.dumps(tree))
        try:
            rows = rows_of(measure(case, options.rounds, options.backup_host))
        finally:
            case.lab.down()
    for entry in rows:
        print("{name}: {value} {unit}, {ratio} x {against}".format(**entry), flush=True)
    (REPOSITORY / ".bench").mkdir(exist_ok=True)
    (REPOSITORY / ".bench" / (name + ".json")).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if rows[0]["ratio"] >= SPEED and rows[2]["ratio"] <= 1 and rows[3]["ratio"] <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
