# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The claim of a volume that grows: its record gets the larger size, and keeps the size that it had until all hosts were
read again. Only then may its file grow.

    claim -> larger, from the size before -> confirm: larger, or give_back: as before

A claim that an interrupted run left counts with the larger size. The next run that has the volume adopts it.
"""

from __future__ import annotations

from ...model import hints, volumes
from ...model.lifecycle import CLAIMED
from ...model.volumes import VolumeConflict, volume_uuid
from ..record import journal, room, volume_claim
from ..record.volume_store import FROM, VolumeStore, confirmed_gb, grows, instance_of, size_gb
from . import new_volume


def claim(host, wanted, token, dry=False):
    """Claim the room in which the volume has ``wanted`` {name, size_gb, instance (uuid)}. Return whether that changes its
    record. The size that it had before takes back what an interrupted run claimed."""
    host.require_prepared()
    with host.store.host_lock():
        record = new_volume.at_rest(host, wanted)
        own, uuid = VolumeStore.beside(host.store), volume_uuid(record.project_id, wanted["name"])
        entry = {"name": wanted["name"], "size_gb": wanted["size_gb"], "slot": 0}
        volume_claim.check_claim(host, dict(record.spec, project_id=record.project_id, volumes=[entry]))
        volume, wanted_gb = own.read(uuid), wanted["size_gb"]
        had_gb, has_gb = confirmed_gb(volume), size_gb(volume)
        if volume.phase == CLAIMED:
            raise VolumeConflict("volume %s is being made by another run" % volume.name, hint=hints.run_again())
        if wanted_gb < had_gb:
            raise volumes.cannot_shrink(volume.name, had_gb, wanted_gb)
        if wanted_gb == has_gb and not grows(volume):
            return False
        if wanted_gb > has_gb:
            room.allocate(host, record, wanted_gb - has_gb)
        if not dry:
            _write(own, volume, "claim growth", wanted_gb, had_gb if wanted_gb > had_gb else None, token)
        return True


def confirm(host, uuid, token, dry=False):
    """Let the file grow to what was claimed with the token. Return whether that was not so yet."""
    with host.store.host_lock():
        own = VolumeStore.beside(host.store)
        volume = own.read(uuid)
        if volume is not None and not grows(volume):
            return False
        if volume is None or volume.token != token:
            raise VolumeConflict(
                "the growth of volume %s was adopted by another run" % (volume.name if volume else uuid),
                hint=hints.run_again(),
            )
        if not dry:
            _write(own, volume, "grow", size_gb(volume), None, token)
        return True


def give_back(host, uuid, token, dry=False):
    """Give back what was claimed with the token. Return whether there was such a claim. One that another run has adopted
    stays."""
    with host.store.host_lock():
        own = VolumeStore.beside(host.store)
        volume = own.read(uuid)
        is_own = volume is not None and grows(volume) and volume.token == token
        if is_own and not dry:
            _write(own, volume, "give growth back", confirmed_gb(volume), None, token)
        return is_own


def _write(own, volume, event, gb, from_gb, token):
    """Write the record with the size ``gb``; from ``from_gb`` it is still to grow, None if it has that size for good."""
    spec = {part: value for part, value in volume.spec.items() if part != FROM}
    spec.update({} if from_gb is None else {FROM: from_gb})
    noted = journal.noted(volume, event, instance=(instance_of(volume) or {}).get("name"), size_gb=gb)
    own.compare_and_swap(volume, noted.next(spec=spec, resources={"disk_gb": gb}, token=token))
