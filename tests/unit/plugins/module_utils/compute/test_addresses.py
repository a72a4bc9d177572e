# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a guest is reached: the first source that knows counts, and what a guest says is an address or nothing."""

from __future__ import annotations

import types

import fake_libvirt
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import addresses

MAC = "02:00:00:00:00:0%d"
ARP = """IP address       HW type     Flags       HW address            Mask     Device
192.0.2.30       0x1         0x2         02:00:00:00:00:03     *        br0
192.0.2.99       0x1         0x0         02:00:00:00:00:05     *        br0
"""
AGENT = "<domain><devices><channel><target name='org.qemu.guest_agent.0' state='%s'/></channel></devices></domain>"


class Guest:
    def __init__(self, state="connected", says="192.0.2.40", fails=False):
        self.state, self.says, self.fails = state, says, fails

    def isActive(self):  # noqa: N802
        return True

    def XMLDesc(self, _flags):  # noqa: N802
        return AGENT % self.state

    def interfaceAddresses(self, source):  # noqa: N802
        assert source == 1 and self.state == "connected"
        if self.fails:
            raise fake_libvirt.libvirtError(86, "the agent does not answer")
        return {"lo": {"addrs": [{"addr": "127.0.0.1"}]}, "eth0": {"addrs": [{"addr": "fe80::1"}, {"addr": self.says}]}}


class Libvirt:
    """One network with a lease for the second MAC; ``asked``: the guests that were looked at."""

    def __init__(self, **guests):
        self.guests, self.asked = guests, []

    def listAllNetworks(self, _flags):  # noqa: N802
        return [types.SimpleNamespace(DHCPLeases=lambda: [{"mac": MAC % 2, "ipaddr": "192.0.2.20"}])]

    def lookupByUUIDString(self, uuid):  # noqa: N802
        self.asked.append(uuid)
        return self.guests.get(uuid) or Guest("disconnected")


def record(uuid, number, address=None, role="OWN"):
    return types.SimpleNamespace(uuid=uuid, role=role, spec={"networks": [{"mac": MAC % number, "address": address}]})


@pytest.fixture
def known(monkeypatch, tmp_path):
    """known(libvirt, *records) -> uuid -> (address, source)."""
    library = fake_libvirt.library()
    library.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT = 1
    monkeypatch.setattr(connection, "libvirt", library)
    (tmp_path / "arp").write_text(ARP)

    def of(libvirt, *records):
        found = addresses.of_instances(libvirt, records, str(tmp_path / "arp"))
        return {uuid: (value["address"], value["source"]) for uuid, value in found.items()}

    return of


def test_the_fixed_address_counts_more_than_a_lease_that_more_than_a_neighbour_that_more_than_the_agent(known):
    libvirt = Libvirt(four=Guest())
    given = [
        record("one", 2, "192.0.2.10/24"),
        record("two", 2),
        record("three", 3),
        record("four", 4),
        record("five", 5),
    ]
    assert known(libvirt, *given) == {
        "one": ("192.0.2.10", "static"), "two": ("192.0.2.20", "lease"), "three": ("192.0.2.30", "arp"),
        "four": ("192.0.2.40", "agent"),
    }  # fmt: skip
    assert libvirt.asked == ["four", "five"]


def test_a_fixed_address_of_version_6_counts_more_than_a_lease_of_version_4(known):
    assert known(Libvirt(), record("one", 2, "2001:db8::10/64")) == {"one": ("2001:db8::10", "static")}


def test_only_the_owner_tells(known):
    assert known(Libvirt(), record("one", 2, role="OUT"), record("two", 2, role="IN")) == {}


@pytest.mark.parametrize(
    "guest", [Guest("disconnected"), Guest(fails=True), Guest(says="127.0.0.1"), Guest(says="{{ x }}")]
)
def test_an_agent_that_is_silent_or_says_nothing_of_use_tells_nothing(guest, known):
    assert known(Libvirt(one=guest), record("one", 4)) == {}


def test_agents_that_hang_cost_so_many_seconds_together(known, monkeypatch):
    import time

    monkeypatch.setattr(addresses, "AGENTS", 0.2)
    hung = Guest()
    hung.interfaceAddresses = lambda source: time.sleep(5)
    began = time.monotonic()
    assert (
        known(Libvirt(one=hung, two=hung, three=Guest()), *(record(name, 4) for name in ("one", "two", "three"))) == {}
    )
    assert time.monotonic() - began < 2


def test_200_guests_cost_one_call_for_each_network_where_leases_or_records_know_them(known):
    libvirt = Libvirt()
    assert len(known(libvirt, *(record(str(number), 2, "192.0.2.%d" % (number + 10)) for number in range(200)))) == 200
    assert libvirt.asked == []


class Network:
    """``given``: what is in its element ip."""

    def __init__(self, name, given=""):
        self._name, self._given = name, given

    def name(self):
        return self._name

    def XMLDesc(self, _flags):  # noqa: N802
        return "<network><forward mode='bridge'/><ip>%s</ip></network>" % self._given


def nic_of(uuid, role="OWN", **nic):
    properties = nic.pop("properties", {})
    spec = {"flavor": {}, "networks": [{"mac": MAC % 9, **nic}], "image": {"properties": properties}}
    return types.SimpleNamespace(uuid=uuid, role=role, spec=spec)


def test_an_address_is_awaited_only_where_the_host_will_know_it(monkeypatch):
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    libvirt = Libvirt()
    libvirt.listAllNetworks = lambda _flags: [Network("default", "<dhcp/>"), Network("plain")]
    given = [
        nic_of("leased", type="network", source="default"),
        nic_of("known", type="network", source="default"),
        nic_of("copy", role="SOURCE", type="network", source="default"),
        nic_of("plain", type="network", source="plain"),
        nic_of("bridge", type="bridge", source="default"),
        nic_of("agent", type="bridge", source="br0", properties={"hw_qemu_guest_agent": True}),
    ]
    assert addresses.awaited(libvirt, given, {"known"}) == ["leased", "agent"]


def test_no_address_is_awaited_of_a_guest_that_is_off(monkeypatch):
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    monkeypatch.setattr(Guest, "isActive", lambda _self: False)
    libvirt = Libvirt()
    libvirt.listAllNetworks = lambda _flags: [Network("default", "<dhcp/>")]
    assert addresses.awaited(libvirt, [nic_of("off", type="network", source="default")], ()) == []
