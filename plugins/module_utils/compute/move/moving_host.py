# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the steps of a move do to a host (Effects): guest, room, disks and volumes; what a purge and an erase remove,
and which disks they leave, on shared storage or as another host's. For volumes see record/volume_move.py."""

from __future__ import annotations

import secrets
import time

from ...model import packet_words, shelves
from ...model.errors import BerthError
from ...model.lifecycle import RESIZING, RESTORING
from ...model.migration import LIVE, same_host
from ...model.move_errors import TransferFailed
from ...model.request_spec import RequestSpec
from ...model.vm_states import is_meant_paused
from .. import paths
from ..disk import disk, disk_chain, owner, volume
from ..guest import (
    adoptable,
    arrival,
    disk_users,
    domain,
    domain_xml,
    gate,
    grow,
    hardware,
    health,
    live_limits,
    network,
    packet_filter,
    packet_path,
)
from ..host import address, firmware, mdev
from ..record.ledger import Ledger
from . import (
    block_jobs,
    disks,
    handover,
    left_backup,
    live,
    live_checks,
    onlooker,
    precopy,
    storage,
    transfer,
    watchdog,
)
from .merge import unstartable
from .onlooker import Guests, Onlooker
from .volumes import VolumeEffects


class MovingHost(Onlooker):
    def __init__(self, host=None):
        super().__init__(host)
        self.settings = self.compute.settings
        self.effects = Effects(self)

    def now(self):
        """Return seconds since 1970, for people; no step of a move reads it."""
        return int(time.time())

    def nonce(self):
        return secrets.token_hex(16)


