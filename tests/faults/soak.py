#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long mixed histories on a lab of three real hosts: what months of careless operation do to a few instances.

    tests/faults/soak.py                        ten histories of 25 steps, from seed 1 on
    tests/faults/soak.py --seed 7 --count 1     the same steps again; what happens meanwhile comes at other moments, though

A step is a playbook, two at once, or what nobody asked the product for: a power cut, a lost link, a dead libvirtd, a
controller that is killed, a guest that is ended or undefined by hand, a snapshot of a backup tool, a state directory
that comes back from a backup. The hosts are looked at all the time: no guest runs twice, no disk is gone, what a guest
acknowledged it finds again. At the end all hosts are well, and what an operator would run then has each instance run
once. The last line is "N histories, M violations".
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cases  # noqa: E402
from hosts import HostFiles  # noqa: E402
from invariants import Watcher, has_disk  # noqa: E402
from long_history import History, say  # noqa: E402
from operator_runs import Operator  # noqa: E402
from warm import Warm  # noqa: E402
from whole import make_whole  # noqa: E402

EVIDENCE = """cat /var/lib/berth/instances/*/record.json | tr -d '\\n'; echo
head -c 2000 /var/lib/berth/whereabouts.json; echo; virsh -q list --all; ls -R /var/lib/libvirt/berth/instances"""


class Several(Watcher):
    """Looks at several instances. ``there``: the uuids of those whose disks must exist."""

    there: set

    def forget(self):
        super().forget()
        self.there = set()

    def _look(self):
        views = {host.name: host.view() for host in self.hosts}
        runs = [(uuid, name) for name, view in views.items() for uuid in view.running()]
        for uuid in {uuid for uuid, _name in runs}:
            names = [name for other, name in runs if other == uuid]
            if len(names) > 1:
                return "I1 %s runs on %s" % (uuid, " and on ".join(names))
        gone = [uuid for uuid in sorted(self.there) if not has_disk(views.values(), uuid)]
        return "I3 no host has a disk of %s" % gone[0] if gone else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", default="soak", help="its name")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the first history")
    parser.add_argument("--count", type=int, default=10, metavar="N", help="histories")
    parser.add_argument("--steps", type=int, default=25, metavar="N", help="steps of each")
    given = parser.parse_args()
    lab = cases.prepared(given.lab, 3)
    hosts = {name: HostFiles(lab, name) for name in lab.hosts}
    watcher = Several(list(hosts.values()))
    watcher.forget()
    with watcher:
        violations = sum(
            not holds(lab, hosts, watcher, seed, given.steps) for seed in range(given.seed, given.seed + given.count)
        )
    lab.down()
    print("%d histories, %d violations" % (given.count, violations))
    return 1 if violations else 0


def holds(lab, hosts, watcher, seed, steps):
    """Whether the history of a seed ends well; if not, say what the hosts have."""
    make_whole(lab)
    watcher.forget()
    warm = [Warm(lab.environment()), Warm(lab.environment())]
    say("seed %d" % seed)
    with tempfile.TemporaryDirectory() as directory:
        operator = Operator(random.Random(seed), list(hosts), cases.image(), Path(directory) / "fleet.yml")
        try:
            History(lab, hosts, watcher, operator, warm).run(steps)
        except (AssertionError, subprocess.TimeoutExpired) as violation:
            say("VIOLATION seed %d: %s\n  replay: tests/faults/soak.py --count 1 --seed %d" % (seed, violation, seed))
            for host in hosts:
                print("== %s\n%s" % (host, lab.sh(host, EVIDENCE, check=False).output), flush=True)
            return False
        finally:
            for loaded in warm:
                loaded.end()
    say("ok seed %d" % seed)
    return True


if __name__ == "__main__":
    sys.exit(main())
