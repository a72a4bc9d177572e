# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adds and grows the data disks, and attaches, detaches and grows the volumes, of an existing instance that runs or is off."""

from __future__ import annotations

import json
import os
from xml.etree import ElementTree

from ...model import data_disks, hints, snapshots, volume_hints, volumes
from ...model.guest_settings import GuestSettings
from ...model.move_errors import CannotResizeDisk
from ...model.volumes import VolumeConflict
from .. import paths
from ..connection import require_libvirt
from ..disk import attached, disk_chain, virtual_size, volume, volume_files
from ..disk import disk as disks
from ..errors import BuildFailed, DiskNotAttached, DiskNotDetached, GuestNotSupported
from ..record import journal, ledger, volume_claim, volume_store
from ..run import run
from . import domain, domain_xml, hardware, qemu_nodes, startable

# Attaches, detaches and grows the volumes of an existing instance, while its guest runs or is off.
#
# To detach a volume, the guest releases it first, then its record says that it is free, then the instance's record
# forgets it. To attach one, the instance's record names it first, then its own record names the instance, then the
# guest gets it. One that grows has the larger size in its own record already, see new_volume.py. So the next run
# finishes an interrupted one.
TIMEOUT = 20  # s in which a guest releases a disk


def check_boot(record, wanted):
    """Raise InvalidInput if the guest would boot from something else than before."""
    if wanted is not None:
        volumes.check_boot_stays(record.name, record.spec, wanted)


def would_change_volumes(instance, record, wanted):
    """Whether a volume would be attached, detached or grown."""
    return _planned_volumes(instance, record, wanted) is not None


def _planned_volumes(instance, record, wanted):
    """Return the record's volumes as ``wanted`` has them, or None if they are so and all are the instance's."""
    has = record.spec.get("volumes") or []
    planned = has if wanted is None else volumes.merged(volumes.of(record.spec), wanted)
    return None if planned == has and volume_store.are_attached(instance.store, record.spec) else planned


def detach_volumes(instance, record, wanted):
    """Detach the volumes that are not ``wanted``. Return (record, whether anything changed)."""
    names = None if wanted is None else {entry["name"] for entry in wanted}
    gone = [entry for entry in volumes.of(record.spec) if names is not None and entry["name"] not in names]
    if not gone:
        return record, False
    instance.host.require_prepared()
    left = [entry for entry in record.spec["volumes"] if entry["name"] in names]
    spec = hardware.without(record.spec, ["disk/" + domain_xml.target_of(entry) for entry in gone])
    new = record.replace(spec=dict(spec, volumes=left))
    pool = instance.host.pool_of(record)
    files = {paths.volume_file(pool, entry["uuid"]): "volume %s" % entry["name"] for entry in gone}
    take_from_guest(instance, new, files)
    attached.write(pool, new)
    instance.observe("volumes release")
    for entry in gone:
        volume.detach(instance.host, record, entry)
    instance.observe("volumes record")
    event = journal.noted(new, "detach_volumes", volumes=sorted(entry["name"] for entry in gone))
    return instance.store.compare_and_swap(record, event.next()), True


def take_from_guest(instance, new, files):
    """Remove disks from the guest and its definition. ``new``: the record without them; ``files``: path -> what it is called."""
    connection, host = instance.host.connection, instance.host.for_guests(new.spec.get("pool"))
    guest = domain.find(connection, new.uuid)
    if guest is None:
        return
    instance.observe("disks detach")
    if not guest.isActive():
        domain.define(connection, new.uuid, domain_xml.render(new, host))
        return
    for path, called in files.items():
        known, hint = domain.has_disk(guest, path), volume_hints.unmount(new.name, called)
        try:
            is_released = domain.detach_disk(guest, path, TIMEOUT)
        except (BuildFailed, GuestNotSupported) as error:
            raise DiskNotDetached("the guest of %s cannot release %s: %s" % (new.name, called, error), hint=hint)
        if not is_released:
            raise DiskNotDetached("the guest of %s does not release %s" % (new.name, called), hint=hint)
        if not known and qemu_nodes.close(guest, path)[1]:
            raise DiskNotDetached(
                "libvirt crashed while attaching %s to %s. QEMU still has it open" % (called, new.name),
                hint=hints.stop_and_update_disks(new.name),
            )


def claim_volumes(instance, record, changed, wanted):
    """Claim the volumes that are ``wanted``, each also in its own record. Return (record, whether anything changed)."""
    planned = _planned_volumes(instance, record, wanted)
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
        attached.write(instance.host.pool_of(new), new)
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
        volumes.check_size(entry["name"], has_gb, entry["size_gb"])
        if entry["size_gb"] > has_gb:
            raise VolumeConflict(
                "volume %s has %d GiB, and a growth to %d GiB was not claimed"
                % (entry["name"], has_gb, entry["size_gb"]),
                hint=hints.run_again()
                if named
                else volume_hints.claim_growth(record.name, entry["name"], entry["size_gb"]),
            )


