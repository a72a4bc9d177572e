# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The members of the security groups that rules name as the other end (remote_group), in the packet filter of a NIC.

A NIC has them in ``security.members``: {group: {uuid of the member: its addresses, as nics.py writes them}}. An address
that any filter lets in belongs to that member, so no other instance gets it.
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
    found = {group: members[group] for group in named(security) if members.get(group)}
    return {**without(security), "members": found} if found else without(security)


def without(security: Mapping[str, Any]) -> Document:
    """Return ``security`` without members."""
    return {part: value for part, value in security.items() if part != "members"}


def merged(some: Mapping[str, Addresses], others: Mapping[str, Addresses]) -> Members:
    """Return the members in ``some`` and ``others`` together."""
    found: Members = {}
    for members in (some, others):
        for group, addresses in members.items():
            for uuid, words in addresses.items():
                kept = found.setdefault(group, {}).setdefault(uuid, [])
                kept += [word for word in words if word not in kept]
    return found


def blocks(members: Mapping[str, Addresses], group: str) -> List[str]:
    """Return the addresses of a group's members as the fewest networks that hold exactly these."""
    found = [ipaddress.ip_network(text) for words in (members.get(group) or {}).values() for text in nics.fixed(words)]
    fours = ipaddress.collapse_addresses(block for block in found if isinstance(block, ipaddress.IPv4Network))
    sixes = ipaddress.collapse_addresses(block for block in found if isinstance(block, ipaddress.IPv6Network))
    return [str(block) for block in (*fours, *sixes)]


def told(specs: Iterable[Tuple[str, Mapping[str, Any]]]) -> Dict[str, Document]:
    """Return what a host reports about the filters of its instances: {uuid of the instance: {lets_in: {uuid of a
    member: addresses}}}. An address that several filters let in is reported once."""
    known, found = set(), {}
    for uuid, spec in specs:
        mine: Addresses = {}
        for members in map(of_nic, spec.get("networks") or ()):
            for member, word in _pairs(members):
                if (member, word) not in known:
                    known.add((member, word))
                    mine.setdefault(member, []).append(word)
        found[uuid] = {"lets_in": mine} if mine else {}
    return found


def _pairs(members: Mapping[str, Addresses]) -> Iterable[Tuple[str, str]]:
    for addresses in members.values():
        for uuid, words in addresses.items():
            for word in words:
                yield uuid, word
