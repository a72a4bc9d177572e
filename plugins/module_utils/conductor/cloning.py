# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A clone is a create whose disks are copies of those of another instance, on the host that has them."""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, Mapping

from ..model import clone_hints, clones, request_digest, vm_states
from ..model.clones import CloneNotPossible
from ..model.lifecycle import ACTIVE, OWN
from ..model.messages import Document
from ..model.move_errors import InstanceInvalidState
from ..model.request_spec import ServerGroup
from . import adopting, groups
from .fleet import Fleet, Place
from .locate import holders
from .sides import InstanceNotFound


def with_source(spec: Document, fleet: Fleet, source: str, uuid: str, lost: Collection[str] = ()) -> Document:
    """The request ``spec`` as one for a clone of the instance ``source``. Raise CloneNotPossible, and what says why that instance is
    not copied now. One that is made already needs its source no more."""
    cloned = {**spec, clones.KEY: uuid}
    owned = [place for place in fleet.places.get(spec["uuid"], ()) if place["role"] == OWN]
    if owned:
        _check_same(spec["name"], source, owned[0], request_digest.digests(cloned)[clones.KEY])
        return cloned
    if uuid == spec["uuid"]:
        raise CloneNotPossible("%s is not cloned into itself" % source, hint=clone_hints.name_another(source))
    place = _source(fleet, source, uuid, lost)
    wanted = (spec["requested_destination"] or {}).get("host")
    if wanted not in (None, place["host"]):
        raise CloneNotPossible(
            "the disks of %s are on %s, and a clone is made there, not on %s" % (source, place["host"], wanted),
            hint=clone_hints.move_afterwards(spec["name"], source),
        )
    _check_flavor(spec, place)
    _check_group(spec, place, fleet)
    return {**cloned, "requested_destination": {"host": place["host"]}}


def _check_same(name: str, source: str, place: Place, digest: str) -> None:
    if (place["request_digests"] or {}).get(clones.KEY) != digest:
        raise CloneNotPossible(
            "%s exists on %s, and is no clone of %s" % (name, place["host"], source),
            hint=clone_hints.name_another(source),
        )


def _source(fleet: Fleet, name: str, uuid: str, lost: Collection[str]) -> Place:
    """Where the instance is. Its host looks at it again when it copies the disks."""
    adopting.check_created(name, fleet.places.get(uuid, ()), clones.OPERATION)
    _claims, owners = holders(fleet, name, uuid, lost)
    place = fleet.place_on(uuid, owners[0]) if owners else None
    if place is None:
        raise InstanceNotFound("no host has %s, which was to be cloned" % name)
    if place["phase"] != ACTIVE:
        raise InstanceInvalidState(name, "phase", str(place["phase"]), clones.OPERATION)
    vm_states.check(name, place["vm_state"], clones.OPERATION)
    return place


def _check_flavor(spec: Mapping[str, Any], place: Place) -> None:
    has, asked = (place["content"] or {}).get("root_gb") or 0, spec["flavor"].get("root_gb") or 0
    if asked and asked < has:
        raise CloneNotPossible(
            "flavor %s has a root disk of %d GiB, that of %s has %d"
            % (spec["flavor"]["name"], asked, place["name"], has),
            hint=clone_hints.choose_larger_flavor(),
        )
    lacks = sorted(set(place["disks"] or ()) - {disk["name"] for disk in spec.get("disks") or ()})
    if lacks:
        raise CloneNotPossible(
            "%s has no data disk %s, which %s has" % (spec["name"], ", ".join(lacks), place["name"]),
            hint=clone_hints.name_its_disks(),
        )


def _check_group(spec: Document, place: Place, fleet: Fleet) -> None:
    """A clone is made beside its source, where its group may have no place for it."""
    group = spec.get("group")
    if not group or group["policy"] != groups.ANTI_AFFINITY:
        return
    there = [each for each in fleet.documents[place["host"]]["instances"] if not each["foreign"]]
    members, most = len(groups.others(spec, there)), ServerGroup(group).max_server_per_host
    if members >= most:
        raise CloneNotPossible(
            "a clone is made on the host of its source, and anti-affinity group %s has %d of at most %d members on %s"
            % (group["name"], members, most, place["host"]),
            hint=clone_hints.leave_group(spec["name"], place["name"]),
        )


def as_source(values: Mapping[str, Any], places: Iterable[Place]) -> Dict[str, Any]:
    """The variables of a clone, with the data disks of its source where nothing says which."""
    owner = next((place for place in places if place["role"] == OWN), None)
    if owner is None or values.get("berth_disks") is not None or not owner["disks"]:
        return dict(values)
    return {**values, "berth_disks": {name: {"size_gb": size} for name, size in owner["disks"].items()}}
