# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a guest is off while it is resized to another host, against the same done by hand: stop, copy, start.

By hand means virsh shutdown, qemu-img convert over qemu-nbd with the same TLS, virsh start, of the same guest, with all
that can be made ready beforehand made ready. What is measured is the gap in the answers of the guest's own web server,
in three parts: until QEMU ended on the source, until it began on the destination, until the guest answered again.
The lab's links are faster than real ones and are limited to those of most hosts. Needs root; writes .bench/move.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import secrets
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "faults"))

import cases  # noqa: E402
from client import run  # noqa: E402
from conftest import make_whole  # noqa: E402

DISK = "/var/lib/libvirt/berth/instances/%s/root.qcow2"
LOG = "cat /var/log/libvirt/qemu/%s.log"
STAMP = re.compile(r"^(\S+ \S+)\+0000: (starting up|shutting down)", re.MULTILINE)
PARTS = ("shutdown", "between", "boot")


class Watch(threading.Thread):
    """Asks the guest's web server all the time; ``gap`` is the longest time without an answer: (from, to) in s since
    1970."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.gap, self.last, self.done = address, (0.0, 0.0), None, False

    def run(self):
        while not self.done:
            try:
                urllib.request.urlopen("http://%s/ack" % self.address, timeout=0.5).read()
                now = time.time()
                if self.last and now - self.last > self.gap[1] - self.gap[0]:
                    self.gap = (self.last, now)
                self.last = now
            except OSError:
                pass
            time.sleep(0.02)

    def end(self, timeout=120):
        """Wait for one more answer, then say the gap."""
        since, until = time.time(), time.time() + timeout
        while (self.last or 0) < since and time.time() < until:
            time.sleep(0.05)
        self.done = True
        return self.gap


def watched(lab, source, destination, uuid, address, act):
    """-> {gap, shutdown, between, boot} in s"""
    watch = Watch(address)
    watch.start()
    while watch.last is None:
        time.sleep(0.1)
    act()
    gap = watch.end()
    ended = last_stamp(lab, source, uuid, "shutting down")
    began = last_stamp(lab, destination, uuid, "starting up")
    return {
        "gap": gap[1] - gap[0],
        "shutdown": ended - gap[0],
        "between": began - ended,
        "boot": gap[1] - began,
    }


def last_stamp(lab, host, uuid, what):
    """When libvirt last noted that the guest's QEMU began or ended, in s since 1970."""
    found = [at for at, said in STAMP.findall(lab.sh(host, LOG % uuid).stdout) if said == what]
    return (
        datetime.datetime.strptime(found[-1], "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=datetime.timezone.utc).timestamp()
    )


def fill(lab, host, path, megabytes):
    """Data in the part of the disk that the guest does not use. The guest is off."""
    writes = " ".join(
        "-c 'write -q -P %d %dM 64M'" % (number % 250 + 1, 64 + 64 * number) for number in range(megabytes // 64)
    )
    lab.sh(host, "qemu-io -f qcow2 %s %s" % (writes, path), timeout=600)


class ByHand:
    """Stop, copy, start, as a person does it who has made ready what can be made ready while the guest runs."""

    def __init__(self, lab, source, destination, uuid, size):
        self.lab, self.source, self.destination, self.uuid = lab, source, destination, uuid
        self.path, self.directory = DISK % uuid, str(Path(DISK % uuid).parent)
        self.target = lab.sh(destination, "hostname -I").stdout.split()[0]
        key = "hand:%s" % secrets.token_hex(32)
        for host in (source, destination):
            lab.sh(host, "mkdir -p /run/hand; umask 077; echo %s > /run/hand/keys.psk" % key)
        xml = lab.sh(source, "virsh dumpxml --inactive %s" % uuid).stdout
        lab.sh(destination, "cat > /run/hand/guest.xml <<'X'\n%s\nX" % xml)
        for name in lab.sh(source, "virsh -q nwfilter-list | awk '/%s/{print $2}'" % uuid).stdout.split():
            packet_filter = lab.sh(source, "virsh nwfilter-dumpxml %s" % name).stdout
            lab.sh(destination, "virsh nwfilter-define /dev/stdin <<'X'\n%s\nX" % packet_filter)
        seed = lab.sh(source, "base64 -w0 %s/seed.iso" % self.directory).stdout
        lab.sh(
            destination,
            "mkdir -p %s; qemu-img create -q -f qcow2 %s %s; echo %s | base64 -d > %s/seed.iso; mkdir -p /run/berth/permits; "
            "chmod -R go= /run/berth; cat /proc/sys/kernel/random/boot_id > /run/berth/permits/%s; "
            "chmod 600 /run/berth/permits/*; virsh define /run/hand/guest.xml; "
            "qemu-nbd --fork -t --pid-file /run/hand/pid --object tls-creds-psk,id=t,endpoint=server,dir=/run/hand "
            "--tls-creds t -f qcow2 -p 49999 -x d %s"
            % (self.directory, self.path, size, seed, self.directory, uuid, self.path),
        )

    def move(self):
        sh = self.lab.sh
        sh(
            self.source,
            "virsh shutdown %s; while [ $(virsh domstate %s) = running ]; do sleep 0.1; done" % (self.uuid, self.uuid),
        )
        sh(
            self.source,
            "qemu-img convert -n --target-is-zero --object tls-creds-psk,id=t,endpoint=client,username=hand,dir=/run/hand "
            "--image-opts --target-image-opts driver=qcow2,file.driver=file,file.filename=%s "
            "driver=nbd,server.type=inet,server.host=%s,server.port=49999,export=d,tls-creds=t"
            % (self.path, self.target),
            timeout=600,
        )
        sh(
            self.destination,
            "p=$(cat /run/hand/pid); kill $p; while kill -0 $p 2>/dev/null; do sleep 0.05; done; virsh start %s"
            % self.uuid,
        )

    def undo(self):
        self.lab.sh(
            self.destination,
            "virsh destroy %s; virsh undefine %s; rm -rf %s /run/berth/permits/%s"
            % (self.uuid, self.uuid, self.directory, self.uuid),
        )


def limit(lab, rate):
    """What each host's link lets through in either direction; None is no limit."""
    slot = json.loads((lab.state / "lab.json").read_text())["slot"]
    for number, _host in enumerate(lab.hosts, 1):
        link = "bl%dh%dm" % (slot, number)
        run(["tc", "qdisc", "del", "dev", link, "root"])
        if rate:
            run(
                ["tc", "qdisc", "add", "dev", link, "root", "tbf", "rate", rate, "burst", "512kb", "latency", "100ms"],
                check=True,
            )


def measure(case, gigabytes, megabytes):
    """-> (by the playbook, by hand), each {gap, shutdown, between, boot} in s"""
    lab, old, new = case.lab, "bench%d" % gigabytes, "bench%db" % gigabytes
    make_whole(lab)
    case.play("create", {"mover_flavor": old})
    source = case.owner()
    destination = next(host for host in lab.hosts if host != source)
    said = lab.guest_facts(cases.NAME, source, timeout=120, until=lambda facts: facts["ip"])
    address, uuid = said["ip"].split("/")[0], lab.domains(source)[0]
    case.play("stop", {"mover_flavor": old})
    uuid = case.look(source)["records"][0]["uuid"]
    fill(lab, source, DISK % uuid, megabytes)
    case.play("start", {"mover_flavor": old})
    by_hand = ByHand(lab, source, destination, uuid, "%dG" % gigabytes)
    hand = watched(lab, source, destination, uuid, address, by_hand.move)
    by_hand.undo()
    case.play("start", {"mover_flavor": old})
    ours = watched(
        lab, source, destination, uuid, address, lambda: case.play("resize", {"mover_flavor": new}, timeout=900)
    )
    return ours, hand


def told(name, ours, hand):
    parts = {part: {"playbook": round(ours[part], 2), "by hand": round(hand[part], 2)} for part in PARTS}
    return {
        "name": name,
        "value": round(ours["gap"], 2),
        "unit": "s",
        "against": "stop, copy, start by hand, %.2f s" % hand["gap"],
        "ratio": round(ours["gap"] / hand["gap"], 3),
        "parts": parts,
        "ratio_without_shutdown_and_boot": round(ours["between"] / hand["between"], 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lab", default="bench")
    parser.add_argument("--keep", action="store_true", help="leave the lab up")
    parser.add_argument("--sizes", default="2,4", help="GiB of the disks, half of each is data (default: %(default)s)")
    parser.add_argument("--load", type=int, help="MiB that the guest writes over and over meanwhile")
    parser.add_argument("--rates", default="1gbit,", help="limits of the links for tc; an empty one is no limit")
    options = parser.parse_args()
    rows, sizes = [], [int(size) for size in options.sizes.split(",")]
    with tempfile.TemporaryDirectory() as directory:
        case = cases.make(options.lab, directory)
        case.lab.compile_modules_each_run()
        tree = json.loads(case.path.read_text())
        for size in sizes:
            tree["all"]["vars"]["berth_flavors"]["bench%d" % size] = {"vcpus": 1, "memory_mb": 128, "root_gb": size}
            tree["all"]["vars"]["berth_flavors"]["bench%db" % size] = {"vcpus": 1, "memory_mb": 192, "root_gb": size}
        if options.load:
            mover = tree["all"]["children"]["instances"]["hosts"][cases.NAME]
            mover["berth_user_data"] += "# lab-load: %d\n" % options.load
        case.path.write_text(json.dumps(tree))
        try:
            for rate in options.rates.split(","):
                limit(case.lab, rate)
                for size in sizes:
                    name = "guest off while resized to another host, %d GiB disk, %d MiB of data, links of %s" % (
                        size, 512 * size, rate or "no limit",
                    )  # fmt: skip
                    rows.append(told(name, *measure(case, size, 512 * size)))
                    print(json.dumps(rows[-1]), flush=True)
        finally:
            limit(case.lab, None)
            if not options.keep:
                case.lab.down()
    (REPOSITORY / ".bench").mkdir(exist_ok=True)
    (REPOSITORY / ".bench" / "move.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["ratio"] <= 0.25 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
