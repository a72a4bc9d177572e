# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long plans for large fleets take, and how much memory: drain of a host, and a balance with 20 moves.

python tests/bench/plans.py [--hosts 100] [--goal drain]      one line for each goal
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import conftest  # noqa: E402,F401  pylint: disable=unused-import  # puts the collection on the path

from ansible_collections.berth.kvm.plugins.module_utils.fleet import make_plan  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.fleet.check import check  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.fleet.goals import Goal  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.fleet.state import Fleet, Instance  # noqa: E402

SIZES = [(1, 2048, 20), (2, 4096, 40), (2, 8192, 40), (4, 8192, 80), (4, 16384, 80), (8, 32768, 160)]
GOALS = {
    "drain": Goal("drain", frozenset(("kvm0000",))),
    "balance": Goal("balance", max_moves=20),
    "consolidate": Goal("consolidate", max_moves=20),
    "repair": Goal("repair"),
}


def fleet_of(hosts, each, seed=1):
    """``hosts`` of two kinds with about ``each`` instances, some of them in anti-affinity groups, some full hosts."""
    rng = random.Random(seed)
    groups = [
        {"uuid": "group-%d" % number, "name": "g%d" % number, "policy": "anti-affinity", "rules": {}}
        for number in range(hosts // 3 or 1)
    ]
    documents, instances = {}, {}
    for number in range(hosts):
        host, memory_mb = "kvm%04d" % number, rng.choice((131072, 262144))
        here = [instance_of(host, at, rng, groups) for at in range(max(1, int(rng.gauss(each, each / 4))))]
        while sum(found.request["flavor"]["memory_mb"] for found in here) > memory_mb - 4096:
            here.pop()
        seen = set()
        for found in here:
            if found.group in seen:
                found.request["group"] = None
            seen.add(found.group)
        documents[host] = document_of(host, memory_mb, here)
        instances.update((found.uuid, found) for found in here)
    return Fleet(documents, instances)


def instance_of(host, at, rng, groups):
    vcpus, memory_mb, root_gb = rng.choice(SIZES)
    name = "%s-%02d" % (host, at)
    flavor = {"name": "m%d" % memory_mb, "vcpus": vcpus, "memory_mb": memory_mb, "root_gb": root_gb, "extra_specs": {}}
    group = dict(rng.choice(groups)) if rng.random() < 0.2 else None
    return Instance(name, name, host, {"uuid": name, "name": name, "flavor": flavor, "image": {}, "group": group})


def document_of(host, memory_mb, instances):
    flavors = [instance.request["flavor"] for instance in instances]
    used = {part: sum(flavor[part] for flavor in flavors) for part in ("vcpus", "memory_mb", "root_gb")}
    return {
        "host": host, "vcpus": 64, "memory_mb": memory_mb, "local_gb": 8000, "reserved_host_memory_mb": 4096,
        "vcpus_used": used["vcpus"], "memory_mb_used": used["memory_mb"], "local_gb_used": used["root_gb"],
        "instances": [
            {
                "uuid": instance.uuid, "name": instance.name, "role": "OWN", "vcpus": flavor["vcpus"],
                "memory_mb": flavor["memory_mb"], "disk_gb": flavor["root_gb"], "flavor": flavor, "group": instance.group,
            }
            for instance, flavor in zip(instances, flavors)
        ],
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--goal", choices=sorted(GOALS), action="append")
    asked = parser.parse_args()
    fleet = fleet_of(asked.hosts, asked.each)
    for name in asked.goal or ("drain", "balance"):
        began = time.process_time()
        plan = make_plan.make(fleet, GOALS[name])
        planned = time.process_time() - began
        check(fleet, plan.waves, plan.goal.hosts)
        checked = time.process_time() - began - planned
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            "%-11s %d hosts, %d instances: planned in %.2f s, checked in %.2f s (CPU), %d MiB; %d moves in %d waves, %s -> %s: %s"
            % (
                *(name, len(fleet.documents), len(fleet.instances), planned, checked, most),
                *(len(plan.moves), len(plan.waves), plan.before, plan.after, plan.proof),
            )
        )


if __name__ == "__main__":
    main()
