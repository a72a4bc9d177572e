# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of an instance's volumes while it moves: on both hosts they say who owns the volumes, as the instance's
own record does; and which of them stay when one host's part of the move is removed.

The source reports its volumes with their generations (``told``), the destination expects them, the source lets go of
them right before its instance, and the destination owns them right before its instance. So two hosts never own one.
``store`` is the host's VolumeStore, ``record`` the record of the instance.
"""

from __future__ import annotations

import os

from ...model import hints, volume_hints, volumes
from ...model.lifecycle import CLAIM, IN, OWN
from ...model.move_errors import MigrationNotReady
from ...model.record import Record
from ...model.volumes import EXPECTED, LET_GO, OWNED, VolumeConflict
from . import journal
from .volume_store import change, first_spec, instance_of, is_moving, is_of


def reported(store, record):
    """Return [{uuid, generation, image}] of the instance's volumes, for the other host; ``image`` if made from one."""
    return [
        {
            "uuid": volume.uuid,
            "generation": list(volume.generation),
            **({"image": volume.spec["source_image"]} if volume.spec.get("source_image") else {}),
        }
        for volume in _of(store, record)
    ]


def expect(store, record, reported):
    """On the destination, write a record that waits for each volume. ``reported`` is what the source reported."""
    generations = {entry["uuid"]: list(entry["generation"]) for entry in reported}
    images = {entry["uuid"]: entry.get("image") for entry in reported}
    instance = {"uuid": record.uuid, "name": record.name}
    for entry in volumes.of(record.spec):
        there, generation = store.read(entry["uuid"]), generations.get(entry["uuid"])
        if generation is None:
            raise MigrationNotReady(
                "the source did not report volume %s of %s" % (entry["name"], record.name), hint=hints.run_again()
            )
        if there is None:
            store.compare_and_swap(None, _expected(record, entry, instance, generation, images[entry["uuid"]]))
        elif not is_of(there, record.uuid) or there.role != IN:
            raise _known_already(there)
        elif list(there.generation) < generation:
            change(store, there, "expect", instance, generation=generation)


def _known_already(there):
    """The source has the volume, so a record here is old; a claim belongs to a run that has to give way."""
    old = volume_hints.forget_old_volume(there.name, there.uuid)
    return VolumeConflict(
        "%s already has a record of volume %s" % (os.uname().nodename, there.name),
        hint=hints.run_again() if there.role == CLAIM else old,
    )


def _expected(record, entry, instance, generation, image):
    role, phase = EXPECTED
    volume = Record(
        uuid=entry["uuid"],
        name=entry["name"],
        project_id=record.project_id,
        role=role,
        generation=generation,
        token=record.token,
        phase=phase,
        spec=first_spec(record.spec, instance, image),
        resources={"disk_gb": entry["size_gb"]},
        power_state="shutdown",
    )
    return journal.noted(volume, "expect", instance=record.name)


def let_go(store, record):
    """Let go of the volumes, before the record of the instance says that this host lets go of it."""
    for volume in _of(store, record):
        _without_owner(store, volume)


def _without_owner(store, volume):
    """Return the volume's record after this host gave up its ownership."""
    if volume.role != OWN:
        return volume
    (role, phase), generation = LET_GO, [volume.generation[0] + 1, 0]
    return change(store, volume, "let go", instance_of(volume), role=role, phase=phase, generation=generation)


def moving(store, record):
    """The volumes of the instance that are on their way to or from this host."""
    return [volume for volume in _of(store, record) if is_moving(volume)]


def take(store, volume):
    """Own a volume, before the record of the instance says that this host owns the instance, or again if this host does
    not let go after all. The epoch grows by one over that with which the other side let go, or would have."""
    role, phase = OWNED
    generation = [volume.generation[0] + 1, 1]
    return change(store, volume, "own", instance_of(volume), role=role, phase=phase, generation=generation)


def leaving(store, record):
    """The volumes that are removed from this host with the instance: those on their way. One that the host owns stays,
    since an old record does not tell whose data is newer, unless it is a lost host's, which owns the instance too."""
    return [volume for volume in _of(store, record) if is_moving(volume) or record.role == OWN]


def forget(store, record):
    """Remove the records of the volumes of an instance that is gone from this host. Their files are not touched."""
    for volume in leaving(store, record):
        forget_one(store, volume)


def forget_one(store, volume):
    store.compare_and_swap(_without_owner(store, volume), None)


def _of(store, record):
    """The records of the volumes that say that they belong to the instance."""
    found = (store.read(entry["uuid"]) for entry in volumes.of(record.spec))
    return [volume for volume in found if is_of(volume, record.uuid)]
