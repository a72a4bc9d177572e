# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a live migration takes and how long the guest stands still in it, against bare ``virsh migrate`` with the same
flags: a guest with a disk of 2 GiB, half of it data, over links of 1 Gbit/s, and a tiny one, whose row shows the fixed cost.

By hand there are two ways: ``virsh migrate --suspend`` and a resume in the same command, which is what the playbook does
step by step, and without --suspend, where a lost reply can leave two running guests. All take turns on one guest, there
and back. What counts is the time from the last instruction on the source to the first on the destination, as both
libvirts' events say it. (Answers of the guest would be the nicer measure, but an emulated guest may think about its
clock for a minute after any migration.) Needs root; writes .bench/live.json.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "faults"))

import cases  # noqa: E402
from create import FILTERS  # noqa: E402
from move import DISK, fill, limit  # noqa: E402
from whole import make_whole  # noqa: E402

DIRECTORY = "/var/lib/libvirt/berth/instances/%s"
# name: (GiB of the disk, MiB of data put into it, what the links let through, flavor)
MACHINES = {
    "2 GiB disk, 1 GiB of data, links of 1gbit": (2, 1024, "1gbit", "bench2"),
    "tiny guest, links without a limit": (1, 0, None, cases.FLAVOR),
}
AIM = 1.5  # times by hand, of the first machine, at a stand and in all
PERMIT = """mkdir -p /run/berth/permits; chmod 700 /run/berth /run/berth/permits
cat /proc/sys/kernel/random/boot_id > /run/berth/permits/%s; chmod 600 /run/berth/permits/*"""
DEFINE = "echo %s | base64 -d > /run/filter.xml; virsh -q nwfilter-define /run/filter.xml"
FLAGS = "--live --p2p --copy-storage-all --auto-converge --tls"
EVENT = re.compile(r"(\S+ \S+?)\+0000: event 'lifecycle' for domain '[^']*': (\w+)")


