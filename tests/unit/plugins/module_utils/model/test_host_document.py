# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's check of a host's facts: a lie is an error that names field and host, and nothing else."""

# True is an int to isinstance, and a subclass may behave in any way: here the exact type counts.
# pylint: disable=unidiomatic-typecheck

from __future__ import annotations

import functools
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_data import changed, texts

from ansible_collections.berth.kvm.plugins.module_utils.model.host_document import HostDocumentInvalid, check
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.safe_text import is_safe

UUID = "e083fc1c-e230-5e1e-a5ea-175f6b4c38fe"
INSTANCE = {
    "uuid": instance_uuid("default", "web-1"),
    "name": "web-1",
    "project_id": "default",
    "flavor": {
        "name": "m1.tiny",
        "vcpus": 1,
        "memory_mb": 64,
        "root_gb": 1,
        "extra_specs": {"hw:cpu_policy": "shared"},
    },
    "group": None,
    "role": "OWN",
    "phase": "active",
    "vm_state": "active",
    "task_state": None,
    "power_state": "running",
    "foreign": False,
    "vcpus": 1,
    "pcpus": 0,
    "memory_mb": 64,
    "disk_gb": 1,
    "pool": None,
    "image_props": {"hw_disk_bus": "virtio"},
    "numa_topology": {
        "cells": [
            {
                "id": 0,
                "cpuset": [],
                "pcpuset": [0],
                "memory_mb": 64,
                "pagesize": 4,
                "cpu_policy": "dedicated",
                "cpu_thread_policy": "prefer",
                "cpu_pinning": {"0": 1},
                "cpuset_reserved": [],
            }
        ],
        "emulator_threads_policy": "share",
    },
}
CELL = {
    "id": 0,
    "cpuset": [0, 1],
    "pcpuset": [],
    "memory_mb": 3934,
    "cpu_usage": 0,
    "memory_usage": 0,
    "pinned_cpus": [],
    "siblings": [[0], [1]],
    "socket": 0,
    "mempages": [{"size_kb": 4, "total": 1007104, "used": 0, "reserved": 0}],
    "network_metadata": None,
    "distances": {"0": 10},
}
DEVICE = {
    "address": "0000:81:10.1",
    "vendor_id": "8086",
    "product_id": "10ed",
    "numa_node": 0,
    "dev_type": "type-VF",
    "iommu_group": 11,
    "parent": "0000:81:00.0",
    "used_by": None,
    "available": True,
}
GOOD = {
    "schema": 1,
    "collection_version": "0.1.0",
    "prepared": True,
    "uuid": UUID,
    "generation": 3,
    "host": "kvm1",
    "node": "kvm1",
    "hypervisor_hostname": "kvm1",
    "hypervisor_type": "QEMU",
    "hypervisor_version": 7002022,
    "libvirt_version": 9000000,
    "host_ip": "192.0.2.11",
    "vcpus": 2,
    "pcpus": 0,
    "vcpus_used": 1,
    "pcpus_used": 0,
    "memory_mb": 3934,
    "memory_mb_used": 64,
    "free_ram_mb": 3358,
    "local_gb": 18,
    "local_gb_used": 1,
    "free_disk_gb": 17,
    "disk_available_least": -2,
    "reserved_host_cpus": 0,
    "reserved_host_memory_mb": 512,
    "reserved_host_disk_gb": 0,
    "cpu_allocation_ratio": 4.0,
    "ram_allocation_ratio": 1.0,
    "disk_allocation_ratio": 1,
    "service": {"disabled": False, "disabled_reason": "", "up": True},
    "num_instances": 1,
    "num_io_ops": 0,
    "failed_builds": 2,
    "failed_build_age_s": 2100,
    "domain_types": ["kvm", "qemu"],
    "machine_types": ["pc-i440fx-7.2", "q35"],
    "supported_instances": [["x86_64", "kvm", "hvm"]],
    "cpu_info": {"arch": "x86_64", "model": "EPYC", "features": ["aes"], "topology": {"cores": 2}},
    "traits": ["HW_CPU_X86_AVX2"],
    "metrics": [{"name": "cpu.percent", "value": 0.5}],
    "numa_topology": {"cells": [CELL]},
    "pci_devices": [DEVICE],
    "pci_pools": [{"vendor_id": "8086", "product_id": "10ed", "numa_node": 0, "dev_type": "type-VF", "count": 1}],
    "mdev_types": [{"parent": "0000:81:00.0", "type": "nvidia-222", "name": "GRID T4-1B", "available": 16}],
    "vgpus": [{"parent": "0000:81:00.0", "type": "nvidia-222", "total": 16, "used": 3}],
    "bridges": ["br0"],
    "bridge_links": {"br0": {"mtu": 1500, "uplink": True}},
    "networks": ["default"],
    "network_filters": ["clean-traffic"],
    "packet_filters": ["addresses", "ports"],
    "ovs_bridges": ["ovsbr0"],
    "vlan_bridges": ["br0"],
    "pool": "berth",
    "pools": {
        "berth": {
            "path": "/var/lib/libvirt/berth",
            "type": "dir",
            "storage": "berth",
            "capacity_gb": 18,
            "free_gb": 9,
            "promised_gb": 1,
        }
    },
    "instances": [INSTANCE],
    "warnings": [],
}


