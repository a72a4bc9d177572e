# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes: disks that outlive the instance that has them (berth_volumes_defined, berth_volumes).

In a request they are [{name, size_gb (GiB), delete_on_termination, slot}], with ``new`` if the volume is made for the
instance, until its guest has been started, and ``image`` if it is made from one. The slot is its place among the
guest's devices. The guest boots from the volume with ``boot_index`` 0, which is made from the instance's image, and
then has no root disk; if the firmware finds nothing there, it tries 1, 2 and so on. A volume has its own record on its
host, which says whose it is.
"""

from __future__ import annotations

import re
import uuid
from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional, Sequence

from . import data_disks, lifecycle, volume_hints
from .errors import BerthError, InvalidInput
from .identity import MOST_OF_A_NAME, NAME, NAMESPACE, PROJECT, RESERVED, instance_uuid
from .lifecycle import ACTIVE, BUILDING, IN, INCOMING, KEEP, OUT, OWN, State
from .messages import Document
from .move_errors import CannotResizeDisk

MOST = 16
SOURCE = ("name", "url", "checksum", "disk_format")  # what a host has to know about the image of a volume


def volume_uuid(project: str, name: str) -> str:
    """The same project and name give the same volume, on every controller. No project has a "/" in its name."""
    return str(uuid.uuid5(NAMESPACE, "volume/%s/%s" % (project, name)))


def of(spec: Mapping[str, Any]) -> List[Document]:
    """Return the volumes of a request, each with its uuid; a request from before they existed has none."""
    found = spec.get("volumes") or ()
    return [dict(entry, uuid=volume_uuid(str(spec.get("project_id")), str(entry.get("name")))) for entry in found]


def check(spec: Mapping[str, Any]) -> List[Document]:
    named, slots = set(data_disks.shown(spec)), set()
    for at, entry in enumerate(of(spec)):
        name, slot = data_disks.check_name_and_size("volumes", at, entry), entry.get("slot")
        if name in named:
            raise InvalidInput("volumes[%d].name" % at, name, "each name once, also among the data disks")
        if not isinstance(slot, int) or isinstance(slot, bool) or not 0 <= slot < MOST or slot in slots:
            raise InvalidInput("volumes[%d].slot" % at, slot, "a whole number from 0 to %d, each once" % (MOST - 1))
        named.add(name)
        slots.add(slot)
    indexes = boot_indexes(of(spec))
    if len(set(indexes)) < len(indexes) or not {*indexes} <= {*range(MOST)}:
        raise InvalidInput("volumes.boot_index", indexes, "a whole number from 0 to %d, each once" % (MOST - 1))
    return of(spec)


def boot_indexes(entries: Iterable[Mapping[str, Any]]) -> List[int]:
    return sorted(entry["boot_index"] for entry in entries if entry.get("boot_index") is not None)


def boot(spec: Mapping[str, Any]) -> Optional[Document]:
    """Return the volume that the guest boots from, None if it has a root disk."""
    return next((entry for entry in of(spec) if entry.get("boot_index") == 0), None)


def source(spec: Mapping[str, Any], entry: Mapping[str, Any]) -> Optional[Document]:
    """The image that a new volume of the request is made from, None for an empty one."""
    image = spec.get("image") if entry.get("boot_index") == 0 else entry.get("image")
    return dict(image) if image else None


def root_gb(spec: Mapping[str, Any]) -> int:
    """GiB of what the guest boots from; 0 is the image's own size."""
    own = boot(spec)
    return int((own or {}).get("size_gb") or 0) if own else int(spec["flavor"].get("root_gb") or 0)


def _boot_index(entry: Mapping[str, Any]) -> Document:
    return {} if entry.get("boot_index") is None else {"boot_index": entry["boot_index"]}


def check_boot_stays(name: str, has: Mapping[str, Any], wanted: Sequence[Mapping[str, Any]]) -> None:
    """Raise InvalidInput if an existing instance would boot from something else than at its creation, or a volume would
    change its boot_index."""
    before, after = boot(has), [entry["name"] for entry in wanted if entry.get("boot_index") == 0]
    if after != ([before["name"]] if before else []):
        rule = "volume %s with boot_index 0" % before["name"] if before else "no boot_index 0"
        indexes = {entry["name"]: entry.get("boot_index") for entry in wanted}
        raise InvalidInput("berth_volumes", indexes, "%s, as %s was created: it boots from that" % (rule, name))
    indexes = {entry["name"]: entry.get("boot_index") for entry in of(has)}
    for entry in wanted:
        index = indexes.get(entry["name"])
        if entry["name"] in indexes and entry.get("boot_index") != index:
            rule = "%s, as it is attached to %s" % ("none" if index is None else index, name)
            hint = volume_hints.attach_again(name, entry["name"])
            raise InvalidInput("berth_volumes.%s.boot_index" % entry["name"], entry.get("boot_index"), rule, hint=hint)


