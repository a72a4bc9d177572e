# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One row per weigher: raw weights, and the rules of normalising and multiplying them (S38, S39, S42)."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import Aggregate, HostState
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement import registry
from ansible_collections.berth.kvm.plugins.module_utils.placement.base import normalize
from ansible_collections.berth.kvm.plugins.module_utils.placement.options import read_options
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations

HOST = {
    "host": "h1",
    "cell": "c1",
    "vcpus": 8,
    "vcpus_used": 3,
    "cpu_allocation_ratio": 2.0,
    "memory_mb": 8192,
    "memory_mb_used": 1024,
    "reserved_host_memory_mb": 512,
    "local_gb": 100,
    "local_gb_used": 20,
    "disk_available_least": 60,
    "num_io_ops": 2,
    "failed_builds": 3,
    "hypervisor_version": 8002000,
    "instances": [{"uuid": "i1", "image_props": {"os_distro": "debian"}}, {"uuid": "i2"}],
    "pci_pools": [{"vendor_id": "1", "product_id": "2", "numa_node": None, "count": 7}],
    "metrics": [{"name": "cpu.percent", "value": 0.5}, {"name": "load", "value": 1.5}],
}
REQUEST = {
    "flavor": {"vcpus": 1, "memory_mb": 512},
    "uuid": "new",
    "image": {"id": "i", "properties": {"os_distro": "debian"}},
}
SOFT = {"uuid": "g", "policy": "soft-affinity", "members": ["i1", "i2", "i9"]}
MOVE = {"cell": "c1", "allow_cross_cell_move": True}


def weigher(name, **options):
    options = read_options(options)
    return next(weigher for weigher in registry.find_weighers(["all_weighers"]) if weigher.__name__ == name)(options)


TABLE = [
    ("RAMWeigher", {}, {}, 8192 - 1024 - 512),
    ("CPUWeigher", {}, {}, 8 * 2.0 - 3),
    ("DiskWeigher", {}, {}, 60 * 1024),
    ("IoOpsWeigher", {}, {}, 2),
    ("NumInstancesWeigher", {}, {}, 2),
    ("HypervisorVersionWeigher", {}, {}, 8002000),
    ("BuildFailureWeigher", {}, {}, 3),
    ("PCIWeigher", {}, {}, 93),
    ("ServerGroupSoftAffinityWeigher", {"group": SOFT}, {}, 2),
    ("ServerGroupSoftAffinityWeigher", {}, {}, 0),
    ("ServerGroupSoftAntiAffinityWeigher", {"group": dict(SOFT, policy="soft-anti-affinity")}, {}, -2),
    ("CrossCellWeigher", {"requested_destination": MOVE}, {}, 1),
    ("CrossCellWeigher", {"requested_destination": dict(MOVE, cell="c2")}, {}, -1),
    ("CrossCellWeigher", {}, {}, 0),
    ("MetricsWeigher", {}, {"metrics": {"weight_setting": ["cpu.percent=2", "load=1"]}}, 50 * 2 + 1.5),
    ("MetricsWeigher", {}, {"metrics": {"weight_setting": ["none=1"], "required": False}}, -10000.0),
    ("ImagePropertiesWeigher", {}, {"image_props_weight_multiplier": 1.0}, 1.0),
    (
        "ImagePropertiesWeigher",
        {},
        {"image_props_weight_multiplier": 1.0, "image_props_weight_setting": ["os_distro=3"]},
        3.0,
    ),
    ("ImagePropertiesWeigher", {}, {}, 0.0),
]


@pytest.mark.parametrize(
    "name,request_more,options,raw", TABLE, ids=["%s-%d" % (row[0], n) for n, row in enumerate(TABLE)]
)
def test_a_weigher_gives_its_raw_weight(name, request_more, options, raw):
    state = HostState.from_document(HOST)
    assert weigher(name, **options).raw(state, RequestSpec.from_dict(dict(REQUEST, **request_more))) == raw


def test_every_weigher_of_nova_has_a_row():
    assert {weigher.__name__ for weigher in registry.find_weighers(["all_weighers"])} == {row[0] for row in TABLE}


def test_normalising_goes_from_the_smallest_to_the_largest_and_equal_weights_count_nothing():
    assert normalize([1, 2, 3]) == [0.0, 0.5, 1.0]
    assert normalize([5, 5]) == [0, 0]
    assert normalize([2, 4], minval=0) == [0.5, 1.0]


def test_the_lowest_multiplier_of_the_aggregates_overrides_the_option_and_a_bad_one_does_not():
    state = HostState.from_document(HOST)
    state.aggregates = [Aggregate({"name": n, "metadata": {"ram_weight_multiplier": n}}) for n in ("2.5", "-1.0")]
    assert weigher("RAMWeigher").multiplier(state) == -1.0
    state.aggregates.append(Aggregate({"name": "x", "metadata": {"ram_weight_multiplier": "bad"}}))
    assert weigher("RAMWeigher", ram_weight_multiplier=7.0).multiplier(state) == 7.0


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize("fast", [True, False])
def test_a_multiplier_that_is_not_finite_is_no_number(value, fast):
    """In Nova the weight of a host is not a number then, and the order of hosts is any."""
    hosts = [{"host": name, "vcpus": 4, "memory_mb": size, "local_gb": 50} for name, size in (("a", 4096), ("b", 8192))]
    aggregate = {"name": "x", "hosts": ["a", "b"], "metadata": {"ram_weight_multiplier": value}}
    asked = {"flavor": {"vcpus": 1, "memory_mb": 512}}
    options = {"ram_weight_multiplier": -2.0}
    assert select_destinations(hosts, [asked], options, [aggregate], fast=fast).requests[0].hosts == ["a"]
    with pytest.raises(InvalidInput, match="ram_weight_multiplier"):
        select_destinations(hosts, [asked], {"ram_weight_multiplier": value}, fast=fast)


def test_failed_builds_count_against_a_host():
    """S42"""
    assert weigher("BuildFailureWeigher").multiplier(HostState.from_document(HOST)) == -1000000.0
