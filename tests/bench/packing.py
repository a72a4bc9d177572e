# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures how densely HeadroomWeigher packs, beside Nova's default.

    packing.py [SIMULATOR TRACES [--quick]]

SIMULATOR is a file packsim.py with ``bench``, TRACES its traces or a directory that packing_mixes.py made; neither is
part of this project, nor is numpy, which the simulator needs. Without them a drawn mix of sizes is placed by
select_destinations itself until an instance is refused: less real, but it runs everywhere. Writes .bench/packing_*.json.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / ".cache" / "collections"))

from packing_mixes import families  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations  # noqa: E402

OURS, BEST_FIT, NOVA = "packing_policy:running", "best-fit-l2", "nova"
KINDS = {
    "fill": "share of the offline bound placed before the first rejection",
    "gpu": "the same with GPUs as a third resource",
    "numa": "utilisation reached by pinned instances",
    "churn": "share of the demand lost beyond a pool without fragmentation",
    "compact": "hosts above the fractional bound, as a share of it",
}
WEIGHERS = {"nova": {}, "headroom": {"weight_classes": ["HeadroomWeigher"]}}
FLEETS = ([(64, 256)] * 12, [(32, 256)] * 6 + [(96, 384)] * 6)
SEEDS = (1, 2, 3)


def simulated(simulator, traces, *more):
    with tempfile.TemporaryDirectory() as directory:
        report = os.path.join(directory, "report.json")
        command = [sys.executable, simulator, "bench", "--traces", traces, "--json", report]
        command += ["--policy", ",".join((NOVA, BEST_FIT, OURS)), *more]
        subprocess.run(command, check=True, cwd=HERE)
        with open(report, encoding="utf-8") as file:
            summary = json.load(file)["summary"]
    for kind, unit in KINDS.items():
        if kind in summary[OURS]:
            write(kind, summary[OURS][kind], unit, summary[NOVA][kind], summary[BEST_FIT][kind])


def drawn():
    shares = {name: [] for name in WEIGHERS}
    for seed in SEEDS:
        sizes = [(row["vcpus"], row["memory_mb"]) for row in families(random.Random(seed))]
        for fleet in FLEETS:
            bound = fractional(sizes, fleet)
            for name, options in WEIGHERS.items():
                shares[name].append(placed(sizes[: bound + 1], fleet, options) / bound)
    ours, nova = (statistics.geometric_mean(shares[name]) for name in ("headroom", "nova"))
    write("drawn", ours, "share of the fractional bound placed before the first rejection, drawn sizes", nova)


def fractional(sizes, fleet):
    """How many of the first instances fit by their sums alone."""
    vcpus, memory_mb = (sum(host[at] for host in fleet) for at in (0, 1))
    memory_mb *= 1024
    for number, size in enumerate(sizes):
        vcpus, memory_mb = vcpus - size[0], memory_mb - size[1]
        if min(vcpus, memory_mb) < 0:
            return number
    return len(sizes)


def placed(sizes, fleet, options):
    hosts = [
        {
            "host": "h%d" % at,
            "vcpus": vcpus,
            "memory_mb": gb * 1024,
            "local_gb": 10000,
            "cpu_allocation_ratio": 1.0,
            "reserved_host_memory_mb": 0,
        }
        for at, (vcpus, gb) in enumerate(fleet)
    ]
    requests = [{"flavor": {"name": "%dx%d" % size, "vcpus": size[0], "memory_mb": size[1]}} for size in sizes]
    answers = select_destinations(hosts, requests, options).requests
    return next((number for number, answer in enumerate(answers) if answer.error), len(answers))


def write(kind, value, unit, against, best_fit=None):
    target = HERE.parents[1] / ".bench"
    target.mkdir(exist_ok=True)
    row = {"name": "packing_" + kind, "value": value, "unit": unit, "against": against, "ratio": value / against}
    (target / (row["name"] + ".json")).write_text(json.dumps(row) + "\n", encoding="utf-8")
    best = "" if best_fit is None else ", %.4f with best fit" % best_fit
    print("%-16s %.4f against %.4f with Nova's default%s: %s" % (row["name"], value, against, best, unit))


if __name__ == "__main__":
    if len(sys.argv) >= 3:
        simulated(*sys.argv[1:])
    else:
        print("No simulator and traces are given: measured is a drawn mix of sizes, without churn and NUMA.")
        drawn()
