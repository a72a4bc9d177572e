# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which guest becomes the instance of a name, and whether it may: neither the name nor the guest's uuid may be an instance
anywhere. And the lines about guests that are no instances.

An adopted guest keeps its uuid, which follows from no name, so the inventory says it (berth_adopted): no host can.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional

from ..model import adopted, clones, hints
from ..model.errors import BerthError, InstanceExists
from ..model.identity import ADOPTED, DEFAULT_PROJECT, NAME, instance_uuid
from ..model.messages import Document, View
from . import majority, own_uuids
from .errors import DuplicateInstance, KvmHostNotFound, MoveContradicted
from .fleet import Fleet, Place
from .locate import check_no_stray, check_none_silent, holders

ON = "berth_adopt_on"
GIB = 1 << 30


class GuestToAdoptUnknown(BerthError):
    """No host has a guest of that name or uuid that is no instance, or several have one of that name. Nothing was changed."""


class Guest(NamedTuple):
    """A guest that is, or is to be, an instance, and its host."""

    uuid: str
    host: str


# Operation beside moves that an adopted instance does not take -> why.
ONLY_OF_CREATED = {
    "update_disks": "its disks are those of its own definition",
    "restore": "RESTORE.txt beside each backup says how to restore it by hand",
    "rebuild": "it was made from no image",
    "shelve": "its disks are those of its own definition",
    "rescue": "its disks are those of its own definition",
    clones.OPERATION: "a clone would be another machine. Make an image of it with berth.kvm.image_from_instance",
}


def check_created(name: str, places: Iterable[Place], operation: str) -> None:
    """Raise AdoptedNotSupported if the instance was adopted, and that does not do ``operation`` with it."""
    if any(place.get("adopted") for place in places):
        raise adopted.refused(name, operation, "; " + ONLY_OF_CREATED[operation])


def check_told(name: str, project: str, views: Iterable[View]) -> None:
    """Raise MoveContradicted if a host says that an instance has another name or project than the inventory: there it would
    count, and the uuid of one that was adopted or renamed follows from neither."""
    for view in views:
        if view["role"] is not None and (view["name"], view["project_id"]) != (name, project):
            raise MoveContradicted(
                "%s says that it is %s of project %s, the inventory has %s of project %s"
                % (view["host"]["name"], view["name"], view["project_id"], name, project)
            )


def check_adopted(fleet: Fleet, name: str, project: str, uuid: str) -> None:
    """Raise GuestToAdoptUnknown if ``uuid`` is that of a guest, which is no instance yet."""
    strays = sorted(stray["host"] for stray in fleet.strays.get(uuid, ()) if not stray["managed"])
    if strays and uuid != instance_uuid(project, name) and not fleet.places.get(uuid):
        raise GuestToAdoptUnknown(
            "%s is the guest %s on %s, which is no instance" % (name, uuid, " and ".join(strays)),
            hint=hints.adopt_it(name),
        )


def find(fleet: Fleet, name: str, project: str, uuid: str, on: Optional[str] = None) -> Guest:
    """The guest with ``uuid`` if the inventory says one, else the one whose domain has the name. ``on``: its host, if several
    have one."""
    told = uuid != instance_uuid(project, name)
    known = uuid if told else fleet.own_names.get((project, name))
    owners = [place["host"] for place in fleet.places.get(known, ())] if known else []
    if known and owners:
        return Guest(known, owners[-1])
    found = [
        Guest(each["uuid"], host)
        for host, document in fleet.documents.items()
        for each in document["instances"]
        if each["foreign"] and (each["uuid"] == uuid if told else each["name"] == name) and on in (None, host)
    ]
    if len(found) == 1:
        return found[0]
    if not found and on is not None and on not in {*fleet.documents, *fleet.verdicts}:
        raise KvmHostNotFound.of(ON, on, [*fleet.documents, *fleet.verdicts])
    if not found:
        own = fleet.places.get(uuid)
        if own:
            raise InstanceExists(
                "%s is an instance already, on %s" % (name, " and ".join(sorted({each["host"] for each in own})))
            )
        check_none_silent(fleet, name, ())
        raise GuestToAdoptUnknown(
            "no host has a guest %s that is no instance%s" % (uuid if told else name, " on %s" % on if on else ""),
            hint=hints.list_guests(),
        )
    if len({guest.uuid for guest in found}) == 1:
        raise _twice(found[0].uuid, [guest.host for guest in found])
    where = ", ".join("%s on %s" % guest for guest in found)
    raise GuestToAdoptUnknown("several guests have the name %s: %s" % (name, where), hint=hints.list_guests())


