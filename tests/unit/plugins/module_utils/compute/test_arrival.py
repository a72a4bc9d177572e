# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A destination that would cut the guest off refuses it by name, before the source stops anything."""

from __future__ import annotations

import types

import fake_libvirt
import pytest
from packet_filter_case import OPEN, nic, rule, secured

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import arrival, network
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import live_checks, moving_host

GROUPED = secured(rule(ports="80-80", remote=["192.0.2.1/32"]))
MAC = "02:00:00:00:00:09"


class Libvirt:
    def getHostname(self):  # noqa: N802 -- libvirt's own name
        return "kvm2"

    def networkLookupByName(self, name):  # noqa: N802
        if name != "default":
            raise fake_libvirt.libvirtError(43, "no network")
        return types.SimpleNamespace(bridgeName=lambda: "br0")


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())


def said(security=None, **more):
    try:
        arrival.check(Libvirt(), [{**nic(security or OPEN, mac=MAC), **more}])
    except arrival.DestinationDropsPackets as error:
        assert error.retryable and error.field == "networks"
        return error.message


def docker(kernel):
    kernel.says["iptables-save"] = kernel.says["iptables-save"].replace(":FORWARD ACCEPT", ":FORWARD DROP")


def test_a_host_that_forwards_takes_every_guest(kernel):
    assert said() is said(GROUPED) is said(type="network", source="default") is None


REFUSED = {
    "iptables drops packets from it: -P FORWARD DROP, iptables drops packets to it: -P FORWARD DROP": docker,
    "bridge br0 is down": lambda kernel: kernel.link("br0", flags=["BROADCAST"]),
    "ebtables drops packets from it: -A FORWARD -j DROP, ebtables drops packets to it: -A FORWARD -j DROP": lambda kernel: (
        kernel.says.update({"ebtables-save": "*filter\n:FORWARD ACCEPT\n-A FORWARD -j DROP\n"})
    ),
}


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.parametrize("on", [{}, {"type": "network", "source": "default"}], ids=["a bridge", "a network of libvirt"])
def test_what_would_cut_the_guest_off_is_named(kernel, text, on):
    REFUSED[text](kernel)
    assert said(**on) == "the guest would be cut off on kvm2: " + text


ACCEPTED = {
    "the bridge": ["-A FORWARD -i br0 -o br0 -j ACCEPT"],
    "guests' taps by how their names begin": [
        "-A FORWARD -m physdev --physdev-in vnet+ -j ACCEPT",
        "-A FORWARD -m physdev --physdev-out vnet+ -j ACCEPT",
    ],
    "some addresses": ["-A FORWARD -d 192.0.2.0/24 -j ACCEPT"],
    "the uplink by its name": [
        "-A FORWARD -m physdev --physdev-in bond0 -j ACCEPT",
        "-A FORWARD -m physdev --physdev-out bond0 -j ACCEPT",
    ],
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_a_firewall_that_may_accept_it_refuses_nothing(kernel, what):
    docker(kernel)
    kernel.plug("bond0", "br0")
    kernel.insert("iptables-save", *ACCEPTED[what])
    assert said() is None


def test_rules_for_other_ports_than_the_uplink_help_nobody(kernel):
    docker(kernel)
    kernel.plug("bond0", "br0")
    kernel.insert("iptables-save", *(rule.replace("bond0", "eth7") for rule in ACCEPTED["the uplink by its name"]))
    assert "iptables drops packets from it" in said()


def test_a_policy_does_not_hit_a_guest_whose_own_group_decides_but_a_bridge_that_is_down_does(kernel):
    docker(kernel)
    assert said(GROUPED) is None
    kernel.link("br0", flags=[])
    assert said(GROUPED) == "the guest would be cut off on kvm2: bridge br0 is down"


def test_nobody_asks_iptables_where_br_netfilter_is_off(kernel):
    docker(kernel)
    kernel.call("0")
    assert said() is None


def test_other_kinds_of_nics_and_what_cannot_be_read_refuse_nothing(kernel):
    docker(kernel)
    assert said(virtualport="openvswitch") is said(type="direct") is said(type="network", source="gone") is None
    del kernel.says["iptables-save"]
    assert said() is None
    del kernel.says["ip"]
    assert said() is None


@pytest.mark.follows("carry_packets")
def test_once_the_bridge_is_up_and_the_firewall_accepts_the_guest_may_come(kernel):
    docker(kernel)
    kernel.link("br0", flags=[])
    assert "bridge br0 is down, iptables drops" in said()
    kernel.link("br0", flags=["UP"])
    kernel.insert("iptables-save", "-A FORWARD -i br0 -o br0 -j ACCEPT")
    assert said() is None


def test_a_live_and_a_cold_move_ask_before_they_begin(kernel, monkeypatch, tmp_path):
    monkeypatch.setattr(network, "check", lambda *_: None)
    docker(kernel)
    nics = [nic(OPEN, mac=MAC)]
    monkeypatch.setattr(live_checks, "_cpu", lambda *_: None)
    monkeypatch.setattr(live_checks, "_machine", lambda *_: None)
    monkeypatch.setattr(live_checks, "_version", lambda *_: None)
    monkeypatch.setattr(live_checks, "_closed", lambda *_, **_more: [])
    (problem,) = live_checks.look(Libvirt(), {}, nics, str(tmp_path), True, "192.0.2.12")["problems"]
    assert problem == "the destination says: the guest would be cut off on kvm2: " + next(iter(REFUSED))

    host = object.__new__(moving_host.Effects)
    host.connection, prepared = Libvirt(), types.SimpleNamespace(require_prepared=lambda: None)
    host.host = types.SimpleNamespace(compute=prepared)
    record = types.SimpleNamespace(migration={"type": "migration"}, spec={"networks": nics})
    with pytest.raises(arrival.DestinationDropsPackets):
        host.check_destination(record, [])
