# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network-config: a shape that every renderer of cloud-init writes out (make cloud-init tries them)."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model.cloud_init import NetworkConfig, network_config
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput

NOTHING = {"mtu": None, "address": None, "gateway": None, "nameservers": []}


def nic(at, **parts):
    return {**NOTHING, "mac": "02:00:00:00:00:%02x" % at, **parts}


def static(document):
    """{name of the NIC: its subnets without DHCP}"""
    return {
        device["name"]: [subnet for subnet in device["subnets"] if subnet["type"] == "static"]
        for device in document["config"]
    }


def routes(*nics):
    """Which NICs' gateways are default routes."""
    found = static(network_config([nic(at, **parts) for at, parts in enumerate(nics)]))
    return [name for name, subnets in found.items() if any("gateway" in subnet for subnet in subnets)]


V4 = {"address": "192.0.2.20/24", "gateway": "192.0.2.1"}
OTHER4 = {"address": "198.51.100.2/24", "gateway": "198.51.100.1"}
V6 = {"address": "2001:db8::20/64", "gateway": "2001:db8::1"}


@pytest.mark.parametrize("parts", [{}, V4, V6, {"dhcp": "both"}, {**V4, "dhcp": "ipv6"}])
def test_each_nic_has_a_name_beside_its_mac_address(parts):
    """cloud-init to 22.1 takes the name for the device's: it must be the one that the device is given."""
    document = network_config([nic(0, **parts), nic(1, **parts)])
    if document["version"] == 1:
        named = {device["name"]: device["mac_address"] for device in document["config"]}
    else:
        named = {each.get("set-name"): each["match"]["macaddress"] for each in document["ethernets"].values()}
        assert list(named) == list(document["ethernets"])
    assert named == {"eth0": "02:00:00:00:00:00", "eth1": "02:00:00:00:00:01"}


def test_a_default_route_is_the_gateway_of_a_subnet_and_no_route():
    """As a route it crashed sysconfig or became ::/64."""
    document = network_config([nic(0, **V4), nic(1, **V6)])
    assert document["version"] == 1 and "routes" not in str(document)
    assert static(document) == {"eth0": [{"type": "static", **V4}], "eth1": [{"type": "static", **V6}]}


@pytest.mark.parametrize(
    "nics, expected",
    [
        ([V4, OTHER4], ["eth0"]),
        ([V4, V6, OTHER4], ["eth0", "eth1"]),
        ([{}, V4, OTHER4], ["eth1"]),
        ([{**V4, "gateway": None}, OTHER4], ["eth1"]),
        ([V4, {**OTHER4, "default_route": True}], ["eth1"]),
        ([{**V4, "default_route": True}, {**OTHER4, "default_route": True}], ["eth0", "eth1"]),
        ([{**V4, "default_route": False}, OTHER4], ["eth1"]),
        ([{**V4, "default_route": False}], []),
        ([V4, V6, {**OTHER4, "default_route": True}], ["eth1", "eth2"]),
        ([V4, {"default_route": True}], []),
        ([V4, V6, {"default_route": True}], ["eth1"]),
    ],
    ids=str,
)
def test_there_is_one_default_route_of_each_ip_version_unless_nics_say_otherwise(nics, expected):
    assert routes(*nics) == expected


def test_of_two_nics_with_dhcp_the_first_or_the_one_that_says_so_has_the_default_route():
    def later(*nics):
        ethernets = network_config([nic(at, **parts) for at, parts in enumerate(nics)])["ethernets"]
        return [name for name, each in ethernets.items() if "dhcp4-overrides" in each]

    assert later({}) == []
    assert later({}, {}, {}) == ["eth1", "eth2"]
    assert later({}, {"default_route": True}) == ["eth0"] == later({"default_route": False}, {})


def test_ipv4_and_ipv6_are_on_one_nic_and_dhcp_is_not_asked_for_the_version_that_has_an_address():
    def asked(**parts):
        config = network_config([nic(0, **parts)])["config"]
        return [subnet["type"] for subnet in config[0]["subnets"]]

    assert asked(**V4) == ["static"] == asked(**V4, dhcp="ipv4")
    assert asked(**V4, dhcp="both") == ["static", "dhcp6"] == asked(**V4, dhcp="ipv6")
    assert asked(**V6, dhcp="both") == ["static", "dhcp4"]


def test_dhcp_is_asked_for_the_versions_that_the_network_says():
    def asked(**parts):
        ethernet = network_config([nic(0, **parts)])["ethernets"]["eth0"]
        return [part for part in ("dhcp4", "dhcp6") if ethernet.get(part)]

    assert (asked(), asked(dhcp="ipv6"), asked(dhcp="both")) == (["dhcp4"], ["dhcp6"], ["dhcp4", "dhcp6"])


def test_name_servers_of_a_nic_with_dhcp_are_told_where_renderers_do_not_drop_them():
    alone = network_config([nic(0, nameservers=["192.0.2.53"], mtu=1400)])["ethernets"]["eth0"]
    assert (alone["nameservers"], alone["mtu"]) == ({"addresses": ["192.0.2.53"]}, 1400)
    beside = network_config([nic(0, nameservers=["192.0.2.53"]), nic(1, **V6, nameservers=["2001:db8::53"])])
    assert static(beside)["eth1"][0]["dns_nameservers"] == ["2001:db8::53", "192.0.2.53"]


@pytest.mark.parametrize(
    "own",
    [
        {"version": 2, "ethernets": {}},
        {"version": 1, "config": []},
        {"network": {"version": 2}},
        {"version": 2, "x": [1]},
    ],
)
def test_a_network_config_of_the_users_own_stays_as_it_is(own):
    assert NetworkConfig().check(own, "berth_network_config") == own


@pytest.mark.parametrize(
    "own", ["version: 2", [], {}, {"version": "2"}, {"version": 3}, {"version": 1}, {"network": []}, {"version": 2, "x": {1j}},
            {"version": 2, "x": "x" * 70000}], ids=lambda own: str(own)[:20],
)  # fmt: skip
def test_what_is_no_network_config_is_refused(own):
    with pytest.raises(InvalidInput) as caught:
        NetworkConfig().check(own, "berth_network_config")
    assert caught.value.field == "berth_network_config"


def test_a_nic_has_an_address_of_each_version_with_its_own_default_route():
    both = {**V4, "address6": V6["address"], "gateway6": V6["gateway"], "nameservers": ["192.0.2.2"]}
    document = network_config([nic(0, **both, dhcp="both"), nic(1, **OTHER4)])
    fours, sixes = {"type": "static", **V4, "dns_nameservers": ["192.0.2.2"]}, {"type": "static", **V6}
    assert document["config"][0]["subnets"] == [fours, sixes], "no DHCP for a version that has an address"
    assert "gateway" not in document["config"][1]["subnets"][0]
    first, second = static(network_config([nic(0, **both), nic(1, **OTHER4, default_route=True)])).values()
    assert ["gateway" in subnet for subnet in first + second] == [False, True, True]
