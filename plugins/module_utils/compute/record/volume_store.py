# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of a host's volumes, volumes/<uuid>/record.json, and which instance has each.

The record of an instance names its volumes, the record of a volume names its instance ({uuid, name} or null). The
instance's record is written first when it gets a volume and last when it lets go, so a volume names no instance only if
no instance has it. Claiming a volume needs the host's lock. A volume has the phases of an instance that does not move:
claimed, building until a guest is started with it, active, deleting.
"""

from __future__ import annotations

from ...model import hints, state_hints, volumes
from ...model.lifecycle import BUILDING, CLAIMED, DELETING, IN, OUT
from ...model.volumes import VolumeNotAttached
from . import deleted, journal
from .store import Store

UNUSED = (CLAIMED, BUILDING)  # no guest has written to it
FROM = "grows_from_gb"  # in the request of a volume: its size before a growth that was claimed and may be given back


class VolumeStore(Store):
    """The records of the volumes, below the same state directory."""

    below = "volumes"

    @classmethod
    def beside(cls, store):
        return cls(store.state_dir, store.action, store.identity_copy)

    damaged_hint = staticmethod(state_hints.restore_damaged_volume)
    check_change = staticmethod(volumes.check_change)

    def _note_departure(self, record):
        """Keep the history of a volume that is deleted. Nobody is told where volumes were."""
        if record.phase == DELETING:
            deleted.keep(self, record)


def instance_of(record):
    """Return {uuid, name} of the instance that has the volume, or None."""
    noted = record.spec.get("instance")
    return {part: str(noted.get(part)) for part in ("uuid", "name")} if noted else None


def first_spec(spec, instance, image):
    """Return what a new volume's record keeps of the request ``spec``. ``image`` names its image, or is None."""
    return {"flavor": {}, "pool": spec.get("pool"), "instance": instance, **({"source_image": image} if image else {})}


def size_gb(record):
    return record.resources.get("disk_gb", 0)


def grows(record):
    """Whether a growth of the volume was claimed and is not confirmed yet."""
    return FROM in record.spec


def confirmed_gb(record):
    """Return the size that the volume's file may have: no larger one was confirmed."""
    return record.spec.get(FROM, size_gb(record))


def is_volume(record):
    """Whether a record is that of a volume. The request of an instance has no ``instance``."""
    return "instance" in record.spec


def is_of(volume, uuid):
    """Whether the record, which may be None, is that of a volume of the instance ``uuid``."""
    return volume is not None and (instance_of(volume) or {}).get("uuid") == uuid


def is_moving(record):
    """Whether the volume is moving to or from this host, with its instance."""
    return record.role in (IN, OUT)


def holder(volume, records, has_domain, but=None):
    """Return {uuid, name} of the instance, other than ``but``, that has the volume (a record), or None. ``records`` are
    those of all instances of the host, ``has_domain(uuid)`` says whether libvirt has such a guest.

    Either record may be old, restored from a backup, so both count, and libvirt too.
    """
    others = [record for record in records if record.uuid != but]
    for record in others:
        if volume.uuid in [entry["uuid"] for entry in volumes.of(record.spec)]:
            return {"uuid": record.uuid, "name": record.name}
    noted = instance_of(volume)
    if noted is None or noted["uuid"] == but:
        return None
    return noted if noted["uuid"] in [record.uuid for record in others] or has_domain(noted["uuid"]) else None


def are_attached(store, spec):
    """Whether the volumes of the request belong to its instance, as their records say."""
    found = [VolumeStore.beside(store).read(entry["uuid"]) for entry in volumes.of(spec)]
    return all(is_of(volume, spec["uuid"]) and not is_moving(volume) for volume in found)


def check_attached(store, record):
    """Raise VolumeNotAttached if a volume of the instance belongs to another, or to none."""
    for entry in volumes.of(record.spec):
        volume = VolumeStore.beside(store).read(entry["uuid"])
        if not is_of(volume, record.uuid) or is_moving(volume):
            raise VolumeNotAttached(
                "volume %s of %s is %s by its record" % (entry["name"], record.name, _said_to_be(volume)),
                hint=hints.update_disks_to_follow(record.name),
                volume=entry["name"],
            )


def _said_to_be(volume):
    noted = (volume and instance_of(volume) or {}).get("name")
    if noted and is_moving(volume):
        return "that of %s on another host" % noted
    return "that of %s" % noted if noted else "no instance's"


def change(store, volume, event, instance, **parts):
    """Write the volume's next record, with ``instance`` as the one that has it, and return it."""
    noted = journal.noted(volume, event, instance=(instance or {}).get("name"))
    return store.compare_and_swap(volume, noted.next(spec=dict(volume.spec, instance=instance), **parts))
