# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fast pipeline decides, fails and explains as the plain one does, whatever is asked of whatever fleet."""

from __future__ import annotations

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import HostState
from ansible_collections.berth.kvm.plugins.module_utils.placement import explain
from ansible_collections.berth.kvm.plugins.module_utils.placement.base import Weigher
from ansible_collections.berth.kvm.plugins.module_utils.placement.filters.state import ComputeFilter
from ansible_collections.berth.kvm.plugins.module_utils.placement.options import DEFAULT_FILTERS
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations
from ansible_collections.berth.kvm.plugins.module_utils.placement.text import plain

GPU = {"vendor_id": "10de", "product_id": "1db4"}
POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")
HARD = tuple(DEFAULT_FILTERS)
STATEFUL = ("IoOpsFilter", "NumInstancesFilter", "RamFilter", "CoreFilter", "DiskFilter", "TypeAffinityFilter")
HINTED = ("DifferentHostFilter", "SameHostFilter", "JsonFilter", "QueryFilter", "RetryFilter", "IsolatedHostsFilter")
NUMA = ("NUMATopologyFilter", "PciPassthroughFilter")
AGGREGATE = ("DumpFilter", "AggregateRamFilter", "AggregateInstanceExtraSpecsFilter", "AvailabilityZoneFilter")


def some(rng, values, most=3):
    return rng.sample(list(values), min(len(values), rng.randint(0, most)))


def a_cell(number, size, memory_mb):
    cpus = range(number * size, (number + 1) * size)
    return {"id": number, "cpuset": list(cpus), "pcpuset": list(cpus), "memory_mb": memory_mb, "siblings": []}


