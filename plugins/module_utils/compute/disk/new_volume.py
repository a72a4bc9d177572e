# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new volume for an existing instance: claimed first, made once all hosts were read, free until it is attached.

    claim -> CLAIM claimed -> make: OWN building, its file -> active, without an instance

An interrupted run leaves a free, unused volume. The next run continues with it, or delete_volume removes it.
"""

from __future__ import annotations

from ...model import data_disks, hints, volume_hints
from ...model.errors import InvalidInput
from ...model.lifecycle import ACTIVE, CLAIMED, OWN
from ...model.volumes import VolumeConflict, VolumeElsewhere, volume_uuid
from ..record import journal, room, volume_claim
from ..record.volume_store import UNUSED, VolumeStore, change, instance_of
from . import disk_chain, volume_files


def claim(host, wanted, token, dry=False):
    """Claim room for the volume ``wanted`` {name, size_gb, pool, image, instance (uuid)}, in the instance's pool."""
    host.require_prepared()
    with host.store.host_lock():
        record = at_rest(host, wanted)
        spec = dict(record.spec, project_id=record.project_id)
        _check(host, record, wanted)
        own, entry = VolumeStore.beside(host.store), dict(wanted, uuid=volume_uuid(record.project_id, wanted["name"]))
        there, new = own.read(entry["uuid"]), volume_claim.claimed(spec, entry, None, token)
        volume_files.check_no_file(host, there or new)
        if there is not None:
            _check_left(host, there, new)
            new = journal.noted(there, "claim", adopted=True).next(token=token)
        else:
            room.allocate(host, record, wanted["size_gb"])
        if not dry:
            own.compare_and_swap(there, new)


def at_rest(host, wanted):
    """Return the record of the instance. It must not be in a move, and its disks must exist, so its pool is mounted."""
    record = host.store.read(wanted["instance"])
    if record is None or (record.role, record.phase) != (OWN, ACTIVE) or record.op:
        raise VolumeConflict(
            "the instance that is to have volume %s was changed by another run" % wanted["name"], hint=hints.run_again()
        )
    disk_chain.check_unsaved(host, record)
    disk_chain.check(host, record)
    return record


def _check(host, record, wanted):
    name, pool = data_disks.check_name_and_size("volumes", 0, wanted), record.spec.get("pool")
    if name in data_disks.shown(record.spec):
        raise InvalidInput("berth_volumes.%s" % name, name, "another name than that of a data disk")
    if wanted.get("pool") not in (None, pool or host.settings.pool):
        raise VolumeElsewhere("volume %s is in pool %s, %s in pool %s" % (name, wanted["pool"], record.name, pool))


def _check_left(host, volume, new):
    """Check that a volume from another run can be continued: no instance has it, and it is the same."""
    volume_claim.check_free(host, volume)
    if volume.phase not in UNUSED or instance_of(volume):
        raise VolumeConflict("volume %s was made or is removed by another run" % volume.name, hint=hints.run_again())
    if (volume.resources, volume.spec) != (new.resources, new.spec):
        raise VolumeConflict(
            "volume %s was begun by a run that was interrupted, with another size, pool or image than berth_volumes_defined says"
            % volume.name,
            hint=volume_hints.delete_begun_volume(volume.name, volume.project_id),
        )


def make(host, uuid, token, image=None, dry=False):
    """Make the file of the volume that was claimed with the token. Its record says so first. Return whether it was not made yet."""
    own = VolumeStore.beside(host.store)
    with own.instance_lock(uuid):
        volume = _claimed_by(own, uuid, token)
        if volume.phase not in UNUSED:
            return False
        if not dry:
            volume_files.make_alone(host, own, volume, image)
            change(own, own.read(uuid), "made", None, role=OWN, phase=ACTIVE)
        return True


def withdraw(host, uuid, token, dry=False):
    """Withdraw the claim with the token. Return whether there was one. A claim that another run continues stays."""
    own = VolumeStore.beside(host.store)
    with host.store.host_lock():
        volume = own.read(uuid)
        is_own = volume is not None and (volume.token, volume.phase) == (token, CLAIMED) and not instance_of(volume)
        if is_own and not dry:
            own.compare_and_swap(volume, None)
        return is_own


def _claimed_by(own, uuid, token):
    volume = own.read(uuid)
    if volume is None or volume.token != token or instance_of(volume):
        raise VolumeConflict("the claim of volume %s was adopted by another run" % uuid, hint=hints.run_again())
    return volume
