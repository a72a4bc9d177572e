# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a volume: claimed, attached, kept free when its instance is deleted, removed. volume_files.py makes the
file; record/volume_claim.py has the checks before it is attached.

The files lie beside the directories of instances, so whatever removes or makes the disks of an instance does not touch
them. An existing file is never made again, and is removed only after its record says so.
"""

from __future__ import annotations

import os

from ...model import volumes
from ...model.lifecycle import ACTIVE, CLAIMED, DELETING, OWN
from ...model.volumes import VolumeInUse
from .. import paths
from ..guest import disk_users
from ..record import volume_move
from ..record.volume_claim import check_free, is_elsewhere
from ..record.volume_store import UNUSED, VolumeStore, change, instance_of, is_moving, is_of
from . import owner


def mark_used(store, record):
    """Record that from here on the guest may have written to the volumes."""
    own = VolumeStore.beside(store)
    for entry in volumes.of(record.spec):
        volume = own.read(entry["uuid"])
        if is_of(volume, record.uuid) and volume.phase in UNUSED:
            change(own, volume, "used", instance_of(volume), role=OWN, phase=ACTIVE)


def release(host, record):
    """Free the volumes of an instance that goes. Remove those with delete_on_termination, and new, unused ones."""
    forget_old(host, record)
    own = VolumeStore.beside(host.store)
    for entry in volumes.of(record.spec):
        volume = own.read(entry["uuid"])
        if not is_of(volume, record.uuid):
            continue
        if is_moving(volume):
            volume = _take(host, own, volume)
        if _goes(host, volume, entry) and _is_alone(host, volume, record.uuid):
            remove(host, volume)
        else:
            detach(host, record, entry)


def forget_old(host, record):
    """Remove the records of volumes that by now belong to another host, as the owner file says: they are outdated."""
    own = VolumeStore.beside(host.store)
    for entry in volumes.of(record.spec):
        volume = own.read(entry["uuid"])
        if is_of(volume, record.uuid) and is_elsewhere(host, volume):
            volume_move.forget_one(own, volume)


def _take(host, own, volume):
    """Make the volume this host's. If its files are gone, there is no place for an owner file."""
    pool_path = host.pool_of(volume)
    if os.path.isdir(paths.volume(pool_path, volume.uuid)):
        owner.write(pool_path, volume.uuid, host.identify(), paths.volume)
    return volume_move.take(own, volume)


def _goes(host, volume, entry):
    """Whether the volume goes with its instance. One that no guest has used is in none, else its record is an old one."""
    if entry["delete_on_termination"]:
        return True
    if not entry.get("new") or volume.phase not in UNUSED:
        return False
    path = paths.volume_file(host.pool_of(volume), volume.uuid)
    return volume.phase == CLAIMED or not disk_users.of(host.connection, [path])


def _is_alone(host, volume, uuid):
    """Whether only this instance has the volume: records that say so may be old ones. A claimed volume has no file."""
    try:
        if volume.phase != CLAIMED:
            check_free(host, volume, uuid)
    except VolumeInUse:
        return False
    return True


def without_used(store, record):
    """Return the record of a resumed build in which no volume counts as new that a guest may have written to."""
    own = VolumeStore.beside(store)
    found = [own.read(entry["uuid"]) for entry in volumes.of(record.spec)]
    used = {volume.name for volume in found if volume is not None and volume.phase not in UNUSED}
    return record.replace(spec=volumes.used(record.spec, used)) if used else record


def drop_claim(host, record):
    """Remove a claim of an instance, with its claims of volumes. The caller holds the instance's lock."""
    release(host, record.replace(spec=volumes.kept(record.spec)))
    host.store.compare_and_swap(record, None)


def detach(host, record, entry):
    """Detach a volume from the instance: it becomes free and keeps its data."""
    own = VolumeStore.beside(host.store)
    volume = own.read(entry["uuid"])
    if is_of(volume, record.uuid):
        change(own, volume, "detach", None)


def remove(host, volume):
    """Remove a volume that no guest uses, with its file."""
    own = VolumeStore.beside(host.store)
    if volume.phase != CLAIMED:
        directory = paths.volume(host.pool_of(volume), volume.uuid)
        if volume.phase not in UNUSED:
            paths.check_mounted(directory)
        if volume.phase != DELETING:
            volume = change(own, volume, "delete", instance_of(volume), phase=DELETING)
        paths.remove_directory(directory)
    own.compare_and_swap(volume, None)


def delete(host, uuid, dry=False):
    """Remove a free volume. Return whether there was one. Raise VolumeInUse if an instance has it."""
    with host.store.host_lock():
        volume = VolumeStore.beside(host.store).read(uuid)
        if volume is None:
            return False
        check_free(host, volume)
        if not dry:
            remove(host, volume)
        return True
