# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts as an engine knows them: what each last said, with what was reserved there since, and without what was removed.

A host's document is the one of host_facts, of whatever age: the claim on the host decides.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...model import host_document, nics
from ...model.lifecycle import CLAIM, CLAIMED
from ...model.messages import Document
from .. import fleet, silence
from ..fleet import Report
from ..plan import Instance
from ..procedures.steps import Found, Procedure, Scan
from . import keys
from .transactions import Draft, read_keys, transacted

# What of a host's document counts what its instances take: field -> field of the instance, and whether it grows with it.
COUNTED = (
    ("vcpus_used", "vcpus", 1),
    ("pcpus_used", "pcpus", 1),
    ("memory_mb_used", "memory_mb", 1),
    ("free_ram_mb", "memory_mb", -1),
    ("local_gb_used", "disk_gb", 1),
    ("free_disk_gb", "disk_gb", -1),
)
NO_ROOM = dict.fromkeys(("vcpus", "pcpus", "memory_mb", "disk_gb"), 0)
UNKNOWN = "berth.kvm.use_registry takes a new host in, berth.kvm.refresh reads one that was renamed"
MOST_REMOVED = 100  # of a host, before the registry looks which of them its facts show
# Of a document that is wrong read_fleet tells how.
WRONG = contextlib.suppress(AttributeError, KeyError, TypeError, host_document.HostDocumentInvalid)


class Seen(NamedTuple):
    """``uuid``: of the host; ``host``: what the registry keeps of it, see keys.py; ``document``: its facts, see unpacked_facts()."""

    uuid: str
    host: Document
    document: Any


def hosts() -> Procedure[Dict[str, Seen]]:
    """All hosts of the registry, by their names in the inventory."""
    # The hosts first: what their facts show already is found in both, and counts once.
    entries = (yield Scan(keys.HOSTS))["found"]
    facts = (yield Scan(keys.FACTS))["found"]
    # of a machine that was lost and the one in its place that has its name, the latter
    return dict(sorted(_seen(entries, facts), key=lambda each: each[1].host["read_at"]))


def of_draft(draft: Draft, host_uuid: str) -> Procedure[Dict[str, Seen]]:
    """That host alone, as the draft reads it."""
    host, facts = keys.host(host_uuid), keys.facts(host_uuid)
    yield from draft.read(host, facts)
    there = {key: {key: found} if (found := draft.found[key]) else {} for key in (host, facts)}
    return dict(_seen(there[host], there[facts]))


def names(uuids: Sequence[str]) -> Procedure[Dict[str, str]]:
    """Uuid -> name in the inventory, of those that the registry knows."""
    wanted = {keys.host(uuid): uuid for uuid in uuids}
    found = yield from read_keys(list(wanted))
    return {wanted[key]: keys.document(key, each)["name"] for key, each in found.items()}


@fleet.without_collector()
def _seen(entries: Mapping[str, Found], facts: Mapping[str, Found]) -> List[Tuple[str, Seen]]:
    documents = {key[len(keys.FACTS) :]: document for key, document in keys.unpacked_facts(facts).items()}
    read = {key[len(keys.HOSTS) :]: keys.document(key, found) for key, found in entries.items()}
    return [(host["name"], Seen(uuid, host, documents[uuid])) for uuid, host in read.items() if uuid in documents]


def reports(seen: Mapping[str, Seen], names: Iterable[str], live: Mapping[str, Report]) -> Dict[str, Report]:
    """What each host reports, for read_fleet. ``live``: of the hosts that this run has asked."""
    found: Dict[str, Report] = {}
    for name in names:
        known = seen.get(name)
        if name in live:
            found[name] = dict(live[name])  # type: ignore[assignment]
            if known and "document" in found[name]:
                with WRONG:
                    found[name]["document"] = with_reserved(known.host, found[name]["document"])
        elif known is None:
            found[name] = {"reason": "%s: %s" % (silence.NOT_IN_REGISTRY, UNKNOWN)}
        elif not known.host["trusted"]:
            found[name] = {"reason": "the registry does not trust what it said: berth.kvm.audit says why"}
        else:
            found[name] = {"document": known.document}
            if known.host["reserved"] or known.host["removed"]:
                with WRONG:
                    document = host_document.check(known.document)
                    found[name]["document"] = host_document.with_others(document, as_of_now(known.host, document))
    return found


