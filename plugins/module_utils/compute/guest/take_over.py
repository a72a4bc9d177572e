# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes over an instance from a host that is switched off for good: it gets a new owner, with its disks on storage that
both hosts see.

    CLAIM -> all checks -> OWN, phase active, not started yet -> the file ``owner`` beside the disks -> start, or left off

The volumes that the instance had on the lost host come with it. Nothing is copied, made or removed. If the run ends after the
record was written, the next start or create finishes it.
If the lost host comes back, it owns the instance too, but starts nothing from disks that another host owns.
"""

from __future__ import annotations

import os

from ...model import copy_hints, hints, vm_states, volumes
from ...model.lifecycle import ACTIVE, CLAIM, OWN
from ...model.safe_text import clean
from ...model.volumes import VolumeElsewhere
from .. import paths
from ..disk import attached, disk, disk_chain, layers, owner, virtual_size, volume, volume_files
from ..errors import ClaimRevoked, DisksNotHere, DisksUnfit, typed
from ..record import journal
from . import domain_xml, startable, summary


def take_over(instance, token, source, left_off=False, evidence=""):
    """Own the instance claimed here by ``token``, with the disks of the host with uuid ``source``, and start it unless it
    is to be ``left_off``. ``evidence``: who says that that host is off."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = _claimed(instance, token)
        try:
            instance.host.require_prepared()
            _check(instance.host, record, source)
        except Exception as error:
            volume.drop_claim(instance.host, record)
            raise typed(error)
        instance.observe("take over")
        instance.store.compare_and_swap(record, _owned(record, source, left_off, evidence))
        instance.observe("take volumes")
        volume.mark_used(instance.store, record)
        try:
            return _leave_off(instance) if left_off else instance.started()
        except Exception as error:
            failure = typed(error)
            failure.retryable = False  # this host owns it now
            raise failure


def _leave_off(instance):
    """Define the guest and own its disks, as a stop does, so that the lost host starts nothing from them."""
    record = instance.store.read(instance.uuid)
    host = instance.host.for_guests(record.spec.get("pool"))
    instance.swap(domain_xml.define_guest(instance.host.connection, record, host))
    return instance.stopped(0)


def would_take_over(instance, token, source):
    _check(instance.host, _claimed(instance, token), source)
    return True


def _claimed(instance, token):
    record = instance.store.read(instance.uuid)
    if record is None or record.role != CLAIM or record.token != token:
        raise ClaimRevoked("this host has no claim of this run for instance %s" % instance.uuid)
    return record


def _owned(record, source, left_off=False, evidence=""):
    owned = record.replace(
        role=OWN,
        generation=[record.generation[0] + 1, 0],
        spec=volumes.used(record.spec),
        phase=ACTIVE,
        task_state=summary.SPAWNING,
        **vm_states.said(vm_states.STOPPED if left_off else vm_states.ACTIVE),
    )
    return journal.noted(
        owned, startable.TAKE_OVER, source=source, **({"evidence": clean(evidence, 200)} if evidence else {})
    )


def _check(host, record, source):
    pool_path = host.pool_of(record)
    directory = paths.instance(pool_path, record.uuid)
    if not disk.is_there(pool_path, record.uuid):
        raise DisksNotHere(
            "%s is not there: this host does not see the storage of %s" % (directory, record.name),
            hint=copy_hints.mount_or_give_up(record.name, source),
        )
    if owner.read(pool_path, record.uuid) != source:
        owner.refuse(pool_path, record.uuid, record.name)
    moving = sorted(name for name in os.listdir(directory) if paths.is_kept_or_incoming(name))
    if moving:
        raise DisksUnfit(
            "%s was in a move, of which %s is left in %s" % (record.name, moving[0], directory),
            hint=copy_hints.bring_back_for_move(),
        )
    _check_volumes(host, record, source, pool_path)
    disk_chain.check(host, _owned(record, source))
    for planned in disk.plan(record.spec):
        _check_disk(record, planned, paths.instance(pool_path, record.uuid, planned.file))
    startable.check_unused(pool_path, record)


def _check_volumes(host, record, source, pool_path):
    """Check that the instance has these volumes, as is kept beside its disks, and that the lost host was the last to have them."""
    wanted = attached.of(record.spec)["volumes"]
    kept = attached.read(pool_path, record.uuid)
    if (kept["volumes"] if kept else []) != wanted:
        told = " and ".join(each["name"] for each in wanted) or "no volumes"
        raise DisksUnfit(
            "%s was to be taken over with %s, and %s says otherwise"
            % (record.name, told, paths.instance(pool_path, record.uuid, attached.FILE)),
            hint=hints.run_again(),
        )
    for path, planned in volume_files.planned(pool_path, record.spec).items():
        layers.check_volume(planned.serial, path, host.connection.getHostname())
        size = virtual_size.read(path, planned.format)[0] if os.path.lexists(path) else 0
        if size > planned.size:
            raise DisksUnfit(
                "volume %s of %s has %d bytes, and %d by what is kept beside the disks"
                % (planned.serial, record.name, size, planned.size)
            )
    for entry in volumes.of(record.spec):
        if owner.read(pool_path, entry["uuid"], paths.volume) not in (None, source, host.identify()):
            raise VolumeElsewhere("volume %s of %s belongs to a third host by now" % (entry["name"], record.name))


def _check_disk(record, planned, path):
    """Check that the disk has the size that the request gives it, and that its backing files exist."""
    try:
        size = virtual_size.read(path, planned.format)[0]
    except (OSError, ValueError) as error:
        raise DisksUnfit("%s cannot be read as a disk: %s" % (path, error))
    if planned.size is not None and size != planned.size:
        raise DisksUnfit(
            "%s has %d bytes, and the inventory gives %s %d" % (path, size, record.name, planned.size),
            hint=copy_hints.describe_what_it_has(record.name),
        )
    for below in layers.chain(path, planned.format):
        if not os.path.exists(below):
            raise DisksNotHere("%s stands on %s, which is not there" % (path, below))
