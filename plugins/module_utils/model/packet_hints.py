# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about the packets of guests: what a host's bridges and firewall carry or drop, and packet filters that an instance
lacks or that could not be updated to the members of security groups. See hints.py, which has the rules for hints.
"""

from __future__ import annotations

from . import hints


def repair_packets(name: str) -> str:
    """A bridge was restarted, or a firewall reloaded, under a running guest. The hint may end a sentence."""
    return "berth.kvm.start --limit %s puts it right while the guest runs" % name


def make_bridge_of_tap(name: str) -> str:
    """The bridge of a running guest is gone on its host."""
    return "Make that bridge again. Then %s" % repair_packets(name)


def packets_of_guest(name: str) -> str:
    """A bridge was restarted or a firewall reloaded beneath a running guest, or br_netfilter is not loaded. If it is found again
    after the repair, something else on the host undoes it."""
    return (
        "berth.kvm.doctor -e berth_fix=true repairs it while the guest runs, and so does berth.kvm.start --limit %s. If it is found "
        "again, remove the rule that it names, or load br_netfilter and set net.bridge.bridge-nf-call-iptables and -ip6tables to 1"
        % name
    )


def let_packets_pass() -> str:
    """A firewall of the host drops what a guest sends or gets: Docker and ufw set the policy of FORWARD to DROP."""
    return (
        "Let the host's firewall accept what passes between ports of that bridge, or set the sysctls "
        "net.bridge.bridge-nf-call-* to 0 if no instance of the host is in a security group"
    )


def bring_filters() -> str:
    """The packet filters of an instance or of a host could not be updated to the members of security groups."""
    return "Run berth.kvm.create again when that is over: each run updates all packet filters"


def filters_follow_first(name: str) -> str:
    """A packet filter still lets in the address for the instance that had it before."""
    return (
        "Run berth.kvm.create again for %s: each run updates the packet filters of all instances in its inventory. If the error stays, "
        "the warnings of that run say which filter is not updated and why. A run with another inventory updates the filters of its "
        "instances, and a deleted instance loses its filter. Or give %s another address" % (name, name)
    )


def address_for_group(name: str) -> str:
    """Rules name a security group, and berth knows no address of an instance in it."""
    return (
        "Give %s an address in berth_networks, or give its network a pool; the instance gets an address only when it "
        "is deleted and created again. Or name its network as remote in the rule" % name
    )


def divide_group() -> str:
    """A security group that rules name has more members than a packet filter takes."""
    return "Divide the group, or name its network as remote in the rules"


def filter_nics(name: str, asked: bool) -> str:
    """An instance was created without packet filters. ``asked``: whether the inventory says port_security: true."""
    return ("" if asked else "Give it port_security: true in the inventory. ") + "Run " + hints.mend(name)


def carry_packets() -> str:
    """The destination of a move would cut the guest off."""
    return (
        "Name another host, or set the bridge up on this one (ip link set dev BRIDGE up) and let its firewall accept what passes "
        "between ports of the bridge. Then run the same again: the guest is as it was"
    )


def one_mtu() -> str:
    """Bridges of one name have different MTUs: a guest keeps its own MTU when it moves."""
    return "Give these bridges and their uplinks one MTU, or name no more than the smallest as mtu of networks and in guests"


def one_network() -> str:
    """A bridge has an uplink on some hosts only."""
    return (
        "If guests on this bridge should reach the network beyond their host, add the uplink on these hosts. If not, give the bridges "
        "that have one another name"
    )