def a_host(rng, name):
    vcpus, gib = rng.choice([4, 8, 16]), rng.choice([4, 8, 32])
    used = rng.choice([0, 0, 0.25, 0.5, 1])
    host = {
        "host": name,
        "vcpus": vcpus,
        "memory_mb": gib * 1024,
        "local_gb": gib * 8,
        "vcpus_used": int(vcpus * used),
        "memory_mb_used": int(gib * 1024 * used),
        "local_gb_used": 0,
        "num_io_ops": rng.choice([0, 0, 1, 7]),
        "failed_builds": rng.choice([0, 0, 0, 1]),
        "cpu_allocation_ratio": rng.choice([1.5, 4.0]),
        "reserved_host_memory_mb": rng.choice([0, 512]),
        "hypervisor_version": 8000000 + rng.choice([0, 0, 1]),
        "cell": rng.choice(["c0", "c0", "c1"]),
        "instances": [
            {"uuid": "old-%s-%d" % (name, number), "flavor": {"name": rng.choice("fg")}}
            for number in range(rng.choice([0, 0, 1, 2]))
        ],
    }
    more = {
        "num_instances": rng.randint(0, 3),
        "service": rng.choice([{"up": True}, {"up": False}, {"disabled": True}]),
        "supported_instances": rng.choice([[["x86_64", "kvm", "hvm"]], [["aarch64", "kvm", "hvm"]]]),
        "traits": rng.choice([[], ["CUSTOM_FAST"], ["COMPUTE_STATUS_DISABLED"]]),
        "inventory": rng.choice([{"MEMORY_MB": {"step_size": 1024}}, {"CUSTOM_X": {"total": 2}}]),
        "placement_used": {"MEMORY_MB": 1024},
        "reserved_host_cpus": 1,
        "disk_available_least": 5,
        "node": name + "-node",
    }
    for field in some(rng, more):
        host[field] = more[field]
    if rng.random() < 0.4:
        host["pci_pools"] = [dict(GPU, numa_node=rng.choice([0, None]), count=rng.choice([1, 2]))]
    if rng.random() < 0.4:
        host["numa_topology"] = {"cells": [a_cell(cell, vcpus // 2, gib * 512) for cell in range(2)]}
        host["pcpus"] = rng.choice([0, 2])
    if rng.random() < 0.5:
        host.update(sites(rng))
    return host


def sites(rng):
    """Networks and pools of a host; its own pool shares a file system with another, or does not."""

    def pool(storage, size):
        used = rng.choice([0, size - 1, size])
        return {
            "type": rng.choice(["dir"] * 5 + ["logical"]),
            "storage": storage,
            "capacity_gb": size,
            "free_gb": 1,
            "promised_gb": used,
        }

    pools = {"berth": pool("berth", 8), "fast": pool(rng.choice(["berth", "fast"]), 4), "big": pool("fast", 4)}
    pools = {name: pools[name] for name in some(rng, pools)}
    return {
        "pool": rng.choice(["berth", "berth", "fast"]),
        "pools": pools,
        "bridges": some(rng, ["br0", "br1"]),
        "networks": some(rng, ["lan", "dmz"]),
    }


EXTRA_SPECS = [{}] * 6 + [
    {"hw:numa_nodes": "2"},
    {"hw:cpu_policy": "dedicated"},
    {"pci_passthrough:alias": "gpu:1"},
    {"trait:CUSTOM_FAST": "required"},
    {"resources:CUSTOM_X": "1"},
    {"capabilities:hypervisor_version": ">= 8000001"},
]


def a_request(rng, number, hosts, groups):
    names = [host["host"] for host in hosts]
    old = [instance["uuid"] for host in hosts for instance in host["instances"]]
    count = rng.choice([1, 1, 1, 2, 4])
    extra_specs = dict(rng.choice(EXTRA_SPECS))
    request = {
        "uuid": "vm%d" % number,
        "name": "vm%d" % number,
        "flavor": {
            "name": rng.choice("fg"),
            "vcpus": rng.choice([2, 4] if "hw:numa_nodes" in extra_specs else [1, 2, 4]),
            "memory_mb": rng.choice([512, 2048]),
            "root_gb": rng.choice([0, 1]),
            "extra_specs": extra_specs,
        },
        "num_instances": count,
        "instance_uuids": ["vm-%d-%d" % (number, each) for each in range(count)],
    }
    if old and rng.random() < 0.1 and count == 1:
        request["instance_uuids"] = [rng.choice(old)]
    more = {
        "ignore_hosts": some(rng, names + ["H001", "nobody"]),
        "force_hosts": some(rng, names, 2),
        "force_nodes": some(rng, names, 2),
        "requested_destination": {"host": rng.choice(names + ["nobody"])},
        "scheduler_hints": rng.choice(
            [
                {"different_host": some(rng, old)},
                {"same_host": some(rng, old)},
                {"query": '[">=", "$free_ram_mb", 4096]'},
            ]
        ),
        "availability_zone": "z",
        "retry": {"num_attempts": 1, "hosts": some(rng, names)},
        "image": {"id": "i", "properties": {"hw_architecture": "x86_64"}},
        "batch_id": "b",
        "project_id": "p",
        "pool": rng.choice(["berth", "fast", "big"]),
        "networks": [{"type": "bridge", "source": "br0"}, {"type": "network", "source": rng.choice(["lan", "dmz"])}][
            : rng.choice([1, 1, 2])
        ],
    }
    for field in some(rng, more, 2) if rng.random() < 0.6 else ():
        request[field] = more[field]
    if rng.random() < 0.5:
        uuid, policy, rules = rng.choice(groups)
        request["group"] = {"uuid": uuid, "name": uuid, "policy": policy, "rules": rules, "members": some(rng, old)}
    return request


def world(rng):
    """(hosts, requests, options, aggregates), all at random."""
    hosts = [a_host(rng, "h%03d" % number) for number in range(rng.choice([1, 2, 5, 12, 90]))]
    groups = [
        ("g%d" % number, rng.choice(POLICIES), rng.choice([{}, {"max_server_per_host": 2}])) for number in range(3)
    ]
    requests = [a_request(rng, number, hosts, groups) for number in range(rng.randint(1, 8))]
    options = {
        "ram_weight_multiplier": rng.choice([1.0, 1.0, -1.0, 0.0, 0.3]),
        "num_instances_weight_multiplier": rng.choice([0.0, -0.5]),
        "soft_anti_affinity_weight_multiplier": rng.choice([1.0, 3.0]),
        "max_attempts": rng.choice([1, 3]),
        "enabled_filters": [
            *HARD,
            *some(rng, STATEFUL),
            *some(rng, HINTED),
            *some(rng, NUMA, 2),
            *some(rng, AGGREGATE, 1),
        ],
        "isolated_hosts": rng.choice([[], ["h001"]]),
        "pci_alias": [dict(GPU, name="gpu")],
        "shuffle_best_same_weighed_hosts": rng.random() < 0.2,
        "host_subset_size": rng.choice([1, 1, 1, 3]),
    }
    metadata = {
        "ram_weight_multiplier": "2.0",
        "cpu_weight_multiplier": "-1",
        "availability_zone": "z",
        "trait:CUSTOM_FAST": "required",
    }
    aggregates = [
        {
            "name": "a%d" % number,
            "hosts": [host["host"] for host in hosts if rng.random() < 0.5],
            "metadata": {key: metadata[key] for key in some(rng, metadata, 2)},
        }
        for number in range(rng.choice([0, 0, 2]))
    ]
    options["enable_isolated_aggregate_filtering"] = rng.random() < 0.2
    return hosts, requests, options, aggregates


def told(hosts, requests, options, aggregates, **how):
    """Everything that a run tells, as plain values."""
    result = select_destinations(hosts, requests, options, aggregates, seed=5, **how)
    states = [
        (state.key, state.used, state.free_ram_mb, state.num_io_ops, sorted(state.instances), state.pci_stats)
        for state in result.host_states
    ]
    documents = [explain.document(request) for request in result.requests]
    assert list(explain.documents(json.loads(json.dumps(plain(explain.matrix(result.requests)))))) == documents
    return [
        (document, [each.to_dict() for each in of.selections]) for document, of in zip(documents, result.requests)
    ], states


def assert_alike(hosts, requests, options, aggregates):
    plain = told(hosts, requests, options, aggregates, explain=True, fast=False)
    for given_hosts in (hosts, [HostState.from_document(host) for host in hosts]):
        fast = told(given_hosts, requests, options, aggregates, explain=True)
        assert fast == plain
    quiet = told(hosts, requests, options, aggregates)
    assert [selections for _document, selections in quiet[0]] == [selections for _document, selections in plain[0]]
    assert quiet[1] == plain[1]
    assert [entry for entry, _selections in quiet[0] if entry["error"]] == [
        entry for entry, _s in plain[0] if entry["error"]
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_fast_pipeline_decides_fails_and_explains_as_the_plain_one(seed):
    """S08, S29, S45"""
    assert_alike(*world(random.Random(seed)))


class OddWeigher(Weigher):
    """A weigher of somebody else's: it looks at request and host, and fails on one host."""

    def raw(self, host_state, spec):
        if host_state.host == "h003":
            raise RuntimeError("cannot weigh this one")
        return (host_state.num_instances * spec.vcpus) % 3


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([["HeadroomWeigher"], [OddWeigher, "RAMWeigher"], ["HeadroomWeigher", OddWeigher]]),
)
def test_weighers_without_a_column_decide_as_in_the_plain_pipeline(seed, weighers):
    hosts, requests, options, aggregates = world(random.Random(seed))
    soft = ["ServerGroupSoftAffinityWeigher", "ServerGroupSoftAntiAffinityWeigher"]
    assert_alike(hosts, requests, {**options, "weight_classes": [*weighers, *soft]}, aggregates)


def test_a_host_that_could_not_be_weighed_is_left_out_for_the_rest_of_the_request():
    hosts, requests, options, aggregates = world(random.Random(847))
    soft = ["ServerGroupSoftAffinityWeigher", "ServerGroupSoftAntiAffinityWeigher"]
    assert_alike(hosts, requests, {**options, "weight_classes": [OddWeigher, "RAMWeigher", *soft]}, aggregates)


def test_with_weighers_without_a_column_filters_are_asked_only_about_hosts_that_changed(monkeypatch):
    asked = []
    check = ComputeFilter.check
    monkeypatch.setattr(
        ComputeFilter, "check", lambda self, host, spec: asked.append(host.host) or check(self, host, spec)
    )
    hosts = [{"host": name, "vcpus": 8, "memory_mb": 8192, "local_gb": 10} for name in "abc"]
    flavor = {"name": "f", "vcpus": 1, "memory_mb": 512}
    requests = [{"uuid": "vm%d" % number, "flavor": flavor} for number in range(4)]
    result = select_destinations(hosts, requests, {"weight_classes": ["HeadroomWeigher"]})
    chosen = [answer.hosts[0] for answer in result.requests]
    assert asked == ["a", "b", "c", *chosen[:3]]


def test_a_filter_that_raises_names_each_host_in_the_explanation_of_the_fast_pipeline():
    """S29: verdicts that hosts share because their documents are alike are not shared where they name a host."""
    hosts = [
        {"host": name, "vcpus": 4, "memory_mb": 4096, "supported_instances": [["x86_64", "kvm", "hvm"]]}
        for name in "ab"
    ]
    request = {
        "uuid": "vm",
        "flavor": {"name": "f", "vcpus": 1, "memory_mb": 512},
        "image": {"id": "i", "properties": {"hw_architecture": "x86_64", "img_hv_requested_version": "nonsense"}},
    }
    (answer,) = select_destinations(hosts, [request], {"enabled_filters": ["ImagePropertiesFilter"]}).requests
    (step,) = answer.explanation["instances"][0]["filters"]
    assert answer.record and [verdict.numbers["host"] for verdict in step["verdicts"].values()] == ["a", "b"]
    assert_alike(hosts, [request], {"enabled_filters": ["ImagePropertiesFilter"]}, ())
