# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import copy
import ipaddress

import pytest
from sample_catalog import variables

from ansible_collections.berth.kvm.plugins.module_utils.model import catalog as catalog_module
from ansible_collections.berth.kvm.plugins.module_utils.model import nics, request_shape
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.cloud_init import decode_user_data
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request, resize_request


@pytest.fixture
def catalog():
    return Catalog.from_variables(variables())


def instance(**changes):
    return dict({"inventory_hostname": "web-1", "berth_flavor": "m1.tiny", "berth_image": "debian-12"}, **changes)


def test_an_adopted_instance_needs_no_image_and_has_the_uuid_of_its_guest(catalog):
    adopted = "5f0c1f7d-9d0b-4a1c-8d7f-1e2a0b7f9a52"
    spec, _seed = build_request(instance(berth_image=None, berth_adopted=adopted), catalog)
    assert (spec["uuid"], spec["instance_uuids"], spec["image"]["name"]) == (adopted, [adopted], "")
    assert spec["adopted"] == {} and "adopted" not in build_request(instance(), catalog)[0]
    with pytest.raises(InvalidInput, match="berth_adopted"):
        build_request(instance(berth_adopted="web-1"), catalog)


BAD_INSTANCES = [
    ({"berth_flavor": "m1.tny"}, "FlavorNotFound", "berth_flavor", "Did you mean m1.tiny?"),
    ({"berth_flavor": "old"}, "FlavorNotFound", "berth_flavor", None),
    ({"berth_flavor": "secret"}, "FlavorNotFound", "berth_flavor", None),
    ({"berth_flavor": None}, "InvalidInput", "berth_flavor", None),
    ({"berth_image": "debian12"}, "ImageNotFound", "berth_image", "Did you mean debian-12?"),
    ({"berth_image": "blue-only"}, "ImageNotFound", "berth_image", None),
    ({"berth_image": "big"}, "FlavorMemoryTooSmall", "berth_flavors.m1.tiny.memory_mb", None),
    *(
        (
            {"berth_networks": [{"network": "lan", "address": address}]},
            "InvalidInput",
            "berth_networks[0].address",
            None,
        )
        for address in ("192.0.2.0", "192.0.2.255", "192.0.2.1", "192.0.2.1/24", "2001:db8::1", "192.0.2.300")
    ),
    ({"berth_networks": ["lna"]}, "NetworkNotFound", "berth_networks[0].network", "Did you mean lan?"),
    (
        {"berth_networks": [{"network": "lan", "address": "192.0.3.5"}]},
        "InvalidInput",
        "berth_networks[0].address",
        None,
    ),
    (
        {"berth_networks": [{"network": "plain", "address": "192.0.3.5"}]},
        "InvalidInput",
        "berth_networks[0].address",
        None,
    ),
    (
        {"berth_networks": [{"network": "lan", "mac": "01:00:00:00:00:01"}]},
        "InvalidInput",
        "berth_networks[0].mac",
        None,
    ),
    ({"berth_server_group": "wbe"}, "ServerGroupNotFound", "berth_server_group", "Did you mean web?"),
    ({"berth_project": "a/b"}, "InvalidInput", "berth_project", None),
    ({"berth_availability_zone": "a:b:c:d"}, "InvalidInput", "berth_availability_zone", None),
    ({"berth_availability_zone": "mars"}, "AvailabilityZoneNotFound", "berth_availability_zone", "Known: a, nova"),
    ({"berth_pool": "../x"}, "InvalidInput", "berth_pool", None),
    ({"berth_ssh_keys": ["not a key"]}, "InvalidInput", "berth_ssh_keys[0]", None),
    ({"berth_hints": ["a"]}, "InvalidInput", "berth_hints", None),
    ({"berth_user_data": "!!"}, "InstanceUserDataMalformed", "berth_user_data", None),
    ({"inventory_hostname": "web..example.org"}, "InvalidInput", "inventory_hostname", None),
    ({"inventory_hostname": "-rf"}, "InvalidInput", "inventory_hostname", None),
    ({"inventory_hostname": "$(id)"}, "InvalidInput", "inventory_hostname", None),
]


