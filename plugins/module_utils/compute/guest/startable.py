# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a stopped guest may start from its existing disks (not if another host took them over on shared storage), and
whether a new guest may be made.
"""

from __future__ import annotations

import os
from xml.etree import ElementTree

from ...model import (
    copy_hints,
    disk_hints,
    host_hints,
    snapshot_hints,
    snapshots,
    state_hints,
    travelled_history,
    volumes,
)
from ...model.errors import BerthError
from ...model.lifecycle import CLAIM, SPAWNING
from .. import paths
from ..disk import disk, disk_chain, owner, volume_files
from ..errors import BuildFailed, DiskChainChanged, DisksUsed, GuestRunsAlready, SnapshotIncomplete
from ..host import firmware, mdev
from ..record import volume_claim, volume_store
from ..run import run
from . import disk_users, domain, network

TAKE_OVER = "take over"


def check(host, record):
    """Raise unless the guest would start from its own disks, which no other host owns, with all of its networks.

    On shared storage, another host may have taken them over while this one was away: then the record here is outdated.
    """
    volume_store.check_attached(host.store, record)
    check_owner(host, record)
    if not _is_taking_over(host.pool_of(record), record):
        volume_claim.check_here(host, record)
    check_reverted(record)
    disk_chain.check_start(host, record)
    disk_users.check_start(host, record)
    disk_chain.check_not_in_file(host, record)
    disk.check_writable(host.pool_of(record), record, host.connection.getHostname())
    mdev.check(host, record.name, record.resources)
    firmware.check_here(host, record)
    network.check_start(
        host.connection, record, host_hints.bring_network_back(host.connection.getHostname(), record.name)
    )


def check_owner(host, record):
    """Raise DisksOfAnotherHost if the disks are another host's, unless this one is taking them over."""
    pool_path = host.pool_of(record)
    if not _is_taking_over(pool_path, record):
        owner.check(pool_path, record.uuid, record.name, host.identify())


def check_reverted(record):
    """Raise SnapshotIncomplete while some disks are those of a snapshot, and others may not be."""
    name = snapshots.reverting(record.spec)
    if name:
        raise SnapshotIncomplete(
            "the disks of %s were being reverted to snapshot %s, which has not ended" % (record.name, name),
            hint=snapshot_hints.finish_revert(record.name, name),
        )


def check_unmade(host, record):
    """Refuse to make a guest that already runs (its record is from a backup), or, from a claim, one with disks."""
    if domain.is_active(host.connection, record.uuid):
        raise GuestRunsAlready(
            "%s (%s) runs here, but its record says that it was never built: the record is an old copy"
            % (record.name, record.uuid),
            hint=state_hints.restore_damaged_record(record.uuid),
        )
    if record.role == CLAIM:
        disk.check_none(host.pool_of(record), record.uuid, record.name, host.identify())


def own_disks(host, record):
    """After a take over, own the disks and volumes before the first start or stop, or before a file is made beside them: the lost
    host starts nothing from them."""
    if not _taken_from(record):
        return
    pool_path = host.pool_of(record)
    if _is_taking_over(pool_path, record):
        check_unused(pool_path, record)
        for entry in volumes.of(record.spec):
            owner.write(pool_path, entry["uuid"], host.identify(), paths.volume)
        owner.write(pool_path, record.uuid, host.identify())


def check_unused(pool_path, record):
    """Check QEMU's locks, which other hosts see if the file system can. A lock means that its host is not off."""
    files = {paths.instance(pool_path, record.uuid, each.file): each for each in disk.plan(record.spec)}
    for path, planned in {**files, **volume_files.planned(pool_path, record.spec)}.items():
        try:
            run(["qemu-img", "info", "-f", planned.format, "--", path], timeout=60)
        except BuildFailed as error:
            raise DisksUsed("%s: %s" % (path, error), hint=copy_hints.switch_user_of_disk_off(path))


def _is_taking_over(pool_path, record):
    """Whether the disks still belong to the lost host from which this one takes the instance over, see take_over.py."""
    begun = _taken_from(record)
    return bool(begun) and owner.read(pool_path, record.uuid) == begun[-1]


def _taken_from(record):
    """Return the former owners of an instance that has never been started here."""
    if record.task_state != SPAWNING:
        return []
    return [event["source"] for event in travelled_history.own(record.history) if event["event"] == TAKE_OVER]


# Disks and CDs that somebody added to the guest. It starts with them, but not if the file of one is gone.
DROPPED_IF_GONE = ("optional", "requisite")  # startupPolicy: the guest starts without that medium


def attached_hint(host, record):
    """Return what to do about them where libvirt did not start the guest; None if there are none."""
    try:
        found = _found(host, record)
    except BerthError:
        return None
    return disk_hints.detach_attached(host.connection.getHostname(), _files(found), _commands(found)) if found else None


def check_attached(host, record):
    """Raise DiskChainChanged if a running guest could not start again, since the file of such a disk is gone."""
    guest = domain.find(host.connection, record.uuid)
    text = domain.definitions(guest)[1] if guest is not None else None
    needed = _needed(text) if text else set()
    gone = [each for each in _found(host, record) if needed.intersection(each.files) and _is_gone(each.files[0])]
    if gone:
        name, files = host.connection.getHostname(), _files(gone)
        raise DiskChainChanged(
            "%s (%s) could not start again on %s: somebody added %s to it, and that is gone"
            % (record.name, record.uuid, name, " and ".join(files)),
            hint=disk_hints.detach_gone(name, files, _commands(gone)),
            instance=record.name,
            host=name,
            files=files,
        )


def _found(host, record):
    return [each for each in disk_chain.found_on(host, record) if each.kind == disk_chain.EXTRA and each.command]


def _files(found):
    return sorted({path for each in found for path in each.files})


def _commands(found):
    return [each.command for each in found]


def _needed(text):
    """Return the files without which the guest does not start."""
    sources = ElementTree.fromstring(text).iterfind("devices/disk/source")
    return {
        source.get("file") or source.get("dev")
        for source in sources
        if source.get("startupPolicy") not in DROPPED_IF_GONE
    }


def _is_gone(path):
    """Whether it certainly is: root may not look into each file system of a network."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False
