# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints for packet filters that could not be updated to the members of security groups: see hints.py."""

from __future__ import annotations


def bring_filters() -> str:
    """The packet filters of an instance or of a host could not follow the members of security groups."""
    return "Run berth.kvm.create again when that is over: each run has all packet filters follow"


def filters_follow_first(name: str) -> str:
    """A packet filter lets in an address as that of an instance which had it before."""
    return (
        "Run berth.kvm.create again for %s: each run has the packet filters of all instances of its inventory follow. Where it says the "
        "same again, its warnings say which filter waits and why; that of an instance which is not in this inventory follows with "
        "the inventory that has it, and goes when that instance is deleted. Or give %s another address" % (name, name)
    )


def address_for_group(name: str) -> str:
    """An instance in a security group that rules name, of which berth knows no address."""
    return (
        "Give %s an address in berth_networks, or its network a pool; it has that when it is deleted and created anew. Or have the rule "
        "name its network as remote" % name
    )


def divide_group() -> str:
    """A security group that rules name has more members than a packet filter takes."""
    return "Divide the group, or have the rules name its network as remote"
