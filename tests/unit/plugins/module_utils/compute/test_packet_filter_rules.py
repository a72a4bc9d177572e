# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which traffic the rules of a NIC's packet filter let through."""

from __future__ import annotations

from xml.etree import ElementTree

from packet_filter_case import MAC, OPEN, UUID, VIP_MAC, accepted, nic, record, rule, rules_of, secured

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import packet_filter


def test_a_guest_sends_from_its_own_addresses_alone():
    one = nic(address="192.0.2.7/24")
    mine = "srcmacaddr=" + MAC
    assert ("ip", "srcipaddr=192.0.2.7 srcipmask=32 " + mine) in accepted(one, "out", "ip")
    arp = accepted(one, "out", "arp")
    assert ("arp", "arpsrcipaddr=192.0.2.7 arpsrcipmask=32 arpsrcmacaddr=%s %s" % (MAC, mine)) in arp
    assert all(mine in what for _tag, what in accepted(one, "out", "ip", "ipv6", "arp", "rarp"))
    assert not any(what == mine for _tag, what in accepted(one, "out", "ip", "ipv6")), "not from any address"
    assert rules_of(one)[-1] == ("drop", "out", "mac", "")
    assert not [each for each in rules_of(one) if each[1] != "out"], "without a group all may come in"


def test_a_guest_that_asks_dhcp_may_have_any_address_and_no_other_mac_address():
    assert {what for _tag, what in accepted(nic(), "out", "ip", "ipv6")} == {"srcmacaddr=" + MAC}
    assert rules_of(nic())[-1] == ("drop", "out", "mac", "")


def test_a_guest_with_an_address_may_have_any_of_the_ip_version_that_it_asks_dhcp_for():
    one = nic(address="192.0.2.7/24", dhcp="ipv6")
    assert ("ipv6", "srcmacaddr=" + MAC) in accepted(one, "out", "ipv6")
    assert ("ip", "srcmacaddr=" + MAC) not in accepted(one, "out", "ip")


def test_addresses_that_are_allowed_beside_its_own():
    allowed = [{"address": "192.0.2.9/32", "mac": VIP_MAC}, {"address": "2001:db8::/64", "mac": None}]
    one = nic({**OPEN, "allowed": allowed}, address="192.0.2.7/24")
    assert ("ip", "srcipaddr=192.0.2.9 srcipmask=32 srcmacaddr=" + VIP_MAC) in accepted(one, "out", "ip")
    assert ("ipv6", "srcipaddr=2001:db8:: srcipmask=64 srcmacaddr=" + MAC) in accepted(one, "out", "ipv6")


def test_a_group_lets_in_what_its_rules_say_with_the_answers_and_drops_the_rest():
    one = nic(secured(rule(ports="80-90", remote=["192.0.2.0/24", "2001:db8::/32"]), rule("icmp")))
    assert accepted(one, "in", "tcp", "tcp-ipv6", "icmp", "all") == {
        ("tcp", "dstportend=90 dstportstart=80 srcipaddr=192.0.2.0 srcipmask=24"),
        ("tcp-ipv6", "dstportend=90 dstportstart=80 srcipaddr=2001:db8:: srcipmask=32"),
        ("icmp", ""),
    }
    assert accepted(one, "out", "all", "all-ipv6") == {("all", ""), ("all-ipv6", "")}
    assert rules_of(one)[-2:] == [("drop", "inout", "all", ""), ("drop", "inout", "all-ipv6", "")]


def test_a_rule_for_what_goes_out_closes_all_else_that_goes_out():
    one = nic(secured(rule("udp", "53-53", ["192.0.2.2/32"], "out")))
    assert accepted(one, "out", "all", "all-ipv6") == set()
    assert ("udp", "dstipaddr=192.0.2.2 dstipmask=32 dstportend=53 dstportstart=53") in accepted(one, "out", "udp")


def test_a_group_without_a_rule_lets_nothing_in_but_what_addresses_need():
    one = nic(secured())
    assert accepted(one, "in", "tcp", "tcp-ipv6", "icmp", "all", "all-ipv6") == set()
    assert ("udp", "dstportstart=68 srcportstart=67") in accepted(one, "in", "udp")
    assert ("icmpv6", "type=135") in accepted(one, "in", "icmpv6")


def test_any_network_is_any_address_of_its_kind():
    one = nic(secured(rule("any", remote=["0.0.0.0/0"])))
    assert accepted(one, "in", "all", "all-ipv6") == {("all", "")}


def test_the_filter_of_the_network_is_asked_first():
    text = packet_filter.render(record(nic(nwfilter="clean-traffic")))[packet_filter.name(UUID, 0)]
    assert ElementTree.fromstring(text).find("filterref").get("filter") == "clean-traffic"
    assert packet_filter.filter_of(record(nic(nwfilter="clean-traffic")), 0) == packet_filter.name(UUID, 0)
    assert packet_filter.filter_of(record(nic(None, nwfilter="clean-traffic")), 0) == "clean-traffic"


def test_a_guest_from_before_and_a_nic_without_port_security_have_no_filter():
    old = {key: value for key, value in nic().items() if key != "security"}
    assert packet_filter.render(record(old, nic(None))) == {}
    assert (packet_filter.filter_of(record(old), 0), packet_filter.filter_of(record(nic(None)), 0)) == (None, None)


def test_a_guest_may_send_from_its_fixed_address_of_each_version():
    both = nic(OPEN, address="192.0.2.20/24", address6="2001:db8::20/64")
    said = " ".join(what for _action, _way, _tag, what in rules_of(both))
    assert "192.0.2.20" in said and "2001:db8::20" in said
