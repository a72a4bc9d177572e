# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who owns an instance, where the registry and the hosts are compared: what the registry is to say, or why a person decides.

The hosts are right where they prove it. An epoch only grows. A host becomes the owner only with a later record than the
registry knows, and if no other host may have the instance: each answers and has no record of it, or the part of a move that does
not own it, or is given up as lost.
"""

from __future__ import annotations

import dataclasses
from typing import Collection, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from ...model.lifecycle import ACTIVE, CLAIM, IN, OUT, OWN
from ...model.messages import Document
from ..fleet import Fleet
from . import keys

RUN = "audit"  # of what no run of the registry has begun


class Difference(NamedTuple):
    """``what``: the instance, host, project or address; ``mends``: whether an audit writes what the hosts say, else a person
    decides."""

    what: str
    text: str
    mends: bool = True


@dataclasses.dataclass(frozen=True)
class Seen:
    """``fleet``: what the hosts say; ``names``: of all hosts that the registry or the fleet knows, by uuid; ``lost``: uuids of
    those that are gone for good; ``still``: whether no run acts, so what one has begun and no host shows is over; ``inventory``: uuid
    -> (name, project) of its instances."""

    fleet: Fleet
    names: Mapping[str, str]
    lost: Collection[str] = ()
    still: bool = False
    inventory: Mapping[str, Tuple[str, str]] = dataclasses.field(default_factory=dict)
    records: Mapping[str, List[Tuple[str, Document]]] = dataclasses.field(init=False)  # uuid -> [(host uuid, record)]
    answering: Set[str] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        records: Dict[str, List[Tuple[str, Document]]] = {}
        for document in self.fleet.documents.values():
            for each in document["instances"]:
                if not each.get("foreign"):
                    records.setdefault(each["uuid"], []).append((document["uuid"], each))
        object.__setattr__(self, "records", records)
        object.__setattr__(self, "answering", {document["uuid"] for document in self.fleet.documents.values()})

    def name_of(self, host: Optional[str]) -> str:
        return self.names.get(host or "", host or "no host")

    def may_have(self, host: str, uuid: str, let_go: bool = False) -> bool:
        """Unless it answers without a record, or is given up as lost. One with a guest and no record may; of one that says that it
        has ``let_go``, a guest that is not berth's is what a leave has left."""
        if host in self.lost:
            return False
        strays = {each["host"] for each in self.fleet.strays.get(uuid, ()) if each["managed"] or not let_go}
        held = any(at == host for at, _record in self.records.get(uuid, ()))
        return host not in self.answering or held or self.name_of(host) in strays


Decided = Tuple[Document, Optional[Difference]]


def decided(uuid: str, entry: Optional[Document], seen: Seen) -> Decided:
    """What the registry is to have of the instance, and how that differs from ``entry``, what it has."""
    records = seen.records.get(uuid, [])
    owners = [(host, record) for host, record in records if record["role"] == OWN]
    known = entry or keys.new_instance(*_named(uuid, records, seen))
    if len(owners) == 1:
        return _owned(uuid, known, *owners[0], seen)
    if owners:
        return _owned_twice(uuid, known, owners, seen)
    if records:
        return _begun(known, records, seen)
    return _nowhere(uuid, known, seen)


def _named(uuid: str, records: List[Tuple[str, Document]], seen: Seen) -> Tuple[str, str]:
    if records:
        return records[0][1]["name"], records[0][1]["project_id"]
    return seen.inventory.get(uuid, (uuid, ""))


