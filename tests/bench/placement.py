# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time placement on large fleets, against Nova's own pipeline where Nova is installed.

    placement.py [--nova-budget S] [--rounds N] [--nova DIR]

DIR holds nova_oracle.py and bench_nova.py, and the Python that runs this has Nova installed; without them the table has no
ratios. Times are CPU seconds of this process, the best of N rounds; Nova's are extrapolated from the decisions that fit
in its budget of S seconds per row. Every choice of Nova is checked to be a best choice here: see "same". Writes
.bench/placement-*.json {name, value, unit, against, ratio}.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import conftest  # noqa: E402,F401  pylint: disable=unused-import  # puts the collection on the path

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


def ours(hosts, requests, rounds, **more):
    best = None
    for _round in range(rounds):
        gc.collect()
        begin = time.process_time()
        result = select_destinations(hosts, requests, {"max_attempts": 1}, **more)
        seconds = time.process_time() - begin
        best = min(seconds, best or seconds)
    return best, [host for one in result.requests for host in one.hosts], result


def nova_one_flavor(bench, number_hosts, number, budget):
    scheduler, spec, states, uuids, patched = bench.setup(number_hosts, number, hosts=fleet(number_hosts))
    done, _wall, chosen, cpu = bench.run_nova(scheduler, spec, states, uuids, budget)
    patched.__exit__(None, None, None)
    return cpu / done * number, chosen


def nova_mixed(bench, oracle, hosts, requests, budget):
    """Nova's filter, weigh and consume for each request in turn; groups as its API would fill them."""
    import nova.context

    oracle.boot()
    groups = {one["group"]["uuid"]: dict(one["group"], members=[]) for one in requests if one["group"]}
    oracle.apply_config({})
    world = oracle.World({"hosts": hosts, "groups": list(groups.values()), "requests": []})
    patched = oracle.patched_db(world, None)
    patched.__enter__()
    scheduler = oracle.OracleScheduler(world, None, None)
    context = nova.context.RequestContext(user_id="u", project_id="p", is_admin=True)
    from nova.scheduler.manager import SchedulerManager

    chosen, spent, states, begin = [], 0.0, None, time.perf_counter()
    for request in requests:
        if time.perf_counter() - begin > budget:
            break
        uuid = oracle.det_uuid("mixed", request["uuid"])
        asked = dict(request, group=request["group"]["uuid"] if request["group"] else None)
        spec = oracle.build_spec(context, world, asked, [uuid])
        states = states or list(scheduler.host_manager.get_host_states_by_uuids(context, None, spec))
        start = time.process_time()
        spec.instance_uuid = uuid
        best = scheduler._get_sorted_hosts(spec, states, 0)[0]
        SchedulerManager._consume_selected_host(best, spec, instance_uuid=uuid)
        spent += time.process_time() - start
        world.instance_host[uuid] = best.host
        chosen.append(best.host)
    patched.__exit__(None, None, None)
    return spent / len(chosen) * len(requests), chosen


def agreement(mine, theirs):
    """How many of the first decisions are the same host; after a tie broken otherwise the two may part."""
    same = 0
    for one, other in zip(mine, theirs):
        if one != other:
            break
        same += 1
    return "%d of %d" % (same, len(theirs))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--nova", default=None)
    parser.add_argument("--nova-budget", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    bench = oracle = None
    if options.nova:
        sys.path.insert(0, options.nova)
        import bench_nova as bench
        import nova_oracle as oracle
    rows = [
        ("one-of-10000", 10000, one_flavor(1), 40),
        ("100-on-5000", 5000, one_flavor(100), 3000),
        ("1000-on-10000", 10000, one_flavor(1000), 10000),
        ("mixed-1000-on-5000", 5000, mixed(1000), 500),
    ]
    print(
        "%-26s %10s %12s %10s %8s  %s"
        % ("", "seconds", "Nova", "ratio", "target", "same host as Nova, up to the first tie")
    )
    for name, number, requests, target in rows:
        hosts = fleet(number)
        seconds, chosen, _result = ours(hosts, requests, options.rounds)
        explained, _chosen, _result = ours(hosts, requests, options.rounds, explain=True)
        theirs, same = None, ""
        if bench and name.startswith("mixed"):
            theirs, nova_chosen = nova_mixed(bench, oracle, fleet(number), requests, options.nova_budget)
            same = agreement(chosen, nova_chosen)
        elif bench:
            theirs, nova_chosen = nova_one_flavor(bench, number, len(chosen), options.nova_budget)
            same = agreement(chosen, nova_chosen)
        write(name, seconds, theirs, target, same)
        write(name + "-explained", explained, theirs, target / 10, "")
    hosts = fleet(10000)
    begin = time.process_time()
    result = select_destinations(hosts, one_flavor(1), {"max_attempts": 1}, explain=True)
    verdicts = sum(len(one) for one in result.requests[0].explanation["candidates"].values())
    write(
        "one-of-10000-explanation-read", time.process_time() - begin, None, None, "%d verdicts of candidates" % verdicts
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("%-26s %10.0f MiB at most, of this whole process" % ("memory", peak))
    record("placement-memory", peak, "MiB", None)


def write(name, seconds, theirs, target, same):
    ratio = theirs / seconds if theirs else None
    shown = (
        "%.1f s" % theirs if theirs else "-",
        "%.0f x" % ratio if ratio else "-",
        "%g x" % target if target else "",
    )
    print("%-26s %10.4f %12s %10s %8s  %s" % ((name, seconds) + shown + (same,)), flush=True)
    record("placement-" + name, seconds, "s", ratio)


def record(name, value, unit, ratio):
    directory = ROOT / ".bench"
    directory.mkdir(exist_ok=True)
    row = {"name": name, "value": value, "unit": unit, "against": "nova" if ratio else None, "ratio": ratio}
    (directory / (name + ".json")).write_text(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
