# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory says who is a member of a security group; an address counts as a member's only if it is on the network
of its NIC and no other instance has it.

The member's host reports the addresses. While a host is silent, nothing is known about members that may be there: their
addresses stay as they are.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from typing import Any, Collection, Dict, Iterable, List, Mapping, Set, Tuple

from ..model import packet_hints
from ..model.admitted_members import MOST_ADDRESSES
from ..model.lifecycle import CLAIM, OWN
from ..model.messages import Document, ScannedRecord
from . import addressing

Network = Mapping[str, Any]
Key = Tuple[str, str]  # project and group


@dataclasses.dataclass
class Membership:
    """What the inventory says. ``by_group``: project and group -> uuid -> the networks of its NICs in that group;
    ``remote``: the groups that rules of ``instances`` name; ``unknown``: uuids of instances whose groups are
    unknown, because their variables have errors."""

    names: Dict[str, str] = dataclasses.field(default_factory=dict)
    by_group: Dict[Key, Dict[str, List[Network]]] = dataclasses.field(default_factory=dict)
    remote: Set[Key] = dataclasses.field(default_factory=set)
    instances: List[str] = dataclasses.field(default_factory=list)
    unknown: List[str] = dataclasses.field(default_factory=list)

    def add(
        self, uuid: str, name: str, project: str, nics_of: Iterable[Tuple[List[str], Network]], rules: Network
    ) -> None:
        """``nics_of``: the groups and the network of each NIC; ``rules``: the catalog's security groups."""
        self.names[uuid] = name
        for groups, network in nics_of:
            for group in groups:
                self.by_group.setdefault((project, group), {}).setdefault(uuid, []).append(network)
                named = {rule.get("remote_group") for rule in rules[group]["rules"]} - {None}
                self.remote.update((project, remote) for remote in named)
        self.instances.append(uuid)


def wanted(
    membership: Membership, scanned: Mapping[str, List[ScannedRecord]], silent: Collection[str]
) -> Tuple[Document, List[str]]:
    """What the hosts are sent, project -> group -> {members: uuid -> addresses, unseen: uuids}, and messages.

    ``scanned``: host -> its records; ``silent``: the hosts that did not answer."""
    groups: Document = {}
    messages: List[str] = []
    owners, by_uuid = _owners(scanned), _by_uuid(scanned)
    for project, group in sorted(membership.remote):
        members: Dict[str, List[str]] = {}
        unseen = list(membership.unknown)
        for uuid, networks in sorted(membership.by_group.get((project, group), {}).items()):
            records = by_uuid.get(uuid, [])
            own = [record for record in records if record["role"] == OWN]
            if silent and not own:
                unseen.append(uuid)
            if not (own if silent else records):
                continue
            members[uuid] = _addresses(uuid, networks, own or records, owners)
            if not members[uuid]:
                messages.append(_without_address(membership.names[uuid], group))
        messages += _cut(members, group)
        groups.setdefault(project, {})[group] = {"members": {k: v for k, v in members.items() if v}, "unseen": unseen}
    return groups, messages


def _owners(scanned: Mapping[str, List[ScannedRecord]]) -> Dict[str, Set[str]]:
    """Address -> the instances that have it, by the hosts' records, including claims."""
    owners: Dict[str, Set[str]] = {}
    for records in scanned.values():
        for record in records:
            for address in record["nics"]:
                owners.setdefault(address, set()).add(record["uuid"])
    return owners


def _by_uuid(scanned: Mapping[str, List[ScannedRecord]]) -> Dict[str, List[ScannedRecord]]:
    """The records of instances that exist: all but claims."""
    existing: Dict[str, List[ScannedRecord]] = {}
    for records in scanned.values():
        for record in records:
            if record["role"] != CLAIM:
                existing.setdefault(record["uuid"], []).append(record)
    return existing


def _addresses(
    uuid: str, networks: List[Network], records: List[ScannedRecord], owners: Mapping[str, Set[str]]
) -> List[str]:
    """The member's addresses on these networks. ``records``: its owner's, or during a move those of both sides. If two
    hosts own the instance, nobody knows which addresses are its own."""
    if len(records) > 1 and all(record["role"] == OWN for record in records):
        return []
    own = dict.fromkeys(address for record in records for address in record["nics"] if owners[address] == {uuid})
    return [address for address in own if any(_is_on(address, network) for network in networks)]


def _is_on(reported: str, network: Network) -> bool:
    try:
        address = ipaddress.ip_address(next(addressing.on_network(network, [reported]), ("", ""))[1])
    except ValueError:
        return False
    blocks = [network[part] for part in ("cidr", "cidr6") if network.get(part)]
    return not blocks or any(address in ipaddress.ip_network(block) for block in blocks)


def _cut(members: Dict[str, List[str]], group: str) -> List[str]:
    """Keep no more addresses than a filter takes, in every run the same ones."""
    many, left = sum(map(len, members.values())), MOST_ADDRESSES
    for uuid, addresses in members.items():
        members[uuid] = addresses[:left]
        left -= len(members[uuid])
    if many <= MOST_ADDRESSES:
        return []
    what = "rules with remote_group %s let in %d of its %d addresses" % (group, MOST_ADDRESSES, many)
    return ["%s. %s" % (what, packet_hints.divide_group())]


def _without_address(name: str, group: str) -> str:
    what = "%s is in security group %s, but has no address from berth that it alone has" % (name, group)
    return "%s, so rules with remote_group %s do not let it in. %s" % (
        what,
        group,
        packet_hints.address_for_group(name),
    )


def waits(name: str, why: str) -> str:
    what = "the packet filter of %s was not updated to the members of security groups: %s" % (name, why)
    return "%s. It lets in the same addresses as before, and no other instance gets these. %s" % (
        what,
        packet_hints.bring_filters(),
    )


def silent_hosts(hosts: Iterable[str]) -> str:
    what = (
        "%s did not answer: packet filters there, and what other packet filters let in of instances there, stay as "
        "they are"
    )
    return "%s. %s" % (what % " and ".join(sorted(hosts)), packet_hints.bring_filters())


def not_followed(why: str) -> str:
    what = "packet filters were not updated to the members of security groups: %s" % why
    return "%s. %s" % (what, packet_hints.bring_filters())


def groups_unknown(name: str, why: str) -> str:
    return "packet filters stay as they are for %s, because its security groups are not known: %s" % (name, why)
