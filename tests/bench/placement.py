# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time placement on large fleets, against Nova's own pipeline where Nova is installed.

    placement.py [--nova PYTHON] [--rounds N]

PYTHON (or BERTH_NOVA_PYTHON) is a Python that has Nova installed; without it the table has no ratios. Both sides decide in
turns on the same hosts in one run, and their first choices must be the same. Seconds are CPU seconds of the one process
that decides: here the best of N rounds from plain host documents; Nova's are its best decision of a few times the number
of instances, from host states that it has already made.

Rows without a word are decisions alone. "explained" adds the verdict of every filter on every host with its numbers, all
raw weights and the order of every decision, recorded while deciding, and written out as the JSON that a receipt holds: one
column of values per rule and weigher and every change to it. "in full" reads the decisions of that JSON back as one row
per host and rule; of a batch a few decisions, spread evenly, stand for all.

Writes .bench/placement-*.json {name, value, unit, against, ratio, note}.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import conftest  # noqa: E402,F401  pylint: disable=unused-import  # puts the collection on the path

from ansible_collections.berth.kvm.plugins.module_utils.placement import explain  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.placement.fast.matrix import Matrix  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations  # noqa: E402

FLAVOR = {"name": "m1", "vcpus": 2, "memory_mb": 4096, "root_gb": 20}
IMAGE = {"id": "img", "properties": {"hw_architecture": "x86_64"}}
CLASSES = [(16, 64, 500), (32, 128, 1000), (32, 256, 2000), (64, 256, 2000), (64, 512, 4000), (128, 1024, 8000)]


def fleet(number, seed=1):
    """Hosts of six kinds of hardware at random usage, as plain documents."""
    rng = random.Random(seed)
    hosts = []
    for index in range(number):
        vcpus, memory, disk = CLASSES[rng.randrange(len(CLASSES))]
        level = rng.random() * 0.8
        hosts.append(
            {
                "host": "h%05d" % index,
                "vcpus": vcpus,
                "memory_mb": memory * 1024,
                "local_gb": disk,
                "cpu_allocation_ratio": 4.0,
                "reserved_host_memory_mb": 512,
                "vcpus_used": int(vcpus * 4 * level),
                "num_io_ops": rng.choice([0, 0, 0, 1, 2]),
                "memory_mb_used": int(memory * 1024 * level * 0.9) // 512 * 512,
                "local_gb_used": int(disk * level * 0.9),
                "failed_builds": 0,
                "num_instances": int(20 * level),
                "hypervisor_version": 8002000,
                "supported_instances": [["x86_64", "kvm", "hvm"]],
                "traits": [],
            }
        )
    return hosts


def one_flavor(number):
    return [{"uuid": "vm", "flavor": FLAVOR, "image": IMAGE, "num_instances": number}]


def mixed(number):
    """Single requests of eight flavors; every second one in one of 25 groups, affine, anti-affine or soft."""
    flavors = [
        dict(FLAVOR, name="f%d" % n, vcpus=1 + n % 4, memory_mb=1024 << (n % 4), root_gb=10 + 5 * n) for n in range(8)
    ]
    policies = ["anti-affinity", "affinity", "soft-anti-affinity", "anti-affinity", "soft-affinity"]
    requests = []
    for index in range(number):
        group = index // 2 % 25 if index % 2 else None
        members = (
            {"uuid": "group%s" % group, "name": "g%s" % group, "policy": policies[group % 5], "members": []}
            if index % 2
            else None
        )
        requests.append({"uuid": "vm%04d" % index, "flavor": flavors[index % 8], "image": IMAGE, "group": members})
    return requests


# name, hosts, requests, target of the ratio, Nova's decisions
ROWS = (
    ("one-of-10000", 10000, one_flavor(1), 40, 3),
    ("100-on-5000", 5000, one_flavor(100), 3000, 6),
    ("1000-on-10000", 10000, one_flavor(1000), 10000, 4),
    ("mixed-1000-on-5000", 5000, mixed(1000), 500, 10),
)
# Explanations may cost ten times the decision.
EXPLAINED = 10
IN_FULL = 5


def decide(hosts, requests, explained=False):
    return select_destinations(hosts, requests, {"max_attempts": 1}, explain=explained)


def written(hosts, requests):
    """The explanations of all decisions as JSON."""
    return json.dumps(explain.matrix(decide(hosts, requests, explained=True).requests))


