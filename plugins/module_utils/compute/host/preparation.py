# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepares a plain KVM host: settings, directories, storage pool, boot gate, and the address where libvirt listens."""

from __future__ import annotations

import json
import os
import re
import stat
from xml.etree import ElementTree

from ...model import host_hints, host_settings
from ...model.lifecycle import CLAIM
from .. import durable, paths
from ..connection import has_no_driver, require_libvirt
from ..disk import storage_pools
from ..errors import HostNotPrepared, StateUnsafe
from ..guest import domain, gate
from ..record import state_directory
from ..record.store import RECORD
from ..record.volume_store import VolumeStore
from . import address, as_qemu, capabilities, host, listening, settings

# Keeps libvirt's host uuid, by which a host is known, where the firmware has none.
#
# libvirt takes it from the firmware. Many ARM boards and containers have none there, and some PCs one that is all ones
# or zeros: libvirt then makes up another uuid each time it starts, unless its configuration has one.
CONFIGURATION = "/etc/libvirt"
FIRMWARE = "/sys/class/dmi/id/product_uuid"
SET = re.compile(r'^\s*(host_uuid\s*=|host_uuid_source\s*=\s*"machine-id")', re.MULTILINE)
LINE = 'host_uuid = "%s"  # berth.kvm: the firmware has none that libvirt takes\n'


def is_uuid_kept(uuid):
    """Whether libvirt will have this uuid after its next start. What somebody has set counts, whatever it is."""
    return _read(FIRMWARE).strip().lower() == uuid or all(SET.search(_read(path)) for path in _configurations())


def keep_uuid(uuid):
    """Write it to the configuration of each daemon that may be libvirt's for QEMU; it is in force already."""
    for path in map(os.path.realpath, _configurations()):  # a link stays one, as of who keeps /etc elsewhere
        text = _read(path)
        if not SET.search(text):
            mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.lexists(path) else 0o644
            durable.write_at(path, (LINE % uuid + text).encode("utf-8", "surrogateescape"), mode)


def _configurations():
    paths = [os.path.join(CONFIGURATION, daemon + ".conf") for daemon in gate.DAEMONS]
    return [path for path in paths if os.path.isfile(path)] or paths[:1]


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


POOL_TYPES = ("dir", "fs", "netfs")
KINDS = ("instances", "volumes")  # of records, in the state directory
PARTS = ("instances", "volumes", "set-aside")  # of a pool, with files of instances and volumes


def prepare(
    connection, store, values, pool_path=paths.POOL_PATH, dry=False, settings_path=settings.PATH, accept_state=False
):
    """Prepare the host. Return {changed, before, after, uuid, listener, restart}. A refusal changes nothing.

    With ``accept_state``, accept a state directory that is another one, or older, than before."""
    caps = capabilities.parse_host(connection.getCapabilities())
    before = settings.load(settings_path)
    wanted = settings.parse({**values, "uuid": _pin(before, values, caps.uuid), "schema": host_settings.SCHEMA})
    host.check_confinement(caps.security_models, wanted.security_driver_none_ok)
    pool = _existing_pool(connection, wanted.pool)
    path = _pool_target(pool) if pool else pool_path
    listens_on = _listens_on(connection, wanted)
    accept_state = accept_state or is_new(connection, store, path)
    shown = pool is None or pool.isActive() or _kind(pool) == "dir"  # else only its start mounts what it has
    differs = {
        "uuid": not is_uuid_kept(caps.uuid),
        "state": state_directory.establish(store, accept_state, dry=True),
        "settings": not before.prepared or before.to_dict() != wanted.to_dict(),
        "pool": pool is None or not pool.isActive() or not pool.autostart(),
        "gate": not gate.is_in_force(),
        "listening": listening.differs(listens_on),
        "directories": shown and _closed(connection, path),
    }
    if shown:
        _check_disks(connection, store, before, wanted.pool, path)
    if not dry:
        os.close(durable.open_directory(store.state_dir, create=True))
        paths.make_directory(path)
        if differs["pool"]:
            _make_pool(connection, pool, wanted.pool, path)
        if not shown:
            _check_disks(connection, store, before, wanted.pool, path)
        _make_directories(connection, path)
        if differs["uuid"]:
            keep_uuid(caps.uuid)  # before the settings pin it
        if differs["settings"]:
            _write_settings(settings_path, wanted)
        state_directory.establish(store, accept_state)
        gate.install()
        if differs["listening"]:
            _listen(listens_on)
    return {
        "changed": [part for part, is_other in differs.items() if is_other],
        "uuid": caps.uuid,
        "before": before.to_dict() if before.prepared else {},
        "after": wanted.to_dict(),
        "listener": listening.service(),
        "restart": gate.services() if dry and (differs["gate"] or differs["listening"]) else gate.to_restart(),
    }


def _listen(listens_on):
    gate.note_restart()
    listening.settle(listens_on)


def holds_anything(connection, pool_path):
    """Whether an instance, a volume or a set-aside copy is here, whatever the state directory says."""
    return any(paths.entries(os.path.join(pool_path, part)) for part in PARTS) or any(
        domain.is_managed(found) for found in connection.listAllDomains(0)
    )


def is_new(connection, store, pool_path):
    """Whether the host may start with its state directory as it is: the host holds nothing, and the directory has no records.
    Records from a backup would count from then on, and may name instances that are elsewhere by now."""
    return not holds_anything(connection, pool_path) and not any(
        os.path.lexists(os.path.join(store.state_dir, kind, uuid, RECORD))
        for kind in KINDS
        for uuid in paths.entries(os.path.join(store.state_dir, kind))
    )