def with_reserved(host: Document, document: Document) -> Document:
    """What a host says now, with what is reserved there and has not arrived. Of what it has, or had, it knows best."""
    has = {each["uuid"] for each in document["instances"]}
    reserved = {uuid: entry for uuid, entry in host["reserved"].items() if uuid not in has and entry["role"] == CLAIM}
    return as_of_now({"reserved": reserved, "removed": {}}, document)


def as_of_now(host: Document, document: Document) -> Document:
    """The host's document with what is reserved there, and without what was removed, since it was written."""
    entries = {each["uuid"]: each for each in document["instances"]}
    now = {**document, "num_instances": document["num_instances"]}
    for uuid, epoch in host["removed"].items():
        if uuid in entries and _is_over(entries[uuid], epoch):
            _count(now, entries.pop(uuid), -1)
    for uuid, entry in host["reserved"].items():
        if uuid not in entries or _is_newer(entry, entries[uuid]):
            if uuid in entries:
                _count(now, entries[uuid], -1)
            entries[uuid] = entry
            _count(now, entry, 1)
    return {**now, "instances": list(entries.values())}


def _count(document: Document, entry: Mapping[str, Any], many: int) -> None:
    document["num_instances"] += many
    for total, part, sign in COUNTED:
        document[total] = document.get(total, 0) + sign * many * entry.get(part, 0)