@pytest.mark.parametrize(
    ("changes", "code", "field", "hint"), BAD_INSTANCES, ids=[str(row[0])[:50] for row in BAD_INSTANCES]
)
def test_a_bad_instance_variable_is_refused_by_name_with_a_stable_code(catalog, changes, code, field, hint):
    """A07, A08, A28, C06 and the bad input table of the second issue"""
    with pytest.raises(BerthError) as caught:
        build_request(instance(**changes), catalog)
    assert (caught.value.code, caught.value.field) == (code, field)
    assert hint in (None, caught.value.hint)


@pytest.mark.parametrize(
    "field, value",
    [
        ("berth_access_ip_v4", "2001:db8::7"),
        ("berth_access_ip_v6", "192.0.2.7"),
        ("berth_access_ip_v4", "192.0.2.7/24"),
        ("berth_access_ip_v4", "127.0.0.1"),
        ("berth_access_ip_v4", "web1.example.org"),
        ("berth_access_ip_v4", ["192.0.2.7"]),
        ("berth_access_ip_v6", 7),
    ],
)
def test_an_address_for_access_is_one_of_its_kind(catalog, field, value):
    """A20"""
    with pytest.raises(BerthError) as caught:
        build_request(instance(**{field: value}), catalog)
    assert (caught.value.code, caught.value.field) == ("InvalidInput", field)


def test_addresses_for_access_are_in_the_request(catalog):
    """A20"""
    spec = build_request(instance(berth_access_ip_v4="203.0.113.7", berth_access_ip_v6="2001:DB8::7"), catalog)[0]
    assert (spec["access_ip_v4"], spec["access_ip_v6"]) == ("203.0.113.7", "2001:db8::7")


def test_a_hint_never_names_what_the_project_may_not_see(catalog):
    with pytest.raises(catalog_module.FlavorNotFound) as caught:
        build_request(instance(berth_flavor="secre"), catalog)
    assert "secret" not in caught.value.hint


def test_a_private_flavor_serves_its_project(catalog):
    assert (
        build_request(instance(berth_flavor="secret", berth_project="blue"), catalog)[0]["flavor"]["name"] == "secret"
    )


def test_a_nic_without_an_address_on_a_network_with_a_pool_says_of_what_it_is_given_one(catalog):
    """A03; what has an address, or no pool, is as it was."""
    catalog.networks["lan"]["pool"] = {"ranges": ["192.0.2.1-192.0.2.9"], "exclude": []}
    given = ["lan", {"network": "lan", "address": "192.0.2.200"}, "plain"]
    pooled, fixed, plain = build_request(instance(berth_networks=given), catalog)[0]["networks"]
    assert (pooled["pool"], pooled["prefixlen"], pooled["address"]) == (["192.0.2.2-192.0.2.9"], 24, None)
    assert fixed["address"] == "192.0.2.200/24" and not {"pool", "prefixlen"} & {*fixed, *plain}


def test_a_resize_needs_the_flavor_alone_and_keeps_the_image_it_has(catalog):
    """R24, R26: an instance that a survey made is in no inventory, and its image may be gone from the catalog."""
    spec = build_request(instance(), catalog)[0]
    del catalog.images["debian-12"]
    changes = resize_request(spec, {"berth_flavor": "m1.small"}, catalog)
    assert set(changes) == {"flavor", "numa_topology", "pci_requests"}
    assert (changes["flavor"]["vcpus"], len(changes["numa_topology"]["cells"])) == (2, 2)
    assert spec["flavor"]["name"] == "m1.tiny"