def _listens_on(connection, wanted):
    """Return the one address on which libvirt must listen for other hosts; None for all."""
    if not wanted.migration_address_only:
        return None
    name = connection.getHostname()
    migration_address = address.of_host(wanted.migration_address, name)
    why = address.why_not(migration_address) if migration_address else "it is not known"
    if why:
        raise HostNotPrepared(
            "libvirt on %s cannot listen on the migration address %s: %s" % (name, migration_address, why),
            field="migration_address_only",
            value=True,
            hint=host_hints.correct_migration_address(name),
        )
    return migration_address


def _pin(before, values, here):
    """Return the host's uuid, pinned at the first preparation and never silently changed."""
    pinned = before.uuid or values.get("uuid") or here
    settings.check_uuid(host_settings.HostSettings(uuid=pinned), here)
    return here


def _existing_pool(connection, name):
    library = require_libvirt()
    try:
        pool = connection.storagePoolLookupByName(name)
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_STORAGE_POOL:
            return None
        raise HostNotPrepared("storage pool %s: %s" % (name, error), hint=_start_storage(connection, error))
    kind = _kind(pool)
    if kind not in POOL_TYPES:
        raise HostNotPrepared(
            "storage pool %s is of type %s" % (name, kind), field="pool", value=name, rule="a directory"
        )
    return pool


def _start_storage(connection, error):
    if not has_no_driver(error):
        return None
    return host_hints.switch_on_daemon(connection.getHostname(), "virtstoraged", "libvirt-daemon-driver-storage-core")


def _kind(pool):
    return ElementTree.fromstring(pool.XMLDesc(0)).get("type")


def _pool_target(pool):
    return os.path.normpath(ElementTree.fromstring(pool.XMLDesc(0)).findtext("target/path"))


def _check_disks(connection, store, before, name, pool_path):
    """Raise HostNotPrepared if instances here have disks in a directory that is missing: it would be made below the mount, or
    in another pool than theirs."""
    host_name, first = connection.getHostname(), before.pool if before.prepared else name
    missing = storage_pools.not_mounted(pool_path, name, first, store.records())
    if missing:
        raise HostNotPrepared(
            "storage pool %s: %s is not there, and %s has its disks in it" % (name, *missing),
            hint=host_hints.mount_pool(host_name, *missing),
        )
    left = _left_behind(store, pool_path) if first != name else None
    if left:
        raise HostNotPrepared(
            "storage pool %s cannot be the pool of %s: %s has its disks in the pool %s"
            % (name, host_name, left, first),
            hint=host_hints.keep_pool(host_name, first),
        )


def _left_behind(store, pool_path):
    """Return the name of an instance or volume that has its disks in the pool of the host, and not in ``pool_path``; or None."""
    for records, place in ((store, paths.instance), (VolumeStore.beside(store), paths.volume)):
        for record in records.records():
            in_own = record.role != CLAIM and not record.spec.get("pool")
            if in_own and not os.path.isdir(place(pool_path, record.uuid)):
                return record.name
    return None


def _make_directories(connection, pool_path):
    """Make the directories of a pool that is active: what it mounts hides what was made before. Let QEMU pass."""
    paths.check_directory(pool_path)
    for name in ("images", "instances"):
        paths.make_directory(os.path.join(pool_path, name))
    shut = _closed(connection, pool_path)
    for path in [*shut, *_below(pool_path)] if shut else ():
        paths.let_pass(path)
    as_qemu.check(as_qemu.user(connection.getCapabilities()), directories=[pool_path, *_below(pool_path)])


def _below(pool_path):
    """Return berth's directories in a pool, as far as they are there, that QEMU has to pass through to a disk."""
    return [path for path in (os.path.join(pool_path, part) for part in ("images", *PARTS)) if os.path.isdir(path)]


def _closed(connection, pool_path):
    """Return those of berth's directories that keep QEMU out. Raise HostNotPrepared if one of somebody else does: a pool is
    berth's if there is nothing in it but what berth puts there."""
    qemu = as_qemu.user(connection.getCapabilities())
    ways = [pool_path, *_below(pool_path)] if os.path.isdir(pool_path) else []
    shut, own = as_qemu.closed(qemu, directories=ways), _below(pool_path)
    if set(paths.entries(pool_path)) <= {"images", *PARTS}:
        own.append(pool_path)
    as_qemu.check(qemu, directories=[path for path in shut if path not in own])
    return shut


def _make_pool(connection, pool, name, path):
    library = require_libvirt()
    try:
        if pool is None:
            root = ElementTree.Element("pool", type="dir")
            ElementTree.SubElement(root, "name").text = name
            ElementTree.SubElement(ElementTree.SubElement(root, "target"), "path").text = path
            pool = connection.storagePoolDefineXML(ElementTree.tostring(root, encoding="unicode"), 0)
        pool.setAutostart(1)
        if not pool.isActive():
            pool.create(0)
    except library.libvirtError as error:
        raise HostNotPrepared("storage pool %s: %s" % (name, error))


def _write_settings(path, wanted):
    try:
        directory = durable.open_directory(os.path.dirname(path), create=True)
    except StateUnsafe:
        os.chmod(os.path.dirname(path), durable.DIRECTORY_MODE)
        directory = durable.open_directory(os.path.dirname(path))
    try:
        text = json.dumps(wanted.to_dict(), indent=1, sort_keys=True) + "\n"
        durable.write(directory, os.path.basename(path), text.encode())
    finally:
        os.close(directory)