def places(value, path=()):
    """Every place in plain data as a path of keys, leaves and containers."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(item, (*path, key))


def at(path):
    return functools.reduce(lambda part, key: part[key], path, GOOD)


PLACES = list(places(GOOD))
TEXTS = [path for path in PLACES if type(at(path)) is str]
NUMBERS = [path for path in PLACES if type(at(path)) in (int, float)]


def test_a_good_document_passes_unchanged():
    assert check(GOOD) == GOOD


def test_what_passes_is_a_copy():
    cleaned = check(GOOD)
    cleaned["instances"][0]["flavor"]["name"] = "x"
    assert GOOD["instances"][0]["flavor"]["name"] == "m1.tiny"


OPTIONAL = {
    "failed_build_age_s",
    "mdev_types",
    "vgpus",
    "bridges",
    "bridge_links",
    "networks",
    "network_filters",
    "packet_filters",
    "ovs_bridges",
    "vlan_bridges",
    "pool",
}


def test_a_gpu_is_told_once():
    with pytest.raises(HostDocumentInvalid) as error:
        check(changed(GOOD, ("vgpus",), GOOD["vgpus"] * 2))
    assert error.value.field == "vgpus"


@pytest.mark.parametrize("field", sorted(set(GOOD) - OPTIONAL))
def test_a_missing_field_is_an_error_that_names_it_and_the_host(field):
    document = {name: value for name, value in GOOD.items() if name != field}
    with pytest.raises(HostDocumentInvalid) as error:
        check(document, "kvm1")
    assert (error.value.field, error.value.details["host"]) == (field, "kvm1")
    assert "kvm1" in str(error.value) and "required" in str(error.value)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize("lie", ["{{ lookup('pipe', 'id') }}", "a\x00b", "\u202e"], ids=["template", "NUL", "bidi"])
def test_no_text_with_a_template_or_control_character_passes(path, lie):
    """CVE-2016-9587 and its kin: each string that a host sends."""
    with pytest.raises(HostDocumentInvalid):
        check(changed(GOOD, path, lie))


@pytest.mark.parametrize("path", NUMBERS, ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize(
    "lie",
    [float("nan"), float("inf"), 10**400, -(10**400), "1", None],
    ids=["NaN", "inf", "huge", "-huge", "text", "null"],
)
def test_no_number_that_is_none_passes(path, lie):
    if lie is None and (path[-1] in ("numa_node", "iommu_group", "socket", "pagesize") or path[0] == "cpu_info"):
        pytest.skip("null has a meaning here")
    if lie == "1" and path[0] == "cpu_info":
        pytest.skip("plain data of unknown shape")
    with pytest.raises(HostDocumentInvalid):
        check(changed(GOOD, path, lie))


def test_the_field_is_named_by_its_whole_path():
    with pytest.raises(HostDocumentInvalid) as error:
        check(changed(GOOD, ("numa_topology", "cells", 0, "mempages", 0, "total"), -1))
    assert error.value.field == "numa_topology.cells[0].mempages[0].total"


def test_names_of_fields_are_checked_too():
    with pytest.raises(HostDocumentInvalid):
        check(changed(GOOD, ("pools", "{{ x }}"), GOOD["pools"]["berth"]))
    with pytest.raises(HostDocumentInvalid):
        check(changed(GOOD, ("cpu_info", "{{ x }}"), 1))


@pytest.mark.parametrize(
    "path",
    [
        ("host",),
        ("warnings",),
        ("traits",),
        ("instances", 0, "name"),
        ("cpu_info", "model"),
        ("pools",),
        ("instances",),
    ],
    ids=lambda path: ".".join(map(str, path)),
)
def test_100_mb_is_refused_at_once(path):
    lie = (
        "a" * (100 << 20)
        if path[0] in ("host", "instances", "cpu_info") and path != ("instances",)
        else ["a"] * (10 << 20)
    )
    document = changed(GOOD, path, lie)
    began = time.perf_counter()
    with pytest.raises(HostDocumentInvalid) as error:
        check(document)
    assert time.perf_counter() - began < 1
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("size", [(3000, 1), (1, 3000)], ids=["wide", "deep"])
def test_data_of_unknown_shape_is_bounded(size):
    wide, deep = size
    value = ["a"] * wide
    for _level in range(deep):
        value = [value]
    with pytest.raises(HostDocumentInvalid):
        check(changed(GOOD, ("cpu_info", "model"), value))


def test_another_hosts_uuid_is_refused():
    check(GOOD, "kvm1", UUID)
    with pytest.raises(HostDocumentInvalid, match="kvm1: uuid is not valid"):
        check(GOOD, "kvm1", UUID.replace("e", "d"))


def test_instances_are_listed_once_and_counted():
    with pytest.raises(HostDocumentInvalid) as error:
        check({**GOOD, "instances": [INSTANCE, INSTANCE], "num_instances": 2})
    assert error.value.field == "instances"
    with pytest.raises(HostDocumentInvalid) as error:
        check({**GOOD, "num_instances": 0})
    assert error.value.field == "num_instances"


def test_unknown_fields_are_dropped():
    """A host cannot bring in what only the controller may say, such as an inventory override."""
    assert check({**GOOD, "inventory": {"VCPU": {"total": 9999}}}) == GOOD


def test_a_newer_schema_is_refused():
    """C03"""
    with pytest.raises(HostDocumentInvalid, match="schema"):
        check({**GOOD, "schema": 2})


def test_what_is_shown_of_a_lie_is_harmless():
    with pytest.raises(HostDocumentInvalid) as error:
        check(changed(GOOD, ("host",), "{{ x }}\x1b[2J\n"))
    text = json.dumps(error.value.to_result())
    assert "{{" not in text and "\\u001b" not in text and "\\n" not in text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("{{ x }}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(path=st.sampled_from(PLACES), lie=JSON)
def test_whatever_a_host_sends_passes_harmless_or_is_a_typed_error(path, lie):
    try:
        cleaned = check(changed(GOOD, path, lie), "kvm1")
    except HostDocumentInvalid as error:
        assert error.field
        assert error.to_result()["error_code"] == "HostDocumentInvalid"
        return
    json.dumps(cleaned, allow_nan=False)
    assert all(is_safe(text) for text in texts(cleaned))


@given(JSON)
def test_what_is_no_document_at_all_is_a_typed_error(lie):
    with pytest.raises(HostDocumentInvalid):
        check(lie)
