# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An address that any packet filter lets in belongs to a member of a security group, so no other instance gets it.

A NIC has the members that its rules let in (remote_group) in ``security.members``: {group: {uuid of the member: its
addresses, as nics.py writes them}}.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from . import nics
from .messages import Document

MOST_ADDRESSES = 512  # of a group in one filter; each is one kernel rule for every rule that names the group
Addresses = Dict[str, List[str]]  # uuid -> addresses, as nics.py writes them
Members = Dict[str, Addresses]  # group -> its members
# The packet filter of a NIC whose port security was switched off when it already had a filter.
OPEN: Document = {"groups": [], "rules": None, "allowed": [], "open": True}


def named(security: Optional[Mapping[str, Any]]) -> List[str]:
    """The groups that the rules of a NIC name."""
    rules = (security or {}).get("rules") or ()
    return list(dict.fromkeys(rule["remote_group"] for rule in rules if rule.get("remote_group")))


def of_nic(nic: Mapping[str, Any]) -> Members:
    return (nic.get("security") or {}).get("members") or {}


def with_members(security: Document, members: Mapping[str, Addresses]) -> Document:
    """Return ``security`` with the members of the groups in its rules; a group without members lets nobody in."""
    admitted = {group: members[group] for group in named(security) if members.get(group)}
    return {**without(security), "members": admitted} if admitted else without(security)


def without(security: Mapping[str, Any]) -> Document:
    return {part: value for part, value in security.items() if part != "members"}


def merged(first: Mapping[str, Addresses], second: Mapping[str, Addresses]) -> Members:
    both: Members = {}
    for members in (first, second):
        for group, by_uuid in members.items():
            for uuid, addresses in by_uuid.items():
                known = both.setdefault(group, {}).setdefault(uuid, [])
                known += [address for address in addresses if address not in known]
    return both


def blocks(members: Mapping[str, Addresses], group: str) -> List[str]:
    """Return the addresses of a group's members as the fewest networks that hold exactly these."""
    by_uuid = members.get(group) or {}
    networks = [ipaddress.ip_network(text) for addresses in by_uuid.values() for text in nics.fixed(addresses)]
    fours = ipaddress.collapse_addresses(block for block in networks if isinstance(block, ipaddress.IPv4Network))
    sixes = ipaddress.collapse_addresses(block for block in networks if isinstance(block, ipaddress.IPv6Network))
    return [str(block) for block in (*fours, *sixes)]


def reported(specs: Iterable[Tuple[str, Mapping[str, Any]]]) -> Dict[str, Document]:
    """Return what a host reports about the filters of its instances: {uuid of the instance: {lets_in: {uuid of a
    member: addresses}}}. An address that several filters let in is reported once."""
    reported, by_instance = set(), {}
    for uuid, spec in specs:
        lets_in: Addresses = {}
        for members in map(of_nic, spec.get("networks") or ()):
            for member, address in _pairs(members):
                if (member, address) not in reported:
                    reported.add((member, address))
                    lets_in.setdefault(member, []).append(address)
        by_instance[uuid] = {"lets_in": lets_in} if lets_in else {}
    return by_instance


def _pairs(members: Mapping[str, Addresses]) -> Iterable[Tuple[str, str]]:
    for by_uuid in members.values():
        for uuid, addresses in by_uuid.items():
            for address in addresses:
                yield uuid, address