class Events:
    """The lifecycle of guests on a host while this is open."""

    def __init__(self, lab, host):
        self.lab, self.host = lab, host
        command = [REPOSITORY / "lab" / "lab", "--name", lab.name, "exec", host]
        command += ["virsh", "event", "--event", "lifecycle", "--loop", "--timestamp"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def end(self):
        """-> [(seconds, event)]"""
        time.sleep(0.5)
        self.lab.exec(self.host, "pkill", "-x", "virsh")
        text = self.process.communicate()[0]
        return [(datetime.datetime.fromisoformat(at).timestamp(), what) for at, what in EVENT.findall(text)]


class Bench:
    def __init__(self, case, size, flavor):
        self.case, self.lab, self.size, self.flavor = case, case.lab, size, flavor
        self.home = case.owner()
        self.away = next(host for host in self.lab.hosts if host != self.home)
        self.uuid = case.look(self.home)["active"][0]

    def watched(self, source, destination, act):
        """-> (seconds in which the guest stood still, seconds in all)"""
        events = {host: Events(self.lab, host) for host in (source, destination)}
        time.sleep(1)
        began = time.monotonic()
        act()
        took = time.monotonic() - began
        seen = {host: event.end() for host, event in events.items()}
        stopped = min(at for at, what in seen[source] if what == "Suspended")
        return max(at for at, what in seen[destination] if what == "Resumed") - stopped, took

    def by_hand(self, source, destination, suspend):
        target, directory = self.lab.sh(destination, "hostname -I").stdout.split()[0], DIRECTORY % self.uuid
        seed = self.lab.sh(source, "base64 -w0 %s/seed.iso" % directory).stdout
        make = "mkdir -p -m 711 %s; cd %s; echo %s | base64 -d > seed.iso; rm -f root.qcow2" % (
            directory,
            directory,
            seed,
        )
        self.lab.sh(destination, make + "; qemu-img create -q -f qcow2 root.qcow2 %dG" % self.size)
        self.lab.sh(destination, PERMIT % self.uuid)
        for text in self.lab.sh(source, "uuid=%s; " % self.uuid + FILTERS).stdout.split():
            self.lab.sh(destination, DEFINE % text)
        uri = "qemu+tls://%s/system" % target
        command = "virsh -q migrate %s --migrateuri tcp://%s %s %s" % (FLAGS, target, self.uuid, uri)
        if suspend:
            command = command.replace("--live", "--live --suspend")
            command += " && virsh -q -c %s resume %s" % (uri, self.uuid)
        return self.watched(source, destination, lambda: self.lab.sh(source, command, timeout=900))

    def there_and_back(self, suspend):
        found = [self.by_hand(self.home, self.away, suspend), self.by_hand(self.away, self.home, suspend)]
        self.lab.sh(self.away, "rm -rf %s /run/berth/permits/%s" % (DIRECTORY % self.uuid, self.uuid))
        return found

    def playbook(self):
        ways = ((self.home, self.away), (self.away, self.home))
        play = functools.partial(self.case.play, "live_migrate", {"mover_flavor": self.flavor}, timeout=900)
        return [self.watched(*way, play) for way in ways]


def machine(case, size, megabytes, flavor):
    """A running guest with that much data on its disk. -> Bench"""
    make_whole(case.lab)
    case.play("create", {"mover_flavor": flavor})
    case.lab.guest_facts(cases.NAME, timeout=180)
    if megabytes:
        source = case.owner()
        case.play("stop", {"mover_flavor": flavor})
        fill(case.lab, source, DISK % case.look(source)["records"][0]["uuid"], megabytes)
        case.play("start", {"mover_flavor": flavor})
        case.lab.guest_facts(cases.NAME, source, timeout=180)
    return Bench(case, size, flavor)


def measure(name, case, rounds):
    """-> {way: [(seconds at a stand, seconds in all)]}, the ways in turns"""
    size, megabytes, rate, flavor = MACHINES[name]
    seen = {"suspend": [], "plain": [], "playbook": []}
    bench = machine(case, size, megabytes, flavor)
    limit(case.lab, rate)
    try:
        for _round in range(rounds):
            seen["suspend"] += bench.there_and_back(True)
            seen["plain"] += bench.there_and_back(False)
            seen["playbook"] += bench.playbook()
            for way, found in seen.items():
                print(way, ", ".join("%.3f of %.1f s" % entry for entry in found[-2:]), flush=True)
    finally:
        limit(case.lab, None)
    return seen


def rows_of(name, seen):
    still = {way: statistics.median(gap for gap, _took in found) for way, found in seen.items()}
    took = {way: statistics.median(seconds for _gap, seconds in found) for way, found in seen.items()}
    return [
        row("guest at a stand, " + name, still, "suspend", "virsh migrate --suspend and resume"),
        row("in all, " + name, took, "suspend", "virsh migrate --suspend and resume"),
        row("guest at a stand, " + name, still, "plain", "virsh migrate without --suspend"),
    ]


def row(name, values, way, against):
    return {
        "name": name,
        "value": round(values["playbook"], 3),
        "unit": "s",
        "against": "%s, %.3f s" % (against, values[way]),
        "ratio": round(values["playbook"] / values[way], 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lab", default="bench")
    parser.add_argument("--rounds", type=int, default=1, help="there and back, each way (default: %(default)s)")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        case = cases.make(options.lab, directory)
        case.lab.compile_modules_each_run()
        tree = json.loads(case.path.read_text())
        for size, _megabytes, _rate, flavor in MACHINES.values():
            tree["all"]["vars"]["berth_flavors"].setdefault(flavor, {"vcpus": 1, "memory_mb": 128, "root_gb": size})
        case.path.write_text(json.dumps(tree))
        for name in MACHINES:
            rows += rows_of(name, measure(name, case, options.rounds))
        case.lab.down()
    for entry in rows:
        print("{name}: {value} {unit}, {ratio} x {against}".format(**entry), flush=True)
    (REPOSITORY / ".bench").mkdir(exist_ok=True)
    (REPOSITORY / ".bench" / "live.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["ratio"] <= AIM for row in rows[:2]) else 1


if __name__ == "__main__":
    sys.exit(main())
