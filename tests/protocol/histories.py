# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays long random histories of a fleet in memory, and shortens those that break a rule.

tests/protocol/histories.py --seeds 1000 [--from 0] [--jobs 2]
tests/protocol/histories.py --seed 17           # one, shortened
tests/protocol/histories.py --registry engine   # over an engine in memory
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATHS = (HERE, HERE.parent / "unit" / "plugins" / "module_utils", HERE.parent.parent / ".cache" / "collections")
sys.path[:0] = [str(path) for path in PATHS if str(path) not in sys.path]

import history_engine  # noqa: E402
import history_steps  # noqa: E402
import pytest  # noqa: E402
from history_world import World  # noqa: E402
from memory_names import Violation  # noqa: E402

MEMORY = "/dev/shm"


ON_ENGINE = False  # whether what spans hosts is decided by an engine, see history_engine.py


def history(seed):
    more = (history_engine.PLAYBOOKS, history_engine.EVENTS) if ON_ENGINE else ()
    return history_steps.history(seed, *more)


def play(hosts, names, steps):
    """-> None, or what was violated."""
    where = MEMORY if os.path.isdir(MEMORY) else None
    with tempfile.TemporaryDirectory(dir=where) as top, pytest.MonkeyPatch.context() as patch:
        player = history_steps.Player(World(Path(top), patch, hosts, names, ON_ENGINE))
        try:
            for step in steps:
                player.play(step)
            history_steps.settle(player)
        except Violation as violation:
            return str(violation)
        except Exception as error:  # what no module expects is a defect, too
            last = traceback.extract_tb(error.__traceback__)[-1]
            return "H6 %s: %s (%s:%s)" % (type(error).__name__, error, os.path.basename(last.filename), last.lineno)
    return None


def kind_of(violation):
    return violation[:2] if violation[:2] not in ("H5", "H6") else " ".join(violation.split()[:5])


def shorten(hosts, names, steps, violation):
    """Leave out steps, and kills, as long as the same rule is violated."""
    size = max(1, len(steps) // 2)
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            found = play(hosts, names, fewer)
            if found and kind_of(found) == kind_of(violation):
                steps, violation = fewer, found
            else:
                at += size
        size //= 2
    return steps, violation


def one(seed):
    return seed, play(*history(seed))


def show(seed):
    hosts, names, steps = history(seed)
    violation = play(hosts, names, steps)
    if violation is None:
        print("seed %d: all well" % seed)
        return
    steps, violation = shorten(hosts, names, steps, violation)
    print("seed %d: %d hosts, %s: %s" % (seed, hosts, ", ".join(names), violation))
    for step in steps:
        print("   ", step)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--registry", choices=["hosts", "engine"], default="hosts")
    args = parser.parse_args()
    global ON_ENGINE  # the processes of the pool are forks
    ON_ENGINE = args.registry == "engine"
    if args.seed is not None:
        show(args.seed)
        return 0
    began, bad = time.monotonic(), 0
    with multiprocessing.Pool(args.jobs) as pool:
        for seed, violation in pool.imap_unordered(one, range(args.first, args.first + args.seeds)):
            if violation:
                bad += 1
                print("seed %d: %s" % (seed, violation), flush=True)
    print("%d histories, %d violations, %d s" % (args.seeds, bad, time.monotonic() - began))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
