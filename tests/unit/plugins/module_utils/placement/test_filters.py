# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One table per filter: what passes and what does not (S29, S35, S36, S40, S43)."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import Aggregate, HostState
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement import capacity, pci, registry
from ansible_collections.berth.kvm.plugins.module_utils.placement.errors import ClaimFailed
from ansible_collections.berth.kvm.plugins.module_utils.placement.filtering import judge
from ansible_collections.berth.kvm.plugins.module_utils.placement.options import read_options
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import prepare

FLAVOR = {"name": "small", "vcpus": 2, "memory_mb": 2048, "root_gb": 10}
HOST = {
    "host": "h1",
    "vcpus": 8,
    "vcpus_used": 2,
    "memory_mb": 8192,
    "memory_mb_used": 2048,
    "reserved_host_memory_mb": 0,
    "local_gb": 100,
    "local_gb_used": 20,
    "cpu_allocation_ratio": 1.0,
    "host_ip": "10.0.0.5",
    "supported_instances": [["x86_64", "kvm", "hvm"]],
    "cpu_info": {"vendor": "Intel", "topology": {"cores": 8}, "features": ["aes", "avx2"]},
    "stats": {"tier": "gold", "gpus": "2"},
    "instances": [{"uuid": "i1", "flavor": {"name": "small"}}],
    "metrics": [{"name": "cpu.percent", "value": 0.5}],
    "numa_topology": {
        "cells": [
            {"id": 0, "cpuset": [], "pcpuset": [0, 1, 2, 3], "memory_mb": 4096, "siblings": [[0, 1], [2, 3]]},
            {"id": 1, "cpuset": [], "pcpuset": [4, 5, 6, 7], "memory_mb": 4096, "siblings": [[4, 5], [6, 7]]},
        ]
    },
    "pci_pools": [{"vendor_id": "10de", "product_id": "1db4", "numa_node": 0, "count": 1, "dev_type": "type-PCI"}],
}
ALIASES = [{"name": "gpu", "vendor_id": "10de", "product_id": "1db4", "device_type": "type-PCI"}]


def verdict(name, host=None, request=None, options=None, metadata=()):
    options = read_options(dict({"pci_alias": ALIASES}, **(options or {})))
    state = HostState.from_document(dict(HOST, **(host or {})))
    state.aggregates = [
        Aggregate({"name": "a%d" % n, "hosts": ["h1"], "metadata": entry}) for n, entry in enumerate(metadata)
    ]
    request = dict({"flavor": FLAVOR, "uuid": "new"}, **(request or {}))
    spec = prepare(RequestSpec.from_dict(request), pci.read_aliases(ALIASES))
    filter_ = registry.find_filters([name])[0](options)
    return judge(filter_, state, spec)


def extra(**specs):
    return {"flavor": dict(FLAVOR, extra_specs={key.replace("__", ":"): value for key, value in specs.items()})}


def image(**properties):
    return {"image": {"id": "img", "properties": properties}}


def group(policy, members=(), hosts=(), **rules):
    return {
        "group": {
            "uuid": "g",
            "name": "g",
            "policy": policy,
            "members": list(members),
            "hosts": list(hosts),
            "rules": rules,
        }
    }


def hint(**hints):
    return {"scheduler_hints": hints}


