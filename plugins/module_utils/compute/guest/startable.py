# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a stopped guest may start from its existing disks (not if another host took them over on shared storage), and
whether a new guest may be made."""

from __future__ import annotations

from ...model import copy_hints, host_hints, state_hints, travelled_history
from ...model.lifecycle import CLAIM, SPAWNING
from .. import paths
from ..disk import disk, disk_chain, owner
from ..errors import BuildFailed, DisksUsed, GuestRunsAlready
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
    volume_claim.check_here(host, record)
    check_owner(host, record)
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
    """After a take over, own the disks before the first start or stop, or before a file is made beside them: the lost host
    starts nothing from them."""
    if not _taken_from(record):
        return
    pool_path = host.pool_of(record)
    if _is_taking_over(pool_path, record):
        check_unused(pool_path, record)
        owner.write(pool_path, record.uuid, host.identify())


def check_unused(pool_path, record):
    """Check QEMU's locks, which other hosts see if the file system can. A lock means that its host is not off."""
    for planned in disk.plan(record.spec):
        path = paths.instance(pool_path, record.uuid, planned.file)
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
