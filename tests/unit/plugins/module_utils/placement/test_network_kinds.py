# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open vSwitch, VLANs and functions of network cards: what of them is asked for, refused, checked on hosts and built."""

from __future__ import annotations

import types
from xml.etree import ElementTree

import fake_libvirt
import pytest
from sample_catalog import variables

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain_xml, domains, network
from ansible_collections.berth.kvm.plugins.module_utils.model import nics
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record
from ansible_collections.berth.kvm.plugins.module_utils.model.unknown_names import NetworkNotFound
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request, resize_request
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations

VF = {"vendor_id": "8086", "product_id": "10ed", "device_type": "type-VF"}
NETWORKS = {
    "ovs": {"type": "bridge", "source": "ovsbr0", "virtualport": "openvswitch", "vlan": 7},
    "tagged": {"type": "bridge", "source": "br0", "vlan": 8},
    "fast": {"type": "direct", "pci_alias": "vf", "vlan": 9, "cidr": "192.0.2.0/24"},
}
GROUPS = {"web": {"rules": [{"protocol": "tcp", "ports": 80}]}}


def catalog(networks=None, **aliases):
    given = {
        "berth_networks_defined": networks or NETWORKS,
        "berth_pci_aliases": aliases or {"vf": VF, "gpu": {**VF, "device_type": "type-PCI"}},
    }
    return Catalog.from_variables({**variables(), **given, "berth_security_groups_defined": GROUPS})


def instance(*networks, **more):
    return {
        "inventory_hostname": "web-1",
        "berth_flavor": "m1.tiny",
        "berth_image": "debian-12",
        "berth_networks": list(networks),
        **more,
    }


def spec(*networks, **more):
    return build_request(instance(*networks, **more), catalog())[0]