TABLE = [
    ("AllHostsFilter", True, {}),
    ("ComputeFilter", True, {}),
    ("ComputeFilter", False, {"host": {"service": {"disabled": True}}}),
    ("ComputeFilter", False, {"host": {"service": {"up": False}}}),
    ("ComputeFilter", False, {"host": {"service": {"forced_down": True}}}),
    ("ComputeCapabilitiesFilter", True, {"request": extra(capabilities__cpu_info__vendor="Intel")}),
    ("ComputeCapabilitiesFilter", False, {"request": extra(capabilities__cpu_info__vendor="AMD")}),
    ("ComputeCapabilitiesFilter", True, {"request": extra(capabilities__cpu_info__topology__cores=">= 8")}),
    ("ComputeCapabilitiesFilter", False, {"request": extra(capabilities__cpu_info__topology__cores="<= 7")}),
    ("ComputeCapabilitiesFilter", True, {"request": extra(capabilities__gpus="= 1")}),
    ("ComputeCapabilitiesFilter", False, {"request": extra(capabilities__gpus="== 1")}),
    ("ComputeCapabilitiesFilter", True, {"request": extra(capabilities__gpus="!= 1")}),
    ("ComputeCapabilitiesFilter", True, {"request": extra(capabilities__tier="s== gold")}),
    ("ComputeCapabilitiesFilter", False, {"request": extra(capabilities__tier="s!= gold")}),
    ("ComputeCapabilitiesFilter", True, {"request": extra(capabilities__tier="s<= gold")}),
    ("ComputeCapabilitiesFilter", False, {"request": extra(capabilities__tier="s> gold")}),
    ("ComputeCapabilitiesFilter", True, {"request": extra(capabilities__tier="<or> silver <or> gold")}),
    ("ComputeCapabilitiesFilter", True, {"request": extra(capabilities__cpu_info__features="<in> avx2")}),
    ("ComputeCapabilitiesFilter", False, {"request": extra(capabilities__cpu_info__features="<all-in> aes avx512")}),
    ("ComputeCapabilitiesFilter", False, {"request": extra(capabilities__none="1")}),
    ("ComputeCapabilitiesFilter", False, {"request": extra(capabilities__service__disabled="False")}),
    ("ComputeCapabilitiesFilter", True, {"request": extra(capabilities__service="<in> disabled")}),
    ("ComputeCapabilitiesFilter", True, {"request": extra(unrelated="1")}),
    ("ComputeCapabilitiesFilter", False, {"request": extra(num_instances=">= 9")}),
    ("ComputeCapabilitiesFilter", False, {"request": extra(capabilities__hypervisor_type=">= 3")}),
    ("ImagePropertiesFilter", True, {"request": image(hw_architecture="amd64")}),
    ("ImagePropertiesFilter", False, {"request": image(hw_architecture="aarch64")}),
    (
        "ImagePropertiesFilter",
        False,
        {"request": image(), "options": {"image_properties_default_architecture": "aarch64"}},
    ),
    ("ImagePropertiesFilter", False, {"request": image(img_hv_type="xen")}),
    ("ImagePropertiesFilter", False, {"request": image(hw_vm_mode="hvm"), "host": {"supported_instances": []}}),
    ("ImagePropertiesFilter", True, {"request": image(img_hv_type="kvm", img_hv_requested_version=">=6.2,<9.0")}),
    ("ImagePropertiesFilter", False, {"request": image(img_hv_type="kvm", img_hv_requested_version="<8.0")}),
    ("ImagePropertiesFilter", True, {"request": image(img_hv_type="kvm", img_hv_requested_version=">=8.0.0rc1")}),
    ("ImagePropertiesFilter", False, {"request": image(img_hv_type="kvm", img_hv_requested_version=">=8.0.post1")}),
    ("ImagePropertiesFilter", False, {"request": image(img_hv_type="kvm", img_hv_requested_version="8.0")}),
    ("ServerGroupAntiAffinityFilter", False, {"request": group("anti-affinity", ["i1"])}),
    ("ServerGroupAntiAffinityFilter", True, {"request": group("anti-affinity", ["i1"], max_server_per_host="2")}),
    ("ServerGroupAntiAffinityFilter", True, {"request": group("affinity", ["i1"])}),
    ("ServerGroupAntiAffinityFilter", True, {"request": dict(group("anti-affinity", ["i1"]), uuid="i1")}),
    ("ServerGroupAffinityFilter", True, {"request": group("affinity")}),
    ("ServerGroupAffinityFilter", True, {"request": group("affinity", hosts=["h1"])}),
    ("ServerGroupAffinityFilter", False, {"request": group("affinity", hosts=["h2"])}),
    ("DifferentHostFilter", False, {"request": hint(different_host=["i1", "i2"])}),
    ("DifferentHostFilter", True, {"request": hint(different_host="i2")}),
    ("SameHostFilter", True, {"request": hint(same_host=["i1", "i2"])}),
    ("SameHostFilter", False, {"request": hint(same_host="i2")}),
    ("SimpleCIDRAffinityFilter", True, {"request": hint(build_near_host_ip="10.0.0.77")}),
    ("SimpleCIDRAffinityFilter", False, {"request": hint(build_near_host_ip="10.0.1.77")}),
    ("SimpleCIDRAffinityFilter", True, {"request": hint(build_near_host_ip="10.0.1.77", cidr="/16")}),
    ("SimpleCIDRAffinityFilter", False, {"request": hint(build_near_host_ip="no address")}),
    ("IoOpsFilter", True, {"host": {"num_io_ops": 7}}),
    ("IoOpsFilter", False, {"host": {"num_io_ops": 8}}),
    (
        "AggregateIoOpsFilter",
        False,
        {"host": {"num_io_ops": 2}, "metadata": [{"max_io_ops_per_host": "5"}, {"max_io_ops_per_host": "2"}]},
    ),
    ("AggregateIoOpsFilter", True, {"host": {"num_io_ops": 2}, "metadata": [{"max_io_ops_per_host": "many"}]}),
    ("NumInstancesFilter", False, {"host": {"num_instances": 50}}),
    ("NumInstancesFilter", True, {"host": {"num_instances": 49}}),
    (
        "AggregateNumInstancesFilter",
        False,
        {"host": {"num_instances": 3}, "metadata": [{"max_instances_per_host": "3"}]},
    ),
    (
        "AggregateNumInstancesFilter",
        True,
        {"host": {"num_instances": 2}, "metadata": [{"max_instances_per_host": "3"}]},
    ),
    ("IsolatedHostsFilter", False, {"options": {"isolated_hosts": ["h1"]}}),
    (
        "IsolatedHostsFilter",
        True,
        {"request": image(), "options": {"isolated_hosts": ["h1"], "isolated_images": ["img"]}},
    ),
    ("IsolatedHostsFilter", False, {"request": image(), "options": {"isolated_images": ["img"]}}),
    (
        "IsolatedHostsFilter",
        True,
        {
            "options": {
                "isolated_hosts": ["h1"],
                "isolated_images": ["x"],
                "restrict_isolated_hosts_to_isolated_images": False,
            }
        },
    ),
    (
        "JsonFilter",
        True,
        {"request": hint(query=json.dumps(["and", [">=", "$free_ram_mb", 1024], ["=", "$stats.tier", "gold"]]))},
    ),
    ("JsonFilter", False, {"request": hint(query=json.dumps(["<", "$free_ram_mb", 1024]))}),
    ("JsonFilter", False, {"request": hint(query=json.dumps(["<=", "$stats.missing", 4]))}),
    ("JsonFilter", False, {"request": hint(query=json.dumps(["zz", "$free_ram_mb", 1]))}),
    ("JsonFilter", False, {"request": hint(query=json.dumps(["not", [">=", "$num_instances", 9, "text"]]))}),
    ("QueryFilter", True, {}),
    ("QueryFilter", True, {"request": hint(query="free_ram_mb >= `1024` && stats.tier == 'gold'")}),
    ("QueryFilter", True, {"request": hint(query="instances[?flavor.name == 'small']")}),
    ("QueryFilter", True, {"request": hint(query="metrics.\"cpu.percent\" < `80` && cpu_info.features[?@ == 'aes']")}),
    ("QueryFilter", True, {"request": hint(query="aggregates[?name == 'a0']"), "metadata": [{"x": "y"}]}),
    ("QueryFilter", True, {"request": hint(query="length(numa_topology.cells) == `2` && !(@ | service.disabled)")}),
    ("QueryFilter", False, {"request": hint(query="free_ram_mb < `1024`")}),
    ("QueryFilter", False, {"request": hint(query="stats.missing")}),
    ("QueryFilter", False, {"request": hint(query="contains(traits, 'CUSTOM_SSD')")}),
    ("MetricsFilter", True, {"options": {"metrics": {"weight_setting": ["cpu.percent=1.0"]}}}),
    ("MetricsFilter", False, {"options": {"metrics": {"weight_setting": ["cpu.frequency=1.0"]}}}),
    ("NUMATopologyFilter", True, {"request": extra(hw__cpu_policy="dedicated", hw__cpu_thread_policy="require")}),
    ("NUMATopologyFilter", False, {"request": extra(hw__numa_nodes="2", hw__mem_page_size="2048")}),
    ("NUMATopologyFilter", False, {"host": {"numa_topology": None}, "request": extra(hw__cpu_policy="dedicated")}),
    ("PciPassthroughFilter", True, {"request": extra(pci_passthrough__alias="gpu:1")}),
    ("PciPassthroughFilter", False, {"request": extra(pci_passthrough__alias="gpu:2")}),
    (
        "AggregateImagePropertiesIsolation",
        False,
        {"request": image(os_distro="debian"), "metadata": [{"os_distro": "windows"}]},
    ),
    (
        "AggregateImagePropertiesIsolation",
        True,
        {"request": image(os_distro="debian"), "metadata": [{"os_distro": "windows,debian"}]},
    ),
    (
        "AggregateImagePropertiesIsolation",
        True,
        {"request": image(unknown="debian"), "metadata": [{"unknown": "windows"}]},
    ),
    (
        "AggregateInstanceExtraSpecsFilter",
        True,
        {"request": extra(aggregate_instance_extra_specs__ssd="true"), "metadata": [{"ssd": "true"}]},
    ),
    ("AggregateInstanceExtraSpecsFilter", False, {"request": extra(ssd="true")}),
    ("AggregateInstanceExtraSpecsFilter", True, {"request": extra(other__ssd="true")}),
    (
        "AggregateMultiTenancyIsolation",
        False,
        {"request": {"project_id": "p1"}, "metadata": [{"filter_tenant_id": "p2,p3"}]},
    ),
    (
        "AggregateMultiTenancyIsolation",
        True,
        {"request": {"project_id": "p1"}, "metadata": [{"filter_tenant_id7": "p1"}]},
    ),
    ("AggregateTypeAffinityFilter", True, {"metadata": [{"instance_type": "tiny, small"}]}),
    ("AggregateTypeAffinityFilter", False, {"metadata": [{"instance_type": "tiny"}]}),
    ("RetryFilter", False, {"request": {"retry": {"hosts": [["h1", "h1"]]}}}),
    ("RetryFilter", True, {"request": {"retry": {"hosts": [["h2", "h2"]]}}}),
    ("AvailabilityZoneFilter", True, {"request": {"availability_zone": "nova"}}),
    (
        "AvailabilityZoneFilter",
        False,
        {"request": {"availability_zone": "nova"}, "metadata": [{"availability_zone": "az1"}]},
    ),
    ("CoreFilter", True, {"host": {"vcpus_used": 6}}),
    ("CoreFilter", False, {"host": {"vcpus_used": 7}}),
    ("CoreFilter", False, {"host": {"vcpus": 1, "vcpus_used": 0, "cpu_allocation_ratio": 16.0}}),
    ("AggregateCoreFilter", True, {"host": {"vcpus_used": 7}, "metadata": [{"cpu_allocation_ratio": "2.0"}]}),
    ("ExactCoreFilter", True, {"host": {"vcpus_used": 6}}),
    ("ExactCoreFilter", False, {}),
    ("RamFilter", True, {"host": {"memory_mb_used": 6144}}),
    ("RamFilter", False, {"host": {"memory_mb_used": 6145}}),
    ("RamFilter", True, {"host": {"memory_mb_used": 6145, "ram_allocation_ratio": 1.5}}),
    ("AggregateRamFilter", True, {"host": {"memory_mb_used": 6145}, "metadata": [{"ram_allocation_ratio": "1.5"}]}),
    ("ExactRamFilter", True, {"host": {"memory_mb_used": 6144}}),
    ("DiskFilter", True, {"host": {"local_gb_used": 90}}),
    ("DiskFilter", False, {"host": {"local_gb_used": 91}}),
    ("AggregateDiskFilter", True, {"host": {"local_gb_used": 91}, "metadata": [{"disk_allocation_ratio": "2"}]}),
    ("ExactDiskFilter", True, {"host": {"local_gb_used": 90}}),
    ("TypeAffinityFilter", True, {}),
    ("TypeAffinityFilter", False, {"host": {"instances": [{"uuid": "i1", "flavor": {"name": "big"}}]}}),
    ("DumpFilter", True, {}),
]


