#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kill sweep: every fault at every step of every operation, on labs of real hosts.

    tests/faults/run.py                              all of them, on two labs side by side
    tests/faults/run.py --only resize:crash          those whose name begins so (may be repeated)
    tests/faults/run.py --every 5                    each fifth
    tests/faults/run.py --without LOG                those that the output of a run that was ended says nothing of
    tests/faults/run.py --list                       their names (it runs each operation once to learn how long its steps take)
    tests/faults/run.py --replay resize:crash-source:2.claim   this one, with a new instance; the lab is left as it is then

A coarse pass over all of them comes first, so a sweep that is ended by Ctrl-C has looked everywhere. The last line says
"N faults, M violations".
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cases  # noqa: E402
from chain import Chain  # noqa: E402
from operations import OPERATIONS, Fault, described, faults_of  # noqa: E402

# In this order nearly each operation begins where the one before ends.
TOUR = (
    "resize", "revert", "cold", "confirm", "live", "drain", "return", "evacuate",
    "resize_here", "revert_here", "confirm_here", "grow_here", "shrink_here",
    "reboot", "reboot_hard", "backup", "backup_away", "image", "clone",
    "shelve", "shelve_away", "unshelve", "rename", "rename_back", "stop", "restore", "restore_away", "start",
    "pause", "unpause", "suspend", "resume", "rescue", "unrescue",
    "lock", "unlock", "snapshot", "revert_snapshot", "delete_snapshot", "rebuild", "plug", "unplug", "grow", "detach", "attach", "delete",
    "adopt", "leave",
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", default=os.environ.get("BERTH_FAULTS_LAB", "faults"), help="the labs' name")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="labs side by side")
    parser.add_argument("--only", action="append", default=[], help="faults whose name begins so")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th")
    parser.add_argument("--without", type=Path, metavar="FILE", help="not those that this output of a run says ok of")
    parser.add_argument("--shared", action="store_true", help="hosts with one storage pool, not one each")
    parser.add_argument("--list", action="store_true", help="their names")
    parser.add_argument("--replay", type=Fault.called, nargs="+", metavar="FAULT", help="faults by their names")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        case = cases.make(given.lab, directory, given.shared)
        if given.replay and len(given.replay) == 1:
            return Sweep(given.replay).run(case)
        if given.replay:
            return in_parallel(Sweep(given.replay), case, given, directory)
        wanted = [name for name in TOUR if may_begin_so(name, given.only) and given.shared >= OPERATIONS[name].loses]
        legs = learn(case, Path(directory), wanted)
        faults = [fault for name in OPERATIONS if name in wanted for fault in faults_of(name, legs[name])]
        faults = [fault for fault in faults if str(fault).startswith(tuple(given.only) or "")][:: given.every]
        if given.without:
            faults = left(faults, passed(given.without.read_text()))
        if given.list:
            print(*("%s  %s" % (fault, described(fault, legs[fault.operation])) for fault in faults), sep="\n")
            case.lab.down()
            return 0
        return in_parallel(Sweep(coarse_first(faults), legs), case, given, directory)


def may_begin_so(operation, beginnings):
    """Whether the name of a fault of the operation may begin in one of these ways."""
    name = operation + ":"
    return not beginnings or any(name.startswith(some) or some.startswith(name) for some in beginnings)


def learn(case, directory, wanted):
    """The legs of the operations ``wanted``, from a run without a fault; kept until what decides them changes."""
    known = cases.ROOT / ".cache" / "faults" / ("%s-%s.json" % (digest(), "shared" if case.shared else "local"))
    known.parent.mkdir(exist_ok=True)
    legs = json.loads(known.read_text()) if known.exists() else {}
    chain = Chain(case)
    with chain.watcher:
        for name in wanted:
            if name not in legs:
                chain.bring(OPERATIONS[name].begin)
                log = directory / (name + ".legs")
                chain.walk(name, log)
                legs[name] = [json.loads(line) for line in log.read_text().splitlines()]
                known.write_text(json.dumps(legs))
    return legs


def passed(output):
    """The faults that a run of the sweep says ok of in its output."""
    return {Fault.called(name) for name in re.findall(r"^ok (\S+)", output, re.M)}


def left(faults, done):
    """Those that are not done. Each run learns other times, so what was done within a step is the nearest of now."""

    def place(fault):
        return (fault.operation, fault.kind, fault.leg, fault.step, fault.delay_ms > 0)

    found = set()
    for fault in done:
        same = [other for other in faults if place(other) == place(fault)]
        found.update(sorted(same, key=lambda other: abs(other.delay_ms - fault.delay_ms))[:1])
    return [fault for fault in faults if fault not in found]


def digest():
    """Of everything that decides which legs a run has."""
    files = sorted(path for part in ("playbooks", "roles") for path in (cases.ROOT / part).rglob("*.yml"))
    files += sorted((cases.ROOT / "plugins" / "module_utils" / "conductor").glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def coarse_first(faults):
    """Each fifth, then the others."""
    return [fault for start in range(5) for fault in faults[start::5]]


def in_parallel(sweep, case, given, directory):
    """The first lab and as many others as there are jobs take faults from one list."""
    labs = [case] + [
        cases.make("%sx%d" % (given.lab, job), directory, given.shared) for job in range(2, given.jobs + 1)
    ]
    threads = [threading.Thread(target=sweep.work, args=[lab]) for lab in labs]
    for thread in threads:
        thread.start()
    signal.signal(signal.SIGINT, lambda *_ignored: sweep.end())
    for thread in threads:
        thread.join()
    for lab in labs:
        lab.lab.warm.end()
        lab.lab.down()
    return sweep.verdict()


class Sweep:
    """``legs``: {operation: [leg]}, to say which leg a fault hits."""

    def __init__(self, faults, legs=None):
        self.legs = legs or {}
        self.waiting = {name: deque(fault for fault in faults if fault.operation == name) for name in OPERATIONS}
        self.lock = threading.Lock()
        self.done, self.violations = 0, 0
        self.began = time.monotonic()

    def end(self):
        """After the faults that are under way."""
        with self.lock:
            for waiting in self.waiting.values():
                waiting.clear()

    def run(self, case):
        self.work(case)
        return self.verdict()

    def verdict(self):
        print("%d faults, %d violations" % (self.done, self.violations))
        return 1 if self.violations else 0

    def work(self, case):
        """Take faults until none is left."""
        chain = Chain(case)
        with chain.watcher:
            while True:
                fault = self._next(chain.state)
                if fault is None:
                    return
                self._try(chain, fault)

    def _next(self, state):
        """One that begins where the instance is, else one of those that most are left of."""
        with self.lock:
            left = [name for name, waiting in self.waiting.items() if waiting]
            here = [name for name in left if OPERATIONS[name].begin == state]
            chosen = max(here or left, key=lambda name: len(self.waiting[name]), default=None)
            return self.waiting[chosen].popleft() if chosen else None

    def _try(self, chain, fault):
        began = time.monotonic()
        try:
            chain.bring(OPERATIONS[fault.operation].begin)
            came, wrong = chain.suffer(fault), None
        except (AssertionError, subprocess.TimeoutExpired) as violation:
            came, wrong, chain.state = "VIOLATION", violation, None
        with self.lock:
            self.done += 1
            self.violations += wrong is not None
            what = described(fault, self.legs[fault.operation]) if fault.operation in self.legs else ""
            seconds = time.monotonic() - began
            print("%s %s (%s; %.0f s, %d done)" % ("ok" if not wrong else "VIOLATION", fault, what, seconds, self.done))
            if wrong:
                print("  %s\n  replay: tests/faults/run.py --replay %s" % (wrong, fault))
            elif came != "converged":
                print("  " + came)
            sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
