# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live migration through libvirt: peer to peer, within a time limit, and the guest arrives PAUSED.

Without PAUSED, a lost reply would leave two running guests. So the destination's guest waits until the source's record
gives up the instance, and only then continues. Never PERSIST_DEST (the destination defines the guest from its own
rendering) and never UNDEFINE_SOURCE (the record decides what is removed).
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from xml.etree import ElementTree

from ...model import adopted, adopted_move, hints, host_hints, operation_hints
from ...model.errors import BerthError
from ...model.move_errors import MigrationError
from ...model.vm_states import is_meant_paused
from .. import paths
from ..connection import Bounded, LibvirtTimeout, connect, require_libvirt
from ..guest import domain as guests
from ..guest import qemu_nodes
from ..host.address import why_not
from . import block_jobs, disks, left_backup, live_checks, live_watch, storage, transfer
from .live_checks import OPEN_TIMEOUT, bracketed, disk_problems, remote_uri
from .live_watch import CALL_SECONDS, Downtime
from .onlooker import has_left, is_halted, is_migrating, job_of

POLL = 0.2
SETTLE_SECONDS = 10.0  # from the end of a job until libvirt says what became of the guest


def has_arrived(connection, uuid):
    """Whether the whole guest waits here. While it is on its way, libvirt gives another reason for the pause."""
    library = require_libvirt()
    guest = guests.find(connection, uuid)
    if guest is None:
        return False
    return guest.state() == [library.VIR_DOMAIN_PAUSED, library.VIR_DOMAIN_PAUSED_USER]


def abort(connection, uuid, goes_on=True):
    """Cancel a migration job of this guest, if there is one, and resume the guest if it was stopped for it, unless it was
    paused before (``goes_on`` is false). Raise MigrationError if the job continues anyway."""
    library = require_libvirt()
    guest = guests.find_active(connection, uuid)
    if guest is None:
        return
    try:
        job = job_of(guest)
        if job not in (None, library.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT):
            return  # another program's, such as a backup, or the guest's migration to here
        if job is not None:
            guest.abortJob()
        ended = job is None or block_jobs.has_ended(guest)
        if not ended:
            live_watch.break_off(guest)
            ended = block_jobs.has_ended(guest)
        if ended and goes_on:
            go_on(guest)
    except (library.libvirtError, LibvirtTimeout):
        return  # the guest has just ended, or does not answer: then it cannot be handed over either
    if not ended:
        raise MigrationError("the migration was cancelled but is still running; the guest was left as it is")


def go_on(guest):
    """Resume a guest that was paused by a migration, or to let one end, while this host owns it. It has its whole
    state: the destination's copy never ran, so this one is at least as new."""
    library = require_libvirt()
    if guest.state()[0] == library.VIR_DOMAIN_PAUSED:
        guest.resume()


def _go_on_if_it_can(guest, goes_on):
    if not goes_on:
        return
    with contextlib.suppress(require_libvirt().libvirtError, LibvirtTimeout):
        go_on(guest)


def prepare(effects, record, manifest, arrived):
    """On the destination: make its own definition, and empty disks of the right size. libvirt fills what a guest writes
    to, and QEMU the UEFI variables, which it holds in memory. Return {arrived, address, binds (whether this host itself
    has that address, not a router before it), libvirt, shared, pool_path}."""
    connection, here = effects.connection, effects.address()
    if not guests.is_active(connection, record.uuid):
        effects.define(record)
        storage.check_shared_as_claimed(effects.pool_path(record), record)
        shared = storage.is_shared(record)
        for entry in () if shared else disks.expected(effects.pool_path(record), record, manifest):
            if not disks.is_read_only(entry):
                paths.remove(entry["path"])
                transfer.make_empty(entry["path"], entry["format"], entry["size"])
                paths.sync_directory(os.path.dirname(entry["path"]))  # libvirt syncs its content
    return {
        "arrived": arrived,
        "address": here,
        "binds": here is not None and why_not(here) is None,
        "libvirt": connection.getLibVersion(),
        "shared": storage.is_shared(record),
        "pool_path": effects.pool_path(record),
    }


