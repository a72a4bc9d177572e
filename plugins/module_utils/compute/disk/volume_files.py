# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of volumes, volumes/<uuid>/disk.qcow2 in the pool, beside the directories of instances: how to make
them."""

from __future__ import annotations

import os

from ...model import hints, volume_hints, volumes
from ...model.lifecycle import BUILDING, CLAIMED, OWN
from ...model.volumes import VolumeConflict, VolumeNotAttached, VolumeNotFound
from .. import paths
from ..errors import FlavorTooSmall
from ..record.volume_store import VolumeStore, change, instance_of, is_of, size_gb
from . import disk
from . import image as images

FORM = "qcow2"


def planned(pool_path, spec):
    """Return {path: Disk} of the volumes of a request."""
    return {
        paths.volume_file(pool_path, entry["uuid"]): disk.Disk(
            "volume-" + entry["name"],
            paths.VOLUME_FILE,
            FORM,
            entry["size_gb"] * disk.GIB,
            disk.VOLUME,
            "virtio",
            entry["name"],
        )
        for entry in volumes.check(spec)
    }


def make(host, record):
    """Make the files of the instance's new volumes. The other volumes have theirs."""
    store, files = VolumeStore.beside(host.store), planned(host.pool_of(record), record.spec)
    for entry, (file, plan) in zip(volumes.of(record.spec), files.items()):
        volume = store.read(entry["uuid"])
        if not is_of(volume, record.uuid):
            raise VolumeNotAttached(
                "volume %s is not that of %s" % (entry["name"], record.name), hint=hints.create_again()
            )
        _make(host, store, volume, file, plan, volumes.source(record.spec, entry))


def make_alone(host, store, volume, image):
    """Make the file of a new volume that no instance has yet, from the image if there is one."""
    entry = {"name": volume.name, "size_gb": size_gb(volume), "slot": 0}
    ((file, plan),) = planned(host.pool_of(volume), {"project_id": volume.project_id, "volumes": [entry]}).items()
    _make(host, store, volume, file, plan, image)


def _make(host, store, volume, file, plan, image):
    """Make the file of a new volume, after its record says so. Without an image it is empty."""
    check_no_file(host, volume)
    if volume.phase == CLAIMED:
        volume = change(store, volume, "build", instance_of(volume), role=OWN, phase=BUILDING)
    if os.path.lexists(file):
        return
    if volume.phase != BUILDING:
        raise not_there(volume.name, file)
    base = image and _base(host, volume, image)
    paths.make_directory(os.path.dirname(os.path.dirname(file)))
    paths.make_directory(os.path.dirname(file))
    paths.remove(file + ".tmp")
    disk.make(plan, file + ".tmp", base)
    os.chmod(file + ".tmp", 0o600)
    paths.publish(file + ".tmp", file)


def _base(host, volume, image):
    try:
        return images.ensure(host.pool_of(volume), image, size_gb(volume), host.settings)
    except FlavorTooSmall as error:
        raise FlavorTooSmall(
            "image %s does not fit on volume %s: %s" % (image["name"], volume.name, error.message),
            field="berth_volumes_defined.%s.size_gb" % volume.name,
            value=size_gb(volume),
            rule="at least the virtual size of image %s" % image["name"],
        )


def not_there(name, file, hint=None):
    return VolumeNotFound("the file of volume %s is not there: %s" % (name, file), hint=hint)


def check_no_file(host, volume):
    """Raise VolumeConflict if a volume that is claimed and not begun yet already has a file."""
    if volume.phase == CLAIMED and os.path.lexists(paths.volume_file(host.pool_of(volume), volume.uuid)):
        raise VolumeConflict(
            "A file for volume %s exists, but its record does not list it" % volume.name,
            hint=volume_hints.restore_volume_record(volume.uuid),
        )


def without_file(host, record):
    """Return [(name, path)] of an instance's volumes whose files are missing."""
    files = planned(host.pool_of(record), record.spec)
    return [(planned.serial, path) for path, planned in files.items() if not os.path.lexists(path)]
