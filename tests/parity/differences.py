# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of docs/nova-differences.md as scenarios: what Nova does with each is recorded here, and compared by a unit test.

    differences.py --oracle DIR ../vectors/differences.json

``nova`` is per request the chosen hosts, or the name of the exception that ended it; ``here`` is our answer.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import answer  # noqa: E402

GROUP = "11111111-1111-4111-8111-111111111111"
ALL_ZERO = dict.fromkeys(
    (
        "ram_weight_multiplier",
        "cpu_weight_multiplier",
        "disk_weight_multiplier",
        "io_ops_weight_multiplier",
        "hypervisor_version_weight_multiplier",
        "build_failure_weight_multiplier",
        "pci_weight_multiplier",
    ),
    0.0,
)
GPU = {"vendor_id": "10de", "product_id": "1db4"}


def host(name, **more):
    sizes = {"vcpus": 16, "memory_mb": 65536, "local_gb": 500, "supported_instances": [["x86_64", "kvm", "hvm"]]}
    return {"host": name, **sizes, **more}


def request(specs=None, props=None, **more):
    flavor = {"name": "m", "vcpus": 2, "memory_mb": 2048, "root_gb": 10, "extra_specs": specs or {}}
    flavor.update({key: more.pop(key) for key in ("vcpus", "memory_mb", "root_gb") if key in more})
    return {"flavor": flavor, "image": {"id": "i", "properties": props or {}}, **more}


def case(hosts, *requests, aggregates=(), groups=(), **config):
    """A scenario; keyword arguments are options of filter_scheduler, or groups of options where they are objects."""
    options = {name: value for name, value in config.items() if not isinstance(value, dict)}
    told = {name: value for name, value in config.items() if isinstance(value, dict)}
    told["filter_scheduler"] = {**told.get("filter_scheduler", {}), **options}
    return {
        "config": told,
        "aggregates": list(aggregates),
        "groups": list(groups),
        "hosts": list(hosts),
        "requests": list(requests),
    }


def cell(number, cpus, **more):
    return {
        "id": number,
        "cpuset": cpus,
        "pcpuset": cpus,
        "memory_mb": 16384,
        "siblings": [[cpu] for cpu in cpus],
        "mempages": [],
        **more,
    }


def numa_host(name, *cells, **more):
    return host(name, pcpus=sum(len(cell["pcpuset"]) for cell in cells), numa_topology={"cells": list(cells)}, **more)


def pages(number, cpus, free_2m, free_1g):
    sizes = [{"size_kb": 2048, "total": free_2m}, {"size_kb": 1048576, "total": free_1g}]
    return cell(number, cpus, mempages=[{"size_kb": 4, "total": 1 << 20}, *sizes])


UNEVEN = {
    "hw:cpu_policy": "dedicated",
    "hw:numa_nodes": "2",
    "hw:numa_cpus.0": "0",
    "hw:numa_mem.0": "1536",
    "hw:numa_cpus.1": "1",
    "hw:numa_mem.1": "4608",
    "hw:mem_page_size": "2048",
}
THREE = [host("a"), host("b"), host("c")]
SIZES = [host("a", memory_mb=16384), host("b", memory_mb=32768), host("c", memory_mb=65536)]

