# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One instance on this host, brought to the state that is wanted: the steps C3 to C7 and Cx of the design.

    CLAIM -C3-> OWN building -C4 disks, seed-> -C5 define-> -C6-> active -C7 permit, start-> running
    Cx: phase deleting, then guest, definition, disks, permit, record

Every step is written down before or after its effect so that a run that follows a crash at any point goes on there.
Until ``active`` is written the guest has never run and is rebuilt; from then on its disks are never made again.
``observe(step)`` is called before each effect, for progress and for tests that end the process there.
"""

from __future__ import annotations

from ...model import hints, volumes
from ...model.errors import BerthError, InvalidInput
from ...model.lifecycle import CLAIM, KEEP, OWN, RESIZED, SETTING_ASIDE
from ...model.move_errors import InstanceInvalidState, InstanceNotFound
from ...model.safe_text import clean
from .. import paths
from ..connection import LibvirtTimeout
from ..disk import disk, disk_chain, volume, volume_files
from ..errors import (
    ClaimRevoked,
    CleanupFailed,
    DeletionFinished,
    StateUnknown,
    typed,
)
from ..record import build_slots, failed_builds, failed_instances, journal, whereabouts
from . import definition, domain, domain_xml, gate, instance_pools, network, packet_filter, seed, startable, summary
from .mend import before_start
from .startable import SPAWNING

CLAIMED, BUILDING, ACTIVE, DELETING = "claimed", "building", "active", "deleting"
LOCK_TIMEOUT = 600  # s: a build by another run, or one whose controller was killed, is waited for


def _to_go_on(record):
    """A revert gives up what the guest wrote since: where a confirmation is waited for, a person chooses."""
    if record.phase == SETTING_ASIDE:
        return hints.keep_one_again(record.name)
    if record.phase in (KEEP, RESIZED):
        return hints.confirm_or_revert(record.name)
    return hints.finish_move(record.name)


def _nothing(step):
    """No observer."""


class Instance:
    """The work on one instance; ``host`` is a compute.host.Host."""

    def __init__(self, host, uuid, timeout=LOCK_TIMEOUT, observe=_nothing):
        self.host = host
        self.store = host.store
        self.uuid = uuid
        self.timeout = timeout
        self.observe = observe

    # what is there

    def summary(self):
        """{uuid, name, role, phase, vm_state, task_state, power_state, ...} or {state: absent}: for people."""
        record = self.store.read(self.uuid)
        if record is None:
            return {"uuid": self.uuid, "state": "absent"}
        return summary.describe(record, domain.state(self.host.connection, self.uuid))

    # made

    def made(self, token=None, given_seed=None, left_off=False):
        """Build from the claim with ``token``, or end a build that was interrupted; whether anything was changed.

        An instance that was made is left as it is found: who stopped it, or what ended its guest, had a reason. What is
        built with ``left_off`` is not started.
        """
        with self.store.instance_lock(self.uuid, timeout=self.timeout):
            return not is_made(self._started_record(token), left_off) and self.started(token, given_seed, left_off)

    def would_make(self, token=None, left_off=False):
        record = self._started_record(token, dry=True)
        return record is None or not is_made(record, left_off)

    def filtered(self, wanted, dry=False):
        """Bring the packet filters of a guest that was made to what the request ``wanted`` says; whether anything was changed."""
        with self.store.instance_lock(self.uuid, timeout=self.timeout):
            record = self.store.read(self.uuid)
            if record is None or not wanted or record.op or (record.role, record.phase) != (OWN, ACTIVE):
                return False
            return packet_filter.follow(self.host.connection, record, wanted, None if dry else self._swap)

    # started

    def started(self, token=None, given_seed=None, left_off=False):
        """Build from the claim with ``token``, or converge what is there; whether anything was changed."""
        with self.store.instance_lock(self.uuid, timeout=self.timeout):
            record = self._started_record(token)
            if record.role == OWN and record.phase == ACTIVE:
                return self._converge_started(record)
            if given_seed is None:
                raise InvalidInput("seed", None, "needed to build an instance")
            with build_slots.slot(self.store.state_dir, self.host.settings.max_concurrent_builds):
                self._build(record, given_seed, left_off)
            return True

    def would_start(self, token=None):
        """The same decision without any change."""
        record = self._started_record(token, dry=True)
        if record is None or record.role == CLAIM or record.phase != ACTIVE:
            return True
        self._check_startable(record)
        return not self._is_converged_started(record)

    def _started_record(self, token, dry=False):
        record = self.store.read(self.uuid)
        if record is None:
            self._refuse_failed()
            raise ClaimRevoked("this host has no claim for instance %s" % self.uuid)
        self._refuse_moving(record)
        if record.role == CLAIM and record.token != token:
            raise ClaimRevoked("the claim of %s was adopted by another run" % record.name)
        if record.phase == DELETING and not dry:
            self._delete(record)
            raise DeletionFinished(
                "an earlier run had begun to delete %s; that is done, now it can be placed anew" % record.name
            )
        return record

    def _refuse_failed(self):
        failure = failed_instances.read(self.store.state_dir).get(self.uuid)
        if failure:
            raise InstanceInvalidState(
                failure["name"],
                "vm_state",
                "error",
                "change",
                hint=hints.create_or_delete(failure["name"]),
                fault={name: failure[name] for name in ("code", "message", "at")},
            )

    def _refuse_moving(self, record):
        if record.op or record.role not in (OWN, CLAIM) or record.phase not in (CLAIMED, BUILDING, ACTIVE, DELETING):
            raise InstanceInvalidState(
                record.name,
                "phase",
                record.phase,
                "change",
                hint=_to_go_on(record),
                role=record.role,
                phase=record.phase,
                op=record.op,
            )

    def _is_converged_started(self, record):
        return (
            record.power_state == "running"
            and (record.vm_state, record.task_state) == ("active", None)
            and domain.state(self.host.connection, self.uuid) == "running"
            and gate.is_permitted(self.uuid, self.host.run_dir)
        )

    def _converge_started(self, record):
        if self._is_converged_started(record):
            return False
        self.host.require_prepared()
        self._check_startable(record)
        try:
            self._start(record)
        except BerthError as error:
            self._swap(journal.faulted(self.store.read(self.uuid), error))
            raise
        return True

    def _check_startable(self, record):
        if not domain.is_active(self.host.connection, self.uuid):
            startable.check(self.host, record)

    def _build(self, record, given_seed, left_off):
        try:
            self.host.require_prepared()
            startable.check_unmade(self.host, record)
        except Exception as error:
            if record.role == CLAIM:
                volume.drop_claim(self.host, record)
            raise typed(error)
        record = self._own(record)
        try:
            record = self._make(record, given_seed, left_off)
        except Exception as error:
            failure = typed(error)
            self._clean_up(failure)
            raise failure
        try:
            if not left_off:
                self._start(record)
        except LibvirtTimeout as error:
            raise StateUnknown("whether the guest of %s was started is not known: %s" % (record.name, error))
        except Exception as error:
            failure = typed(error)
            if not domain.is_active(self.host.connection, self.uuid):
                self._clean_up(failure)
            raise failure
        failed_builds.forget(self.store.state_dir)

    def _own(self, record):
        """C3: the claim becomes ownership. A record in phase building is an ended run's: its guest never ran."""
        self.observe("C3")
        if record.role == OWN:
            return self._swap(journal.noted(volume.without_used(self.store, record), "build", resumed=True))
        event = journal.noted(record, "build")
        return self._swap(
            event.replace(
                role=OWN,
                generation=[record.generation[0] + 1, 0],
                phase=BUILDING,
                vm_state="building",
                task_state="block_device_mapping",
            )
        )

    def _make(self, record, given_seed, left_off):
        spec = record.spec
        host = self.host.for_guests(spec.get("pool"))
        network.check(self.host.connection, spec.get("networks"))
        self.host.check_machine(domain_xml.machine(record, host))
        self.observe("C4 disks")
        definition.remove(self.host.connection, self.uuid)
        disk.remove_all(host.pool_path, self.uuid, self.host.identify())
        disk.build(host.pool_path, self.uuid, spec, self.host.identify(), self.host.settings)
        self.observe("C4 volumes")
        volume_files.make(self.host, record)
        self.observe("C4 seed")
        seed.build(host.pool_path, self.uuid, given_seed, [planned.name for planned in disk.plan(spec)])
        record = self._swap(record.replace(task_state=SPAWNING))
        self.observe("C5 define")
        record = definition.define(self.host.connection, record, host)
        self.observe("C6 active")
        if left_off:
            volume.mark_used(self.store, record)
            record = record.replace(task_state=None, spec=volumes.used(spec))
        vm_state, power_state = ("stopped", "shutdown") if left_off else ("active", "running")
        return self._swap(record.replace(phase=ACTIVE, vm_state=vm_state, power_state=power_state))

    def _start(self, record):
        """C7, and every later start: permit, then start. Defines the guest anew where libvirt lost it."""
        self.host.require_prepared()
        task_state = SPAWNING if record.task_state == SPAWNING else "powering-on"
        record = self._swap(record.replace(power_state="running", vm_state="active", task_state=task_state))
        if domain.find(self.host.connection, self.uuid) is None:
            self.observe("C7 define")
            host = self.host.for_guests(record.spec.get("pool"))
            record = definition.define(self.host.connection, record, host)
        else:
            before_start(self, record)
        packet_filter.define(self.host.connection, record)
        startable.own_disks(self.host, record)
        volume.mark_used(self.store, record)
        self.observe("C7 permit")
        gate.permit(self.uuid, self.host.run_dir)
        self.observe("C7 start")
        domain.start(self.host.connection, self.uuid)
        self.observe("C7 started")
        self._swap(journal.noted(record, "start").replace(task_state=None, spec=volumes.used(record.spec)))

    def _clean_up(self, error):
        """Cx. A host's own trouble counts against it; what remains is said, and stays in phase deleting."""
        try:
            record = self.store.read(self.uuid)
            self._delete(record, volumes.undone(record.spec))
            if error.host_fault:
                failed_builds.add(self.store.state_dir)
        except (BerthError, OSError) as trouble:
            raise CleanupFailed(
                "the build failed (%s) and could not be removed: %s" % (error, trouble),
                hint=hints.again_when_well(),
                cause=error.to_dict(),
            )

    # stopped

    def stopped(self, grace):
        """Have the guest off; ``grace`` seconds for its own shutdown. Whether anything was changed."""
        with self.store.instance_lock(self.uuid, timeout=self.timeout):
            record = self.at_rest("stop")
            if self._is_converged_stopped(record):
                return False
            startable.own_disks(self.host, record)
            record = self._swap(record.replace(power_state="shutdown", task_state="powering-off"))
            self.observe("stop")
            gate.revoke(self.uuid, self.host.run_dir)
            forced = domain.stop(self.host.connection, self.uuid, grace)
            self.observe("stopped")
            self._swap(journal.noted(record, "stop", forced=forced).replace(vm_state="stopped", task_state=None))
            return True

    def would_stop(self):
        return not self._is_converged_stopped(self.at_rest("stop"))

    def at_rest(self, method):
        """The record of an instance that was made and is in no move: what ``method`` works on."""
        record = self.store.read(self.uuid)
        if record is None:
            self._refuse_failed()
            raise InstanceNotFound("Instance %s could not be found" % self.uuid)
        self._refuse_moving(record)
        if record.role != OWN or record.phase != ACTIVE:
            raise InstanceInvalidState(record.name, "phase", record.phase, method, phase=record.phase)
        return record

    def _is_converged_stopped(self, record):
        return (record.power_state, record.vm_state, record.task_state) == (
            "shutdown",
            "stopped",
            None,
        ) and not domain.is_active(self.host.connection, self.uuid)

    # absent

    def absent(self, changed_disks=False, after=None):
        """Remove the instance with its disks, or an orphan that berth left here; whether there was anything. One whose
        disks are not those of its record only with ``changed_disks``: others' files beside its own go with it.
        ``after`` is the highest generation that any host has heard of: up to that it is gone from here."""
        with self.store.instance_lock(self.uuid, timeout=self.timeout):
            record = self.store.read(self.uuid)
            if record is None:
                found = failed_instances.forget(self.store, [self.uuid]) | self._sweep()
            else:
                self._check_removable(record, changed_disks)
                self._delete(record)
                found = True
            return bool(after and whereabouts.removed(self.store, self.uuid, after)) | found

    def _check_removable(self, record, changed_disks):
        self._refuse_moving(record)
        if record.phase == ACTIVE and not changed_disks:
            disk_chain.check_delete(self.host, record)

    def would_remove(self, changed_disks=False):
        record = self.store.read(self.uuid)
        if record is not None:
            self._check_removable(record, changed_disks)
            return True
        return self.uuid in failed_instances.read(self.store.state_dir) or bool(self.remains())

    def remains(self):
        """What is here of the instance where there is no record of it, in words: what a delete removes then."""
        if self.store.read(self.uuid) is not None:
            return []
        there = domain.find(self.host.connection, self.uuid)
        found = [] if there is None or not domain.is_managed(there) else ["domain %s" % clean(there.name(), 100)]
        found += [
            paths.instance(path, self.uuid)
            for path in instance_pools.find(self.host, self.uuid)
            if disk.is_there(path, self.uuid)
        ]
        return found + paths.console_logs(self.uuid)

    def _delete(self, record, spec=None):
        """``spec``: the request that says what becomes of the volumes; those of a guest that was not made yet stay."""
        if record.phase != DELETING:
            self.observe("Cx deleting")
            spec = spec or (record.spec if is_made(record) else volumes.kept(record.spec))
            deleting = journal.noted(record, "delete").replace(phase=DELETING, task_state="deleting", spec=spec)
            record = self._swap(deleting)
        self._sweep(record)
        self.observe("Cx volumes")
        volume.release(self.host, record)
        self.observe("Cx record")
        self.store.compare_and_swap(record, None)

    def _sweep(self, record=None):
        """Remove everything but the record; whether there was anything."""
        pools = instance_pools.find(self.host, self.uuid, record)
        self.observe("Cx permit")
        found = gate.revoke(self.uuid, self.host.run_dir)
        self.observe("Cx domain")
        found = definition.remove(self.host.connection, self.uuid) or found
        self.observe("Cx disks")
        for pool_path in pools:
            found = disk.remove_all(pool_path, self.uuid, self.host.identify()) or found
        return paths.remove_console_logs(self.uuid) or found

    def _swap(self, new):
        """Write the record's next state, compared with what is there now."""
        current = self.store.read(self.uuid)
        if current is None:
            raise ClaimRevoked("the record of %s vanished" % self.uuid)
        if list(new.generation) <= list(current.generation):
            new = new.replace(generation=[current.generation[0], current.generation[1] + 1])
        return self.store.compare_and_swap(current, new)


def is_made(record, left_off=False):
    """Whether its guest was started once, or is to be ``left_off``: until then it is create's to end what it began."""
    return record.role == OWN and record.phase == ACTIVE and (left_off or record.task_state != SPAWNING)