@pytest.mark.parametrize(
    "image, variables, code",
    [
        ("debian-12", {}, "InvalidInput"),
        ("debian-12", {"berth_flavor": ""}, "InvalidInput"),
        ("debian-12", {"berth_flavor": "m1.smal"}, "FlavorNotFound"),
        ("debian-12", {"berth_flavor": "old"}, "FlavorNotFound"),
        ("big", {"berth_flavor": "m1.tiny"}, "FlavorMemoryTooSmall"),
    ],
)
def test_a_resize_to_a_flavor_that_does_not_do_is_refused(catalog, image, variables, code):
    """R06, R09, A28."""
    spec = build_request(instance(berth_flavor="m1.small", berth_image=image), catalog)[0]
    with pytest.raises(BerthError) as caught:
        resize_request(spec, variables, catalog)
    assert caught.value.code == code


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
    [
        ("a", "a", [], []),
        ("a:k1", "a", ["k1"], []),
        ("a:k1:n1", "a", ["k1"], ["n1"]),
        ("a::n1", "a", [], ["n1"]),
        (":k1", None, ["k1"], []),
    ],
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
    assert first[1]["network_config"]["config"][1] == {
        "type": "physical",
        "name": "eth1",
        "mac_address": lan["mac"],
        "mtu": 9000,
        "subnets": [{"type": "static", "address": "192.0.2.7/24", "gateway": "192.0.2.1"}],
    }


def on_network(parts, nic=None):
    """The NIC of a request, and the network-config that its guest gets."""
    network = {"type": "bridge", "source": "br0", **parts}
    catalog = Catalog.from_variables({**variables(), "berth_networks_defined": {"net": network}})
    spec, seed = build_request(instance(berth_networks=[{"network": "net", **(nic or {})}]), catalog)
    return spec["networks"][0], seed["network_config"]


@pytest.mark.parametrize(
    "parts, address",
    [
        ({"cidr": "2001:db8::/64", "gateway": "fe80::1"}, "2001:db8::20"),
        ({"cidr": "192.0.2.20/32", "gateway": "198.51.100.1"}, "192.0.2.20"),
        ({"cidr": "192.0.2.0/24", "gateway": "192.0.2.1"}, "192.0.2.20/32"),
    ],
    ids=str,
)
def test_a_gateway_may_be_outside_of_the_prefix_of_its_guest(parts, address):
    static = on_network(parts, {"address": address})[1]["config"][0]["subnets"][0]
    assert static["gateway"] == parts["gateway"] and ipaddress.ip_interface(static["address"]).network.prefixlen >= 32


def test_on_an_ipv6_network_a_nic_without_an_address_asks_dhcp_for_ipv6():
    nic, config = on_network({"cidr": "2001:db8::/64"})
    assert config["ethernets"]["eth0"] == {"match": {"macaddress": nic["mac"]}, "set-name": "eth0", "dhcp6": True}
    assert request_shape.nic(nic) == nic


def test_a_nic_that_is_to_have_the_default_route_needs_a_gateway():
    with pytest.raises(InvalidInput) as caught:
        on_network({"cidr": "192.0.2.0/24"}, {"address": "192.0.2.20", "default_route": True})
    assert caught.value.field == "berth_networks[0].default_route"


def test_two_instances_share_no_part_of_their_requests(catalog):
    """C22"""
    first, two = (
        build_request(instance(inventory_hostname=name, berth_server_group="web"), catalog)[0] for name in ("a", "b")
    )
    before = copy.deepcopy(two)
    first["flavor"]["extra_specs"]["x"] = "y"
    first["image"]["properties"]["x"] = "y"
    first["group"]["rules"]["max_server_per_host"] = 9
    first["group"]["members"].append("x")
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
    assert build_request(instance(berth_flavor="m1.small"), catalog)[0]["flavor"]["extra_specs"] == {
        "hw:numa_nodes": "2"
    }


@pytest.mark.parametrize(
    "text", ["#cloud-config\na: 1", "#!/bin/sh\n", "Content-Type: multipart/mixed\n", "\n#cloud-config\n"]
)
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


def test_numa_topology_and_pci_requests_follow_from_flavor_image_and_aliases():
    """A16, A17"""
    given = variables()
    given["berth_flavors"]["m1.small"]["extra_specs"]["pci_passthrough:alias"] = "gpu:1"
    spec = build_request(instance(berth_flavor="m1.small"), Catalog.from_variables(given))[0]
    assert len(spec["numa_topology"]["cells"]) == 2
    assert [(request["alias_name"], request["count"]) for request in spec["pci_requests"]] == [("gpu", 1)]


