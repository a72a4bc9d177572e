# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a guest stands still in a live migration, against bare ``virsh migrate`` with the same flags.

By hand there are two ways: ``virsh migrate --suspend`` and a resume in the same command, which is what the playbook does
step by step, and without --suspend, where a lost reply can leave two running guests. All take turns on one guest, there
and back. What counts is the time from the last instruction on the source to the first on the destination, as both
libvirts' events say it. (Answers of the guest would be the nicer measure, but an emulated guest may think about its
clock for a minute after any migration.) Needs root; writes .bench/live.json.
"""

from __future__ import annotations

import argparse
import datetime
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
from conftest import make_whole  # noqa: E402

DIRECTORY = "/var/lib/libvirt/berth/instances/%s"
SIZE = "1G"
PERMIT = """mkdir -p /run/berth/permits; chmod 700 /run/berth /run/berth/permits
cat /proc/sys/kernel/random/boot_id > /run/berth/permits/%s; chmod 600 /run/berth/permits/*"""
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
    def __init__(self, case):
        self.case, self.lab = case, case.lab
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
        seen = {host: one.end() for host, one in events.items()}
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
        self.lab.sh(destination, make + "; qemu-img create -q -f qcow2 root.qcow2 %s" % SIZE)
        self.lab.sh(destination, PERMIT % self.uuid)
        uri = "qemu+tls://%s/system" % target
        command = "virsh -q migrate %s --migrateuri tcp://%s %s %s" % (FLAGS, target, self.uuid, uri)
        if suspend:
            command = command.replace("--live", "--live --suspend")
            command += " && virsh -q -c %s resume %s" % (uri, self.uuid)
        return self.watched(source, destination, lambda: self.lab.sh(source, command, timeout=200))

    def there_and_back(self, suspend):
        found = [self.by_hand(self.home, self.away, suspend), self.by_hand(self.away, self.home, suspend)]
        self.lab.sh(self.away, "rm -rf %s /run/berth/permits/%s" % (DIRECTORY % self.uuid, self.uuid))
        return found

    def playbook(self):
        ways = ((self.home, self.away), (self.away, self.home))
        return [self.watched(*way, lambda: self.case.play("live_migrate")) for way in ways]


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
    parser.add_argument("--rounds", type=int, default=2, help="there and back, each way (default: %(default)s)")
    options = parser.parse_args()
    seen = {"suspend": [], "plain": [], "playbook": []}
    with tempfile.TemporaryDirectory() as directory:
        case = cases.make(options.lab, directory)
        case.lab.compile_modules_each_run()
        make_whole(case.lab)
        case.play("create")
        case.lab.guest_facts(cases.NAME, timeout=180)
        bench = Bench(case)
        for _round in range(options.rounds):
            seen["suspend"] += bench.there_and_back(True)
            seen["plain"] += bench.there_and_back(False)
            seen["playbook"] += bench.playbook()
            for way, found in seen.items():
                print(way, ", ".join("%.3f of %.1f s" % one for one in found[-2:]), flush=True)
        case.lab.down()
    still = {way: statistics.median(gap for gap, _took in found) for way, found in seen.items()}
    took = {way: statistics.median(seconds for _gap, seconds in found) for way, found in seen.items()}
    rows = [
        row("guest stands still in a live migration", still, "suspend", "virsh migrate --suspend and resume"),
        row("guest stands still in a live migration", still, "plain", "virsh migrate without --suspend"),
        row("live migration by the playbook in all", took, "suspend", "virsh migrate --suspend and resume"),
    ]
    for one in rows:
        print("{name}: {value} {unit}, {ratio} x {against}".format(**one), flush=True)
    (REPOSITORY / ".bench").mkdir(exist_ok=True)
    (REPOSITORY / ".bench" / "live.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if rows[0]["ratio"] <= 1.5 else 1


if __name__ == "__main__":
    sys.exit(main())
