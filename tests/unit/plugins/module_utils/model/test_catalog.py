# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import copy

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import catalog as catalog_module
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog, build_request
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.user_data import decode_user_data

CHECKSUM = "sha256:" + "0" * 64


def variables():
    return {
        "berth_flavors": {
            "m1.tiny": {"vcpus": 1, "memory_mb": 512, "root_gb": 1},
            "m1.small": {"vcpus": 2, "memory_mb": 2048, "root_gb": 20, "extra_specs": {"hw:numa_nodes": 2}},
            "old": {"vcpus": 1, "memory_mb": 512, "root_gb": 1, "disabled": True},
            "secret": {"vcpus": 1, "memory_mb": 512, "root_gb": 1, "projects": ["blue"]},
        },
        "berth_images": {
            "debian-12": {"url": "https://x/debian.qcow2", "checksum": CHECKSUM, "disk_format": "qcow2"},
            "big": {"url": "/srv/big.raw", "checksum": CHECKSUM, "disk_format": "raw", "min_ram": 1024, "min_disk": 10},
            "blue-only": {"src": "files/b.raw", "checksum": CHECKSUM, "disk_format": "raw", "projects": ["blue"]},
        },
        "berth_networks_defined": {
            "lan": {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "mtu": 9000},
            "plain": {"type": "network", "source": "default"},
        },
        "berth_server_groups": {"web": {"policy": "anti-affinity", "rules": {"max_server_per_host": 2}}},
        "berth_aggregates": {"ssd": {"groups": ["fast"], "hosts": ["k9"], "availability_zone": "a", "metadata": {"ssd": True}}},
        "berth_pci_aliases": {"gpu": {"vendor_id": "10de", "product_id": "1db4", "device_type": "type-PCI"}},
        "berth_quotas": {"*": {"cores": 20}, "blue": {"instances": 3}},
        "berth_placement": {"ram_weight_multiplier": 2.0},
    }


@pytest.fixture
def catalog():
    return Catalog.from_variables(variables())


def instance(**changes):
    return dict({"inventory_hostname": "web-1", "berth_flavor": "m1.tiny", "berth_image": "debian-12"}, **changes)


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
    ("berth_images", {"i": {"checksum": CHECKSUM, "disk_format": "raw"}}, "berth_images.i"),
    ("berth_images", {"i": {"url": "/a", "src": "b", "checksum": CHECKSUM, "disk_format": "raw"}}, "berth_images.i"),
    ("berth_images", {"i": {"url": "ftp://a", "checksum": CHECKSUM, "disk_format": "raw"}}, "berth_images.i.url"),
    ("berth_images", {"i": {"url": "https://u:p@a/b", "checksum": CHECKSUM, "disk_format": "raw"}}, "berth_images.i.url"),
    ("berth_images", {"i": {"url": "/a", "checksum": "md5:0", "disk_format": "raw"}}, "berth_images.i.checksum"),
    ("berth_images", {"i": {"url": "/a", "checksum": CHECKSUM, "disk_format": "vmdk"}}, "berth_images.i.disk_format"),
    ("berth_networks_defined", {"n": {"type": "ovs", "source": "b"}}, "berth_networks_defined.n.type"),
    ("berth_networks_defined", {"n": {"type": "bridge", "source": "b; rm"}}, "berth_networks_defined.n.source"),
    ("berth_networks_defined", {"n": {"type": "bridge", "source": "b" * 16}}, "berth_networks_defined.n.source"),
    ("berth_networks_defined", {"n": {"type": "bridge", "source": "b", "vlan": 4095}}, "berth_networks_defined.n.vlan"),
    ("berth_networks_defined", {"n": {"type": "bridge", "source": "b", "cidr": "1.2.3.4/8"}}, "berth_networks_defined.n.cidr"),
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
    ("berth_pci_aliases", {"gpu": {"vendor_id": "10d"}}, "berth_pci_aliases.gpu.vendor_id"),
    ("berth_quotas", {"default": {"cores": -2}}, "berth_quotas.default.cores"),
    ("berth_quotas", {"default": {"core": 2}}, "berth_quotas.default.core"),
    ("berth_placement", ["RamFilter"], "berth_placement"),
]


@pytest.mark.parametrize(("name", "value", "field"), BAD_VARIABLES, ids=[row[2] + "=" + str(row[1])[:40] for row in BAD_VARIABLES])
def test_a_bad_catalog_variable_is_refused_by_the_path_of_its_field(name, value, field):
    with pytest.raises(InvalidInput) as caught:
        Catalog.from_variables({name: value})
    assert caught.value.field == field
    assert caught.value.rule


