# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Advice where NUMA cells, PCI devices, hints or group policies refuse."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import HostState
from ansible_collections.berth.kvm.plugins.module_utils.placement.changes.would_fit import leave, smallest_changes
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations

GPU = {"vendor_id": "10de", "product_id": "1db4", "dev_type": "type-PCI"}
OPTIONS = {
    "enabled_filters": [
        "SameHostFilter",
        "DifferentHostFilter",
        "ServerGroupAffinityFilter",
        "PciPassthroughFilter",
        "NUMATopologyFilter",
    ],
    "pci_alias": [
        {"name": "gpu", "vendor_id": "10de", "product_id": "1db4", "numa_policy": "required"},
    ],
}


def cell(number, pinned=(), pages_used=0, **more):
    """4 CPUs of 2 cores for both uses, 4 GiB, of which 2 GiB are pages of 2 MiB."""
    cpus = list(range(4 * number, 4 * number + 4))
    return {
        "id": number,
        "cpuset": cpus,
        "pcpuset": cpus,
        "memory_mb": 4096,
        "pinned_cpus": [4 * number + each for each in pinned],
        "siblings": [cpus[:2], cpus[2:]],
        "mempages": [
            {"size_kb": 4, "total": 524288},
            {"size_kb": 2048, "total": 1024, "used": pages_used},
        ],
        **more,
    }


def host(name, *cells, **more):
    sizes = {"vcpus": 8, "pcpus": 8, "memory_mb": 8192, "reserved_host_memory_mb": 0, "local_gb": 50}
    return {"host": name, **sizes, "numa_topology": {"cells": list(cells)}, **more}


def request(vcpus=1, memory_mb=512, **more):
    extra_specs = {key: str(value) for key, value in more.pop("specs", {}).items()}
    flavor = {"name": "m", "vcpus": vcpus, "memory_mb": memory_mb, "root_gb": 1, "extra_specs": extra_specs}
    return {"uuid": "u", "name": "web", "flavor": flavor, **more}


def pinned(vcpus, **specs):
    return request(vcpus, specs={"hw:cpu_policy": "dedicated", **specs})


def texts(hosts, spec, kind=None):
    return [change.text for change in smallest_changes(hosts, [spec], OPTIONS) if kind in (None, change.kind)]


@pytest.mark.parametrize(
    "hosts, spec, told",
    [
        (
            [host("k1", cell(0, (0, 1, 2))), host("k2", cell(0, (0, 1)))],
            pinned(3),
            "on k2: 1 more free CPUs to pin in NUMA cell 0 (2 free, 3 needed)",
        ),
        (
            [host("k1", cell(0, (0, 2)))],
            pinned(2, **{"hw:cpu_thread_policy": "isolate"}),
            "on k1: 2 more free CPUs to pin in NUMA cell 0 (2 free, 2 needed, thread policy isolate)",
        ),
        (
            [host("k1", cell(0, pages_used=1000))],
            request(memory_mb=512, specs={"hw:mem_page_size": "2MB"}),
            "on k1: 232 more pages of 2048 KiB in NUMA cell 0 (24 free, 256 needed)",
        ),
        (
            [host("k1", cell(0))],
            request(memory_mb=1024, specs={"hw:mem_page_size": "1GB"}),
            "on k1: 1 more pages of 1048576 KiB in NUMA cell 0 (0 free, 1 needed)",
        ),
        (
            [host("k1", cell(0, mempages=[], memory_usage=4000))],
            pinned(1),
            "on k1: 416 more MiB in NUMA cell 0 (96 free, 512 needed)",
        ),
        (
            [host("k1", cell(0, cpu_usage=16), cpu_allocation_ratio=4.0)],
            request(2, specs={"hw:numa_nodes": 1}),
            "on k1: 2 fewer shared CPUs in use in NUMA cell 0 (0 free, 2 needed at cpu_allocation_ratio 4)",
        ),
        (
            [host("k1", cell(0, (0, 1, 2)), cell(1, (0,)))],
            pinned(4, **{"hw:numa_nodes": 2}),
            "on k1: 1 more free CPUs to pin in NUMA cell 0 (1 free, 2 needed)",
        ),
    ],
    ids=["pins", "whole cores", "pages", "no such pages", "memory", "shared CPUs", "two cells"],
)
def test_a_cell_that_lacks_least_is_named_with_what_it_lacks(hosts, spec, told):
    assert texts(hosts, spec, "limit") == [told]


@pytest.mark.parametrize(
    "spec",
    [pinned(5), pinned(4, **{"hw:numa_nodes": 4}), request(memory_mb=511, specs={"hw:mem_page_size": "2MB"})],
    ids=["more CPUs than a cell has", "more cells than the host has", "memory that pages do not divide"],
)
def test_what_no_host_of_this_build_can_ever_hold_gets_no_advice(spec):
    assert texts([host("k1", cell(0), cell(1))], spec) == []


def test_devices_that_are_missing_are_counted():
    pools = [{**GPU, "numa_node": 0, "count": 1}]
    spec = request(specs={"pci_passthrough:alias": "gpu:3"})
    assert texts([host("k1", cell(0), pci_pools=pools)], spec) == [
        "on k1: 2 more free devices of gpu (1 free, 3 needed)"
    ]


def test_devices_that_are_at_another_cell_are_told_with_the_policy():
    pools = [{**GPU, "numa_node": 1, "count": 1}]
    spec = pinned(2, **{"pci_passthrough:alias": "gpu:1"})
    full = cell(1, (0, 1, 2, 3))
    assert texts([host("k1", cell(0), full, pci_pools=pools)], spec, "limit") == [
        "on k1: 1 more free devices of gpu near NUMA cell 0 (required) (1 free, 1 needed)"
    ]