DIFFERENT = {
    "a-filter-that-raises": case(
        [host("a", hypervisor_type="QEMU"), host("b", hypervisor_type="5")],
        request({"capabilities:hypervisor_type": ">= 3"}),
    ),
    "a-query-that-is-no-json": case(
        THREE, request(scheduler_hints={"query": '["zz", "$free_ram_mb", 1]'}), enabled_filters=["JsonFilter"]
    ),
    "a-network-that-is-none": case(
        THREE,
        request(scheduler_hints={"build_near_host_ip": "10.0.0.1", "cidr": "/99"}),
        enabled_filters=["SimpleCIDRAffinityFilter"],
    ),
    "a-metric-that-one-host-lacks": case(
        [host("a"), host("b", metrics=[{"name": "cpu.frequency", "value": 1}]), host("c")],
        request(),
        metrics={"weight_setting": ["cpu.frequency=1.0"]},
    ),
    "maxphysaddr-bits": case(
        [
            host("a", traits=["COMPUTE_ADDRESS_SPACE_EMULATED"], cpu_info={"maxphysaddr": {"bits": 40}}),
            host("b", traits=["COMPUTE_ADDRESS_SPACE_EMULATED"], cpu_info={"maxphysaddr": {"bits": 46}}),
        ],
        request(
            props={"hw_architecture": "x86_64", "hw_maxphysaddr_bits": "42", "hw_maxphysaddr_mode": "emulate"},
        ),
    ),
    "a-metric-that-nova-does-not-know": case(
        [host("a", metrics=[{"name": "load", "value": 0.2}]), host("b", metrics=[{"name": "load", "value": 0.7}])],
        request(),
        metrics={"weight_setting": ["load=-1000.0"], "required": False},
    ),
    "an-alias-with-a-capability": case(
        [host("a", pci_pools=[{**GPU, "numa_node": None, "count": 1, "dev_type": "type-PCI"}])],
        request({"pci_passthrough:alias": "gpu:1"}),
        enabled_filters=["PciPassthroughFilter"],
        pci={"alias": [{**GPU, "name": "gpu", "capability_type": "pci"}]},
    ),
    "a-cell-without-siblings": case(
        [numa_host("a", cell(0, [0, 1, 2, 3], siblings=[]))],
        request({"hw:cpu_policy": "dedicated"}),
        enabled_filters=["NUMATopologyFilter"],
    ),
    "a-cell-without-pages": case(
        [numa_host("a", cell(0, [0, 1, 2, 3], memory_mb=4096))],
        request({"hw:numa_nodes": "1"}, memory_mb=4096, num_instances=2),
        enabled_filters=["NUMATopologyFilter"],
    ),
    "a-cell-that-fits-only-when-asked-twice": case(
        [numa_host("a", pages(0, [0, 1, 2, 3], 2048, 0), pages(1, [4, 5, 6, 7], 1023, 0))],
        request(UNEVEN, memory_mb=6144),
        enabled_filters=["NUMATopologyFilter"],
    ),
    "a-multiplier-that-is-nan": case(
        SIZES,
        request(),
        aggregates=[{"name": "w", "hosts": ["a", "b", "c"], "metadata": {"ram_weight_multiplier": "nan"}}],
        **{**ALL_ZERO, "ram_weight_multiplier": 1.0},
    ),
    "encryption-with-the-firmware-of-the-flavor": case(
        [host("a", traits=["HW_CPU_X86_AMD_SEV"], inventory={"MEM_ENCRYPTION_CONTEXT": {"total": 4}})],
        request({"hw:mem_encryption": "true", "hw:firmware_type": "uefi", "hw:machine_type": "q35"}),
    ),
    "two-nodes-of-one-host": case(
        [host("a"), host("a", node="a-second"), host("b", memory_mb=8192)],
        request(num_instances=2, group=GROUP),
        groups=[{"uuid": GROUP, "policy": "anti-affinity", "members": []}],
    ),
}
SAME = {
    "a-full-host-stays-in-the-list": case(
        [host("a", vcpus=4, cpu_allocation_ratio=1.0), host("b"), host("c")],
        request(num_instances=5),
        **{**ALL_ZERO, "ram_weight_multiplier": -1.0, "cpu_weight_multiplier": -1.0},
    ),
    "no-weights-stack": case(THREE, request(num_instances=5), **ALL_ZERO),
    "an-affine-group-larger-than-the-first-host": case(
        [host("a", vcpus=5, cpu_allocation_ratio=1.0), host("b", vcpus=6, memory_mb=8192, cpu_allocation_ratio=1.0)],
        request(num_instances=3, group=GROUP),
        groups=[{"uuid": GROUP, "policy": "affinity", "members": []}],
    ),
    "equals-means-at-least": case(
        [host("a", hypervisor_version=9000000), host("b", hypervisor_version=7000000)],
        request({"capabilities:hypervisor_version": "= 8000000"}),
    ),
    "not-inside-and-is-true": case(
        [host("a", hypervisor_type="QEMU")],
        request(scheduler_hints={"query": '["and", ["not", ["=", "$hypervisor_type", "QEMU"]]]'}),
        request(scheduler_hints={"query": '["not", ["=", "$hypervisor_type", "QEMU"]]'}),
        enabled_filters=["JsonFilter"],
    ),
    "a-zone-that-no-aggregate-names": case(
        [host("a"), host("b", memory_mb=32768)],
        request(availability_zone="nova"),
        request(availability_zone="az1"),
        aggregates=[{"name": "z", "hosts": ["b"], "metadata": {"availability_zone": "az1"}}],
    ),
    "a-forced-host-skips-filters": case(
        [host("a", service={"up": False}), host("b", service={"disabled": True})],
        request(force_hosts=["a"]),
        request(force_hosts=["b"]),
    ),
    "the-ram-weigher-ignores-the-ratio": case(
        [host(name, memory_mb_used=used, ram_allocation_ratio=2.0) for name, used in (("a", 80000), ("b", 70000))],
        request(),
        **{**ALL_ZERO, "ram_weight_multiplier": 1.0},
    ),
    "image-props-of-an-aggregate-while-off": case(
        [host("a"), host("b", instances=[{"uuid": GROUP, "image_props": {"os_distro": "debian"}}])],
        request(props={"os_distro": "debian"}),
        aggregates=[{"name": "w", "hosts": ["a", "b"], "metadata": {"image_props_weight_multiplier": "5"}}],
        **ALL_ZERO,
    ),
    "numa-without-its-filter": case(
        [numa_host("a", cell(0, [0, 1], pinned_cpus=[0, 1]))], request({"hw:cpu_policy": "dedicated"})
    ),
    "the-page-size-of-the-first": case(
        [numa_host("a", pages(0, [0, 1, 2, 3], 4096, 2))],
        request({"hw:mem_page_size": "any"}, num_instances=2),
        enabled_filters=["NUMATopologyFilter"],
    ),
    "volumes-and-the-disk-weigher": case(
        [host("a", local_gb=100), host("b", local_gb=90)],
        request(root_gb=80, is_bfv=True, num_instances=3),
        **{**ALL_ZERO, "disk_weight_multiplier": 1.0},
    ),
    "the-limit-of-candidates": case(
        [host("a", memory_mb=32768), host("b", memory_mb=32768), host("c")],
        request(),
        scheduler={"max_placement_results": 2},
    ),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oracle", required=True)
    parser.add_argument("out")
    options = parser.parse_args()
    from run import nova

    decide = nova(options.oracle)
    rows = []
    for kind, cases in (("different", DIFFERENT), ("same", SAME)):
        for name, scenario in cases.items():
            here = answer.answer(scenario)
            theirs = [
                request["hosts"] or request["error"].split(":")[0]
                for request in decide(scenario, follow=here)["requests"]
            ]
            theirs = [[] if entry == "NoValidHost" else entry for entry in theirs]
            rows.append({"name": name, "kind": kind, "nova": theirs, "here": here, "scenario": scenario})
            print("%-9s %-45s Nova %-40s here %s" % (kind, name, theirs, here))
    with open(options.out, "w", encoding="utf-8") as out:
        out.write("[\n%s\n]\n" % ",\n".join(json.dumps(row) for row in rows))


if __name__ == "__main__":
    main()