def migrate(effects, record, targets, options, there=None):
    """On the source: hand the guest over, paused. ``there``: what the destination's claim set aside. Raise
    MigrationError if that fails.

    Return (the connection to the destination's libvirt, the running Downtime), both None if another run has brought the
    guest there.

    A guest that is off here has only left if libvirt says so: else the destination's copy may be older than what the
    guest wrote after a failed attempt.
    """
    connection = effects.connection
    guest = guests.find(connection, record.uuid)
    is_here = guest is not None and guest.isActive()
    if has_gone_over(connection, record.uuid, targets, options):
        return None, None
    if not is_here:
        raise MigrationError(why_off(connection, record.uuid))
    left_backup.end_backup_of(connection, record.uuid)  # of a killed run: libvirt would migrate no guest beside it
    remote = open_remote(targets, options)
    downtime = Downtime(connection.unbounded, remote, record.uuid)
    try:
        downtime.forced = start(guest, record, effects.pool_path(record), targets, options, there, remote)
    except MigrationError as error:
        # Another run's migration may have ended right before this one was to begin.
        if has_gone_over(connection, record.uuid, targets, options):
            return None, None
        if not _has_copy(remote, record.uuid):
            raise
        # Of a migration that a killed run began after this run's follow_live. The next run removes the copy in prepare_live.
        message = "%s. The destination still has a copy of the guest, which never ran" % error
        raise MigrationError(message, hint=hints.run_again())
    return remote, downtime


def _has_copy(remote, uuid):
    """Whether the destination has a copy of the guest. One that does not answer is not said to have one."""
    with contextlib.suppress(BerthError, require_libvirt().libvirtError):
        return guests.is_active(Bounded(remote, CALL_SECONDS), uuid)
    return False


def why_off(connection, uuid):
    """Say why a guest that is off here is not taken for migrated."""
    if has_left(connection, uuid):
        return "the guest left the source by a migration and is not on the destination"
    return "the guest is off on the source and did not leave by a migration"


def has_left_at_last(connection, uuid):
    """Whether the guest has left, now that its job has ended. libvirt says so a moment later; until then it is paused."""
    until = time.monotonic() + SETTLE_SECONDS
    while is_halted(connection, uuid) and time.monotonic() < until:
        time.sleep(POLL)
    return has_left(connection, uuid)


def has_gone_over(connection, uuid, targets, options):
    """Whether the guest has left and waits on the destination: by the destination's last reply, or by a look there now,
    since another run may have brought it."""
    if not has_left(connection, uuid):
        return False
    return targets.get("arrived") or has_arrived(Bounded(open_remote(targets, options), CALL_SECONDS), uuid)


def open_remote(targets, options):
    """Connect to the destination's libvirt. Raise MigrationError if this host cannot reach it."""
    try:
        return connect(timeout=OPEN_TIMEOUT, uri=remote_uri(targets["address"], options.get("tls", True)))
    except BerthError as error:
        raise MigrationError("the destination cannot be reached: %s" % error)


def follow(connection, uuid, options, goes_on=True):
    """Wait for the end of a migration that another run began. Return whether there was one and the guest has left. One that
    is still here goes on, unless it was paused before (``goes_on`` is false).

    The time limit counts anew. Raise MigrationError if it ended the migration: then none begins instead.
    """
    guest = guests.find_active(connection, uuid)
    if guest is None or not _goes_on(guest):
        return False
    limit, copying = limit_of(guest, options), live_watch.Stalled(guest)
    while _goes_on(guest):
        _look_after(guest, uuid, limit, copying)
        time.sleep(POLL)
    left = has_left_at_last(connection, uuid)
    if limit.ended and not left:
        _go_on_if_it_can(guest, goes_on)
        raise MigrationError("the live migration was %s" % limit.ended)
    return left


def _goes_on(guest):
    try:
        return is_migrating(guest)
    except require_libvirt().libvirtError:
        return False  # the job ended with the guest


def limit_of(guest, options):
    """Return the time limit of a migration of this guest."""
    return live_watch.Limit(options, lambda: sum(guest.blockInfo(name)[0] for name in to_copy(guest.XMLDesc(0))))


