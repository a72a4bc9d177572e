# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of volumes, volumes/<uuid>/disk.qcow2 in the pool, beside the directories of instances: where they are, and their
making."""

from __future__ import annotations

import os

from ...model import hints, volume_hints, volumes
from ...model.lifecycle import BUILDING, CLAIMED, OWN
from ...model.volume_errors import VolumeConflict, VolumeNotAttached, VolumeNotFound
from .. import paths
from ..record.volume_store import VolumeStore, change, instance_of, is_of
from . import disk

FILE = paths.VOLUME_FILE
FORM = "qcow2"


def path(pool_path, uuid):
    return paths.volume(pool_path, uuid, FILE)


def planned(pool_path, spec):
    """{path: Disk} of the volumes of a request."""
    return {
        path(pool_path, entry["uuid"]): disk.Disk(
            "volume-" + entry["name"], FILE, FORM, entry["size_gb"] * disk.GIB, disk.VOLUME, "virtio", entry["name"]
        )
        for entry in volumes.check(spec)
    }


def make(host, record):
    """The files of the instance's volumes that are new; those of the others are there."""
    pool_path = host.pool_path(record.spec.get("pool"))
    for entry in volumes.of(record.spec):
        file = path(pool_path, entry["uuid"])
        _begin(VolumeStore.beside(host.store), record, entry, os.path.lexists(file))
        volume = VolumeStore.beside(host.store).read(entry["uuid"])
        if os.path.lexists(file):
            continue
        if volume.phase != BUILDING:
            raise VolumeNotFound("the file of volume %s is not there: %s" % (entry["name"], file))
        paths.make_directory(os.path.dirname(os.path.dirname(file)))
        paths.make_directory(os.path.dirname(file))
        paths.remove(file + ".tmp")
        disk.make(planned(pool_path, record.spec)[file], file + ".tmp", None)
        os.chmod(file + ".tmp", 0o600)
        paths.publish(file + ".tmp", file)


def _begin(store, record, entry, is_there):
    """The record of a new volume says that its file is being made, before it is."""
    volume = store.read(entry["uuid"])
    if volume is None or not is_of(volume, record.uuid):
        raise VolumeNotAttached("volume %s is not that of %s" % (entry["name"], record.name), hint=hints.create_again())
    if volume.phase == CLAIMED:
        if is_there:
            raise VolumeConflict(
                "volume %s has a file already, which its record does not know" % entry["name"],
                hint=volume_hints.restore_volume_record(entry["uuid"]),
            )
        change(store, volume, "build", instance_of(volume), role=OWN, phase=BUILDING)


def without_file(host, record):
    """[(name, path)] of the volumes of an instance whose files are not there."""
    files = planned(host.pool_path(record.spec.get("pool")), record.spec)
    return [(planned.serial, path) for path, planned in files.items() if not os.path.lexists(path)]