METHOD = "update_disks"  # of vm_states.CHANGES
HOT_PLUGGED = ("virtio", "scsi")


def update_disks(instance, wanted, volumes=None):
    """Add the data disks ``wanted`` [{name, size_gb, bus}] to the instance's, and give it exactly ``volumes`` (None: no
    change). Return whether anything changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = instance.at_rest(METHOD)
        check_boot(record, volumes)
        merged = _merged(record, wanted)
        startable.check_owner(instance.host, record)
        startable.own_disks(instance.host, record)
        made = _publish_made(instance, record)
        _check_disks(instance, _with_found(instance, record, merged))
        keep_definition(instance)
        record, claimed = claim_volumes(instance, *detach_volumes(instance, record, volumes), volumes)
        if merged != data_disks.of(record.spec):
            _check_pluggable(instance, record, merged)
            record = _claim(instance, record, merged)
            _publish_made(instance, record)
            made = True
        attached = _attach(instance, record)  # first: a running guest learns of the growth of attached disks only
        grown = [_grow(instance, path, disk) for path, disk in _files(instance, record).items()]
        return note(instance, record) or attached or made or claimed or any(grown)


def would_update_disks(instance, wanted, volumes=None):
    record = instance.at_rest(METHOD)
    check_boot(record, volumes)
    merged = _merged(record, wanted)
    startable.check_owner(instance.host, record)
    _with_found(instance, record, merged)
    if merged != data_disks.of(record.spec):
        _check_pluggable(instance, record, merged)
        return True
    if would_change_volumes(instance, record, volumes):
        return True
    small = (os.path.lexists(path) and _is_small(path, disk) for path, disk in _files(instance, record).items())
    return bool(_not_attached(instance, record)) or any(small)


def _merged(record, wanted):
    asked = data_disks.with_buses(wanted, GuestSettings.of(record.spec).get("disk_bus", "virtio"))
    return data_disks.merged(data_disks.of(record.spec), asked)


def _planned(record):
    return [disk for disk in disks.plan(record.spec) if disk.kind == disks.DATA]


def _files(instance, record):
    """Return {path: Disk} of data disks and volumes."""
    found = {_path(instance, record, disk): disk for disk in _planned(record)}
    return {**found, **volume_files.planned(instance.host.pool_of(record), record.spec)}


def _path(instance, record, disk):
    return paths.instance(instance.host.pool_of(record), record.uuid, disk.file)


def _with_found(instance, record, merged):
    """Return the record with those of ``merged`` that it does not name although they exist: it may be from a backup."""
    found = record.replace(spec=dict(record.spec, disks=merged))
    before = data_disks.shown(record.spec)
    there = [
        disk for disk in _planned(found) if disk.serial not in before and os.path.lexists(_path(instance, found, disk))
    ]
    for disk in there:
        size = _size(_path(instance, found, disk), disk)
        if size > disk.size:
            raise CannotResizeDisk(
                "data disk %s of %s is there and has %d bytes" % (disk.serial, record.name, size),
                field="berth_disks.%s.size_gb" % disk.serial,
                value=disk.size // disks.GIB,
                rule="at least %d GiB" % -(-size // disks.GIB),
            )
    names = {*before, *(disk.serial for disk in there)}
    return record.replace(spec=dict(record.spec, disks=[disk for disk in merged if disk["name"] in names]))


def _size(path, disk):
    try:
        return virtual_size.read(path, disk.format)[0]
    except (OSError, ValueError) as error:
        raise BuildFailed("%s cannot be read as a disk: %s" % (path, error))


def _is_small(path, disk):
    return _size(path, disk) < disk.size


def _check_disks(instance, record):
    disk_chain.check_unsaved(instance.host, record)
    disk_chain.check(instance.host, record)


def keep_definition(instance):
    """Define a running guest again if somebody undefined it, so that there is a definition to name the disks in."""
    connection = instance.host.connection
    guest = domain.find(connection, instance.uuid)
    if guest is not None:
        domain.keep_definition(connection, guest)


def _claim(instance, record, merged):
    """Under the host's lock, claim the room, make files under temporary names, and write the record that names them."""
    instance.host.require_prepared()
    new = record.replace(spec=dict(record.spec, disks=merged))
    with instance.store.host_lock():
        more_gb = data_disks.total_gb(new.spec) - data_disks.total_gb(record.spec)
        more = ledger.allocate(instance.host, record, more_gb)
        before = {disk.name for disk in _planned(record)}
        for disk in _planned(new):
            if disk.name not in before and not os.path.lexists(_path(instance, new, disk)):
                made = _path(instance, new, disk) + ".tmp"
                paths.remove(made)
                disks.make(disk, made, None)
                os.chmod(made, 0o600)
                paths.sync(made)
                paths.sync_directory(os.path.dirname(made))
        instance.observe("disks record")
        event = journal.noted(new, "update_disks", disks=data_disks.shown(new.spec))
        return instance.store.compare_and_swap(record, event.next(resources=ledger.with_more(record.resources, more)))