class Effects(Guests, VolumeEffects):
    """What the steps do to the world. Each method can safely be repeated."""

    def __init__(self, host):
        super().__init__(host.connection)
        self.host = host
        self.remote = None  # the destination's libvirt, on the source of a live migration
        self.downtime = None  # see live_watch.Downtime
        self.only_looks = False  # see rehearsal.py
        self.warnings = []  # for people

    # the guest

    def check_movable(self, record):
        """Check that the guest answers, and its disks and volumes are this host's alone."""
        health.check_answers(self.connection, record.uuid, record.name, self.host.identity["name"])
        block_jobs.check_no_others_jobs(self.connection, record, self.host.identity["name"])
        owner.check(self.pool_path(record), record.uuid, record.name, self.host.identity["uuid"])
        self._volumes(record).check_movable()
        adoptable.check_movable(self.connection, record)

    def end_left_backup(self, record):
        """Before the move begins, and has backups of its own. Check mode leaves it."""
        if not self.only_looks:
            left_backup.end(self.host.compute, record)

    def renewed(self, record):
        """Return the record with what the guest of an adopted instance is now."""
        return adoptable.renewed(self.connection, record, self.pool_path)

    def health(self, record):
        """Return what is known of the guest's health: {state, seen}."""
        return health.look(self.connection, record.uuid)

    def check_asked(self):
        """Raise RunEnded if nobody waits for the end of this module any more."""
        watchdog.Asked().check()

    def power_state(self, uuid):
        return domain.state(self.connection, uuid) or "absent"

    def stop(self, uuid, timeout):
        gate.revoke(uuid)
        record = self.host.store.read(uuid)
        if domain.stop(self.connection, uuid, timeout):
            self.warnings.append("%s did not shut down within %d s and was ended" % (record.name, timeout))
        mdev.remove(self.connection, uuid, record)

    def check_owner(self, record):
        """Raise DisksOfAnotherHost if the disks on shared storage are another host's: then the record here is old."""
        owner.check(self.pool_path(record), record.uuid, record.name, self.host.identity["uuid"])
        self._volumes(record).check_attached()

    def check_side(self, record):
        storage.check_side(self.pool_path(record), record)

    def start(self, record):
        self.host.compute.require_prepared()
        self.check_owner(record)
        if record.phase in (RESIZING, RESTORING):
            self.define_unless_changed(record)
            precopy.tidy(self.connection, record.uuid, disks.manifest(self.pool_path(record), record, with_path=True))
        else:
            self.define(record)
        packet_filter.define(self.connection, record)
        mdev.make(self.host.compute, record)
        disk.let_pass(self.pool_path(record), record.uuid)
        gate.permit(record.uuid)
        domain.start(self.connection, record.uuid)

    def define(self, record):
        """Define the guest, but for a shelved one. Raise DiskChainChanged if its disks are not the record's: its newest data would be
        lost."""
        if shelves.of(record.spec):
            return
        disk_chain.check(self.host.compute, record)
        domain_xml.define_guest(self.connection, record, self.host.compute.for_guests(record.spec.get("pool")))

    def define_unless_changed(self, record):
        """Define the guest, or leave it as it is if its disks have changed: the move is over or given up."""
        if not disk_chain.found_on(self.host.compute, record):
            self.define(record)

    def check_disks(self, record, live=False):
        """Raise DiskChainChanged if the disks are not the record's, DisksUsed if another domain has them, GuestSaved if a move
        would leave memory behind."""
        disk_chain.check_unsaved(self.host.compute, record)
        disk_users.check_move(self.host.compute, record)
        disk_chain.check(self.host.compute, record, live)

    def check_beside(self, record):
        """Raise DiskChainChanged if a purge would remove files that somebody made beside the disks."""
        if not storage.is_shared(record):
            disk_chain.check_beside(self.host.compute, record)

    def check_networks(self, record, hint):
        """Before the guest stops, check that it could start here again."""
        self.host.compute.require_prepared()
        firmware.check_here(self.host.compute, record)
        network.check_start(self.connection, record, hint)

    def check_deletable(self, record):
        disk_chain.check_delete(self.host.compute, record)

    def hide(self, record):
        """Prevent any start, by hand or by autostart, of what was released here or has just arrived."""
        gate.revoke(record.uuid)

    def settle(self, record):
        """Update the domain's metadata from the record if the guest is off. A running one has it since its start."""
        storage.unmark(self.pool_path(record), record.uuid)
        self._volumes(record).settle()
        if not self.running(record.uuid):
            self.define_unless_changed(record)

    def purge(self, record):
        """Remove what this host holds. Disks on shared storage belong to the other host too, and stay."""
        transfer.close(record.uuid)
        domain_xml.remove_guest(self.connection, record.uuid, record)
        gate.revoke(record.uuid)
        pool_path, host_uuid = self.pool_path(record), self.host.identity["uuid"]
        if storage.is_shared(record) or owner.is_another(pool_path, record.uuid, host_uuid):
            disks.discard_older(pool_path, record)
        else:
            disk.remove_all(pool_path, record.uuid, record.name, host_uuid)
        disk_users.remove_found(self.connection, record)
        self._volumes(record).forget()
        paths.remove_console_logs(record.uuid)

    def erase(self, record):
        """Remove the instance. This host owns it, and so its disks, wherever they are."""
        self.stop_transfer(record.uuid)
        domain_xml.remove_guest(self.connection, record.uuid, record)
        gate.revoke(record.uuid)
        pool_path, host_uuid = self.pool_path(record), self.host.identity["uuid"]
        if storage.exists(pool_path, record.uuid):
            owner.write(pool_path, record.uuid, host_uuid)
            disk.remove_all(pool_path, record.uuid, record.name, host_uuid)
        disk_users.remove_found(self.connection, record)
        self._volumes(record).settle()
        self._volumes(record).forget_unfinished()
        volume.release(self.host.compute, record)
        paths.remove_console_logs(record.uuid)

    def pool_path(self, record):
        return self.host.compute.pool_of(record)

    def allocate(self, spec, limits):
        """Return what the request takes on this host, by all checks of a claim. Needs the host's lock."""
        return Ledger(self.host.compute).allocate(RequestSpec.from_dict(spec), limits)

    # disks

    def check_destination(self, record, manifest):
        """Check in advance what would otherwise fail after the source has given up the instance: gate, confinement,
        networks, disks. Return whether source and destination share the storage."""
        self.host.compute.require_prepared()
        if record.migration["type"] != LIVE:  # else reported with all other problems
            network.check(self.connection, record.spec.get("networks"))
            arrival.check(self.connection, record.spec.get("networks"))
        self.host.compute.check_machine(hardware.machine(record.spec))
        self.host.compute.cpu_model()
        firmware.check(self.host.compute, record, disks.variables(manifest))
        arrival.check_adopted(self.host.compute, record)
        storage.check_backup(self.host.identity["name"], record)
        pool_path = self.pool_path(record)
        shared = storage.is_one(pool_path, record.uuid, record.op) or (
            self.only_looks and storage.is_owned_by_source(pool_path, record)
        )
        if shared:
            disks.check_seen(pool_path, record, manifest)
        else:
            storage.check_no_files(pool_path, record.uuid)
        if not (self.only_looks and shared):  # nothing is marked then
            self._volumes(record).check_seen(shared)
        return shared

    def disks(self, record):
        if record.op and not same_host(record.migration) and not self.only_looks:
            storage.mark(self.pool_path(record), record, self.host.identity["uuid"])
        found = disks.manifest(self.pool_path(record), record, with_path=True)
        return [
            {
                **{part: disk[part] for part in ("name", "format", "size", "whole", "variables") if part in disk},
                "used": transfer.allocated(disk),
            }
            for disk in found
        ]

    def check_room(self, record, manifest):
        """Raise MigrationPreCheckError if what the source has to copy does not fit into what is free here."""
        if record.migration["type"] != LIVE and not storage.is_shared(record):  # of a live one its own checks tell
            storage.check_room(self.host, self.pool_path, record, manifest)

    def _check_volumes_offered(self, record, manifest):
        if not storage.is_shared(record):
            disks.check_volumes_offered(self.pool_path(record), record, manifest)

    def receive(self, record, manifest, key):
        self.check_room(record, manifest)
        self._check_volumes_offered(record, manifest)
        targets = self.open_targets(record, manifest, key)
        if targets:
            with transfer.closed_on_failure(record.uuid):
                disks.add_new(self.pool_path(record), record)
        return targets

    def open_targets(self, record, manifest, key):
        wanted = disks.grown(disks.expected(self.pool_path(record), record, manifest), record)
        storage.check_shared_as_claimed(self.pool_path(record), record)
        if storage.is_shared(record):
            return []
        here = self.address()
        transfer.check_address(here, self.host.identity["name"])
        return transfer.open_targets(record.uuid, wanted, key, here, record.migration["attempt"])

    def address(self):
        """Return the address at which other hosts reach this one."""
        return address.of_host(self.host.settings.migration_address, self.host.identity["name"])

    def presend(self, record, targets, key, options):
        """Copy while the guest runs. A failure only costs time, since send then copies everything."""
        if not targets or not options.get("copy_while_running"):
            return None
        manifest = disks.manifest(self.pool_path(record), record, with_path=True)
        if not precopy.is_possible(self.connection, record, manifest):
            return None
        bandwidth = transfer.bytes_per_second(options)
        try:
            return precopy.copy_running(self.connection, record, manifest, targets, key, bandwidth)
        except TransferFailed as error:
            self.check_movable(record)  # a guest whose own QEMU hangs must not be stopped
            return {"failed": str(error)}

    def send(self, record, targets, key, options):
        if not targets:
            disks.layer(self.pool_path(record), record)
            return {"shared": True}
        manifest = disks.manifest(self.pool_path(record), record, with_path=True)
        precopy.discard_scratch(manifest)
        bandwidth = transfer.bytes_per_second(options)
        missing, bitmaps = precopy.what_is_missing(record, manifest)

        def copy_rest(disk, target):
            return precopy.copy_rest(record.uuid, disk, target, bitmaps[disk["name"]], bandwidth)

        rest = dict.fromkeys(bitmaps, copy_rest)
        return dict(transfer.send(record.uuid, missing, targets, key, bandwidth, rest), increments=sorted(rest))

    def complete(self, record):
        transfer.close(record.uuid)
        storage.check_shared_as_claimed(self.pool_path(record), record)
        disks.check_arrived(self.pool_path(record), record)
        if not storage.is_shared(record):
            disks.publish(self.pool_path(record), record)

    def take_over(self, record):
        """On the destination, after the source has given up the instance: own its disks. On shared storage the old ones
        are kept under another name, as in a move on one host; a guest that arrived live already runs on them."""
        if storage.is_shared(record) and record.migration["type"] != LIVE:
            disks.swap_in(self.pool_path(record), record)
        owner.write(self.pool_path(record), record.uuid, self.host.identity["uuid"])
        self.own_volumes(record)
        self._volumes(record).check_attached()

    def check_kept(self, record, hint):
        disks.check_kept(self.pool_path(record), record, hint)
        self._volumes(record).check_kept(hint)
        if not (storage.is_shared(record) or self.only_looks):
            owner.check_writable(self.pool_path(record), record.uuid)
        self.check_restorable(record)

    def check_restorable(self, record):
        """Raise FileNotUsable or StateNotWritten if the disks here could only be read, or no start could be permitted. It takes
        no room beside the disks: going back to the kept ones makes some."""
        if not self.only_looks:
            disk.check_writable(self.pool_path(record), record, self.host.identity["name"])
            gate.check_writable(record.uuid)

    def take_back(self, record):
        """On the source, own the disks again after the destination has given the instance back."""
        if storage.is_shared(record):
            disks.restore(self.pool_path(record), record)
        owner.write(self.pool_path(record), record.uuid, self.host.identity["uuid"])
        self.own_volumes(record)

    def stop_transfer(self, uuid):
        record = self.host.compute.store.read(uuid)
        live.abort(self.connection, uuid, not (record and is_meant_paused(record)))
        left_backup.end_backup_of(self.connection, uuid)
        transfer.close(uuid)

    # the same host, and what a confirm does with old disks on shared storage

    def keep_disks(self, record):
        disks.layer(self.pool_path(record), record)
        disks.swap_in(self.pool_path(record), record)

    def has_kept_disks(self, record):
        return disks.has_kept(self.pool_path(record), record)

    def restore_disks(self, record):
        disks.restore(self.pool_path(record), record)

    def drop_disks(self, record):
        with unstartable(self.connection, record.uuid):
            disks.drop_kept(self.connection, self.pool_path(record), record)

    # the same host, while the guest runs

    def grow(self, record):
        """Give the running guest what the record's flavor has, and write that into its definition. Its next start has it
        from the beginning."""
        guest = domain.find_active(self.connection, record.uuid)
        grow.grow(guest, record)
        self._as_recorded(guest, record)

    def shrink(self, record):
        """The way back. Return whether the guest let go of all of it."""
        guest = domain.find_active(self.connection, record.uuid)
        if not grow.shrink(guest, record):
            self.warnings.append(
                "the guest of %s does not let go of the CPUs or memory that it got, so it is restarted" % record.name
            )
            return False
        self._as_recorded(guest, record)
        return True

    def _as_recorded(self, guest, record):
        live_limits.bring(guest, record)
        self.define_unless_changed(record)
        domain.note(guest, domain_xml.metadata(record)[0])

    # live

    def arrived(self, record):
        return record.migration["type"] == LIVE and live.has_arrived(self.connection, record.uuid)

    def discard_arrived(self, record):
        domain.destroy(domain.find(self.connection, record.uuid))

    def resume(self, record):
        self.check_owner(record)
        gate.permit(record.uuid)
        if is_meant_paused(record):
            return
        domain.start(self.connection, record.uuid)
        try:
            left = packet_path.mend_packets(self.connection, record)[1]
        except BerthError as error:  # it runs here, whatever the look says
            self.warnings.append(packet_words.unknown(record.name, str(error)))
        else:
            self.warnings += ["%s: %s" % (record.name, packet_words.told(record.name, left))] if left else []

    def receive_seed(self, record, manifest, key):
        self._check_volumes_offered(record, manifest)
        return self.open_targets(record, disks.read_only(manifest), key)

    def send_seed(self, record, targets, key):
        manifest = disks.manifest(self.pool_path(record), record, with_path=True)
        return transfer.send(record.uuid, disks.read_only(manifest), targets, key)

    def describe_live(self, record):
        """Return what the destination has to know of the guest, or None if it has already left."""
        guest = domain.find_active(self.connection, record.uuid)
        if guest is None:
            return None
        manifest = disks.manifest(self.pool_path(record), record, with_path=True)
        return live_checks.describe(self.connection, guest, [entry["path"] for entry in manifest])

    def inspect_live(self, record, guest):
        pool_path, nics = self.pool_path(record), record.spec.get("networks")
        shared = storage.is_shared(record)
        return live_checks.look(self.connection, guest, nics, pool_path, shared, self.address())

    def check_live(self, record, seen, options, there=None):
        """Return the problems; none for a guest that is being migrated or has left."""
        guest = domain.find_active(self.connection, record.uuid)
        if guest is None or onlooker.is_migrating(guest):
            return []
        return live_checks.judge(guest, record, seen, options.get("tls", True), self.pool_path(record), there)

    def prepare_live(self, record, manifest):
        self.host.compute.require_prepared()
        arrived = live.has_arrived(self.connection, record.uuid)
        if not self.running(record.uuid) and not storage.is_shared(record):
            transfer.close(record.uuid)
            disks.publish(self.pool_path(record), record)
        prepared = live.prepare(self, record, manifest, arrived)
        gate.permit_arrival(record.uuid)  # withdrawn when it has arrived
        return prepared

    def follow_live(self, record, options):
        """Wait for the end of another run's migration. Return whether there was one and the guest has left."""
        return live.follow(self.connection, record.uuid, options, not is_meant_paused(record))

    def migrate_live(self, record, targets, options, there=None):
        self.remote, self.downtime = live.migrate(self, record, targets, options, there)

    def channel_to_destination(self, uuid, op):
        """Return None if this run did not open the destination's libvirt, but followed another run's migration."""
        if self.remote is None:
            return None
        return handover.MessageChannel(self.remote, uuid, op, outgoing=handover.SOURCE, incoming=handover.DESTINATION)

    def was_forced(self):
        """Whether the time limit stopped the guest that this run migrated."""
        return bool(self.downtime and self.downtime.forced)

    def downtime_ms(self):
        """Return the downtime of the guest that this run migrated, or None if it is not known."""
        return self.downtime and self.downtime.end()

    def channel_to_source(self, uuid, op):
        return handover.MessageChannel(
            self.connection.unbounded, uuid, op, outgoing=handover.DESTINATION, incoming=handover.SOURCE
        )