@pytest.mark.parametrize(
    "name,passes,given", TABLE, ids=["%s-%d" % (row[0], number) for number, row in enumerate(TABLE)]
)
def test_a_filter_keeps_its_truth_table(name, passes, given):
    got = verdict(name, **given)
    assert got.passed is passes
    assert passes or got.reason


def test_every_filter_has_a_row_that_passes_and_all_but_the_passing_ones_a_row_that_fails():
    built_in = set(registry.builtin("filters"))
    assert built_in <= {name for name, passes, _given in TABLE if passes}
    assert built_in - {"AllHostsFilter", "DumpFilter"} <= {name for name, passes, _given in TABLE if not passes} | {
        "AggregateCoreFilter",
        "AggregateRamFilter",
        "AggregateDiskFilter",
        "ExactRamFilter",
        "ExactDiskFilter",
    }


@pytest.mark.parametrize("name", ["RamFilter", "ExactRamFilter", "DiskFilter", "ExactDiskFilter"])
def test_a_reason_writes_large_amounts_out(name):
    large = {"memory_mb": 2097152, "memory_mb_used": 1000000, "local_gb": 5000, "local_gb_used": 3000}
    flavor = {"name": "huge", "vcpus": 1, "memory_mb": 2000000, "root_gb": 2500}
    got = verdict(name, host={**large, "ram_allocation_ratio": 1.0}, request={"flavor": flavor})
    assert not got.passed and re.search(r"\b\d{7}\b free", got.reason), got.reason


