# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live migration through libvirt: peer to peer, and the guest arrives PAUSED.

Without PAUSED a lost reply leaves two running guests. So the destination's guest waits until the source has let go in
its record, and only then goes on. Never PERSIST_DEST (the destination defines from its own rendering) and never
UNDEFINE_SOURCE (the record decides what is removed).
"""

from __future__ import annotations

import os
import threading
import time

from .. import domain as guests
from .. import paths
from ..connection import require_libvirt
from . import disks, storage, transfer
from .errors import MigrationError, MigrationPreCheckError

POLL = 0.2
CERTIFICATES = (
    "/etc/pki/CA/cacert.pem",
    "/etc/pki/libvirt/clientcert.pem",
    "/etc/pki/libvirt/private/clientkey.pem",
    "/etc/pki/qemu/ca-cert.pem",
    "/etc/pki/qemu/client-cert.pem",
    "/etc/pki/qemu/client-key.pem",
)


def has_arrived(connection, uuid):
    """Whether the whole guest waits here. While it is on its way libvirt gives another reason for the pause."""
    library = require_libvirt()
    found = guests.find(connection, uuid)
    if found is None:
        return False
    return found.state() == [library.VIR_DOMAIN_PAUSED, library.VIR_DOMAIN_PAUSED_USER]


def has_left(connection, uuid):
    """Whether libvirt on the source says that the guest has gone over: only then is the other one the newer."""
    library = require_libvirt()
    found = guests.find(connection, uuid)
    return found is not None and found.state() == [library.VIR_DOMAIN_SHUTOFF, library.VIR_DOMAIN_SHUTOFF_MIGRATED]


def abort(connection, uuid):
    """End a migration job of this guest; none there is fine."""
    library = require_libvirt()
    found = guests.find(connection, uuid)
    if found is None or not found.isActive():
        return
    try:
        if found.jobInfo()[0] != library.VIR_DOMAIN_JOB_NONE:
            found.abortJob()
        while found.jobInfo()[0] != library.VIR_DOMAIN_JOB_NONE:
            time.sleep(POLL)
    except library.libvirtError:
        pass


def prepare(effects, record, manifest, arrived):
    """L3 on the destination: own definition, empty disks of the right size. -> {arrived, address, libvirt,
    shared, pool_path}"""
    connection = effects.connection
    if not guests.is_active(connection, record.uuid):
        effects.define(record)
        storage.check_still(effects.pool_path(record), record)
        shared = storage.is_shared(record)
        for entry in () if shared else disks.expected(effects.pool_path(record), record, manifest):
            if entry["name"] not in disks.FIRMLY:
                paths.remove(entry["path"])
                transfer.make_empty(entry["path"], entry["format"], entry["size"])
    return {
        "arrived": arrived,
        "address": effects.address(),
        "libvirt": connection.getLibVersion(),
        "shared": storage.is_shared(record),
        "pool_path": effects.pool_path(record),
    }


def problems(connection, record, targets, options):
    """Everything that speaks against this migration, at once, before anything is started (R30)."""
    found = []
    if not transfer.ADDRESS.match(str(targets.get("address"))):
        found.append("the destination's address %r is not valid" % (targets.get("address"),))
    if targets.get("libvirt", 0) < connection.getLibVersion() and targets.get("libvirt", 0) // 1000000 < 5:
        found.append("libvirt on the destination is too old")
    if targets.get("shared") and targets["pool_path"] != targets["source_pool"]:
        found.append(
            "the storage is shared, but is %s here and %s there" % (targets["source_pool"], targets["pool_path"])
        )
    if record.resources.get("pci_devices"):
        found.append("the guest holds PCI devices")
    if record.resources.get("numa_topology"):
        found.append("the guest is bound to NUMA cells, which are others on the destination")
    if options.get("tls", True):
        missing = [path for path in CERTIFICATES if not os.path.exists(path)]
        if missing:
            found.append("no certificates for TLS here: %s (or set live_migrate_tls to false)" % ", ".join(missing))
    return found


def migrate(connection, record, targets, options):
    """L4 on the source: hand the guest over, paused, or wait for the job that already does. Raises MigrationError.

    A guest that is off here has gone only where libvirt says so: else the destination's copy may be older than what the
    guest wrote after a failed attempt.
    """
    if has_left(connection, record.uuid) and targets.get("arrived"):
        return
    found = guests.find(connection, record.uuid)
    if found is None or not found.isActive():
        raise MigrationError("the guest is off on the source and did not leave by a migration")
    if is_migrating(found):
        follow(found, record.uuid)
        if has_left(connection, record.uuid):
            return
        raise MigrationError("the migration that ran did not succeed: run again")
    speaking_against = problems(connection, record, targets, options)
    if speaking_against:
        raise MigrationPreCheckError(record.uuid, speaking_against)
    start(found, record, targets, options)


def is_migrating(found):
    library = require_libvirt()
    return found.jobInfo()[0] != library.VIR_DOMAIN_JOB_NONE


def follow(found, uuid):
    """Wait for a running job to end."""
    library = require_libvirt()
    try:
        while is_migrating(found):
            note(found, uuid)
            time.sleep(POLL)
    except library.libvirtError:
        pass  # the job ended with the guest


def note(found, uuid):
    """The progress, where another run may read it."""
    stats = found.jobStats(0)
    total, done = stats.get("data_total", 0) or 1, stats.get("data_processed", 0)
    transfer.make_directories(uuid)
    transfer.write_progress(uuid, "migrating", done, total, stats.get("memory_bps", 0))


def start(found, record, targets, options):
    """Run the migration and watch it: progress, time limit."""
    library = require_libvirt()
    tls = options.get("tls", True)
    flags = library.VIR_MIGRATE_LIVE | library.VIR_MIGRATE_PEER2PEER | library.VIR_MIGRATE_PAUSED
    flags |= library.VIR_MIGRATE_AUTO_CONVERGE
    if not targets.get("shared"):
        flags |= library.VIR_MIGRATE_NON_SHARED_DISK
    if tls:
        flags |= library.VIR_MIGRATE_TLS
    address = targets["address"]
    parameters = {library.VIR_MIGRATE_PARAM_URI: "tcp://%s" % bracketed(address)}
    if options.get("bandwidth"):
        parameters[library.VIR_MIGRATE_PARAM_BANDWIDTH] = options["bandwidth"]
    uri = "qemu+%s://%s/system" % ("tls" if tls else "tcp", bracketed(address))
    outcome = []

    def run():
        try:
            found.migrateToURI3(uri, parameters, flags)
            outcome.append(None)
        except library.libvirtError as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    watch(found, record.uuid, thread, options.get("timeout") or 0)
    if outcome[0] is not None:
        raise MigrationError("libvirt: %s" % outcome[0])


def watch(found, uuid, thread, timeout):
    library = require_libvirt()
    until = time.monotonic() + timeout if timeout else None
    while thread.is_alive():
        thread.join(POLL)
        try:
            if thread.is_alive():
                note(found, uuid)
            if until and time.monotonic() > until:
                until = None
                found.abortJob()
        except library.libvirtError:
            pass  # between two phases there is no job to ask


def bracketed(address):
    return "[%s]" % address if ":" in address else address