def _is_newer(reserved: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    return _generation(reserved) > _generation(shown)


def _generation(entry: Mapping[str, Any]) -> List[int]:
    return list(entry.get("generation") or (0, 0))


def _is_over(entry: Mapping[str, Any], epoch: int) -> bool:
    """Whether it shows an instance that was removed since. A guest that is no instance any more stays, and takes room."""
    return not entry.get("foreign") and keys.epoch_of(entry) <= epoch


def reservation(instance: Instance, epoch: int) -> Document:
    """What the host will show of the instance once it has claimed it, in this epoch."""
    spec, allocation = instance["spec"], instance.get("allocation") or {}
    flavor = spec["flavor"]
    return {
        "uuid": instance["uuid"],
        "name": instance["name"],
        "project_id": instance["project"],
        "flavor": flavor,
        "group": (spec.get("group") or {}).get("name"),
        "role": CLAIM,
        "generation": [epoch, 0],
        "phase": CLAIMED,
        "vm_state": "building",
        "task_state": None,
        "power_state": "nostate",
        "foreign": False,
        "vcpus": allocation.get("vcpus", flavor["vcpus"]),
        "pcpus": allocation.get("pcpus", 0),
        "memory_mb": allocation.get("memory_mb", flavor["memory_mb"]),
        "disk_gb": allocation.get("disk_gb", flavor["root_gb"]),
        "pool": spec.get("pool"),
        "image_props": (spec.get("image") or {}).get("properties") or {},
        "nics": nics.taken(spec.get("networks")),
    }


def report(name: str, document: Document, read_at: float, still: bool = False) -> Procedure[bool]:
    """Write what a host has just said, unless a later word of it is there, or it has left. Return whether it was written. ``still``: no
    run acts, so there is no later one: a host that is new, or was installed anew, counts from the start."""
    uuid = document["uuid"]
    own = (document.get("state") or {}).get("serial", 0), document.get("generation", 0)

    def change(draft: Draft) -> Procedure[bool]:
        key = keys.host(uuid)
        yield from draft.read(key)
        host = draft.get(key)
        if not still and (host is None or (own, read_at) <= _read_as(host)):
            return False
        host = host or {"provider": 0, "serial": 0, "generation": 0, "reserved": {}, "removed": {}}
        draft.put(key, {**host, **_told(host, document), "name": name, "serial": own[0], "generation": own[1],
                        "read_at": read_at, "trusted": not (document.get("state") or {}).get("fault")})  # fmt: skip
        draft.writes[keys.facts(uuid)] = keys.written_facts(uuid, document)
        return True

    return (yield from transacted(change, closed=True))


def forget(draft: Draft, host_uuid: str) -> None:
    """Remove all that the registry keeps of the host."""
    draft.remove(keys.host(host_uuid))
    draft.remove(keys.facts(host_uuid))


def forgotten(host_uuid: str) -> Procedure[None]:
    """The same in a transaction of its own, where no run acts."""

    def change(draft: Draft) -> Procedure[None]:
        key = keys.host(host_uuid)
        yield from draft.read(key)
        if draft.get(key) is not None:
            forget(draft, host_uuid)

    yield from transacted(change, closed=True)


def tidied(host_uuid: str, still: bool) -> Procedure[None]:
    """Drop the room there for instances that are not to come, which an ended run has left. ``still``: no run acts, and what the host
    has said last is all that it has."""

    def change(draft: Draft) -> Procedure[None]:
        key = keys.host(host_uuid)
        yield from draft.read(key)
        host = draft.get(key)
        if not host:
            return
        yield from draft.read(*map(keys.instance, host["reserved"]))
        entries = {uuid: draft.get(keys.instance(uuid)) for uuid in host["reserved"]}
        reserved = {
            uuid: reserved
            for uuid, reserved in host["reserved"].items()
            if entries[uuid] and host_uuid in keys.hosts_of(entries[uuid])
        }
        now = {**host, "reserved": reserved, "removed": {} if still else host["removed"]}
        if now != host:
            draft.put(key, {**now, "provider": host["provider"] + 1})

    yield from transacted(change, closed=True)


def bounded(draft: Draft, host_uuid: str, removed: Dict[str, int]) -> Procedure[Dict[str, int]]:
    """Of what was removed there, if it is much, what the facts show still: only that counts. A host that nobody refreshes would
    have more and more of it."""
    if len(removed) <= MOST_REMOVED:
        return removed
    shown = yield from _shown(draft, host_uuid)
    return removed if shown is None else {uuid: epoch for uuid, epoch in removed.items() if uuid in shown}


def change_room(draft: Draft, host_uuid: str, uuid: str, generation: Sequence[int], is_taken: bool) -> Procedure[None]:
    """Have the host show an instance that it keeps with the room that its flavor takes, or with none, from this generation on."""
    key = keys.host(host_uuid)
    yield from draft.read(key)
    host, shown = draft.get(key), (yield from _shown(draft, host_uuid)) or {}
    entry = host and (host["reserved"].get(uuid) or shown.get(uuid))
    if not entry:
        return
    now = {**entry, **(_room(entry) if is_taken else NO_ROOM), "generation": list(generation)}
    if now != entry:
        told = {"provider": host["provider"] + 1, "reserved": {**host["reserved"], uuid: now}}
        draft.put(key, {**host, **told})


def _room(entry: Mapping[str, Any]) -> Document:
    flavor, disks = entry["flavor"] or {}, entry.get("disks") or {}
    disk_gb = sum(flavor.get(part, 0) for part in ("root_gb", "ephemeral_gb")) + sum(disks.values())
    return {**NO_ROOM, **{part: flavor.get(part, 0) for part in ("vcpus", "memory_mb")}, "disk_gb": disk_gb}


def _shown(draft: Draft, host_uuid: str) -> Procedure[Optional[Dict[str, Document]]]:
    """By uuid, the instances that the facts of the host show; None if they are wrong."""
    key = keys.facts(host_uuid)
    yield from draft.read(key)
    found = draft.found[key]
    with WRONG:
        facts = host_document.check(keys.unpacked_facts({key: found})[key]) if found else {"instances": ()}
        return {each["uuid"]: each for each in facts["instances"]}
    return None


def _read_as(host: Document) -> Any:
    """What a later word has to exceed: the host's own counts, and of two readings of the same the time."""
    return (host["serial"], host["generation"]), host.get("read_at", -1.0)


def _told(host: Document, document: Document) -> Document:
    """What of the reserved and the removed the document does not tell yet."""
    shown = {each["uuid"]: each for each in document["instances"]}
    return {
        "reserved": {
            uuid: entry
            for uuid, entry in host["reserved"].items()
            if uuid not in shown or _is_newer(entry, shown[uuid])
        },
        "removed": {
            uuid: epoch for uuid, epoch in host["removed"].items() if uuid in shown and _is_over(shown[uuid], epoch)
        },
    }