BAD = {
    "a bridge without a name": ({"type": "bridge"}, "source"),
    "a card by a bridge": ({"type": "direct", "pci_alias": "vf", "source": "br0"}, "source"),
    "a card without its alias": ({"type": "direct"}, "pci_alias"),
    "an alias of a bridge": ({"type": "bridge", "source": "br0", "pci_alias": "vf"}, "pci_alias"),
    "Open vSwitch of a libvirt network": (
        {"type": "network", "source": "lan", "virtualport": "openvswitch"},
        "virtualport",
    ),
    "another kind of switch": ({"type": "bridge", "source": "br0", "virtualport": "802.1Qbg"}, "virtualport"),
    "a model of a card that is one": ({"type": "direct", "pci_alias": "vf", "model": "virtio"}, "model"),
    "a filter that Open vSwitch passes by": (
        {**NETWORKS["ovs"], "nwfilter": "clean-traffic"},
        "nwfilter",
    ),
    "port security of a card": ({"type": "direct", "pci_alias": "vf", "port_security": True}, "port_security"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_network_that_cannot_be_is_refused_by_name(case):
    network_, part = BAD[case]
    with pytest.raises(BerthError) as refused:
        catalog({"n": network_})
    assert refused.value.field == "berth_networks_defined.n." + part


REFUSED = {
    "a group on Open vSwitch": (
        instance({"network": "ovs", "security_groups": ["web"]}),
        "berth_networks[0].security_groups",
    ),
    "the instance's groups on a card": (
        instance("fast", berth_security_groups=["web"]),
        "berth_networks[0].security_groups",
    ),
    "port security on a card": (
        instance({"network": "fast", "port_security": True}),
        "berth_networks[0].port_security",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_group_that_would_do_nothing_is_refused(case):
    given, field = REFUSED[case]
    with pytest.raises(BerthError) as refused:
        build_request(given, catalog())
    assert refused.value.field == field


def test_a_nic_that_says_that_it_needs_no_group_has_none():
    assert (
        spec({"network": "ovs", "security_groups": []}, berth_security_groups=["web"])["networks"][0]["security"]
        is None
    )


@pytest.mark.parametrize(
    "alias, device", [("vg", VF), ("vf", {**VF, "device_type": "type-PF"})], ids=["not defined", "a whole card"]
)
def test_a_card_needs_an_alias_of_functions(alias, device):
    with pytest.raises(BerthError) as refused:
        build_request(instance("fast"), catalog(**{alias: device}))
    assert refused.value.field == "berth_networks[0].network"


def test_each_nic_that_is_a_function_of_a_card_asks_for_one_of_its_alias():
    requests = spec("tagged", "fast", "fast")["pci_requests"]
    assert [(one["alias_name"], one["count"], one["request_id"]) for one in requests] == [
        ("vf", 1, "nic:1"),
        ("vf", 1, "nic:2"),
    ]


def test_a_resize_keeps_the_requests_of_the_nics_also_when_their_alias_is_gone():
    before = spec("fast")
    after = resize_request(before, {"berth_flavor": "m1.small"}, catalog(NETWORKS, other=VF))
    assert after["pci_requests"] == before["pci_requests"]


def host(name, **more):
    told = {
        "bridges": ["br0"],
        "networks": [],
        "ovs_bridges": ["ovsbr0"],
        "vlan_bridges": ["br0"],
        "packet_filters": ["addresses"],
    }
    return {"host": name, "vcpus": 16, "memory_mb": 65536, "local_gb": 100, **told, **more}


LACKS = {
    "ovs": ({"ovs_bridges": []}, "has no Open vSwitch bridge ovsbr0"),
    "tagged": ({"vlan_bridges": []}, "has no " + nics.VLANS % "br0"),
}


@pytest.mark.parametrize("name", LACKS)
def test_a_host_without_the_switch_or_its_vlans_is_left_out_by_name(name):
    facts, reason = LACKS[name]
    found = select_destinations([host("lacks", **facts), host("good")], [spec(name)], explain=True).requests[0]
    assert found.hosts == ["good"]
    told = found.explanation["candidates"]["lacks"]
    assert [one.reason for _rule, one in told if not one.passed] == [reason]


def test_a_host_that_does_not_tell_of_switches_is_judged_by_the_build():
    old = host("old")
    del old["ovs_bridges"], old["vlan_bridges"]
    assert select_destinations([old], [spec("ovs"), spec("tagged")]).requests[0].hosts == ["old"]


def test_a_card_is_claimed_as_other_devices_are():
    kind = {"vendor_id": "8086", "product_id": "10ed", "numa_node": None, "dev_type": "type-VF"}
    device = {"address": "0000:81:02.3", "available": True, **kind}
    with_card = host("card", pci_devices=[device], pci_pools=[{"count": 1, **kind}])
    options = {"enabled_filters": ["PciPassthroughFilter"]}
    found = select_destinations([host("none"), with_card], [spec("fast"), spec("fast")], options).requests
    assert [one.hosts for one in found] == [["card"], []]
    given = found[0].selections[0].to_dict()["allocation"]["pci_devices"]
    assert [(one["address"], one["request_id"]) for one in given] == [("0000:81:02.3", "nic:0")]


def rendered(*networks, devices=()):
    wanted = spec(*networks)
    record = Record(
        uuid=wanted["uuid"], name="web-1", project_id="default", role="OWN", generation=[1, 0], token="t", phase="building",
        spec=wanted, resources={"pci_devices": list(devices)},
    )  # fmt: skip
    return domain_xml.render(record, domain_xml.Host("kvm", "x86_64", "/pool"))


def test_a_port_of_open_vswitch_has_its_virtualport_and_vlan_and_no_filter():
    card = ElementTree.fromstring(rendered("ovs")).find("devices/interface")
    assert card.find("virtualport").get("type") == "openvswitch" and card.find("vlan/tag").get("id") == "7"
    assert card.find("filterref") is None


def test_a_function_of_a_card_is_an_interface_with_mac_address_and_vlan_and_other_devices_are_none():
    """A17."""
    devices = [{"address": "0000:82:00.0", "request_id": "gpu-0"}, {"address": "0000:81:02.3", "request_id": "nic:0"}]
    text = rendered("fast", devices=devices)
    root = ElementTree.fromstring(text)
    card = root.find("devices/interface")
    assert (card.get("type"), card.get("managed")) == ("hostdev", "yes")
    assert card.find("source/address").attrib == {
        "type": "pci",
        "domain": "0x0000",
        "bus": "0x81",
        "slot": "0x02",
        "function": "0x3",
    }
    assert (card.find("mac").get("address"), card.find("vlan/tag").get("id")) == (
        spec("fast")["networks"][0]["mac"],
        "9",
    )
    assert [one.get("bus") for one in root.findall("devices/hostdev/source/address")] == ["0x82"]
    assert set(domains.parse(text).pci_addresses) == {"0000:82:00.0", "0000:81:02.3"}


@pytest.fixture
def libvirt(monkeypatch):
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    return types.SimpleNamespace(
        getLibVersion=lambda: 11000000, listAllNetworks=lambda _flags: [], listAllNWFilters=lambda _flags: []
    )


@pytest.mark.parametrize(
    "version, filtering, told", [(11000000, "1", ["br0"]), (9000000, "1", []), (11000000, "0", [])]
)
def test_a_bridge_that_keeps_vlans_apart_is_told_and_the_build_looks_again(libvirt, tmp_path, version, filtering, told):
    (tmp_path / "br0" / "bridge").mkdir(parents=True)
    (tmp_path / "br0" / "bridge" / "vlan_filtering").write_text(filtering + "\n")
    libvirt.getLibVersion = lambda: version
    assert network.available(libvirt, [], str(tmp_path))["vlan_bridges"] == told
    nic = {"type": "bridge", "source": "br0", "vlan": 8}
    if told:
        network.check(libvirt, [nic], str(tmp_path))
    else:
        with pytest.raises(NetworkNotFound, match="VLANs on bridge br0"):
            network.check(libvirt, [nic], str(tmp_path))


@pytest.fixture
def switch(monkeypatch, tmp_path):
    """Open vSwitch is installed; the fixture is the socket of its database, which is there while it runs."""
    monkeypatch.setattr(network.shutil, "which", lambda *_, **__: "/usr/bin/ovs-vsctl")
    socket = tmp_path / "db.sock"
    monkeypatch.setattr(network, "OVS_SOCKET", str(socket))
    return socket


def test_bridges_of_open_vswitch_are_told_where_it_runs(libvirt, monkeypatch, tmp_path, switch):
    switch.touch()
    monkeypatch.setattr(network, "run", lambda *_, **__: "ovsbr0\novsbr1\n")
    assert network.available(libvirt, [], str(tmp_path))["ovs_bridges"] == ["ovsbr0", "ovsbr1"]
    with pytest.raises(NetworkNotFound, match="no Open vSwitch bridge ovsbr9"):
        network.check(libvirt, [{"type": "bridge", "source": "ovsbr9", "virtualport": "openvswitch"}], str(tmp_path))


def test_a_switch_that_was_not_started_has_no_bridges_and_is_nothing_to_warn_of(libvirt, tmp_path, switch):
    warnings = []
    assert network.available(libvirt, warnings, str(tmp_path))["ovs_bridges"] == [] == warnings


def test_a_host_without_open_vswitch_has_none_of_its_bridges(libvirt, monkeypatch, tmp_path, switch):
    switch.touch()
    monkeypatch.setattr(network.shutil, "which", lambda *_, **__: None)
    assert network.available(libvirt, [], str(tmp_path))["ovs_bridges"] == []


def test_a_switch_that_does_not_answer_is_not_one_that_is_not_there(libvirt, monkeypatch, tmp_path, switch):
    def fails(*_, **__):
        raise NetworkNotFound("ovs-vsctl did not end within 15 s")

    switch.touch()
    monkeypatch.setattr(network, "run", fails)
    warnings = []
    assert "ovs_bridges" not in network.available(libvirt, warnings, str(tmp_path))
    assert warnings == ["ovs bridges cannot be listed: ovs-vsctl did not end within 15 s"]
