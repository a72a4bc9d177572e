# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints for packet filters: that an instance has none, or that one could not be updated to the members of security groups.
See hints.py."""

from __future__ import annotations

from . import hints


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
