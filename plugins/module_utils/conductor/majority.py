# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether enough of the fleet's hosts answer to make an instance that no host knows.

Of two parts of a divided network each could make it. So more than half of the hosts that belong to the fleet have to
answer: two such parts would share a host, and what a run plans is remembered there. Which hosts belong to it is what the
hosts remember (compute/record/whereabouts.py), not the inventory of a run: berth.kvm.prepare_hosts adds to it,
berth.kvm.remove_host takes away. A host that a person gives up as lost for a run makes nothing elsewhere: it is neither
counted nor does it count as answering, so the same word in the other part of the network gives that no majority either.

With three answers or more an entry counts that two hosts say: one alone neither adds hosts nor removes them.
"""

from __future__ import annotations

from typing import Any, Callable, Collection, Dict, List, Mapping, Optional

from ..model import fleet_hints
from ..model.errors import shortened
from .errors import NoMajority

# name: in the inventory, None if it was removed; changes: how often the entry was changed; closed: why the host is drained
Entry = Dict[str, Any]
Members = Mapping[str, Entry]  # by host uuid
FEWEST = 3  # members: of two hosts no part is more than half, so one silent host would stop all
UNKNOWN: Entry = {"name": None, "changes": 0}


def agreed(lists: Mapping[str, Members]) -> Dict[str, Entry]:
    """The list that counts. ``lists``: uuid of the host that says it -> its list, of the hosts that answer."""
    told = [own for own in lists.values() if own]
    if len(told) < FEWEST:
        return {uuid: max(_said(told, uuid), key=_changes) for uuid in _uuids(told)}
    second = {uuid: sorted(_said(told, uuid), key=_changes)[-2] for uuid in _uuids(told)}
    return {uuid: entry for uuid, entry in second.items() if entry != UNKNOWN}


def is_missing(lists: Mapping[str, Members], answering: Collection[str]) -> bool:
    """Whether too few hosts answer to change which hosts belong to the fleet."""
    members = [uuid for uuid, entry in agreed(lists).items() if entry["name"] is not None]
    return len(members) >= FEWEST and 2 * len([uuid for uuid in members if uuid in answering]) <= len(members)


def check(
    name: str, lists: Mapping[str, Members], answering: Collection[str], gives_up: Callable[[str, str], bool]
) -> None:
    """Raise NoMajority if too few hosts answer to make the instance ``name``. ``answering``: uuids; ``gives_up``: of a name
    and a uuid, whether a person gives that host up as lost."""
    members = {uuid: str(entry["name"]) for uuid, entry in agreed(lists).items() if entry["name"] is not None}
    counted = {uuid: host for uuid, host in members.items() if not gives_up(host, uuid)}
    there = [uuid for uuid in counted if uuid in answering]
    if len(members) < FEWEST or 2 * len(there) > len(counted):
        return
    silent = sorted(host for uuid, host in counted.items() if uuid not in answering)
    raise NoMajority(
        "no host that answers knows %s, but only %d of the %d hosts of the fleet answer, not %s: another part of the network "
        "may make it, too" % (name, len(there), len(counted), shortened(silent)),
        rule="the answers of more than half of the hosts, for a new instance",
        hint=fleet_hints.gain_majority(silent),
    )


def joined(lists: Mapping[str, Members], names: Mapping[str, str]) -> Dict[str, Entry]:
    """The entries to change so that the hosts ``names`` (uuid -> inventory name) belong to the fleet. A machine that had one of
    these names before was replaced or renamed."""
    members = agreed(lists)
    replaced = [uuid for uuid, entry in members.items() if entry["name"] in names.values() and uuid not in names]
    new = {uuid: name for uuid, name in names.items() if members.get(uuid, UNKNOWN)["name"] != name}
    return {uuid: _changed(lists, uuid, name) for uuid, name in {**dict.fromkeys(replaced), **new}.items()}


def removed(lists: Mapping[str, Members], host: str, uuid: Optional[str] = None) -> Dict[str, Entry]:
    """The entries to change so that a host is not a member: the machine ``uuid``, or those that are known by the name."""
    members = {each: entry["name"] for each, entry in agreed(lists).items() if entry["name"] is not None}
    gone = [each for each, name in members.items() if (each == uuid if uuid else name == host)]
    return {each: _changed(lists, each, None) for each in gone}


def closed(lists: Mapping[str, Members]) -> Dict[str, str]:
    """Inventory name -> why, of the members that are drained for maintenance: they come back."""
    return {entry["name"]: entry["closed"] for entry in agreed(lists).values() if entry["name"] and entry.get("closed")}


def closing(lists: Mapping[str, Members], uuid: str, host: str, why: str) -> Dict[str, Entry]:
    """The entries to change so that all know why the host is drained; with an empty text, that it is not."""
    if agreed(lists).get(uuid, UNKNOWN).get("closed", "") == why:
        return {}
    return {uuid: {**_changed(lists, uuid, host), **({"closed": why} if why else {})}}


def _changed(lists: Mapping[str, Members], uuid: str, name: Optional[str]) -> Entry:
    return {"name": name, "changes": 1 + max(entry["changes"] for entry in _said(lists.values(), uuid))}


def _said(lists: Any, uuid: str) -> List[Entry]:
    return [UNKNOWN, *(own.get(uuid, UNKNOWN) for own in lists)]


def _changes(entry: Entry) -> Any:
    return entry["changes"], entry["name"] is not None, entry["name"] or "", entry.get("closed", "")


def _uuids(lists: List[Members]) -> List[str]:
    return sorted({uuid for own in lists for uuid in own})