def read_in_full(text, most):
    """(decisions read, CPU seconds): every row of every host for at most so many decisions of the JSON."""
    start = time.process_time()
    document = json.loads(text)
    columns = Matrix.from_document(document)
    decisions = [
        (request["entry"], at) for request in document["requests"] for at in range(len(request["entry"]["instances"]))
    ]
    chosen = decisions[:: max(1, len(decisions) // most)][:most]
    for entry, at in chosen:
        explanation = columns.explanation(entry)
        rows = explanation["candidates"], explanation["instances"][at]
        assert len(rows[0]) == len(document["hosts"]) and len(rows[1]["weights"]) > 1
    return len(chosen), (time.process_time() - start) / len(chosen) * len(decisions)


def best_of(rounds, function):
    """(fewest CPU seconds, what the function gave)."""
    best = None
    for _round in range(rounds):
        gc.collect()
        start = time.process_time()
        given = function()
        seconds = time.process_time() - start
        best = min(seconds, best or seconds)
    return best, given


class Nova:
    """The other side: a process that has Nova."""

    def __init__(self, python):
        self.process = subprocess.Popen(
            [python, "-W", "ignore", str(ROOT / "tests" / "bench" / "nova_pipeline.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def decide(self, hosts, requests, decisions):
        """([host], CPU seconds of its best decision)."""
        several = len(requests) == 1 and requests[0]["num_instances"] > 1
        if not several:
            requests = [requests[number % len(requests)] for number in range(decisions)]
        job = {"hosts": hosts, "requests": requests, "decisions": decisions, "several": several}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["chosen"], min(answer["seconds"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--nova", metavar="PYTHON", default=os.environ.get("BERTH_NOVA_PYTHON"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", type=int, metavar="HOSTS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        written(fleet(options.memory), one_flavor(1000))
        # Not ru_maxrss, which a process inherits from the one that started it.
        print(int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024)
        return
    nova = Nova(options.nova) if options.nova else None
    print("load %.1f %.1f %.1f" % os.getloadavg())
    print("%-32s %10s %10s %9s %9s  %s" % ("", "seconds", "Nova", "ratio", "target", "note"))
    for row in ROWS:
        measure(*row, nova, options.rounds)
    few, many = memory(5000), memory(10000)
    write("memory-1000-on-10000", many, "MiB", None, None, "explained; %.0f MiB on 5000 hosts" % few)


def measure(name, number, requests, target, decisions, nova, rounds):
    hosts = fleet(number)
    total = sum(request.get("num_instances", 1) for request in requests)
    theirs, note = None, ""
    if nova:
        chosen, best = nova.decide(hosts, requests, decisions)
        theirs = best * total
        note = "Nova: best of %d decisions" % decisions + (" x %d" % total if total > 1 else "")
    seconds, result = best_of(rounds, lambda: decide(hosts, requests))
    if nova:
        mine = [host for request in result.requests for host in request.hosts][:decisions]
        assert mine == chosen[: len(mine)], "%s: decided %s, Nova %s" % (name, mine, chosen)
    write(name, seconds, "s", theirs, target, note)
    del result
    seconds, text = best_of(max(2, rounds // 2), lambda: written(hosts, requests))
    write(name + "-explained", seconds, "s", theirs, target / EXPLAINED, "%.1f MB of JSON" % (len(text) / 1e6))
    read, more = read_in_full(text, IN_FULL)
    note = "all decisions read" if read == total else "%d decisions read, x %g" % (read, total / read)
    write(name + "-explained-in-full", seconds + more, "s", theirs, None, note)


def memory(hosts):
    """MiB at most of a process that decides and explains 1,000 instances."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory", str(hosts)], stdout=subprocess.PIPE, text=True, check=True
    )
    return float(done.stdout)


def write(name, value, unit, theirs, target, note, against="nova"):
    """A line of the table, and its file."""
    ratio = theirs / value if theirs else None
    shown = (
        "%.3g s" % theirs if theirs else "-",
        "%.1f x" % ratio if ratio else "-",
        "%g x" % target if target else "",
    )
    print("%-32s %8.4f %s %10s %9s %9s  %s" % ((name, value, unit) + shown + (note,)), flush=True)
    directory = ROOT / ".bench"
    directory.mkdir(exist_ok=True)
    row = {"name": "placement-" + name, "value": value, "unit": unit, "against": against if ratio else None}
    (directory / ("placement-%s.json" % name)).write_text(json.dumps({**row, "ratio": ratio, "note": note}) + "\n")


if __name__ == "__main__":
    main()
