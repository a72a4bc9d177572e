# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from sample_catalog import CHECKSUM, variables

from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput


@pytest.fixture
def catalog():
    return Catalog.from_variables(variables())


BAD_VARIABLES = [
    ("berth_flavors", {"m1": {"vcpus": 0, "memory_mb": 1, "root_gb": 1}}, "berth_flavors.m1.vcpus"),
    ("berth_flavors", {"m1": {"vcpus": -4, "memory_mb": 1, "root_gb": 1}}, "berth_flavors.m1.vcpus"),
    ("berth_flavors", {"m1": {"vcpus": True, "memory_mb": 1, "root_gb": 1}}, "berth_flavors.m1.vcpus"),
    ("berth_flavors", {"m1": {"vcpus": 1.5, "memory_mb": 1, "root_gb": 1}}, "berth_flavors.m1.vcpus"),
    ("berth_flavors", {"m1": {"vcpus": "4", "memory_mb": 1, "root_gb": 1}}, "berth_flavors.m1.vcpus"),
    ("berth_flavors", {"m1": {"vcpus": float("nan"), "memory_mb": 1, "root_gb": 1}}, "berth_flavors.m1.vcpus"),
    ("berth_flavors", {"m1": {"vcpus": 1, "memory_mb": 10**400, "root_gb": 1}}, "berth_flavors.m1.memory_mb"),
    ("berth_flavors", {"m1": {"vcpus": 1, "memory_mb": 512}}, "berth_flavors.m1.root_gb"),
    ("berth_flavors", {"m1": {"vcpus": 1, "memory_mb": 512, "root_gb": -1}}, "berth_flavors.m1.root_gb"),
    ("berth_flavors", {"m1": {"vcpu": 1, "memory_mb": 512, "root_gb": 1}}, "berth_flavors.m1.vcpu"),
    ("berth_flavors", {"m1": 7}, "berth_flavors.m1"),
    ("berth_flavors", {"m 1": {}}, "berth_flavors: name"),
    ("berth_flavors", [{"vcpus": 1}], "berth_flavors[0]"),
    ("berth_flavors", "m1", "berth_flavors"),
    ("berth_images", {"i": {"checksum": CHECKSUM, "disk_format": "raw"}}, "berth_images.i.url"),
    (
        "berth_images",
        {"i": {"url": "/a", "src": "b", "checksum": CHECKSUM, "disk_format": "raw"}},
        "berth_images.i.src",
    ),
    ("berth_images", {"i": {"url": "ftp://a", "checksum": CHECKSUM, "disk_format": "raw"}}, "berth_images.i.url"),
    (
        "berth_images",
        {"i": {"url": "https://u:p@a/b", "checksum": CHECKSUM, "disk_format": "raw"}},
        "berth_images.i.url",
    ),
    ("berth_images", {"i": {"url": "/a", "checksum": "md5:0", "disk_format": "raw"}}, "berth_images.i.checksum"),
    ("berth_images", {"i": {"url": "/a", "checksum": CHECKSUM, "disk_format": "vdi"}}, "berth_images.i.disk_format"),
    ("berth_networks_defined", {"n": {"type": "ovs", "source": "b"}}, "berth_networks_defined.n.type"),
    ("berth_networks_defined", {"n": {"type": "bridge", "source": "b; rm"}}, "berth_networks_defined.n.source"),
    ("berth_networks_defined", {"n": {"type": "bridge", "source": "b" * 16}}, "berth_networks_defined.n.source"),
    ("berth_networks_defined", {"n": {"type": "bridge", "source": "b", "vlan": 4095}}, "berth_networks_defined.n.vlan"),
    (
        "berth_networks_defined",
        {"n": {"type": "bridge", "source": "b", "cidr": "1.2.3.4/8"}},
        "berth_networks_defined.n.cidr",
    ),
    (
        "berth_networks_defined",
        {"n": {"type": "bridge", "source": "b", "cidr": "192.0.2.0/24", "gateway": "192.0.3.1"}},
        "berth_networks_defined.n.gateway",
    ),
    ("berth_server_groups", {"g": {"policy": "antiaffinity"}}, "berth_server_groups.g.policy"),
    (
        "berth_server_groups",
        {"g": {"policy": "affinity", "rules": {"max_server_per_host": 1}}},
        "berth_server_groups.g.rules",
    ),
    ("berth_aggregates", {"a": {"hosts": ["k 1"]}}, "berth_aggregates.a.hosts[0]"),
    ("berth_aggregates", {"a": {"availability_zone": "a:b"}}, "berth_aggregates.a.availability_zone"),
    ("berth_pci_aliases", {"gpu": {"vendor_id": "10d", "product_id": "1db4"}}, "berth_pci_aliases.gpu.vendor_id"),
    ("berth_pci_aliases", {"gpu": {"vendor_id": "10de"}}, "berth_pci_aliases.gpu.product_id"),
    (
        "berth_pci_aliases",
        {"gpu": {"vendor_id": "10de", "product_id": "1db4", "device_type": "type-VDPA"}},
        "berth_pci_aliases.gpu.device_type",
    ),
    ("berth_quotas", {"default": {"cores": -2}}, "berth_quotas.default.cores"),
    ("berth_quotas", {"default": {"core": 2}}, "berth_quotas.default.core"),
    ("berth_placement", ["RamFilter"], "berth_placement"),
]