def _owned(uuid: str, entry: Document, host: str, record: Document, seen: Seen) -> Decided:
    name, epoch = entry["name"], keys.epoch_of(record)
    beside = _in_a_move(uuid, host, seen)
    if entry["owner"] == host and epoch >= entry["epoch"]:
        ended = record["phase"] == ACTIVE and not beside
        pending = _begun_on({**entry, "pending": _pending(uuid, entry, seen, ended)}, beside, keys.MOVE)
        found = {**entry, "epoch": epoch, "pending": pending}
        keys.give_up(found, set(keys.hosts_of(entry)).difference(keys.hosts_of(found)).intersection(seen.lost))
        raised = "%s has it in epoch %d, the registry in epoch %d" % (seen.name_of(host), epoch, entry["epoch"])
        return found, Difference(name, raised) if epoch > entry["epoch"] else _ended(entry, found)
    if epoch <= entry["epoch"]:
        text = "%s has a record of it of epoch %d, and the registry knows epoch %d, on %s: that record is older"
        return _removed(uuid, entry, seen) or entry, Difference(
            name, text % (seen.name_of(host), epoch, entry["epoch"], seen.name_of(entry["owner"])), mends=False
        )
    others = sorted(seen.name_of(each) for each in _others(uuid, entry, host, seen) if each not in beside)
    if others:
        text = "%s has it, the registry says %s, and %s may have it, too"
        told = text % (seen.name_of(host), _said(entry, seen), " and ".join(others))
        return entry, Difference(name, told, mends=False)
    left = [each for each in keys.hosts_of(entry) if each != host and each in seen.lost]
    pending = _begun_on({**entry, "pending": []}, beside, keys.MOVE)
    found = {**entry, "owner": host, "epoch": epoch, "pending": pending}
    keys.give_up(found, left)
    return found, Difference(name, "%s has it, the registry says %s" % (seen.name_of(host), _said(entry, seen)))


def _in_a_move(uuid: str, owner: str, seen: Seen) -> List[str]:
    """The hosts beside its owner that say that they have a part of a move of it."""
    return [host for host, record in seen.records.get(uuid, ()) if host != owner and record["role"] in (IN, OUT)]


def _others(uuid: str, entry: Document, host: str, seen: Seen) -> List[str]:
    """The hosts beside this one that may have it, by the registry or by what they show."""
    held = [at for at, _record in seen.records.get(uuid, ())]
    return [each for each in {*keys.hosts_of(entry), *held} - {host} if seen.may_have(each, uuid)]


def _owned_twice(uuid: str, entry: Document, owners: List[Tuple[str, Document]], seen: Seen) -> Decided:
    """The registry names all of them: each run asks both, so that none goes on with one or makes a third."""
    hosts = [host for host, _record in owners]
    told = "%s own it" % " and ".join(sorted(map(seen.name_of, hosts)))
    others = [host for host in hosts if host != entry["owner"]]
    return {**entry, "pending": _begun_on(entry, others, keys.CREATE)}, Difference(entry["name"], told, mends=False)


def _begun(entry: Document, records: List[Tuple[str, Document]], seen: Seen) -> Decided:
    """It is claimed, or a move has not ended: whoever acts on it next asks these hosts."""
    claims = [host for host, record in records if record["role"] == CLAIM and not entry["owner"]]
    moves = [host for host, record in records if record["role"] != CLAIM and host != entry["owner"]]
    if entry["owner"] and not moves:
        return entry, None
    pending = _begun_on({**entry, "pending": _begun_on(entry, claims, keys.CREATE)}, moves, keys.MOVE)
    seen_in = [] if entry["owner"] else [keys.epoch_of(each) for _host, each in records]
    found = {**entry, "pending": pending, "epoch": max([entry["epoch"], *seen_in])}
    begun = sorted(seen.name_of(host) for host, _record in records)
    text = "it was begun on %s, of which the registry did not know" % " and ".join(begun)
    return found, Difference(entry["name"], text) if pending != entry["pending"] else None


def _nowhere(uuid: str, entry: Document, seen: Seen) -> Decided:
    """No host shows it: it is gone if its owner says so, or if all has ended that was begun."""
    owner = entry["owner"]
    if owner is None:
        return _nowhere_owned(uuid, entry, seen)
    if owner not in seen.answering:
        return entry, None
    found = _removed(uuid, entry, seen)
    if found is None:
        text = "%s has no record of it and did not remove it, and the registry has it there"
        return entry, Difference(entry["name"], text % seen.name_of(owner), mends=False)
    return found, Difference(entry["name"], "it was removed, and the registry has it on %s" % seen.name_of(owner))


