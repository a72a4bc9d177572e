# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No two instances have one MAC address, or one fixed address on one network."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import address_clash, hints, nics

NIC = {"type": "bridge", "source": "br0", "mac": "02:00:00:00:00:0a", "address": "192.0.2.1/24", "vlan": None}
FREE = {"type": "bridge", "source": "br0", "mac": "02:00:00:00:00:0b", "address": "192.0.2.2/24", "vlan": None}


def spec(*networks, uuid="mine"):
    return {"uuid": uuid, "name": "web-1", "networks": list(networks)}


def other(*networks, uuid="theirs"):
    return {"uuid": uuid, "name": "web-2", "nics": nics.taken(networks)}


CLASHES = {
    "the MAC address": dict(FREE, mac=NIC["mac"]),
    "the MAC address, written in another way": dict(FREE, mac=NIC["mac"].upper()),
    "the MAC address on another network": dict(FREE, mac=NIC["mac"], source="br9"),
    "the fixed address": dict(FREE, address=NIC["address"]),
    "the fixed IPv6 address, spelled in another way": dict(FREE, address="2001:DB8:0::A/64"),
    "the fixed address with another prefix": dict(FREE, address="192.0.2.1/16"),
}
APART = {
    "nothing in common": FREE,
    "the same address on another bridge": dict(FREE, address=NIC["address"], source="br9"),
    "the same address in another VLAN": dict(FREE, address=NIC["address"], vlan=7),
    "no fixed address": dict(FREE, address=None),
}


@pytest.mark.parametrize("case", CLASHES)
def test_one_address_is_one_instances(case):
    mine = dict(NIC, address="2001:db8::a/64") if "IPv6" in case else NIC
    error = address_clash.clash(spec(mine), address_clash.index([other(CLASHES[case])], " on kvm2"))
    assert "web-1" in error.message and "web-2 on kvm2" in error.message and error.field == "berth_networks"


@pytest.mark.parametrize("case", APART)
def test_what_is_not_the_same_on_one_network_is_no_clash(case):
    assert address_clash.clash(spec(NIC), address_clash.index([other(APART[case])])) is None


def test_an_instance_does_not_clash_with_itself_on_another_host():
    """In a move both hosts have it."""
    assert address_clash.clash(spec(NIC), address_clash.index([other(NIC, uuid="mine")])) is None


def test_an_instance_has_no_address_twice():
    assert "twice" in address_clash.clash(spec(NIC, dict(FREE, mac=NIC["mac"])), {}).message


@pytest.mark.follows("another_address")
def test_with_another_address_it_is_accepted():
    held = address_clash.index([other(NIC)])
    assert address_clash.clash(spec(NIC), held).hint == hints.another_address("web-1")
    assert address_clash.clash(spec(FREE), held) is None