@pytest.mark.parametrize(
    ("name", "value", "field"), BAD_VARIABLES, ids=[row[2] + "=" + str(row[1])[:40] for row in BAD_VARIABLES]
)
def test_a_bad_catalog_variable_is_refused_by_the_path_of_its_field(name, value, field):
    with pytest.raises(InvalidInput) as caught:
        Catalog.from_variables({name: value})
    assert caught.value.field == field
    assert caught.value.rule or "there is no such field" in caught.value.message


@pytest.mark.parametrize(
    ("properties", "field"),
    [
        ({"hw_disk_buss": "virtio"}, "hw_disk_buss"),
        ({"hw_disk_bus": "virtoi"}, "hw_disk_bus"),
        ({"architecture": "x86_65"}, "architecture"),
        ({"vm_mode": "nope"}, "vm_mode"),
        ({"hw_numa_nodes": "two"}, "hw_numa_nodes"),
        ({"hw_qemu_guest_agent": "perhaps"}, "hw_qemu_guest_agent"),
        ({"mine": {"a": 1}}, "mine"),
    ],
)
def test_a_bad_image_property_is_refused_by_its_name(properties, field):
    """A14"""
    image = {"url": "/a", "checksum": CHECKSUM, "disk_format": "raw", "properties": properties}
    with pytest.raises(BerthError) as caught:
        Catalog.from_variables({"berth_images": {"i": image}})
    assert caught.value.code == "InvalidImageProperty"
    assert caught.value.field == "berth_images.i.properties." + field


def test_a_mistyped_field_is_answered_with_the_one_that_was_meant():
    with pytest.raises(InvalidInput) as caught:
        Catalog.from_variables({"berth_flavors": {"m1": {"vcpus": 1, "memory_gb": 1, "root_gb": 1}}})
    assert caught.value.hint == "Did you mean memory_mb?"


def test_image_properties_become_text_and_own_ones_are_kept():
    """A14, A27"""
    properties = {"hw_qemu_guest_agent": True, "hw_numa_nodes": 2, "hw_architecture": "AMD64", "mine": "kept"}
    image = {"url": "/a", "checksum": CHECKSUM, "disk_format": "raw", "properties": properties}
    read = Catalog.from_variables({"berth_images": {"i": image}}).images["i"]["properties"]
    assert read == {"hw_qemu_guest_agent": "true", "hw_numa_nodes": "2", "hw_architecture": "x86_64", "mine": "kept"}


def test_things_may_be_a_list_with_names_as_well_as_a_mapping():
    mapping = variables()
    listed = dict(mapping, berth_flavors=[dict(flavor, name=name) for name, flavor in mapping["berth_flavors"].items()])
    assert Catalog.from_variables(listed).flavors == Catalog.from_variables(mapping).flavors


def test_a_name_listed_twice_is_refused():
    flavor = {"name": "m1", "vcpus": 1, "memory_mb": 1, "root_gb": 1}
    with pytest.raises(InvalidInput):
        Catalog.from_variables({"berth_flavors": [flavor, flavor]})


def test_reading_the_catalog_changes_nothing_of_what_was_given():
    given = variables()
    Catalog.from_variables(given)
    assert given == variables()


def test_an_aggregate_holds_its_hosts_and_those_of_its_inventory_groups(catalog):
    """S19"""
    assert catalog.aggregate_documents({"fast": ["k1", "k9"]}) == [
        {"name": "ssd", "hosts": ["k9", "k1"], "metadata": {"ssd": "true", "availability_zone": "a"}}
    ]


def test_a_host_of_an_aggregate_that_the_inventory_does_not_have_is_told_and_is_no_fault(catalog):
    (host, *_others) = next(iter(catalog.aggregates.values()))["hosts"]
    (line,) = catalog.unknown_hosts([host + "0"])
    assert "there is no host %s. Did you mean %s0?" % (host, host) in line
    assert catalog.unknown_hosts([host]) == []


def test_an_aggregate_of_an_unknown_inventory_group_is_refused(catalog):
    with pytest.raises(InvalidInput) as caught:
        catalog.aggregate_documents({"fats": []})
    assert caught.value.field == "berth_aggregates.ssd.groups[0]"


def test_aliases_come_out_as_nova_writes_them(catalog):
    assert catalog.pci_aliases == [
        {"name": "gpu", "vendor_id": "10de", "product_id": "1db4", "device_type": "type-PCI"}
    ]


def test_all_faults_of_all_variables_are_told_at_once():
    """I11: whoever mends one fault after the other has to run again for each."""
    bad = {
        "berth_flavors": {"a": {"vcpus": 0, "memory_mb": "512", "rot_gb": 1}, "b": {"vcpus": 1}},
        "berth_networks_defined": {"lan": {"type": "brige", "source": "br0"}},
        "berth_placement": [],
    }
    with pytest.raises(InvalidInput) as caught:
        Catalog.from_variables(bad)
    told = [error.field for error in [caught.value, *caught.value.also]]
    fields = ["a.rot_gb", "a.vcpus", "a.memory_mb", "b.memory_mb", "b.root_gb"]
    assert caught.value.hint == "Did you mean root_gb?", "so it is not told again that root_gb lacks"
    assert told == ["berth_flavors." + field for field in fields] + [
        "berth_networks_defined.lan.type",
        "berth_placement",
    ]
    assert all(field in str(caught.value) for field in told)
    assert len(caught.value.to_dict()["also"]) == len(told) - 1
