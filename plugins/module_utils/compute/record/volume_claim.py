# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The claims of volumes: who may use one (one writer at a time) or remove it, which one a guest may boot from, and new
records.

The caller holds the host's lock.
"""

from __future__ import annotations

import os

from ...model import hints, volume_hints, volumes
from ...model.lifecycle import ACTIVE, CLAIM, CLAIMED, DELETING, OWN
from ...model.record import Record
from ...model.safe_text import clean
from ...model.volumes import VolumeConflict, VolumeElsewhere, VolumeInUse, VolumeNotBootable, VolumeNotFound
from .. import paths
from ..disk import layers, owner
from ..guest import disk_users, domain
from . import journal, volume_move
from .volume_store import UNUSED, VolumeStore, change, first_spec, holder, instance_of, is_moving


def check_claim(host, spec):
    """Raise if the instance cannot have a volume of its request. Needs the host's lock."""
    store = VolumeStore.beside(host.store)
    for entry in volumes.check(spec):
        volume = store.read(entry["uuid"])
        if volume is None and not entry.get("new"):
            name = host.connection.getHostname()
            raise VolumeNotFound("%s has no volume %s" % (name, entry["name"]), hint=hints.run_again())
        if volume is not None:
            check_free(host, volume, spec["uuid"])
            _check_file(host, volume)
            if entry.get("boot_index") == 0:
                _check_bootable(volume, spec)
            if entry.get("new") and volume.phase not in UNUSED or volume.phase == DELETING:
                raise VolumeConflict(
                    "another run has made or is removing volume %s" % entry["name"], hint=hints.run_again()
                )
            if volume.spec.get("pool") != spec.get("pool"):
                raise VolumeElsewhere(
                    "volume %s is in pool %s, %s in pool %s"
                    % (entry["name"], volume.spec.get("pool"), spec["name"], spec.get("pool"))
                )


def check_free(host, volume, but=None):
    """Raise VolumeInUse if an instance other than ``but``, or a guest, has the volume. Needs the host's lock."""
    noted = instance_of(volume)
    if is_moving(volume) and noted and noted["uuid"] != but:
        raise _in_use(volume, noted["name"], volume_hints.detach_volumes(noted["name"], [volume.name]))
    check_not_elsewhere(host, volume)
    found = holder(volume, host.store.records(), lambda uuid: domain.find(host.connection, uuid) is not None, but)
    if found:
        raise _in_use(volume, found["name"], volume_hints.detach_volumes(found["name"], [volume.name]))
    # all records may be old, restored from one backup
    files = paths.volume_entries(host.pool_of(volume), volume.uuid)
    for uuid, user in sorted(disk_users.of(host.connection, files).items()):
        if uuid != but:
            name = clean(user.name, 100)
            raise _in_use(volume, name, volume_hints.detach_by_hand(name, uuid, clean(user.disk, 400)))


def check_here(host, record):
    """Raise VolumeElsewhere if another host has a volume of the instance by now."""
    for volume in (VolumeStore.beside(host.store).read(entry["uuid"]) for entry in volumes.of(record.spec)):
        if volume is not None:
            check_not_elsewhere(host, volume)


def check_not_elsewhere(host, volume):
    if is_elsewhere(host, volume):
        raise VolumeElsewhere(
            "volume %s belongs to another host, which shares this storage; the record of %s is out of date"
            % (volume.name, host.connection.getHostname()),
            hint=volume_hints.forget_or_have_volume(volume.name, volume.uuid, _owner_file(host, volume)),
        )


def is_elsewhere(host, volume):
    """Whether the volume was moved to another host, as its owner file says. That file counts more than any record."""
    return owner.is_another(host.pool_of(volume), volume.uuid, host.identify(), paths.volume)


def _check_bootable(volume, spec):
    """Check that the volume, old or new, was made from the instance's image."""
    image = volume.spec.get("source_image")
    if image != spec["image"]["name"]:
        made = "made from image %s" % clean(str(image), 100) if image else "not made from an image"
        raise VolumeNotBootable(
            "volume %s was %s, so %s does not boot from it with image %s"
            % (volume.name, made, spec["name"], spec["image"]["name"])
        )


def _check_file(host, volume):
    path = paths.volume_file(host.pool_of(volume), volume.uuid)
    if volume.phase not in UNUSED:
        layers.check_volume(volume.name, path, host.connection.getHostname())


def _owner_file(host, volume):
    return os.path.join(paths.volume(host.pool_of(volume), volume.uuid), owner.FILE)


def _in_use(volume, name, hint):
    return VolumeInUse(
        "volume %s is attached to %s" % (volume.name, name), hint=hint, volume=volume.name, instance=name
    )


def attach(store, spec, token):
    """Write which instance has the volumes of a request, and records of new ones. Needs the host's lock."""
    own = VolumeStore.beside(store)
    instance = {"uuid": spec["uuid"], "name": spec["name"]}
    for entry in volumes.of(spec):
        volume = own.read(entry["uuid"])
        if volume is None:
            own.compare_and_swap(None, claimed(spec, entry, instance, token))
        elif is_moving(volume):
            volume_move.take(own, volume)
        elif instance_of(volume) != instance:
            change(own, volume, "attach", instance)


def take_back(host, record):
    """Restore the records of volumes that were lost with their instance's own, if its guest has their files."""
    own = VolumeStore.beside(host.store)
    instance = {"uuid": record.uuid, "name": record.name}
    with host.store.host_lock():
        for entry in volumes.of(record.spec):
            lost = claimed(record.spec, entry, instance, record.token).replace(
                role=OWN, phase=ACTIVE, generation=[1, 0]
            )
            used = record.uuid in disk_users.of(host.connection, [paths.volume_file(host.pool_of(lost), lost.uuid)])
            if used and own.read(lost.uuid) is None:
                check_free(host, lost, record.uuid)
                own.restore(journal.noted(lost, "record taken back", instance=record.name))


def claimed(spec, entry, instance, token):
    """Return the first record of a volume; ``instance`` is {uuid, name} or None."""
    record = Record(
        uuid=entry["uuid"],
        name=entry["name"],
        project_id=spec["project_id"],
        role=CLAIM,
        generation=[0, 1],
        token=token,
        phase=CLAIMED,
        spec=first_spec(spec, instance, (volumes.source(spec, entry) or {}).get("name")),
        resources={"disk_gb": entry["size_gb"]},
        power_state="shutdown",
    )
    return journal.noted(record, "claim", instance=(instance or {}).get("name"))