def _removed(uuid: str, entry: Document, seen: Seen) -> Optional[Document]:
    """What the registry is to have where the owner says that it removed the instance; else None."""
    owner = entry["owner"]
    gone = _gone_there(uuid, owner, seen)
    if owner not in seen.answering or gone < entry["epoch"] or seen.may_have(owner, uuid, let_go=True):
        return None
    return {**entry, "owner": None, "epoch": gone, "pending": []}


def _nowhere_owned(uuid: str, entry: Document, seen: Seen) -> Decided:
    """What the hosts remember counts where nobody answers who has it."""
    noted = seen.fleet.notes_on(uuid)
    if noted.known and noted.known.host_uuid not in seen.answering and noted.known.generation[0] > entry["epoch"]:
        found = {**entry, "owner": noted.known.host_uuid, "epoch": noted.known.generation[0]}
        return found, Difference(entry["name"], "the hosts remember it on %s" % noted.known.host)
    planned = [each.host_uuid for each in noted.planned if each.host_uuid not in seen.answering]
    pending = _begun_on({**entry, "pending": _pending(uuid, entry, seen)}, planned, keys.CREATE)
    found = {**entry, "pending": pending, "epoch": max(entry["epoch"], noted.latest[0])}
    return found, _ended(entry, found)


def _gone_there(uuid: str, host: str, seen: Seen) -> int:
    """In which epoch the owner removed it, -1 if it did not say so. No other host needs to vouch for it: the registry does. Where
    the owner gave it away, as a registry from a backup may not know, the last one that got it has to say so."""
    told = seen.fleet.told_of(uuid)
    note = told.get(host)
    if not note:
        return -1
    gone = [note["gone"]]
    if note["left"]:
        last = max(each["left"] for each in told.values() if each["left"])
        gone += [each["gone"] for each in told.values() if each["gone"] and each["gone"] >= last]
    return max((each[0] for each in gone if each), default=-1)


def _pending(uuid: str, entry: Document, seen: Seen, at_rest: bool = False) -> List[Document]:
    """What was begun, without what has certainly ended. ``at_rest``: its owner says that it does not move; a run that is about to
    move or change it, or takes it over from there, sees that its intent is gone, and gives up. A lost host may have made what was
    begun there, but not got what its owner has still."""
    lost = [
        each for each in entry["pending"] if each["host"] in seen.lost and not (at_rest and each["kind"] == keys.MOVE)
    ]
    return [
        each
        for each in entry["pending"]
        if each in lost
        or seen.may_have(each["host"], uuid)
        and not (at_rest and each["host"] == entry["owner"])
        or not (seen.still or at_rest)
    ]


def _ended(before: Document, after: Document) -> Optional[Difference]:
    if any(each["kind"] == keys.CHANGE for each in before["pending"]) and not after["pending"]:
        return Difference(before["name"], "a run that changed it has ended")
    if len(after["pending"]) < len(before["pending"]):
        return Difference(before["name"], "a run began it and ended, and its host has nothing of it")
    if after["owner"] and after["pending"] != before["pending"]:
        return Difference(before["name"], "a move of it has not ended, of which the registry did not know")
    if after["pending"] != before["pending"]:
        return Difference(before["name"], "the hosts remember that a run began it on a host that does not answer")
    if after["epoch"] != before["epoch"]:
        return Difference(before["name"], "the hosts remember epoch %d of it" % after["epoch"])
    return None


def _begun_on(entry: Document, hosts: List[str], kind: str) -> List[Document]:
    known = {each["host"] for each in entry["pending"]}
    more = [
        {"run": RUN, "kind": kind, "host": host, "op": RUN, "claimed": True}
        for host in dict.fromkeys(hosts)
        if host not in known
    ]
    return [*entry["pending"], *more]


def _said(entry: Document, seen: Seen) -> str:
    if entry["owner"]:
        return seen.name_of(entry["owner"])
    begun = sorted({seen.name_of(each["host"]) for each in entry["pending"]})
    return "that a run began it on %s" % " and ".join(begun) if begun else "no host"
