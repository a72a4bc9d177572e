# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings one instance on this host to the requested state: made (build.py), started (start.py), stopped, absent
(delete.py).

Every step is recorded before or after its effect, so the run after a crash continues there. ``observe(step)`` is called
before each effect, for progress and for tests that end the process there.
"""

from __future__ import annotations

from ...model import copy_hints, hints, vm_states
from ...model.errors import InvalidInput
from ...model.lifecycle import (
    ACTIVE,
    BUILDING,
    CLAIM,
    CLAIMED,
    DELETING,
    KEEP,
    OWN,
    POWERING_OFF,
    RESIZED,
    SETTING_ASIDE,
)
from ...model.move_errors import InstanceInvalidState, InstanceNotFound
from ...model.safe_text import clean
from .. import paths
from ..disk import differences, disk, disk_chain
from ..errors import ClaimRevoked, DeletionFinished
from ..host import mdev
from ..record import failed_instances, journal, whereabouts
from . import build, delete, domain, gate, mend, packet_filter, start, startable, summary
from .summary import is_in, is_made, is_started

LOCK_TIMEOUT = 600  # s: long enough for a build by another run, or one whose controller was killed


def _to_go_on(record):
    """Return the hint that ends a move. A revert discards what the guest wrote, so a person chooses it or a confirm."""
    if record.phase == SETTING_ASIDE:
        return copy_hints.keep_one_again(record.name)
    if record.phase in (KEEP, RESIZED):
        return hints.confirm_or_revert(record.name)
    return hints.finish_move(record.name)


def _nothing(step):
    """Observe nothing."""


class Instance:
    """The work on one instance; ``host`` is a compute.host.Host."""

    def __init__(self, host, uuid, timeout=LOCK_TIMEOUT, observe=_nothing):
        self.host = host
        self.store = host.store
        self.uuid = uuid
        self.timeout = timeout
        self.observe = observe
        self.clone = None  # what makes the disks of a clone, see backup/clone.py; only module build_instances has that
        self.updates = []  # what an update changed, or would, in words
        self.told = []  # what people are told beside the result
        self.repaired = []  # what a start repaired, or would, of a guest that runs: [[part, expected, had]]

    def beside(self, uuid):
        """Return the work on another instance of this host."""
        return Instance(self.host, uuid, self.timeout, self.observe)

    # what exists

    def summary(self):
        """Return {uuid, name, role, phase, vm_state, task_state, power_state, ...} or {state: absent}, for people."""
        record = self.store.read(self.uuid)
        if record is None:
            return {"uuid": self.uuid, "state": "absent"}
        connection = self.host.connection
        state = domain.shown_state(connection, self.uuid, domain.state(connection, self.uuid))
        return {**summary.describe(record, state), **differences.reported_missing(record, self.host.pool_path)}

    # made

    def made(self, token=None, given_seed=None, left_off=False):
        """Build from the claim with ``token``, or finish an interrupted build. Return whether anything was changed.

        An instance that was made is left as it is: whoever stopped it, or whatever ended its guest, had a reason. With
        ``left_off``, a new guest is not started.
        """
        with self.store.instance_lock(self.uuid, timeout=self.timeout):
            return not is_made(self._started_record(token), left_off) and self.started(token, given_seed, left_off)

    def would_make(self, token=None, left_off=False):
        record = self._started_record(token, dry=True)
        return record is None or not is_made(record, left_off)

    def filtered(self, wanted, dry=False):
        """Update the packet filters of a made, unlocked guest to the request ``wanted``. Return whether anything changed."""
        with self.store.instance_lock(self.uuid, timeout=self.timeout):
            record = self.store.read(self.uuid)
            if record is None or not wanted or record.op or record.lock or (record.role, record.phase) != (OWN, ACTIVE):
                return False
            return packet_filter.follow(self.host.connection, record, wanted, None if dry else self.swap)

    # started

    def started(self, token=None, given_seed=None, left_off=False):
        """Build from the claim with ``token``, or converge an existing instance. Return whether anything changed."""
        with self.store.instance_lock(self.uuid, timeout=self.timeout):
            record = self._started_record(token)
            if record.role == OWN and record.phase == ACTIVE:
                return start.converge(self, record)
            if given_seed is None:
                raise InvalidInput("seed", None, "needed to build an instance")
            with build.build_slot(self.store.state_dir, self.host.settings.max_concurrent_builds):
                build.build(self, record, given_seed, left_off)
            return True

    def would_start(self, token=None):
        """Make the same decision without any change."""
        record = self._started_record(token, dry=True)
        if record is None or record.role == CLAIM or record.phase != ACTIVE:
            return True
        start.check(self, record)
        if is_started(self.host, record):
            self.repaired = mend.packets(self, record, dry=True)
            return bool(self.repaired)
        return True

    def _started_record(self, token, dry=False):
        record = self.store.read(self.uuid)
        if record is None:
            self._refuse_failed()
            raise ClaimRevoked("this host has no claim for instance %s" % self.uuid)
        self._refuse_moving(record)
        if record.role == CLAIM and record.token != token:
            raise ClaimRevoked("the claim of %s was adopted by another run" % record.name)
        if record.phase == DELETING and not dry:
            delete.check_pool(self.host, record)
            delete.delete(self, record)
            raise DeletionFinished(
                "an earlier run had begun to delete %s or to undo its failed build; that is finished now, and %s is gone"
                % (record.name, record.name),
                hint=hints.create_if_wanted(record.name),
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

    # stopped

    def stopped(self, grace):
        """Stop the guest; ``grace`` seconds for its own shutdown. Return whether anything was changed."""
        with self.store.instance_lock(self.uuid, timeout=self.timeout):
            record = self.at_rest("stop")
            if is_in(self.host, record, vm_states.STOPPED):
                return False
            disk_chain.check_stop(self.host, record)
            startable.own_disks(self.host, record)
            record = self.swap(record.replace(power_state="shutdown", task_state=POWERING_OFF))
            self.observe("stop")
            gate.revoke(self.uuid, self.host.run_dir)
            forced = domain.stop(self.host.connection, self.uuid, grace)
            self.tell_force(forced and grace)
            mdev.remove(self.host.connection, self.uuid, record)
            self.observe("stopped")
            self.swap(journal.noted(record, "stop", forced=forced).replace(vm_state=vm_states.STOPPED, task_state=None))
            return True

    def tell_force(self, seconds):
        """``seconds``: in which the guest was asked to shut down, if it had to be ended then."""
        if seconds:
            self.told.append("it did not shut down within %d s and was ended" % seconds)

    def would_stop(self):
        record = self.at_rest("stop")
        if is_in(self.host, record, vm_states.STOPPED):
            return False
        disk_chain.check_stop(self.host, record)
        return True

    def at_rest(self, method):
        """Return the record of an instance that was made and is in no move, as ``method`` of vm_states.CHANGES needs it."""
        record = self.store.read(self.uuid)
        if record is None:
            self._refuse_failed()
            raise InstanceNotFound("Instance %s could not be found" % self.uuid)
        self._refuse_moving(record)
        if record.role != OWN or record.phase != ACTIVE:
            raise InstanceInvalidState(record.name, "phase", record.phase, method, phase=record.phase)
        vm_states.check(record.name, record.vm_state, method, record.task_state)
        return record

    # absent

    def absent(self, changed_disks=False, after=None):
        """Remove the instance with its disks, or an orphan that berth left here. Return whether there was anything. If
        its disks are not those of its record, ``changed_disks`` is required: others' files beside its own are removed
        too. ``after`` is the highest generation that any host knows of: up to that, the instance is gone from here."""
        with self.store.instance_lock(self.uuid, timeout=self.timeout):
            record = self.store.read(self.uuid)
            if record is None:
                found = failed_instances.forget(self.store, [self.uuid]) | delete.sweep(self)
            else:
                self._check_removable(record, changed_disks)
                delete.delete(self, record)
                found = True
            return bool(after and whereabouts.removed(self.store, self.uuid, after)) | found

    def _check_removable(self, record, changed_disks):
        self._refuse_moving(record)
        delete.check_volumes(self.store, record)
        if record.phase == DELETING and not changed_disks:
            delete.check_pool(self.host, record)
        if record.phase == ACTIVE and not changed_disks:
            disk_chain.check_delete(self.host, record)

    def would_remove(self, changed_disks=False):
        record = self.store.read(self.uuid)
        if record is not None:
            self._check_removable(record, changed_disks)
            return True
        return self.uuid in failed_instances.read(self.store.state_dir) or bool(self.remains())

    def remains(self):
        """Describe in words what is here of an instance without a record: what a delete then removes."""
        if self.store.read(self.uuid) is not None:
            return []
        there = domain.find(self.host.connection, self.uuid)
        found = [] if there is None or not domain.is_managed(there) else ["domain %s" % clean(there.name(), 100)]
        found += [
            paths.instance(path, self.uuid)
            for path in delete.pools_of(self.host, self.uuid)
            if disk.is_there(path, self.uuid)
        ]
        return found + paths.console_logs(self.uuid)

    def swap(self, new):
        """Write the record's next state, compared with the present one."""
        current = self.store.read(self.uuid)
        if current is None:
            raise ClaimRevoked("the record of %s vanished" % self.uuid)
        if list(new.generation) <= list(current.generation):
            new = new.replace(generation=[current.generation[0], current.generation[1] + 1])
        return self.store.compare_and_swap(current, new)
