#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kill sweep of moves: every fault at every step of every operation, on a lab of real hosts.

    tests/faults/run.py                              all of them
    tests/faults/run.py --only resize:crash          those whose name begins so
    tests/faults/run.py --replay resize:crash-source:3   one, and the lab is left as it is

The last line says "N faults, M violations".
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import cases  # noqa: E402
from conftest import make_whole  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", default=os.environ.get("BERTH_FAULTS_LAB", "faults"), help="the lab's name")
    parser.add_argument("--only", default="", help="faults whose name begins so")
    parser.add_argument("--replay", help="one fault by its name")
    parser.add_argument("--list", action="store_true", help="their names")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th")
    given = parser.parse_args()
    names = (
        [given.replay]
        if given.replay
        else [name for name in cases.faults() if name.startswith(given.only)][:: given.every]
    )
    if given.list:
        print("\n".join(names))
        return 0
    with tempfile.TemporaryDirectory() as directory:
        case = cases.make(given.lab, directory)
        violations = sum(not passes(case, name) for name in names)
        if not given.replay:
            case.lab.down()
    print("%d faults, %d violations" % (len(names), violations))
    return 1 if violations else 0


def passes(case, name):
    """Run one fault from an empty lab and say how it went."""
    make_whole(case.lab)
    began = time.monotonic()
    try:
        case.run(name)
    except (AssertionError, subprocess.TimeoutExpired) as violation:
        print(
            "VIOLATION %s (%.0f s): %s\n  replay: tests/faults/run.py --replay %s"
            % (name, time.monotonic() - began, violation, name),
            flush=True,
        )
        return False
    print("ok %s (%.0f s)" % (name, time.monotonic() - began), flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
