# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attaches, detaches and grows the volumes of an existing instance, while its guest runs or is off.

To detach a volume, the guest releases it first, then its record says that it is free, then the instance's record
forgets it. To attach one, the instance's record names it first, then its own record names the instance, then the guest
gets it. One that grows has the larger size in its own record already, see new_volume.py. So the next run finishes an
interrupted one.
"""

from __future__ import annotations

from ...model import hints, volume_hints, volumes
from ...model.volumes import VolumeConflict
from .. import paths
from ..disk import volume, volume_files
from ..errors import DiskNotDetached
from ..record import journal, volume_claim, volume_store
from . import domain, domain_xml, hardware, qemu_nodes

TIMEOUT = 20  # s in which a guest releases a disk


def check_boot(record, wanted):
    """Raise InvalidInput if the guest would boot from something else than before."""
    if wanted is not None:
        volumes.check_boot_stays(record.name, record.spec, wanted)


def would_change(instance, record, wanted):
    """Whether a volume would be attached, detached or grown."""
    return _planned(instance, record, wanted) is not None


def _planned(instance, record, wanted):
    """Return the record's volumes as ``wanted`` has them, or None if they are so and all are the instance's."""
    has = record.spec.get("volumes") or []
    planned = has if wanted is None else volumes.merged(volumes.of(record.spec), wanted)
    return None if planned == has and volume_store.are_attached(instance.store, record.spec) else planned


def detach(instance, record, wanted):
    """Detach the volumes that are not ``wanted``. Return (record, whether anything changed)."""
    names = None if wanted is None else {entry["name"] for entry in wanted}
    gone = [entry for entry in volumes.of(record.spec) if names is not None and entry["name"] not in names]
    if not gone:
        return record, False
    instance.host.require_prepared()
    left = [entry for entry in record.spec["volumes"] if entry["name"] in names]
    spec = hardware.without_disks(record.spec, map(domain_xml.target_of, gone))
    new = record.replace(spec=dict(spec, volumes=left))
    _take_from_guest(instance, new, gone)
    instance.observe("volumes release")
    for entry in gone:
        volume.detach(instance.host, record, entry)
    instance.observe("volumes record")
    event = journal.noted(new, "detach_volumes", volumes=sorted(entry["name"] for entry in gone))
    return instance.store.compare_and_swap(record, event.next()), True


def _take_from_guest(instance, new, gone):
    """Remove the volumes ``gone`` from the guest and its definition. ``new`` is the record without them."""
    connection, host = instance.host.connection, instance.host.for_guests(new.spec.get("pool"))
    guest = domain.find(connection, new.uuid)
    if guest is None:
        return
    instance.observe("volumes detach")
    if not guest.isActive():
        domain.define(connection, new.uuid, domain_xml.render(new, host))
        return
    for entry in gone:
        path = paths.volume_file(host.pool_path, entry["uuid"])
        known = domain.has_disk(guest, path)
        if not domain.detach_disk(guest, path, TIMEOUT):
            raise DiskNotDetached(
                "the guest of %s does not release volume %s" % (new.name, entry["name"]),
                hint=volume_hints.unmount(new.name, entry["name"]),
                volume=entry["name"],
            )
        if not known and qemu_nodes.close(guest, path)[1]:
            raise DiskNotDetached(
                "QEMU of %s still has volume %s open, but libvirt, which died while it attached the volume, does not "
                "know that" % (new.name, entry["name"]),
                hint=hints.stop_and_update_disks(new.name),
                volume=entry["name"],
            )


def claim(instance, record, changed, wanted):
    """Claim the volumes that are ``wanted``, each also in its own record. Return (record, whether anything changed)."""
    planned = _planned(instance, record, wanted)
    if planned is None:
        return record, changed
    instance.host.require_prepared()
    new = record.replace(spec=dict(record.spec, volumes=planned))
    with instance.store.host_lock():
        volume_claim.check_claim(instance.host, new.spec)
        _check_files(instance, new)
        _check_sizes(instance, new, named=wanted is not None)
        if planned != (record.spec.get("volumes") or []):
            instance.observe("volumes record")
            event = journal.noted(new, "update_volumes", volumes=volumes.shown(new.spec))
            new = instance.store.compare_and_swap(record, event.next())
        instance.observe("volumes attach")
        volume_claim.attach(instance.store, new.spec, new.token)
    return new, True


def _check_files(instance, record):
    """Raise VolumeNotFound if a volume has no file: none is made in its place."""
    lacking = volume_files.without_file(instance.host, record)
    if lacking:
        raise volume_files.not_there(*lacking[0])


def _check_sizes(instance, record, named):
    """Raise unless each volume has its size by its own record: the room of one that grows was claimed before, if the
    inventory has ``named`` the volumes."""
    own = volume_store.VolumeStore.beside(instance.store)
    for entry in volumes.of(record.spec):
        has_gb = volume_store.confirmed_gb(own.read(entry["uuid"]))
        if entry["size_gb"] < has_gb:
            raise volumes.cannot_shrink(entry["name"], has_gb, entry["size_gb"])
        if entry["size_gb"] > has_gb:
            raise VolumeConflict(
                "volume %s has %d GiB, and a growth to %d GiB was not claimed"
                % (entry["name"], has_gb, entry["size_gb"]),
                hint=hints.run_again()
                if named
                else volume_hints.claim_growth(record.name, entry["name"], entry["size_gb"]),
            )
