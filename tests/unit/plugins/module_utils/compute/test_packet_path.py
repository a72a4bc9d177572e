# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's kernel does with a guest's packets, by what its programs print: recorded on a Debian 12 with a guest in a
security group (vnet1) and one in none (vnet0), then changed as firewalls and bridges change it."""

from __future__ import annotations

import json

import pytest
from kernel_case import CALLS, RECORDED, Switch
from packet_filter_case import OPEN, rule, secured
from packet_filter_case import nic as requested
from packet_filter_case import record as make_record

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import packet_path
from ansible_collections.berth.kvm.plugins.module_utils.model.host_document import domain_differs

WEB, FREE = "02:00:00:00:00:01", "02:00:00:00:00:02"
LIVE = """<domain><devices>%s</devices></domain>"""
INTERFACE = """<interface type='bridge'><mac address='%s'/><source bridge='br0'/><target dev='%s'/>
<model type='virtio'/><filterref filter='f'/></interface>"""


def guest(mac=WEB, security=None, tap="vnet1", **more):
    """(record, live XML) of the guest in the group, or of another."""
    web = secured(rule(ports="80-80", remote=["192.0.2.1/32"]))
    nic = requested(security or web, mac=mac, address="192.0.2.201/24" if mac == WEB else None, **more)
    return make_record(nic), LIVE % (INTERFACE % (mac, tap))


def free():
    return guest(FREE, OPEN, "vnet0")


def said(*guests):
    """[(code, what is said)] of one guest or several."""
    found, unread = packet_path.differing(list(guests))
    assert unread == []
    for each in found.values():
        domain_differs({"kernel": each})
    return [(wrong["code"], wrong["said"]) for each in found.values() for wrong in each]


def test_what_libvirt_made_is_in_force(kernel):
    assert said(guest()) == said(free()) == []
    assert len(kernel.ran) == 8, "each program once, for all guests of a host"


def test_without_guests_nothing_is_asked(kernel):
    assert packet_path.differing([]) == ({}, []) and kernel.ran == []


NO_RULES = {
    "nft flush ruleset": lambda kernel: [
        kernel.says.update({name: ""}) for name in list(kernel.says) if "-save" in name
    ],
    "iptables -F": lambda kernel: kernel.drop("iptables-save", "-A "),
    "iptables-restore of a file from before": lambda kernel: kernel.drop("iptables-save", "vnet1", "libvirt"),
    "ip6tables -F": lambda kernel: kernel.drop("ip6tables-save", "-A "),
    "ebtables -t nat -F": lambda kernel: kernel.drop("ebtables-save", "-A "),
    "the jump of FORWARD is gone": lambda kernel: kernel.drop("iptables-save", "-A FORWARD -j libvirt-out"),
    "the jump of the tap is gone": lambda kernel: kernel.drop("iptables-save", "-A libvirt-out"),
    "the jump of ebtables is gone": lambda kernel: kernel.drop("ebtables-save", "-A PREROUTING -i vnet1"),
    "the way to the host is open": lambda kernel: kernel.drop("iptables-save", "-A INPUT"),
    "the way out is open": lambda kernel: kernel.drop("iptables-save", "-A FORWARD -j libvirt-in\n", "-A libvirt-in "),
    "the chain is empty": lambda kernel: kernel.drop("iptables-save", "-A FO-vnet1"),
    "the last rule is gone": lambda kernel: kernel.drop("iptables-save", "-A FO-vnet1 -j DROP"),
    "bridged packets are accepted first": lambda kernel: kernel.insert(
        "iptables-save", "-A FORWARD -m physdev --physdev-is-bridged -j ACCEPT"
    ),
    "the bridge's packets are accepted first": lambda kernel: kernel.insert(
        "iptables-save", "-A FORWARD -i br0 -o br0 -j ACCEPT"
    ),
    "some are accepted first": lambda kernel: kernel.insert("iptables-save", "-A FORWARD -s 10.0.0.0/8 -j ACCEPT"),
    "those of another port are accepted first": lambda kernel: kernel.insert(
        "iptables-save", "-A FORWARD -m physdev --physdev-in eth1 -j ACCEPT"
    ),
    "a chain of others accepts first": lambda kernel: (
        kernel.insert("iptables-save", "-A DOCKER-USER -j ACCEPT", "-A FORWARD -j DOCKER-USER", ":DOCKER-USER - [0:0]")
        or kernel.says.update(
            {"iptables-save": kernel.says["iptables-save"].replace(":FI-", ":DOCKER-USER - [0:0]\n:FI-", 1)}
        )
    ),
    "ebtables accepts first": lambda kernel: kernel.insert("ebtables-save", "-A PREROUTING -j ACCEPT"),
    "a port more": lambda kernel: kernel.insert("iptables-save", "-A FO-vnet1 -p tcp -m tcp --dport 22 -j ACCEPT"),
    "the group's port is another": lambda kernel: kernel.says.update(
        {"iptables-save": kernel.says["iptables-save"].replace("--dport 80", "--dport 81")}
    ),
    "an address more": lambda kernel: kernel.insert(
        "ebtables-save", "-A libvirt-I-vnet1 -p IPv4 --ip-src 192.0.2.9 -j ACCEPT"
    ),
    "br_netfilter is off": lambda kernel: kernel.call("0"),
    "br_netfilter is not loaded": lambda kernel: [(kernel.directory / name).unlink() for name in CALLS],
}


@pytest.mark.parametrize("change", NO_RULES)
def test_a_guest_in_a_group_whose_filter_does_not_hold_is_found(kernel, change):
    NO_RULES[change](kernel)
    assert [code for code, _text in said(guest())] == [packet_path.OPEN]


def test_the_rule_that_lets_packets_pass_by_is_named(kernel):
    kernel.insert("iptables-save", "-A FORWARD -m physdev --physdev-is-bridged -j ACCEPT")
    assert said(guest())[0][1] == (
        "its packet filter is not in force: iptables accepts before FO-vnet1: -A FORWARD -m physdev --physdev-is-bridged -j "
        "ACCEPT, and 1 more"
    )


WELL = {
    "replies are accepted first": "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    "containers are accepted first": "-A FORWARD -i docker0 -o br0 -j ACCEPT",
    "invalid packets are dropped first": "-A FORWARD -m conntrack --ctstate INVALID -j DROP",
    "some are dropped first": "-A FORWARD -s 10.0.0.0/8 -j DROP",
    "packets are counted first": '-A FORWARD -m comment --comment "all -j ACCEPT" -j LOG --log-prefix "-j ACCEPT"',
    "another guest's are accepted": "-A FORWARD -m physdev ! --physdev-is-bridged -j ACCEPT",
    "the host's services are open": "-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT",
}


@pytest.mark.parametrize("change", WELL)
def test_rules_of_others_that_change_nothing_for_the_guest_are_no_fault(kernel, change):
    kernel.insert("iptables-save", WELL[change])
    assert said(guest()) == []


def test_a_bridge_whose_own_packets_are_shown_to_iptables_needs_no_sysctl(kernel):
    kernel.call("0")
    kernel.says["ip"] = kernel.says["ip"].replace('tables": 0', 'tables": 1')
    assert said(guest()) == []


def test_the_older_backend_of_the_kernel_counts_beside_the_newer(kernel):
    (kernel.directory / "none").write_text("filter\n")
    kernel.says["iptables-legacy-save"], kernel.says["ip6tables-legacy-save"] = (
        "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n",
        "",
    )
    assert said(free()) == [(packet_path.CLOSED, "iptables drops packets from it: -P FORWARD DROP, and 1 more")], (
        "each backend can drop"
    )
    kernel.says["iptables-legacy-save"], kernel.says["iptables-save"] = kernel.says["iptables-save"], "# nf_tables\n"
    assert said(guest()) == [], "and a filter in one of them is in force"


DROPPED = {
    "Docker's policy": ("iptables-save", ":FORWARD DROP"),
    "a firewall's last rule": ("iptables-save", "-A FORWARD -j REJECT --reject-with icmp-host-prohibited"),
    "of IPv6": ("ip6tables-save", ":FORWARD DROP"),
}


@pytest.mark.parametrize("change", DROPPED)
def test_a_firewall_that_drops_what_bridges_forward_is_found_for_guests_that_it_hits(kernel, change):
    program, text = DROPPED[change]
    kernel.insert(program, text)
    if text.startswith(":"):
        kernel.says[program] = kernel.says[program].replace(":FORWARD ACCEPT", text)
    assert [code for code, _text in said(free())] == [packet_path.CLOSED]
    kernel.call("0")
    assert said(free()) == [], "nobody asks iptables"


def test_a_policy_that_drops_does_not_hit_a_guest_whose_own_chain_decides(kernel):
    kernel.says["iptables-save"] = kernel.says["iptables-save"].replace(":FORWARD ACCEPT", ":FORWARD DROP")
    assert said(guest()) == []


def test_what_a_firewall_may_accept_is_not_told_as_dropped(kernel):
    kernel.says["iptables-save"] = kernel.says["iptables-save"].replace(":FORWARD ACCEPT", ":FORWARD DROP")
    kernel.insert("iptables-save", "-A FORWARD -d 192.0.2.0/24 -j ACCEPT", "-A FORWARD -s 192.0.2.0/24 -j ACCEPT")
    assert said(free()) == []


DOCKER = """*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:DOCKER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-ISOLATION-STAGE-2 - [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A FORWARD -i docker0 -o docker0 -j ACCEPT
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-2 -j RETURN
-A DOCKER-USER -j RETURN
COMMIT
"""
UFW = """*filter
:FORWARD DROP [0:0]
:ufw-before-forward - [0:0]
:ufw-reject-forward - [0:0]
:ufw-user-forward - [0:0]
-A FORWARD -j ufw-before-forward
-A FORWARD -j ufw-reject-forward
-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-forward -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A ufw-before-forward -j ufw-user-forward
COMMIT
"""
LIBVIRT_NETWORK = """*filter
:FORWARD DROP [0:0]
:LIBVIRT_FWI - [0:0]
:LIBVIRT_FWO - [0:0]
:LIBVIRT_FWX - [0:0]
-A FORWARD -j LIBVIRT_FWX
-A FORWARD -j LIBVIRT_FWI
-A FORWARD -j LIBVIRT_FWO
-A LIBVIRT_FWI -d 192.168.122.0/24 -o BRIDGE -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A LIBVIRT_FWI -o BRIDGE -j REJECT --reject-with icmp-port-unreachable
-A LIBVIRT_FWO -s 192.168.122.0/24 -i BRIDGE -j ACCEPT
-A LIBVIRT_FWO -i BRIDGE -j REJECT --reject-with icmp-port-unreachable
-A LIBVIRT_FWX -i BRIDGE -o BRIDGE -j ACCEPT
COMMIT
"""
FIREWALLS = {
    "Docker": (DOCKER, True),
    "Docker, with what its manual says for bridges": (
        DOCKER.replace("-A DOCKER-USER", "-A DOCKER-USER -i br0 -o br0 -j ACCEPT\n-A DOCKER-USER"),
        False,
    ),
    "ufw": (UFW, True),
    "ufw, with a route rule for the bridge": (
        UFW.replace("COMMIT", "-A ufw-user-forward -i br0 -o br0 -j ACCEPT\nCOMMIT"),
        False,
    ),
    "the guest's network of libvirt": (LIBVIRT_NETWORK.replace("BRIDGE", "br0"), False),
    "another network of libvirt": (LIBVIRT_NETWORK.replace("BRIDGE", "virbr1"), True),
}


@pytest.mark.parametrize("firewall", FIREWALLS)
def test_the_rules_that_firewalls_are_known_to_make_are_understood(kernel, firewall):
    """In the form that they document. Without br_netfilter they hit no guest."""
    text, drops = FIREWALLS[firewall]
    kernel.says.update({"iptables-save": text, "ip6tables-save": ""})
    assert [code for code, _text in said(free())] == [packet_path.CLOSED] * drops
    kernel.call("0")
    assert said(free()) == []


UNPLUGGED = {
    "its tap vnet0 is on no bridge, not on br0": {"master": None},
    "its tap vnet0 is on br9, not on br0": {"master": "br9"},
    "its tap vnet0 is down": {"flags": ["BROADCAST"]},
    "its tap vnet0 has no carrier": {"flags": ["UP", "NO-CARRIER"]},
    "bridge br0 forwards nothing of its tap vnet0 (blocking)": {"state": "blocking"},
    "its tap vnet0 is isolated from other isolated ports": {"isolated": True},
}


@pytest.mark.parametrize("text", UNPLUGGED)
def test_a_tap_that_is_not_where_it_should_be_is_found(kernel, text):
    kernel.link("vnet0", **UNPLUGGED[text])
    assert said(free()) == [(packet_path.UNPLUGGED, text)]


def test_a_tap_that_is_gone_and_a_bridge_that_is_down_are_found(kernel):
    assert (
        said(guest(FREE, OPEN, "vnet7"))
        == [(packet_path.UNPLUGGED, "its tap vnet7 is gone")] + said(guest(FREE, OPEN, "vnet7"))[1:]
    )
    kernel.link("br0", flags=[])
    assert said(free()) == [(packet_path.UNPLUGGED, "bridge br0 is down")]


def test_why_a_port_is_disabled_is_told_and_not_that_it_is(kernel):
    """Seen: the ports of a bridge that is down, and those without a carrier, are disabled."""
    kernel.link("br0", flags=[])
    kernel.link("vnet0", state="disabled")
    assert said(free()) == [(packet_path.UNPLUGGED, "bridge br0 is down")]
    kernel.link("br0", flags=["UP"])
    kernel.link("vnet0", flags=["UP", "NO-CARRIER"])
    assert said(free()) == [(packet_path.UNPLUGGED, "its tap vnet0 has no carrier")]


def test_a_port_that_will_forward_in_a_moment_is_no_fault(kernel):
    kernel.link("vnet0", state="listening")
    assert said(free()) == []


def test_a_cable_that_was_unplugged_in_libvirt_is_found(kernel):
    record, live = free()
    assert said((record, live.replace("<model", "<link state='down'/><model"))) == [
        (packet_path.UNPLUGGED, "its cable is unplugged in libvirt")
    ]


IN_VLANS = {
    "its tap vnet0 is not in VLAN 7, and 1 more": {1: ["PVID", "Egress Untagged"]},
    "its tap vnet0 has VLAN 7 for tagged packets only, and 1 more": {1: ["PVID", "Egress Untagged"], 7: []},
    "its tap vnet0 has VLAN 7 for tagged packets only": {7: ["PVID"]},
    "its tap vnet0 is in VLAN 1, 9, which its record does not have": {
        1: ["Egress Untagged"],
        7: ["PVID", "Egress Untagged"],
        9: [],
    },
    "its tap vnet0 is not in VLAN 7": {},
    None: {7: ["PVID", "Egress Untagged"]},
}


@pytest.mark.parametrize("text", IN_VLANS)
def test_a_port_of_a_bridge_is_in_its_vlan_alone_and_without_a_tag(kernel, text):
    vlans = [{"vlan": vlan, **({"flags": flags} if flags else {})} for vlan, flags in IN_VLANS[text].items()]
    kernel.says["bridge"] = json.dumps([{"ifname": "vnet0", "vlans": vlans}] if vlans else [])
    assert said(guest(FREE, OPEN, "vnet0", vlan=7)) == ([(packet_path.UNPLUGGED, text)] if text else [])


def on_switch(tag="", **more):
    record, live = guest(FREE, OPEN, "vnet0", **more)
    return record, live.replace("<model", "<virtualport type='openvswitch'/>%s<model" % tag)


SWITCHED = {
    "its tap vnet0 is on br1, not on br0": ["br1", 7],
    "its tap vnet0 is on no bridge, not on br0": None,
    "its tap vnet0 is not in VLAN 7, and 1 more": ["br0", 9],
    "its tap vnet0 is not in VLAN 7": ["br0", None],
    None: ["br0", 7],
}


@pytest.mark.parametrize("text", SWITCHED)
def test_a_port_of_open_vswitch_is_on_its_bridge_with_its_tag(kernel, text):
    port = {"vnet0": SWITCHED[text]} if SWITCHED[text] else {}
    kernel.says["ovs-vsctl"] = Switch("br0", "br1", **port)
    assert said(on_switch(vlan=7)) == ([(packet_path.UNPLUGGED, text)] if text else [])


def test_a_tag_that_nobody_asked_for_is_found_and_one_of_libvirts_network_is_not(kernel):
    kernel.says["ovs-vsctl"] = Switch("br0", vnet0=["br0", 9])
    assert said(on_switch()) == [(packet_path.UNPLUGGED, "its tap vnet0 is in VLAN 9, which its record does not have")]
    assert said(on_switch("<vlan><tag id='9'/></vlan>")) == []
    assert said(on_switch("<vlan trunk='yes'><tag id='4'/><tag id='9' nativeMode='untagged'/></vlan>")) == []


def test_a_macvtap_is_on_its_parent_and_has_a_carrier(kernel):
    """Recorded: ip -details -json link show, of a macvtap on a veth."""
    text = (RECORDED / "macvtap.json").read_text()
    kernel.says["ip"] = text
    record, live = guest(FREE, OPEN, "macvtap0")
    live = live.replace("type='bridge'", "type='direct'").replace("bridge='br0'", "dev='eth0' mode='bridge'")
    assert said((record, live)) == []
    kernel.says["ip"] = text.replace('"link":"eth0"', '"link":"eth1"')
    assert said((record, live)) == [(packet_path.UNPLUGGED, "its tap macvtap0 is on eth1, not on eth0")]
    kernel.says["ip"] = text.replace('"UP","LOWER_UP"', '"NO-CARRIER","UP"')
    assert said((record, live)) == [(packet_path.UNPLUGGED, "its tap macvtap0 has no carrier")]


def test_what_cannot_be_read_is_told_and_nothing_is_made_of_it(kernel):
    del kernel.says["ebtables-save"]
    found, unread = packet_path.differing([guest()])
    assert found == {} and "ebtables" in unread[0]
    del kernel.says["ip"]
    found, unread = packet_path.differing([guest()])
    assert found == {} and "ip is not installed" in unread[0]


def test_rules_of_libvirts_nftables_driver_count(kernel):
    for name in ("iptables-save", "ip6tables-save", "ebtables-save"):
        kernel.says[name] = ""
    elements = [["vnet1", {"jump": {"target": "vnet1-out"}}]]
    names = (packet_path.NFT_ADDRESSES, packet_path.NFT_PORTS)
    maps = [{"map": {"family": "bridge", "table": name, "name": "vmap-iif", "elem": elements}} for name in names]
    kernel.says["nft"] = json.dumps({"nftables": maps})
    assert said(guest()) == []
    kernel.says["nft"] = json.dumps({"nftables": maps[:1]})
    assert [code for code, _text in said(guest())] == [packet_path.OPEN]


OF_NFT = {
    "it drops": ((), [packet_path.CLOSED]),
    "it drops, except what it sends elsewhere itself": (
        ('"state"', '"status"', '"established"', '"dnat"', '"related"', '"snat"'),
        [packet_path.CLOSED],
    ),
    "it accepts": (('"policy": "drop"', '"policy": "accept"'), []),
    "it accepts what the bridge forwards": (('"virbr*"', '"br*"'), []),
    "it accepts new connections": (('"established"', '"new"'), []),
    "it accepts some": (('"icmp"', '"tcp"'), []),
    "a chain of bridges drops": (
        ('"policy": "drop"', '"policy": "accept"', '"vnet9"', '"vnet0"'),
        [packet_path.CLOSED],
    ),
}


@pytest.mark.parametrize("change", OF_NFT)
def test_chains_that_nftables_itself_has_are_asked_as_well(kernel, change):
    """Recorded: a policy to drop, with rules for replies, containers and ICMP, and a chain of a bridge."""
    words, codes = OF_NFT[change]
    text = (RECORDED / "nft.json").read_text()
    for old, new in zip(words[::2], words[1::2]):
        assert old in text
        text = text.replace(old, new)
    listed = json.loads(text)["nftables"]
    kernel.says["nft"] = json.dumps({"nftables": [part for part in listed if "comment" not in part.get("rule", {})]})
    assert [code for code, _text in said(free())] == codes
    kernel.says["nft"] = text
    assert said(free()) == [] or "bridges" in change, "a rule for a set of addresses may accept it"
