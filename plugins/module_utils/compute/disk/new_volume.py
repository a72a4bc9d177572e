# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new volume for an existing instance: claimed first, made once all hosts were read, free until it is attached.

    claim -> CLAIM claimed -> make: OWN building, its file -> active, without an instance

An interrupted run leaves a free, unused volume. The next run continues with it, or delete_volume removes it.
"""

from __future__ import annotations

from ...model import data_disks, hints, volume_hints, volumes
from ...model.errors import InvalidInput
from ...model.lifecycle import ACTIVE, CLAIMED, OWN
from ...model.volumes import VolumeConflict, VolumeElsewhere, volume_uuid
from ..record import journal, ledger, volume_claim
from ..record.volume_store import FROM, UNUSED, VolumeStore, change, confirmed_gb, grows, instance_of, size_gb
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
            ledger.allocate(host, record, wanted["size_gb"])
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
        raise VolumeConflict("another run has made or is removing volume %s" % volume.name, hint=hints.run_again())
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


# The claim of a volume that grows: its record gets the larger size, and keeps the size that it had until all hosts were
# read again. Only then may its file grow.
#
#     claim -> larger, from the size before -> confirm: larger, or give_back: as before
#
# A claim that an interrupted run left counts with the larger size. The next run that has the volume adopts it.


def claim_growth(host, wanted, token, dry=False):
    """Claim the room in which the volume has ``wanted`` {name, size_gb, instance (uuid)}. Return whether that changes its
    record. The size that it had before takes back what an interrupted run claimed."""
    host.require_prepared()
    with host.store.host_lock():
        record = at_rest(host, wanted)
        own, uuid = VolumeStore.beside(host.store), volume_uuid(record.project_id, wanted["name"])
        entry = {"name": wanted["name"], "size_gb": wanted["size_gb"], "slot": 0}
        volume_claim.check_claim(host, dict(record.spec, project_id=record.project_id, volumes=[entry]))
        volume, wanted_gb = own.read(uuid), wanted["size_gb"]
        had_gb, has_gb = confirmed_gb(volume), size_gb(volume)
        if volume.phase == CLAIMED:
            raise VolumeConflict("volume %s is being made by another run" % volume.name, hint=hints.run_again())
        volumes.check_size(volume.name, had_gb, wanted_gb)
        if wanted_gb == has_gb and not grows(volume):
            return False
        if wanted_gb > has_gb:
            ledger.allocate(host, record, wanted_gb - has_gb)
        if not dry:
            _write(own, volume, "claim growth", wanted_gb, had_gb if wanted_gb > had_gb else None, token)
        return True


def confirm_growth(host, uuid, token, dry=False):
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


def give_growth_back(host, uuid, token, dry=False):
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