def new_gb(spec: Mapping[str, Any]) -> int:
    """Return the GiB of the volumes that are still to be made."""
    return sum(entry["size_gb"] for entry in spec.get("volumes") or () if entry.get("new"))


def shown(spec: Mapping[str, Any]) -> Dict[str, int]:
    """Return {name: GiB}, for people."""
    return {str(entry.get("name")): entry.get("size_gb") or 0 for entry in spec.get("volumes") or ()}


def going(spec: Mapping[str, Any]) -> List[str]:
    """Return the names of the volumes that a delete of the instance removes."""
    return sorted(str(entry.get("name")) for entry in spec.get("volumes") or () if entry.get("delete_on_termination"))


def used(spec: Document, names: Optional[Collection[str]] = None) -> Document:
    """Return the request after the guest has been started: its volumes, or those in ``names``, are no longer new."""
    gone = {entry["name"] for entry in spec.get("volumes") or () if names is None or entry["name"] in names}
    return _changed(
        spec,
        lambda entry: {
            part: entry[part] for part in entry if part not in ("new", "image") or entry["name"] not in gone
        },
    )


def as_new(spec: Document, claimed: Mapping[str, Any]) -> Document:
    """Return the request with those volumes as new that are new in ``claimed``, the request by which they were claimed."""
    new = {entry["name"] for entry in claimed.get("volumes") or () if entry.get("new")}
    return _changed(spec, lambda entry: dict(entry, new=True) if entry["name"] in new else entry)


def arriving(spec: Document) -> Document:
    """Return the request for a host to which the volumes are copied: they take room there as new ones do."""
    return _changed(spec, lambda entry: dict(entry, new=True))


def kept(spec: Document) -> Document:
    """Return the request of an instance whose guest was never made: a delete keeps its volumes."""
    return _changed(spec, lambda entry: dict(entry, delete_on_termination=False))


def undone(spec: Document) -> Document:
    """Return the request of a build that failed before its guest's start: a delete removes only volumes made for it."""
    return _changed(spec, lambda entry: dict(entry, delete_on_termination=bool(entry.get("new"))))


def _changed(spec: Document, change: Any) -> Document:
    return dict(spec, volumes=[change(entry) for entry in spec["volumes"]]) if spec.get("volumes") else spec


def requested(
    names: Sequence[Mapping[str, Any]], defined: Mapping[str, Document], images: Mapping[str, Document]
) -> List[Document]:
    """Return the volumes of a new request, with their sizes in ``defined``; ``images``: volume -> its source image."""
    return [
        {
            "name": entry["name"],
            "size_gb": defined[entry["name"]]["size_gb"],
            "delete_on_termination": entry["delete_on_termination"],
            "slot": slot,
            **_boot_index(entry),
            **({"image": images[entry["name"]]} if entry["name"] in images else {}),
        }
        for slot, entry in enumerate(names)
    ]


def merged(has: Sequence[Document], wanted: Sequence[Mapping[str, Any]]) -> List[Document]:
    """Return the volumes ``wanted``: those in ``has`` first, in their slots, then others in free ones. None shrinks."""
    there = {entry["name"]: entry for entry in has}
    after = {entry["name"]: at for at, entry in enumerate(has)}
    ordered = sorted(wanted, key=lambda entry: after.get(entry["name"], len(has)))
    names = {entry["name"] for entry in wanted}
    free = iter(sorted(set(range(MOST)) - {entry["slot"] for entry in has if entry["name"] in names}))
    found = []
    for entry in ordered:
        old = there.get(entry["name"])
        if old:
            check_size(entry["name"], old["size_gb"], entry["size_gb"])
        parts = {part: entry[part] for part in ("name", "size_gb", "delete_on_termination")}
        found.append({**parts, "slot": old["slot"] if old else next(free), **_boot_index(entry)})
    return found