def test_a_filter_that_raises_gives_a_verdict_that_names_it_and_the_host():
    got = verdict("JsonFilter", request=hint(query="not json"))
    assert "JsonFilter" in got.reason and "h1" in got.reason


def test_a_query_that_fails_tells_the_values_that_it_asked_for():
    got = verdict("QueryFilter", request=hint(query="free_ram_mb < `1024` || (stats.tier == 'new' && instances)"))
    assert got.numbers["values"] == {"free_ram_mb": 6144, "stats.tier": "gold"}
    assert got.reason.endswith("free_ram_mb is 6144, stats.tier is gold")


def test_the_size_filters_set_the_limits_that_the_claim_tests_again():
    """S23"""
    state, options = HostState.from_document(HOST), read_options()
    spec = prepare(RequestSpec.from_dict({"flavor": FLAVOR}), {})
    for filter_ in registry.find_filters(["CoreFilter", "RamFilter", "DiskFilter"]):
        assert filter_(options).check(state, spec).passed
    assert state.limits == {"vcpu": 8.0, "memory_mb": 8192.0, "disk_gb": 100.0}


def test_the_exact_filters_set_the_hosts_total_as_the_limit_so_that_no_second_one_fits():
    """S23"""
    used = {"vcpus_used": 6, "memory_mb_used": 6144, "local_gb_used": 90}
    state, options = HostState.from_document(dict(HOST, **used)), read_options()
    spec = prepare(RequestSpec.from_dict({"flavor": FLAVOR}), {})
    for filter_ in registry.find_filters(["ExactCoreFilter", "ExactRamFilter", "ExactDiskFilter"]):
        assert filter_(options).check(state, spec).passed
    assert state.limits == {"vcpu": 8, "memory_mb": 8192, "disk_gb": 100}
    state.vcpus_used, state.free_ram_mb = 8, 0
    with pytest.raises(ClaimFailed, match="of the decision"):
        capacity.allocate(state, spec, state.limits)


def test_a_host_that_reports_no_cpus_passes_the_core_filter_but_not_the_exact_one():
    assert verdict("CoreFilter", host={"vcpus": 0, "vcpus_used": 0}).passed
    assert not verdict("ExactCoreFilter", host={"vcpus": 0, "vcpus_used": 0}).passed


def test_a_filter_is_found_in_the_file_that_defines_it_so_that_a_run_compiles_no_other():
    script = "import sys; sys.path[:0] = %r; from %s import registry; registry.find_filters(['CoreFilter'])" % (
        sys.path, registry.__package__,
    )  # fmt: skip
    script += "; print([name for name in sys.modules if '.placement.filters.' in name])"
    loaded = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert loaded.strip() == "['%s.filters.amounts']" % registry.__package__