def guest(name, pinning, **specs):
    """An instance pinned on these CPUs of cell 0."""
    topology = {
        "cells": [
            {
                "id": 0,
                "cpuset": [],
                "pcpuset": list(range(len(pinning))),
                "memory_mb": 512,
                "pagesize": None,
                "cpu_policy": "dedicated",
                "cpu_pinning": {str(vcpu): cpu for vcpu, cpu in enumerate(pinning)},
            }
        ]
    }
    sizes = {"vcpus": 0, "pcpus": len(pinning), "memory_mb": 512, "disk_gb": 1}
    flavor = {"name": "p", "extra_specs": {"hw:cpu_policy": "dedicated", **specs}}
    return {"uuid": name + "-id", "name": name, "flavor": flavor, "numa_topology": topology, **sizes}


def test_a_pinned_instance_is_moved_away_from_the_cell_it_fills():
    guests = [guest("db", [0, 1]), guest("log", [2])]
    hosts = [host("k1", cell(0, (0, 1, 2)), instances=guests, pcpus_used=3), host("k2", cell(0, (0, 1)))]
    assert texts(hosts, pinned(3), "move") == ["move db (2 vCPUs, 512 MiB) from k1 to k2"]


def test_an_instance_is_moved_away_from_the_device_it_holds():
    devices = [{**GPU, "address": "0000:01:00.0", "numa_node": 0, "used_by": "db-id", "available": True}]
    specs = {"pci_passthrough:alias": "gpu:1"}
    holder = host(
        "k1", cell(0, (0,)), instances=[guest("db", [0], **specs)], pci_devices=devices, pci_pools=[], pcpus_used=1
    )
    other = host("k2", cell(0), pci_pools=[{**GPU, "numa_node": 0, "count": 1}])
    spec = request(3, specs={"hw:cpu_policy": "dedicated", **specs})
    other["numa_topology"]["cells"][0]["pinned_cpus"] = [0, 1]
    assert texts([holder, other], spec, "move") == ["move db (1 vCPUs, 512 MiB) from k1 to k2"]


def test_a_hint_that_keeps_hosts_apart_names_the_instance_and_its_host():
    hosts = [
        host("k1", cell(0), instances=[{"uuid": "a"}, {"uuid": "b"}]),
        host("k2", cell(0), instances=[{"uuid": "c"}]),
    ]
    spec = request(scheduler_hints={"different_host": ["a", "b", "c"]})
    assert texts(hosts, spec) == ["share k2 with c (hint different_host)"]


def test_a_hint_for_a_host_that_is_full_can_be_left_out():
    hosts = [host("k1", cell(0), instances=[{"uuid": "a"}], memory_mb_used=8192), host("k2", cell(0))]
    assert texts(hosts, request(scheduler_hints={"same_host": "a"}), "request") == [
        "leave out the hint same_host (now a)"
    ]


def test_an_affine_group_on_a_full_host_may_be_softly_affine():
    group = {"name": "web", "uuid": "g", "policy": "affinity", "members": ["a"]}
    hosts = [host("k1", cell(0), instances=[{"uuid": "a"}], memory_mb_used=8192), host("k2", cell(0))]
    assert texts(hosts, request(group=group), "request") == [
        "let server group web be soft-affinity (its members are on k1)"
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sets(st.integers(0, 3)), min_size=1, max_size=4), st.integers(1, 4))
def test_advice_on_pinning_is_exactly_enough(taken, vcpus):
    """With one CPU less to be freed than the advice says, no host would do."""
    hosts = [host("k%d" % at, cell(0, sorted(entry))) for at, entry in enumerate(taken)]
    free = max(4 - len(entry) for entry in taken)
    told = texts(hosts, pinned(vcpus), "limit")
    if free >= vcpus:
        assert told == [] and not select_destinations(hosts, [pinned(vcpus)], OPTIONS).errors
    else:
        assert told == [
            "on k%d: %d more free CPUs to pin in NUMA cell 0 (%d free, %d needed)"
            % ([4 - len(entry) for entry in taken].index(free), vcpus - free, free, vcpus)
        ]


SPECS = [
    {"hw:cpu_policy": "dedicated"},
    {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"},
    {"hw:cpu_policy": "dedicated", "hw:mem_page_size": "2MB", "pci_passthrough:alias": "gpu:1"},
    {"hw:numa_nodes": "2", "hw:mem_page_size": "small"},
    {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"},
]


@pytest.mark.parametrize("specs", SPECS, ids=lambda entry: " ".join(entry.values()))
def test_an_instance_that_leaves_gives_back_exactly_what_it_took(specs):
    devices = [{**GPU, "address": "0000:01:00.0", "numa_node": 0, "used_by": None, "available": True}]
    document = host("k1", cell(0), cell(1), pci_devices=devices, pci_pools=[{**GPU, "numa_node": 0, "count": 1}])
    before = HostState.from_document(document)
    placed = select_destinations([document], [request(2, specs=specs)], OPTIONS)
    after, allocation = placed.host_states[0], placed.requests[0].selections[0].allocation
    parts = ("vcpus", "pcpus", "memory_mb", "disk_gb", "numa_topology")
    after.pci_devices = [{**device, "used_by": "u"} if allocation["pci_devices"] else device for device in devices]
    leave(after, {"uuid": "u", **{part: allocation[part] for part in parts}})
    assert after.numa_topology.to_document() == before.numa_topology.to_document()
    assert {name: used for name, used in after.used.items() if used} == {}
    assert after.pci_stats == before.pci_stats and not after.pci_devices[0]["used_by"]