def _publish_made(instance, record):
    """Give the files that were made for the record their final names. Never replace an existing file."""
    published = False
    for disk in _planned(record):
        path = _path(instance, record, disk)
        if not os.path.lexists(path) and os.path.lexists(path + ".tmp"):
            instance.observe("disks publish")
            paths.publish(path + ".tmp", path)
            published = True
    return published


def _grow(instance, path, disk):
    if not _is_small(path, disk):
        return False
    instance.observe("disks grow")
    guest = domain.find_active(instance.host.connection, instance.uuid)
    if guest is not None:
        domain.resize_disk(guest, path, disk.size)
    else:
        run(["qemu-img", "resize", "-q", "-f", disk.format, "--", path, str(disk.size)], error=BuildFailed)
    return True


def _attach(instance, record):
    """Add every data disk to the guest and its definition. Return whether one was missing."""
    missing = _not_attached(instance, record)
    if not missing:
        return False
    instance.observe("disks attach")
    connection, host = instance.host.connection, instance.host.for_guests(record.spec.get("pool"))
    guest = domain.find_active(connection, record.uuid)
    if guest is None:
        domain.define(connection, record.uuid, domain_xml.render(record, host))
        return True
    for path, flags in missing.items():
        try:
            _attach_disk(guest, domain_xml.added_disk(record, host, path), path, flags)
        except (BuildFailed, GuestNotSupported) as error:
            raise _refused(record, error)
    return True


def _attach_disk(found, xml, path, flags):
    try:
        domain.attach(found, xml, flags)
    except BuildFailed as refused:
        try:
            closed, _left = qemu_nodes.close(found, path)
        except (BuildFailed, GuestNotSupported):
            raise refused  # people need the reason why the disk cannot be attached
        if not closed:
            raise
        domain.attach(found, xml, flags)


def _disks_of(spec):
    return data_disks.of(spec), spec.get("volumes") or [], snapshots.of(spec)


def note(instance, record):
    """Update the disks and snapshots in the definition's copy of the record, which can restore it. Return whether that was needed."""
    guest = domain.find(instance.host.connection, record.uuid)
    marks = [domain.mark(text) for text in domain.definitions(guest) if text] if guest is not None else []
    noted = [json.loads(mark.get("record") or "{}").get("spec") or {} for mark in marks]
    if all(_disks_of(spec) == _disks_of(record.spec) for spec in noted):
        return False
    instance.observe("disks note")
    domain.note(guest, domain_xml.metadata(record)[0])
    return True


def _refused(record, why):
    return DiskNotAttached(
        "the running guest of %s cannot get another disk: %s" % (record.name, why),
        hint=hints.stop_and_update_disks(record.name),
    )


def _check_pluggable(instance, record, merged):
    """Refuse disks that a running guest cannot get, before anything is made."""
    guest = domain.find_active(instance.host.connection, record.uuid)
    if guest is None:
        return
    before = data_disks.shown(record.spec)
    buses = {disk["bus"] for disk in merged if disk["name"] not in before}
    text = domain.definitions(guest)[0]
    if text is None:
        return  # it has just ended
    live = ElementTree.fromstring(text)
    if "scsi" in buses and live.find("devices/controller[@type='scsi']") is None:
        raise _refused(record, "it has no SCSI controller")
    if buses - set(HOT_PLUGGED):
        raise _refused(
            record, "a disk on bus %s can only be added while it is off" % ", ".join(sorted(buses - set(HOT_PLUGGED)))
        )


def _not_attached(instance, record):
    """Return {path: libvirt's flags for where it is missing} of the data disks and volumes."""
    library = require_libvirt()
    guest = domain.find(instance.host.connection, record.uuid)
    wanted = list(_files(instance, record))
    if guest is None:
        return {}  # the next start defines the guest from the record
    missing = {}
    for text, flag in zip(
        domain.definitions(guest), (library.VIR_DOMAIN_AFFECT_LIVE, library.VIR_DOMAIN_AFFECT_CONFIG)
    ):
        root = ElementTree.fromstring(text) if text else None
        named = set() if root is None else {source.get("file") for source in root.iterfind("devices/disk/source")}
        for path in wanted if root is not None else ():
            if path not in named:
                missing[path] = missing.get(path, 0) | flag
    return missing