def note(guest, uuid, stopped=False):
    """Write the progress to where another run may read it: disks and memory; ``downtime`` in ms is QEMU's estimate,
    ``slowed`` by how many percent auto-converge slows the guest. ``stopped``: the time limit stopped it."""
    stats = guest.jobStats(0)
    done, total = copied(stats, allocated(guest.XMLDesc(0)) if stats.get("disk_total") else 0)
    if not total:
        return  # it has not begun to copy
    rate = done * 1000 / (stats.get("time_elapsed") or 1)
    transfer.make_directories(uuid)
    state, slowed = "stopped" if stopped else "migrating", stats.get("auto_converge_throttle", 0)
    transfer.write_progress(uuid, state, done, total, rate, downtime=stats.get("downtime"), slowed=slowed)


def copied(stats, on_disk):
    """Return how many bytes are copied, and of how many. libvirt counts disks by their virtual size, of which only what they
    take up on the source (``on_disk``, bytes) is sent."""
    size = stats.get("disk_total", 0)
    sent = min(on_disk, size)
    done = stats.get("memory_processed", 0) + (sent * stats.get("disk_processed", 0) // size if size else 0)
    return done, stats.get("memory_total", 0) + sent


def allocated(xml):
    """Return the bytes that the disks to copy take up on this host."""
    size = 0
    for _target, file in written_disks(xml):
        with contextlib.suppress(OSError):
            size += os.stat(file).st_blocks * 512
    return size


def start(guest, record, pool_path, targets, options, there=None, remote=None):
    """Run the migration to ``remote`` and watch it. Return whether the time limit stopped the guest. Between the check and
    libvirt's job somebody may detach or attach a disk: libvirt copies only the disks named here, and refuses if one is gone."""
    library = require_libvirt()
    described = guest.XMLDesc(library.VIR_DOMAIN_XML_MIGRATABLE | library.VIR_DOMAIN_XML_SECURE)
    problems = disk_problems(described, record, pool_path, targets.get("shared"))
    if problems:
        raise MigrationError("; ".join(problems))
    uri = remote_uri(targets["address"], options.get("tls", True))
    moved = _as_there(described, record, pool_path, targets)
    flags, parameters = _flags(targets, options), _parameters(described, moved, record, targets, options, there)
    parameters.update(_renamed(guest, record.uuid, remote))
    copying, limit = live_watch.Stalled(guest, remote, targets["address"]), limit_of(guest, options)
    run = functools.partial(_run, guest, record.uuid, (uri, parameters, flags), limit, copying)
    failed = run()
    if failed is not None and _closed_leftovers(guest):
        failed = run()
    if failed is not None:
        _go_on_if_it_can(guest, not is_meant_paused(record))
        why = copying.why()
        hint = host_hints.libvirt_ended("the destination") if why else None
        if host_hints.FULL in str(failed):
            hint = host_hints.make_room_in_pool()
        if copying.stuck:
            hint = host_hints.compare_mtu(copying.address)
        if "onnect to '%s:" % copying.address in str(failed):
            hint = operation_hints.open_ports(copying.address)
        raise MigrationError("; ".join(filter(None, (limit.ended, why, "libvirt: %s" % failed))), hint=hint)
    return limit.stopped


def _run(guest, uuid, asked, limit, copying):
    """Ask libvirt for the migration, and watch it to its end. Return why it failed, or None."""
    outcome = []

    def run():
        try:
            guest.unbounded.migrateToURI3(*asked)
            outcome.append(None)
        except Exception as error:  # pylint: disable=broad-exception-caught  # such as of a parameter; told as libvirt's own
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    watch(guest, uuid, thread, limit, copying)
    return outcome[0]


def _closed_leftovers(guest):
    """Whether QEMU had nodes of an earlier migration, whose names libvirt needs again, and has closed them. It is asked
    only after a failure, since libvirt marks a guest as tainted if somebody talks to its QEMU."""
    try:
        return qemu_nodes.close_those_of_a_migration(guest)
    except BerthError:
        return False  # people need the reason why the migration failed


def _flags(targets, options):
    library = require_libvirt()
    flags = library.VIR_MIGRATE_LIVE | library.VIR_MIGRATE_PEER2PEER | library.VIR_MIGRATE_PAUSED
    if options.get("permit_auto_converge", True):
        flags |= library.VIR_MIGRATE_AUTO_CONVERGE
    if options.get("tls", True):
        flags |= library.VIR_MIGRATE_TLS
    return flags if targets.get("shared") else flags | library.VIR_MIGRATE_NON_SHARED_DISK


def _parameters(described, definition, record, targets, options, there):
    """Return what libvirt is given beside the flags. ``described``: the guest's definition on the source, ``definition``: with
    its files on the destination."""
    library = require_libvirt()
    parameters = {library.VIR_MIGRATE_PARAM_URI: "tcp://%s" % bracketed(targets["address"])}
    if targets.get("binds"):
        parameters[library.VIR_MIGRATE_PARAM_LISTEN_ADDRESS] = targets["address"]  # else QEMU listens on all addresses
    if not targets.get("shared"):
        parameters[library.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = to_copy(described)
    if live_checks.cells_of(there):
        definition = live_checks.bound_to_cells(definition, record.spec, live_checks.cells_of(there))
    if definition is not described:
        parameters[library.VIR_MIGRATE_PARAM_DEST_XML] = definition
    if options.get("bandwidth"):
        parameters[library.VIR_MIGRATE_PARAM_BANDWIDTH] = options["bandwidth"]
    return parameters


def _renamed(guest, uuid, remote):
    """Return {libvirt's parameter: the name of the definition that waits on the destination} if the guest has another:
    somebody may have renamed either, and libvirt would refuse it."""
    there = None
    with contextlib.suppress(BerthError):  # who cannot be asked refuses the migration itself
        there = remote and guests.find(Bounded(remote, CALL_SECONDS), uuid)
    if there is None or there.name() == guest.name():
        return {}
    return {require_libvirt().VIR_MIGRATE_PARAM_DEST_NAME: there.name()}


def to_copy(xml):
    """Return the disks to copy by name (vda). By itself, libvirt would skip one that somebody made read-only, and it
    would arrive empty; it refuses one that is named and cannot be copied."""
    return [target for target, _file in written_disks(xml)]


def written_disks(xml):
    """Return [(name, file)] of the disks in a definition that the guest writes to; ``file`` is "" for one without."""
    disks_of_guest = ElementTree.fromstring(xml).iterfind("devices/disk[source]")
    found = [(disk.find("target").get("dev"), disk.find("source").get("file") or "") for disk in disks_of_guest]
    return [(target, file) for target, file in found if not disks.is_read_only_file(file)]


def _as_there(described, record, pool_path, targets):
    """Return the guest's definition for the destination: as it is on shared storage. Its pool may have another path there."""
    if targets.get("shared"):
        return described
    definition = without_backing_images(described)
    if targets["pool_path"] == pool_path and not adopted.files(record.spec):
        return definition
    files = disks.files(targets["pool_path"], record.uuid, adopted_move.moved_in(record.spec))
    here = [path for _disk, path in disks.files(pool_path, record.uuid, record.spec)]
    return with_files(definition, dict(zip(here, (path for _disk, path in files))), paths.console_log(record.uuid))


def without_backing_images(xml):
    """Return the guest's definition for the destination, where disks need no backing images and the source's may not
    exist. libvirt names those only if it was restarted under the guest."""
    root = ElementTree.fromstring(xml)
    for disk in root.iterfind("devices/disk"):
        for below in disk.findall("backingStore"):
            disk.remove(below)
    return ElementTree.tostring(root, encoding="unicode")


def with_files(xml, there, console_log):
    """Return the definition with the paths that its files have on the destination, ``there``: {path: path there}."""
    root = ElementTree.fromstring(xml)
    for log in root.iterfind("devices/*/log"):
        log.set("file", console_log)
    for source in root.iterfind("devices/disk/source"):
        if source.get("file") in there:
            source.set("file", there[source.get("file")])
    for variables in root.iterfind("os/nvram"):
        variables.text = there.get(variables.text, variables.text)
    return ElementTree.tostring(root, encoding="unicode")


def watch(guest, uuid, thread, limit, copying):
    while thread.is_alive():
        thread.join(POLL)
        if thread.is_alive():
            _look_after(guest, uuid, limit, copying)


def _look_after(guest, uuid, limit, copying):
    """Write the progress, hold the time limit, and break off what stalls. What libvirt refuses, as between two phases, is
    tried again."""
    look = (
        lambda: note(guest, uuid, limit.stopped),
        lambda: limit.enforce(guest),
        lambda: copying.check(limit.ended),
    )
    for work in look:
        with contextlib.suppress(require_libvirt().libvirtError):
            work()