def check_size(name: str, has: int, wanted: int) -> None:
    """Raise CannotResizeDisk if a volume of ``has`` GiB would shrink."""
    if wanted < has:
        raise CannotResizeDisk(
            "Unable to resize disk down: volume %s has %d GiB, and its size_gb is %d now" % (name, has, wanted),
            field="berth_volumes_defined.%s.size_gb" % name,
            value=wanted,
            rule="at least %d GiB" % has,
        )


def boots_from(spec: Mapping[str, Any]) -> Optional[str]:
    """Return the name of the volume that the guest boots from, None if it has a root disk."""
    own = boot(spec)
    return str(own["name"]) if own else None


def boot_order(spec: Mapping[str, Any]) -> Dict[str, int]:
    """Return {name: boot_index} of the volumes that the firmware may boot from."""
    entries = spec.get("volumes") or ()
    return {str(entry["name"]): entry["boot_index"] for entry in entries if entry.get("boot_index") is not None}


# The life of a volume's record on one host: its states and the legal changes, at rest and in a move.
#
# A volume moves with its instance: the source gives up the volumes before the instance, and the destination takes over
# the volumes before the instance. So at most one host owns a volume, and a host that owns an instance but not its
# volumes starts nothing.
LET_GO, EXPECTED, OWNED = (OUT, KEEP), (IN, INCOMING), (OWN, ACTIVE)
MOVES = frozenset({(OWNED, LET_GO), ((OWN, BUILDING), LET_GO), (LET_GO, OWNED), (EXPECTED, OWNED)})


def check_change(old: Optional[State], new: Optional[State]) -> None:
    """Raise IllegalChange if the record of a volume in state ``old`` may not become ``new``."""
    if (old, new) not in MOVES:
        lifecycle.check_change(old, new)


# Errors about volumes. When one is raised, nothing was done to a volume or an instance.


class VolumeInUse(BerthError):
    """Another instance uses the volume. Only one instance can use a volume."""


class VolumeNotFound(BerthError):
    """No host has the volume, or its host does not have it any more."""


class VolumeUnknown(BerthError):
    """A host that may have the volume does not answer. The volume was neither made nor removed."""


class VolumeDamaged(BerthError):
    """A host cannot read its record of the volume. The volume counts as there: it is not made anew, attached or removed."""


class VolumeDuplicate(BerthError):
    """More than one host has a volume of this name. A person has to decide."""


class VolumeConflict(BerthError):
    """Another run made, changed or removed the volume at the same time."""


class VolumeElsewhere(BerthError):
    """The volume is on another host or in another storage pool than the instance."""


class VolumeNotAttached(BerthError):
    """The record of the volume does not name this instance, so the guest was not started with it."""


class VolumeNotBootable(BerthError):
    """The volume was made empty or from another image than the instance's, so the instance cannot boot from it."""


class VolumeStays(BerthError):
    """The destination shares a part of the storage of the instance's disks and volumes, but not all of it."""

    retryable = True


class VolumeWritesLost(BerthError):
    """A revert would go back to volumes as they were before the move, and the guest has written to them since."""


# What instances and volumes of a host's facts are called: by the name from which their uuid follows, else by the uuid.
#
# Hints name instances and volumes in commands, and these must not act on another one, or on all, because a host or a
# record that somebody edited says so.
NO_PROJECT = "?"  # for what cannot be the name of a project


def instance(told: Document, project: str) -> Document:
    """``told`` {uuid, name}, an instance of the project, with its own name."""
    name = told["name"]
    usable = len(name) <= MOST_OF_A_NAME and NAME.match(name) and name not in RESERVED
    can_be = usable and re.match(PROJECT, project, re.ASCII)  # hints name both
    return told if can_be and instance_uuid(project, name) == told["uuid"] else {**told, "name": told["uuid"]}


def volume(told: Document) -> Document:
    """``told`` {uuid, name, project_id, instance} with its own name, and that of the instance that has it."""
    project = told["project_id"] if re.match(PROJECT, told["project_id"], re.ASCII) else NO_PROJECT
    usable = re.match(data_disks.NAME + r"\Z", told["name"], re.ASCII)
    name = told["name"] if usable and volume_uuid(project, told["name"]) == told["uuid"] else told["uuid"]
    holder = told["instance"] and instance(told["instance"], project)
    return {**told, "name": name, "project_id": project, "instance": holder}
