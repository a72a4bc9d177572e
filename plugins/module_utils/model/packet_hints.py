# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about the packets of guests, which a host's bridges and firewall carry or drop. See hints.py for the rules for hints."""

from __future__ import annotations


def repair_packets(name: str) -> str:
    """A bridge was restarted, or a firewall reloaded, under a running guest. The hint may end a sentence."""
    return "berth.kvm.start --limit %s puts it right while the guest runs" % name


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


def carry_packets() -> str:
    """The destination of a move would cut the guest off."""
    return (
        "Name another host, or set the bridge up on this one (ip link set dev BRIDGE up) and let its firewall accept what passes "
        "between ports of the bridge. Then run the same again: the guest is as it was"
    )
