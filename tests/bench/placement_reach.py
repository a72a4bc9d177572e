# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time the fast pipeline against the plain one for requests that ask for more than a flavor.

    placement_reach.py [--hosts N] [--rounds N]

Ten requests of each sort on N hosts with two NUMA cells and PCI devices each; CPU seconds of this process, the best of the
rounds of either side in turns. Both must give the same answer. Writes .bench/placement-reach-*.json.
"""

from __future__ import annotations

import argparse
import os

import placement

from ansible_collections.berth.kvm.plugins.module_utils.placement.options import DEFAULT_FILTERS
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations

GPU = {"vendor_id": "10de", "product_id": "1db4"}
FILTERS = {"enabled_filters": [*DEFAULT_FILTERS, "NUMATopologyFilter", "PciPassthroughFilter", "DifferentHostFilter"]}


def fleet(number):
    hosts = placement.fleet(number)
    for index, host in enumerate(hosts):
        half = host["vcpus"] // 2
        host["numa_topology"] = {
            "cells": [
                {
                    "id": cell,
                    "cpuset": list(range(cell * half, (cell + 1) * half)),
                    "pcpuset": list(range(cell * half, (cell + 1) * half)),
                    "memory_mb": host["memory_mb"] // 2,
                    "memory_mb_used": host["memory_mb_used"] // 2,
                    "siblings": [],
                }
                for cell in range(2)
            ]
        }
        host["instances"] = [{"uuid": "old-%d" % index, "vcpus": 2, "memory_mb": 4096}]
        if index % 4 == 0:
            host["pci_pools"] = [dict(GPU, numa_node=0, count=4)]
    return hosts


def sorts(hosts):
    """Yield (name, what is added to each request, options, aggregates)."""
    flavor = placement.FLAVOR
    names = [host["host"] for host in hosts]
    zone = {"name": "half", "hosts": names[::2], "metadata": {"ram_weight_multiplier": "2.0"}}
    yield "a-flavor", {}, {}, ()
    yield "ignored-hosts", {"ignore_hosts": names[:3]}, {}, ()
    yield "requested-host", {"requested_destination": {"host": names[5]}}, {}, ()
    yield "forced-host", {"force_hosts": [names[5]]}, {}, ()
    yield "different-host", {"scheduler_hints": {"different_host": ["old-1", "old-2"]}}, {}, ()
    yield "aggregate-multipliers", {}, {}, (zone,)
    yield "random-choice", {}, {"host_subset_size": 5, "shuffle_best_same_weighed_hosts": True}, ()
    yield "numa-cells", {"flavor": dict(flavor, extra_specs={"hw:numa_nodes": "2"})}, {}, ()
    yield "pinned-cpus", {"flavor": dict(flavor, extra_specs={"hw:cpu_policy": "dedicated"})}, {}, ()
    yield "pci-device", {"flavor": dict(flavor, extra_specs={"pci_passthrough:alias": "gpu:1"})}, {}, ()
    yield "numa-multi-create", {"flavor": dict(flavor, extra_specs={"hw:numa_nodes": "2"}), "num_instances": 2}, {}, ()
    yield "headroom", {}, {"weight_classes": ["HeadroomWeigher"]}, ()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--hosts", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    hosts = fleet(given.hosts)
    print("load %.1f %.1f %.1f" % os.getloadavg())
    print("%-32s %10s %10s %9s" % ("10 requests on %d hosts" % given.hosts, "seconds", "plain", "ratio"))
    for name, more, options, aggregates in sorts(hosts):
        requests = [
            {"uuid": "vm%d" % number, "flavor": placement.FLAVOR, "image": placement.IMAGE, **more}
            for number in range(10)
        ]
        options = {**FILTERS, "pci_alias": [dict(GPU, name="gpu")], **options}

        def decide(fast, requests=requests, options=options, aggregates=aggregates):
            result = select_destinations(hosts, requests, options, aggregates, fast=fast)
            return [[selection.to_dict() for selection in answer.selections] for answer in result.requests]

        best = {True: None, False: None}
        for _round in range(given.rounds):
            answers = {}
            for fast in best:
                seconds, answers[fast] = placement.best_of(1, lambda fast=fast: decide(fast))
                best[fast] = min(seconds, best[fast] or seconds)
            assert answers[True] == answers[False], name
        placement.write("reach-" + name, best[True], "s", best[False], None, "", against="plain")


if __name__ == "__main__":
    main()