def test_an_unknown_pci_alias_is_refused_with_the_one_that_was_meant():
    given = variables()
    given["berth_flavors"]["m1.tiny"]["extra_specs"] = {"pci_passthrough:alias": "gpus:1"}
    with pytest.raises(InvalidInput) as caught:
        build_request(instance(), Catalog.from_variables(given))
    assert caught.value.hint == "Did you mean gpu?"


@pytest.mark.parametrize(
    "name, hostname, fqdn", [("web-1", "web-1", None), ("web-1.example.org", "web-1", "web-1.example.org")]
)
def test_the_host_name_of_the_guest_is_the_first_label_and_the_uuid_is_that_of_the_whole_name(
    catalog, name, hostname, fqdn
):
    spec, seed = build_request(instance(inventory_hostname=name), catalog)
    assert (seed["hostname"], seed["fqdn"]) == (hostname, fqdn)
    assert (spec["name"], spec["uuid"]) == (name, instance_uuid("default", name))


DUAL = {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24", "gateway": "192.0.2.1"}
DUAL = {**DUAL, "cidr6": "2001:db8::/64", "gateway6": "fe80::1"}


def dual(address, **network):
    catalog = Catalog.from_variables({**variables(), "berth_networks_defined": {"dual": {**DUAL, **network}}})
    wanted = instance(berth_networks=[{"network": "dual", "address": address}])
    return build_request(wanted, catalog)[0]["networks"][0]


def test_a_nic_has_a_fixed_address_of_each_version_whatever_their_order():
    both = dual(["2001:db8::20", "192.0.2.20/32"])
    assert both == dual(["192.0.2.20/32", "2001:db8::20"])
    assert (both["address"], both["gateway"]) == ("192.0.2.20/32", "192.0.2.1")
    assert (both["address6"], both["gateway6"]) == ("2001:db8::20/64", "fe80::1")
    assert nics.taken([both])[1:] == ["address 192.0.2.20 on bridge br0", "address 2001:db8::20 on bridge br0"]
    six = dual("2001:db8::20")
    assert (six["address"], six["gateway"]) == ("2001:db8::20/64", "fe80::1") and "address6" not in six
    assert dual(["192.0.2.20"]) == dual("192.0.2.20")


@pytest.mark.parametrize(
    ("address", "network"),
    [
        (["192.0.2.20", "192.0.2.21"], {}),
        (["192.0.2.20", "2001:db8::20", "2001:db8::21"], {}),
        (["192.0.2.20", "2001:db9::20"], {}),
        (["192.0.2.20", "x"], {}),
        (["192.0.2.20", None], {}),
        (["192.0.2.20", "2001:db8::20"], {"cidr6": None, "gateway6": None}),
        ("192.0.2.20", {"cidr6": "198.51.100.0/24", "gateway6": None}),
        ("192.0.2.20", {"cidr6": None}),
        ("2001:db8::20", {"cidr": "2001:db8::/64", "gateway": None}),
        ("2001:db8::20", {"cidr": None, "gateway": None}),
        ("192.0.2.20", {"gateway6": "2001:db9::1"}),
    ],
)
def test_addresses_and_networks_that_do_not_fit_each_other_are_refused(address, network):
    with pytest.raises(InvalidInput):
        dual(address, **network)


@pytest.mark.parametrize("pool, refused", [(None, None), ("fast", None), ("slow", "berth_pool")])
def test_an_instance_is_in_the_pool_of_its_volume(pool, refused):
    """A21"""
    defined = {"db": {"size_gb": 1, **({"pool": pool} if pool else {})}}
    given = instance(berth_volumes=[{"name": "db"}], berth_pool="fast")
    try:
        spec, _seed = build_request(given, Catalog.from_variables({**variables(), "berth_volumes_defined": defined}))
    except InvalidInput as error:
        assert error.field == refused and "db, slow" in str(error)
    else:
        assert not refused and spec["pool"] == "fast"
