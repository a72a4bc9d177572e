# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gossip: what hosts are told about where instances are, and remember (compute/record/whereabouts.py): what a run has read from
all hosts, and what only a host that leaves the fleet remembers. A host is sent what it lacks. Afterwards it remembers the
same as if it had been sent everything: if its digest of a part of the instances equals the run's, it has every entry of
that part. What a create made is added at its end, in plan.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Iterable, List, Mapping, Optional

from ..model.lifecycle import CLAIM, OWN
from ..model.messages import Document, Note
from ..model.whereabouts_digest import digests, part_of
from . import majority
from .fleet import Fleet
from .locate import generation_of
from .plan import PlannedInstance

if TYPE_CHECKING:  # a create moves nothing: it does without what moving imports
    from .moving import PlannedMove

MOST_PARTS = 64  # if more parts than this differ, the host is sent everything


def whereabouts(fleet: Fleet) -> Document:
    """What every host should know about the others: who owns each instance, or has it during a move, and which
    instances are gone. Not which hosts a person gives up as lost: that is said for one run. What a lost host had stays
    known until another host has it."""
    known: Dict[str, Dict[str, List[int]]] = {}
    gone: Dict[str, Dict[str, List[int]]] = {}
    for uuid, places in fleet.places.items():
        held = [place for place in places if place["role"] != CLAIM]
        if held:
            place = max(held, key=lambda place: (place["role"] == OWN, generation_of([place])))
            epoch, n = generation_of([place])
            owned = known.setdefault(fleet.documents[place["host"]]["uuid"], {})
            # during a move both sides use one epoch, and each counts its own writes
            owned[uuid] = [epoch, n if place["role"] == OWN else 0]
    for holder, notes in fleet.notes.items():
        for uuid, note in notes.items():
            removed = note.get("gone")
            if removed and holder in fleet.notes_on(uuid).gone:
                gone.setdefault(holder, {})[uuid] = removed
    names = {uuid: name for name, uuid in fleet.uuids().items()}
    return {"hosts": names, "known": known, "gone": gone, "members": majority.agreed(fleet.member_lists)}


def remembered_by(fleet: Fleet, host: str) -> Document:
    """What only this host may remember about instances, in the form sent to other hosts: see
    compute/record/whereabouts.py."""
    own = fleet.uuids()[host]
    names: Dict[str, str] = {}
    known: Dict[str, Dict[str, List[int]]] = {}
    gone: Dict[str, List[int]] = {}
    after: Dict[str, int] = {}
    planned: List[PlannedInstance] = []
    for uuid, note in fleet.notes.get(own, {}).items():
        last, removed, epoch = note.get("known"), note.get("gone"), note.get("after", 0)
        last_epoch = _last_epoch(note)
        if last_epoch > _epoch_of_owner(fleet, uuid):
            # Nobody else may know how far it was counted: a backup of an earlier owner must not count as newer than the
            # next one.
            epoch = last_epoch
        if epoch:
            after[uuid] = epoch
        plans = [plan for plan in note.get("planned") or () if plan["host_uuid"] != own]
        names.update({plan["host_uuid"]: plan["host"] for plan in plans})
        planned += [{"uuid": uuid, "host_uuid": plan["host_uuid"], "run": plan["run"]} for plan in plans]
        if last:
            names[last["host_uuid"]] = last["host"]
            known.setdefault(last["host_uuid"], {})[uuid] = list(last["generation"])
        if removed and own in fleet.notes_on(uuid).gone:
            gone[uuid] = list(removed)
    return {"hosts": names, "known": known, "gone": {own: gone} if gone else {}, "after": after, "planned": planned}


def will_own(fleet: Fleet, uuid: str, host: str, epoch: int, run: str) -> Document:
    """The announcement that ``run`` makes ``host`` the owner after this epoch: an owner of an earlier one, such as a lost
    host that is back, does nothing while that host is silent."""
    own = fleet.uuids()[host]
    return {
        "hosts": {own: host},
        "planned": [{"uuid": uuid, "host_uuid": own, "run": run}],
        "after": {uuid: epoch},
    }


def will_take_back(fleet: Fleet, move: PlannedMove, run: str) -> Optional[Document]:
    """The announcement that the source will own the instance again without the lost destination, which may be at rest
    when it is back. None for another move: there the owner stays the same."""
    if move["sequence"] != "reclaim_alone":
        return None
    uuid, here = move["uuid"], move["views"]["source"]
    epoch = max(fleet.notes_on(uuid).latest[0], here["generation"][0])
    return will_own(fleet, uuid, move["source"], epoch, run)


def together(documents: Iterable[Document]) -> Document:
    """Several documents of ``will_own`` as one: the hosts are asked once."""
    told: Document = {}
    for document in documents:
        told.setdefault("hosts", {}).update(document["hosts"])
        told.setdefault("planned", []).extend(document["planned"])
        told.setdefault("after", {}).update(document["after"])
    return told


def _last_epoch(note: Note) -> int:
    """The last epoch of the instance that the host knows of, without that of the owner that it remembers."""
    said = (note.get("after", 0), *((generation or [0])[0] for generation in (note.get("gone"), note.get("left"))))
    return max(said)


def _epoch_of_owner(fleet: Fleet, uuid: str) -> int:
    """Epoch of the last owner that answers or that any host remembers."""
    known = fleet.notes_on(uuid).known
    owning = [place for place in fleet.places.get(uuid, ()) if place["role"] == OWN]
    return max(generation_of(owning)[0], known.generation[0] if known else 0)


def lacking(told: Document, remembered: Mapping[str, Optional[Mapping[str, str]]]) -> Dict[str, Document]:
    """Return {host: what to send} of the hosts that lack an owner among ``told``. ``remembered``: {host: its digests}."""
    gossip = Gossip(told)
    found = {host: gossip.to(of_host) for host, of_host in remembered.items() if of_host is not None}
    return {host: to_send for host, to_send in found.items() if to_send.get("known")}


class Gossip:
    """``told``: what all hosts together should know, as ``whereabouts`` returns it."""

    def __init__(self, told: Document) -> None:
        self._told = told
        names, known = told.get("hosts") or {}, told.get("known") or {}
        owners = {
            uuid: (host_uuid, epoch, n) for host_uuid, owned in known.items() for uuid, (epoch, n) in owned.items()
        }
        self._digests = digests(owners, names)
        self._parts: Dict[str, List[str]] = {}
        for uuid in owners:
            self._parts.setdefault(part_of(uuid), []).append(uuid)
        self._owners = owners

    def to(self, remembered: Optional[Mapping[str, str]]) -> Document:
        """What to send a host. ``remembered``: the host's own digests, None if it sent none."""
        if remembered is None or "known" not in self._told:
            return self._told
        differ = {part for part in {*self._digests, *remembered} if self._digests.get(part) != remembered.get(part)}
        if len(differ) > MOST_PARTS:
            return self._told
        known: Dict[str, Dict[str, List[int]]] = {}
        for part in sorted(differ):
            for uuid in self._parts.get(part, ()):
                host_uuid, epoch, n = self._owners[uuid]
                known.setdefault(host_uuid, {})[uuid] = [epoch, n]
        # Names may have changed wherever a digest differs, and in the plans, which no digest covers.
        names = self._told["hosts"] if differ else self._names_of_plans()
        return {**self._told, "known": known, "hosts": names}

    def _names_of_plans(self) -> Dict[str, str]:
        planned = {plan["host_uuid"] for plan in self._told.get("planned") or ()}
        return {host_uuid: name for host_uuid, name in self._told["hosts"].items() if host_uuid in planned}
