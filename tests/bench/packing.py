# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures how densely the packing policy packs real traces, beside Nova's default and best fit.

    packing.py SIMULATOR TRACES [--quick]

SIMULATOR is a file packsim.py with ``bench``, TRACES its traces; neither is part of this project, nor is numpy,
which the simulator needs. Writes .bench/packing_<kind>.json, one row each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
OURS, BEST_FIT, NOVA = "packing_policy:policy", "best-fit-l2", "nova"
KINDS = {
    "fill": "share of the offline bound placed before the first rejection",
    "numa": "utilisation reached by pinned instances",
    "churn": "share of the demand lost beyond a pool without fragmentation",
    "compact": "hosts above the fractional bound, as a share of it",
}


def main(simulator, traces, *more):
    with tempfile.TemporaryDirectory() as directory:
        report = os.path.join(directory, "report.json")
        command = [sys.executable, simulator, "bench", "--traces", traces, "--json", report]
        command += ["--policy", ",".join((NOVA, BEST_FIT, OURS)), *more]
        subprocess.run(command, check=True, cwd=HERE)
        with open(report, encoding="utf-8") as file:
            summary = json.load(file)["summary"]
    target = HERE.parents[1] / ".bench"
    target.mkdir(exist_ok=True)
    for kind, unit in KINDS.items():
        value, against = summary[OURS][kind], summary[NOVA][kind]
        row = {"name": "packing_" + kind, "value": value, "unit": unit, "against": against, "ratio": value / against}
        (target / (row["name"] + ".json")).write_text(json.dumps(row) + "\n", encoding="utf-8")
        print("%(name)-16s %(value).4f against %(against).4f with Nova's default: %(unit)s" % row)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