@pytest.mark.parametrize(
    ("properties", "field"),
    [
        ({"hw_disk_buss": "virtio"}, "hw_disk_buss"),
        ({"hw_disk_bus": "virtoi"}, "hw_disk_bus"),
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
    listed = dict(mapping, berth_flavors=[dict(one, name=name) for name, one in mapping["berth_flavors"].items()])
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


def test_an_aggregate_of_an_unknown_inventory_group_is_refused(catalog):
    with pytest.raises(InvalidInput) as caught:
        catalog.aggregate_documents({"fats": []})
    assert caught.value.field == "berth_aggregates.ssd.groups[0]"


def test_aliases_come_out_as_nova_writes_them(catalog):
    assert catalog.pci_aliases == [
        {"name": "gpu", "vendor_id": "10de", "product_id": "1db4", "device_type": "type-PCI"}
    ]


BAD_INSTANCES = [
    ({"berth_flavor": "m1.tny"}, "FlavorNotFound", "berth_flavor", "Did you mean m1.tiny?"),
    ({"berth_flavor": "old"}, "FlavorNotFound", "berth_flavor", None),
    ({"berth_flavor": "secret"}, "FlavorNotFound", "berth_flavor", None),
    ({"berth_flavor": None}, "InvalidInput", "berth_flavor", None),
    ({"berth_image": "debian12"}, "ImageNotFound", "berth_image", "Did you mean debian-12?"),
    ({"berth_image": "blue-only"}, "ImageNotFound", "berth_image", None),
    ({"berth_image": "big"}, "FlavorMemoryTooSmall", "berth_flavors.m1.tiny.memory_mb", None),
    ({"berth_networks": ["lna"]}, "NetworkNotFound", "berth_networks[0].network", "Did you mean lan?"),
    ({"berth_networks": [{"network": "lan", "address": "192.0.3.5"}]}, "InvalidInput", "berth_networks[0].address", None),
    ({"berth_networks": [{"network": "plain", "address": "192.0.3.5"}]}, "InvalidInput", "berth_networks[0].address", None),
    ({"berth_networks": [{"network": "lan", "mac": "01:00:00:00:00:01"}]}, "InvalidInput", "berth_networks[0].mac", None),
    ({"berth_server_group": "wbe"}, "ServerGroupNotFound", "berth_server_group", "Did you mean web?"),
    ({"berth_project": "a/b"}, "InvalidInput", "berth_project", None),
    ({"berth_availability_zone": "a:b:c:d"}, "InvalidInput", "berth_availability_zone", None),
    ({"berth_pool": "../x"}, "InvalidInput", "berth_pool", None),
    ({"berth_ssh_keys": ["not a key"]}, "InvalidInput", "berth_ssh_keys[0]", None),
    ({"berth_hints": ["a"]}, "InvalidInput", "berth_hints", None),
    ({"berth_user_data": "!!"}, "InstanceUserDataMalformed", "berth_user_data", None),
    ({"inventory_hostname": "web.example.org"}, "InvalidInput", "inventory_hostname", None),
    ({"inventory_hostname": "-rf"}, "InvalidInput", "inventory_hostname", None),
    ({"inventory_hostname": "$(id)"}, "InvalidInput", "inventory_hostname", None),
]


@pytest.mark.parametrize(("changes", "code", "field", "hint"), BAD_INSTANCES, ids=[str(row[0])[:50] for row in BAD_INSTANCES])
def test_a_bad_instance_variable_is_refused_by_name_with_a_stable_code(catalog, changes, code, field, hint):
    """A07, A08, A28, C06 and the bad input table of the second issue"""
    with pytest.raises(BerthError) as caught:
        build_request(instance(**changes), catalog)
    assert (caught.value.code, caught.value.field) == (code, field)
    assert hint in (None, caught.value.hint)


def test_a_hint_never_names_what_the_project_may_not_see(catalog):
    with pytest.raises(catalog_module.FlavorNotFound) as caught:
        build_request(instance(berth_flavor="secre"), catalog)
    assert "secret" not in caught.value.hint


def test_a_private_flavor_serves_its_project(catalog):
    assert build_request(instance(berth_flavor="secret", berth_project="blue"), catalog)[0]["flavor"]["name"] == "secret"


def test_a_disabled_flavor_serves_a_move_that_keeps_it(catalog):
    """A07"""
    assert catalog.flavor("old", "default", allow_disabled=True)["name"] == "old"


def test_a_root_disk_below_min_disk_is_refused(catalog):
    """A28"""
    small = dict(catalog.flavors["m1.small"], root_gb=5)
    with pytest.raises(catalog_module.FlavorDiskSmallerThanMinDisk):
        catalog_module.check_image_fits(small, catalog.images["big"])


def test_root_gb_0_takes_the_images_size_whatever_min_disk_says(catalog):
    """A28"""
    catalog_module.check_image_fits(dict(catalog.flavors["m1.small"], root_gb=0), catalog.images["big"])


@pytest.mark.parametrize(
    ("text", "zone", "hosts", "nodes"),
    [("az", "az", [], []), ("az:k1", "az", ["k1"], []), ("az:k1:n1", "az", ["k1"], ["n1"]), ("az::n1", "az", [], ["n1"]), (":k1", None, ["k1"], [])],
)
def test_a_zone_may_name_the_host_and_node(catalog, text, zone, hosts, nodes):
    """A29"""
    spec = build_request(instance(berth_availability_zone=text), catalog)[0]
    assert (spec["availability_zone"], spec["force_hosts"], spec["force_nodes"]) == (zone, hosts, nodes)


def test_hints_become_lists_and_names_of_instances_become_uuids(catalog):
    """A26"""
    hints = {"same_host": "web-2", "query": [">=", "$free_ram_mb", 1024], "cidr": "/24"}
    spec = build_request(instance(berth_hints=hints), catalog)[0]
    other = build_request(instance(inventory_hostname="web-2"), catalog)[0]["uuid"]
    assert spec["scheduler_hints"] == {"same_host": [other], "query": ['[">=", "$free_ram_mb", 1024]'], "cidr": ["/24"]}


def test_a_query_that_is_json_already_is_kept(catalog):
    hints = {"query": ['[">=", "$free_ram_mb", 1024]']}
    assert build_request(instance(berth_hints=hints), catalog)[0]["scheduler_hints"] == hints


def test_a_nic_carries_what_its_network_defines_and_a_mac_that_stays(catalog):
    """C06, I8"""
    nics = ["plain", {"network": "lan", "address": "192.0.2.7"}]
    first, again = (build_request(instance(berth_networks=nics), catalog) for attempt in (1, 2))
    assert first == again
    plain, lan = first[0]["networks"]
    assert plain["source"] == "default" and lan["address"] == "192.0.2.7/24"
    assert plain["mac"] != lan["mac"] and plain["mac"].startswith("02:")
    assert first[1]["network_config"]["ethernets"]["nic1"] == {
        "match": {"macaddress": lan["mac"]},
        "mtu": 9000,
        "addresses": ["192.0.2.7/24"],
        "routes": [{"to": "0.0.0.0/0", "via": "192.0.2.1"}],
    }


def test_two_instances_share_no_part_of_their_requests(catalog):
    """C22"""
    one, two = (build_request(instance(inventory_hostname=name, berth_server_group="web"), catalog)[0] for name in ("a", "b"))
    before = copy.deepcopy(two)
    one["flavor"]["extra_specs"]["x"] = "y"
    one["image"]["properties"]["x"] = "y"
    one["group"]["rules"]["max_server_per_host"] = 9
    one["group"]["members"].append("x")
    assert two == before


def test_secrets_are_in_the_seed_and_not_in_the_spec(catalog):
    """I10"""
    given = instance(berth_user_data="#cloud-config\npassword: CANARY", berth_ssh_keys=["ssh-ed25519 AAAACANARY me"])
    spec, seed = build_request(given, catalog)
    assert "CANARY" not in repr(spec)
    assert seed["user_data"].endswith("CANARY") and seed["ssh_keys"] == ["ssh-ed25519 AAAACANARY me"]


def test_no_error_repeats_user_data_or_a_private_key(catalog):
    """I10"""
    for bad in ({"berth_user_data": "CANARY!"}, {"berth_ssh_keys": ["-----BEGIN PRIVATE KEY-----CANARY"]}):
        with pytest.raises(BerthError) as caught:
            build_request(instance(**bad), catalog)
        assert "CANARY" not in repr(caught.value.to_result())


def test_the_flavor_snapshot_holds_extra_specs_as_text(catalog):
    """C07"""
    assert build_request(instance(berth_flavor="m1.small"), catalog)[0]["flavor"]["extra_specs"] == {"hw:numa_nodes": "2"}


@pytest.mark.parametrize("text", ["#cloud-config\na: 1", "#!/bin/sh\n", "Content-Type: multipart/mixed\n", "\n#cloud-config\n"])
def test_user_data_may_be_plain_cloud_init_text(text):
    """A08"""
    assert decode_user_data(text) == text


def test_user_data_may_be_base64_broken_into_lines():
    """A08"""
    packed = base64.encodebytes(b"#cloud-config\n" * 50).decode()
    assert decode_user_data(packed) == "#cloud-config\n" * 50


@pytest.mark.parametrize("text", ["hello", "aGVsbG8", "a===", "\u00e9", "/w=="])
def test_user_data_that_is_neither_is_refused(text):
    """A08"""
    with pytest.raises(BerthError) as caught:
        decode_user_data(text)
    assert caught.value.code == "InstanceUserDataMalformed"


def test_user_data_of_65535_bytes_in_base64_is_the_limit():
    """A08: 49149 bytes are 65532 in base64, one more is 65536"""
    decode_user_data("#" * 49149)
    with pytest.raises(BerthError) as caught:
        decode_user_data("#" * 49152 + "#")
    assert caught.value.code == "InstanceUserDataTooLarge"