def where(fleet: Fleet, name: str, project: str, guest: Guest, lost: Collection[str] = ()) -> Dict[str, Any]:
    """The task of the operation: {uuid, hosts, after, owner, name, project_id}. Raises unless name and uuid are free, or the
    guest is that instance already."""
    own = instance_uuid(project, name)
    own_uuids.check_free(fleet, name, project, guest.uuid)
    check_no_stray(fleet, name, own)
    for uuid in (own, guest.uuid):
        claims, owners = holders(fleet, name, uuid, lost)
        if claims or owners and owners != [guest.host] or owners and uuid == own:
            hosts = ", ".join(sorted([*claims, *owners]))
            raise InstanceExists("%s has an instance %s already" % (hosts, name), hint=hints.another_name())
    strays = sorted({stray["host"] for stray in fleet.strays.get(guest.uuid, ())} - {guest.host})
    if strays:
        raise _twice(guest.uuid, [guest.host, *strays])
    answers = fleet.answers(lost)
    if not fleet.places.get(guest.uuid):
        majority.check(name, fleet.member_lists, answers.names, answers.gives_up)
    return {
        "uuid": guest.uuid,
        "hosts": [guest.host],
        "after": list(fleet.notes_on(guest.uuid).latest),
        "owner": fleet.documents[guest.host]["uuid"],
        "name": name,
        "project_id": project,
    }


def as_shown(fleet: Fleet, host: str, uuid: str) -> Document:
    """What the guest counts for, and its addresses: {vcpus, memory_mb, nics}."""
    guest = next(each for each in fleet.documents[host]["instances"] if each["uuid"] == uuid)
    vcpus = guest["vcpus"] + guest.get("pcpus", 0)
    return {"vcpus": vcpus, "memory_mb": guest["memory_mb"], "nics": guest.get("nics") or []}


def _twice(uuid: str, hosts: List[str]) -> DuplicateInstance:
    return DuplicateInstance("the guest %s is on %s: one of them is a copy" % (uuid, " and ".join(sorted(hosts))))


def in_the_way(fleet: Fleet, host: str, guest: Mapping[str, Any]) -> List[Document]:
    """What the hosts together know: [{code, said}]."""
    found: List[Document] = list(guest["in_the_way"])
    others = {stray["host"] for stray in fleet.strays.get(guest["uuid"], ())} - {host}
    others |= {place["host"] for place in fleet.places.get(guest["uuid"], ())} - {host}
    if others:
        said = "%s has a guest with its uuid, too: one of them is a copy" % ", ".join(sorted(others))
        found.append({"code": "UuidTwice", "said": said})
    return found


def lines(fleet: Fleet, guests: Mapping[str, Iterable[Mapping[str, Any]]]) -> Iterator[str]:
    """``guests``: host -> its guests that are no instances, as module host_facts tells them."""
    for host in sorted(guests):
        for guest in guests[host]:
            size = sum(-(-disk["size"] // GIB) for disk in guest["disks"])
            yield "%s: %s (%s), %s, %d vCPUs, %d MiB, %d GiB in %d disks" % (
                *(host, guest["name"], guest["uuid"], guest["state"], guest["vcpus"], guest["memory_mb"]),
                *(size, len(guest["disks"])),
            )
            reasons = in_the_way(fleet, host, guest)
            yield from ("    %(code)s: %(said)s" % reason for reason in reasons)
            if not reasons:
                named = guest["name"] if NAME.match(guest["name"]) else "NAME"
                yield "    %s" % hints.adopt_guest(named, guest["uuid"])


def inventory_lines(name: str, project: str, instance: Mapping[str, Any], has_flavor: bool) -> Iterator[str]:
    """What the inventory has to say, so that the instance is one like others. ``has_flavor``: the catalog has its flavor."""
    yield "%s is an instance now. For the inventory:" % name
    yield "    %s:" % name
    yield "      %s: %s" % (ADOPTED, instance["uuid"])
    yield "      berth_flavor: %s" % instance["flavor"]
    if project != DEFAULT_PROJECT:
        yield "      berth_project: %s" % project
    if not has_flavor:
        yield (
            "      berth_flavors: {%(flavor)s: {vcpus: %(vcpus)d, memory_mb: %(memory_mb)d, root_gb: %(root_gb)d}}"
            "  # for a resize: move it beside the catalog's flavors, which it hides here" % instance
        )
