# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a guest is off while it is resized to another host, against the same done by hand: stop, copy, start.

By hand means virsh shutdown, qemu-img convert over qemu-nbd, virsh start, with the same guest, sizes and data. What is
measured is the gap in the answers of the guest's own web server. Needs root; writes .bench/move.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "faults"))

import cases  # noqa: E402
from conftest import make_whole  # noqa: E402

DISK = "/var/lib/libvirt/berth/instances/%s/root.qcow2"


class Watch(threading.Thread):
    """Asks the guest's web server all the time; ``gap`` is the longest time without an answer, in seconds."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.gap, self.last, self.done = address, 0.0, None, False

    def run(self):
        while not self.done:
            try:
                urllib.request.urlopen("http://%s/ack" % self.address, timeout=0.5).read()
                now = time.monotonic()
                self.gap = max(self.gap, now - (self.last or now))
                self.last = now
            except OSError:
                pass
            time.sleep(0.05)

    def end(self, timeout=120):
        """Wait for one more answer, then say the gap."""
        since, until = time.monotonic(), time.monotonic() + timeout
        while (self.last or 0) < since and time.monotonic() < until:
            time.sleep(0.05)
        self.done = True
        return self.gap


def watched(address, act):
    watch = Watch(address)
    watch.start()
    while watch.last is None:
        time.sleep(0.1)
    act()
    return watch.end()


def fill(case, host, megabytes):
    """Data that cannot be compressed, in the part of the disk that the guest does not use. The guest is off."""
    path = case.lab.sh(host, "ls %s" % (DISK % "*")).stdout.strip()
    script = 'for n in $(seq 64 %d); do qemu-io -f qcow2 -c "write -q -P $((n %% 250 + 1)) ${n}M 1M" %s; done'
    case.lab.sh(host, script % (63 + megabytes, path), timeout=600)
    return path


def by_hand(case, source, destination, path, address):
    """Stop, copy, start; then back to where it was. -> seconds without an answer"""
    lab, uuid = case.lab, path.split("/")[-2]
    target = lab.sh(destination, "hostname -I").stdout.split()[0]
    lab.sh(destination, "mkdir -p %s; qemu-img create -q -f qcow2 %s %s" % (Path(path).parent, path, lab.size))
    xml = lab.sh(source, "virsh dumpxml --inactive %s" % uuid).stdout
    lab.exec(destination, "sh", "-c", "cat > /root/hand.xml <<'X'\n%s\nX" % xml)
    seed = lab.sh(source, "base64 -w0 %s" % (Path(path).parent / "seed.iso")).stdout

    lab.sh(destination, "echo %s | base64 -d > %s" % (seed, Path(path).parent / "seed.iso"))

    def move():
        lab.sh(source, "virsh shutdown %s; while [ $(virsh domstate %s) = running ]; do sleep 0.1; done" % (uuid, uuid))
        lab.sh(destination, "qemu-nbd --fork -t --pid-file /run/hand.pid -f qcow2 -p 49999 -x d %s" % path)
        lab.sh(
            source,
            "qemu-img convert -n --target-is-zero -f qcow2 %s -O raw nbd://%s:49999/d" % (path, target),
            timeout=600,
        )
        lab.sh(destination, "p=$(cat /run/hand.pid); kill $p; while kill -0 $p 2>/dev/null; do sleep 0.05; done")
        permit = (
            "mkdir -p /run/berth/permits; chmod -R go= /run/berth; "
            "cat /proc/sys/kernel/random/boot_id > /run/berth/permits/%s; chmod 600 /run/berth/permits/*" % uuid
        )
        lab.sh(destination, "%s; virsh define /root/hand.xml; virsh start %s" % (permit, uuid))

    gap = watched(address, move)
    lab.sh(
        destination,
        "virsh destroy %s; virsh undefine %s; rm -rf %s /run/berth/permits/%s" % (uuid, uuid, Path(path).parent, uuid),
    )
    return gap


def measure(case, gigabytes, megabytes):
    """-> (seconds off by the playbook, seconds off by hand)"""
    make_whole(case.lab)
    case.lab.size = "%dG" % gigabytes
    case.play("create", {"mover_flavor": "bench%d" % gigabytes})
    source = case.owner()
    address = case.lab.guest_facts(cases.NAME, source, timeout=120, until=lambda said: said["ip"])["ip"].split("/")[0]
    case.play("stop", {"mover_flavor": "bench%d" % gigabytes})
    path = fill(case, source, megabytes)
    case.play("start", {"mover_flavor": "bench%d" % gigabytes})
    destination = next(host for host in case.lab.hosts if host != source)
    hand = by_hand(case, source, destination, path, address)
    case.play("start", {"mover_flavor": "bench%d" % gigabytes})
    ours = watched(address, lambda: case.play("resize", {"mover_flavor": "bench%db" % gigabytes}, timeout=900))
    return ours, hand


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lab", default="bench")
    parser.add_argument("--data", type=int, default=1024, help="MiB of data on each disk (default: %(default)s)")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        case = cases.make(options.lab, directory)
        tree = json.loads(case.path.read_text())
        for size in (2, 4):
            tree["all"]["vars"]["berth_flavors"]["bench%d" % size] = {"vcpus": 1, "memory_mb": 128, "root_gb": size}
            tree["all"]["vars"]["berth_flavors"]["bench%db" % size] = {"vcpus": 1, "memory_mb": 192, "root_gb": size}
        case.path.write_text(json.dumps(tree))
        for size in (2, 4):
            ours, hand = measure(case, size, options.data * size // 2)
            rows.append(
                {
                    "name": "guest off while resized to another host, %d GiB disk, %d MiB of data"
                    % (size, options.data * size // 2),
                    "value": round(ours, 1),
                    "unit": "s",
                    "against": "stop, copy, start by hand, %.1f s" % hand,
                    "ratio": round(ours / hand, 3),
                }
            )
            print("{name}: {value} {unit}, {ratio} x {against}".format(**rows[-1]), flush=True)
        case.lab.down()
    (REPOSITORY / ".bench").mkdir(exist_ok=True)
    (REPOSITORY / ".bench" / "move.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["ratio"] <= 0.25 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
