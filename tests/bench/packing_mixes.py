# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes other traces out of the real ones, so that a packing policy can be judged on mixes it was not made for.

    packing_mixes.py TRACES OUT

TRACES is a directory of traces as packing.py takes it, OUT one of the same form that packing.py takes instead. The mixes:
``reweighed`` (each flavor's share times a random factor), ``resized`` (each flavor's memory and vCPUs changed at random,
so that nothing divides evenly), ``large`` (the share grows with the size), ``families`` (no trace: sizes of 1 to 32 vCPUs
with 2, 4 or 8 GB each), ``arrivals`` (the real times, resized flavors), on hosts of other shapes. Always the same files.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import sys
from collections import Counter
from pathlib import Path

COLUMNS = ("arrival_s", "departure_s", "vm_id", "vcpus", "memory_mb", "flavor", "numa_nodes")
ROWS = 6000
SHAPES = ("8x24:256", "6x96:384", "4x40:160,4x56:256,4x24:192", "4x128:512,4x64:384", "8x80:320,2x80:1024", "5x32:96")
SOURCES = {"az20": "azure-v1-d20.csv.gz", "az24": "azure-v1-d24.csv.gz", "topo": "huawei-topo-c2.csv.gz"}
HOSTS = "huawei-topo-hosts.csv.gz"


def read(path):
    with gzip.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    with open(path, "wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
        lines = [",".join(COLUMNS)] + [
            ",".join(str("" if row.get(name) is None else row[name]) for name in COLUMNS) for row in rows
        ]
        packed.write(("\n".join(lines) + "\n").encode())


def drawn(draw, rows, weight_of):
    """ROWS rows drawn anew, one arrival a second, no departures."""
    factor = {flavor: weight_of(row) for flavor, row in {row["flavor"]: row for row in rows}.items()}
    chosen = draw.choices(rows, [factor[row["flavor"]] for row in rows], k=ROWS)
    return [{**row, "arrival_s": at, "departure_s": "", "vm_id": "x-%d-0" % at} for at, row in enumerate(chosen)]


def reweighed(draw, rows):
    return drawn(draw, rows, lambda row: draw.gammavariate(0.5, 2.0))


def large(draw, rows):
    return drawn(draw, rows, lambda row: float(row["vcpus"]) ** 1.5 * draw.uniform(0.5, 2))


def resized(draw, rows):
    """The same rows with flavors of other sizes: vCPUs up by up to a half, memory by a factor of 0.5 to 2."""
    sizes = {}
    for row in rows:
        if row["flavor"] not in sizes:
            vcpus = max(1, round(float(row["vcpus"]) * draw.uniform(1, 1.5)))
            vcpus += vcpus % int(row.get("numa_nodes") or 1)
            sizes[row["flavor"]] = vcpus, round(float(row["memory_mb"]) * 2 ** draw.uniform(-1, 1))
    return [{**row, "vcpus": sizes[row["flavor"]][0], "memory_mb": sizes[row["flavor"]][1]} for row in rows]


def families(draw):
    flavors = [(vcpus, vcpus * gb * 1024) for vcpus in (1, 2, 4, 8, 12, 16, 32) for gb in (2, 4, 8)]
    weights = [draw.gammavariate(1, 1) / vcpus**0.7 for vcpus, _memory in flavors]
    rows = []
    for at, (vcpus, memory_mb) in enumerate(draw.choices(flavors, weights, k=ROWS)):
        names = {"vm_id": "x-%d-0" % at, "flavor": "c%dm%d" % (vcpus, memory_mb // 1024), "arrival_s": at}
        rows.append({**names, "vcpus": vcpus, "memory_mb": memory_mb})
    return rows


def fits(row, shapes):
    """Whether a row fits the largest host, alone."""
    sizes = [[float(part) for part in entry.split("x")[1].split(":")] for entry in shapes.split(",")]
    return any(float(row["vcpus"]) <= vcpus and float(row["memory_mb"]) <= gb * 1024 for vcpus, gb in sizes)


def main(traces, out):
    traces, out = Path(traces), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    scenarios = {"fill": [], "numa": [], "churn": [], "compact": []}
    rows = {name: read(traces / file) for name, file in SOURCES.items()}
    number = Counter()

    def fill(kind, made):
        at = number["fill"]
        number["fill"] += 1
        name, shapes = "%s-%d" % (kind, at), SHAPES[at % len(SHAPES)]
        write(out / (name + ".csv.gz"), [row for row in made if fits(row, shapes)])
        fleet = {"fleet": shapes, "seeds": [101, 102, 103, 104]}
        scenarios["fill"].append({"name": name, "trace": name + ".csv.gz", **fleet})

    for seed in (1, 2):
        draw = random.Random(seed)
        for source in rows.values():
            fill("reweighed", reweighed(draw, source))
            fill("large", large(draw, source))
            fill("resized", resized(draw, drawn(draw, source, lambda row: 1)))
        fill("families", families(draw))
    draw = random.Random(3)
    (out / HOSTS).write_bytes((traces / HOSTS).read_bytes())
    for kind, make in (("reweighed", reweighed), ("resized", resized)):
        name = "numa-%s.csv.gz" % kind
        topo = make(draw, read(traces / "huawei-topo-c3.csv.gz"))
        write(out / name, topo[:5000])
        pick = {"hosts": HOSTS, "count": 400, "seeds": [101, 102]}
        scenarios["numa"].append({"name": "numa-" + kind, "trace": name, **pick})
    for source in ("az20", "az24"):
        name = "arrivals-%s.csv.gz" % source
        write(out / name, resized(draw, rows[source]))
        part = {"trace": name, "sample": 0.04, "fleet": "3x40:160,2x96:256"}
        for load in (1.0, 0.85):
            scenarios["churn"].append({"name": "%s@%g" % (source, load), **part, "load": load, "seeds": [101, 102]})
        scenarios["compact"].append({"name": source, **part, "seeds": [101]})
    (out / "scenarios.json").write_text(json.dumps(scenarios, indent=1), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
