# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The build of an instance from its claim, and the clean-up of one that failed.

    CLAIM -> OWN building: disks, volumes, seed, definition -> active: start -> running

Until ``active`` is written the guest has never run and is rebuilt; from then on its disks are never made again.
One that is made again from its backup becomes shelved there, with its room taken: procedures/evacuate.py has it restored.
"""

from __future__ import annotations

import contextlib
import os
import time

from ...model import clone_hints, clones, hints, shelves, vm_states, volumes
from ...model.errors import BerthError
from ...model.lifecycle import ACTIVE, BUILDING, CLAIM, OWN, SPAWNING, UNSHELVING
from .. import durable, lock
from ..connection import LibvirtTimeout
from ..disk import disk, volume, volume_files
from ..errors import CleanupFailed, HostBusy, StateUnknown, typed
from ..record import counters, journal
from . import delete, domain, domain_xml, gate, network, seed, start, startable


def build(instance, record, given_seed, left_off):
    try:
        instance.host.require_prepared()
        startable.check_unmade(instance.host, record)
        _check_clone(instance, record)
        gate.check_writable(instance.uuid, instance.host.run_dir)  # else it could neither start nor be removed
    except Exception as error:
        if record.role == CLAIM:
            volume.drop_claim(instance.host, record)
        raise typed(error)
    record = _own(instance, record)
    try:
        record = _make(instance, record, given_seed, left_off)
    except Exception as error:
        failure = typed(error)
        _clean_up(instance, failure)
        raise failure
    try:
        if not left_off and not shelves.of(record.spec):
            start.start(instance, record)
    except LibvirtTimeout as error:
        raise StateUnknown("it is unknown whether the guest of %s was started: %s" % (record.name, error))
    except Exception as error:
        failure = typed(error)
        if not domain.is_active(instance.host.connection, instance.uuid):
            _clean_up(instance, failure)
        raise failure
    counters.forget_failed_builds(instance.store.state_dir)


def _check_clone(instance, record):
    if clones.of(record.spec) and instance.clone is None:
        raise clones.CloneNotPossible(
            "%s is a clone that was not finished, and module build_instances makes those" % record.name,
            hint=clone_hints.finish_clone(record.name),
        )


def _own(instance, record):
    """Turn the claim into ownership. A record in phase building is that of an interrupted run: its guest never ran."""
    instance.observe("build begin")
    if record.role == OWN:
        return instance.swap(journal.noted(volume.without_used(instance.store, record), "build", resumed=True))
    event = journal.noted(record, "build", **shelves.noted(record.spec))
    return instance.swap(
        event.replace(
            role=OWN,
            spec={**record.spec, "instance_id": seed.new_instance_id(record)},
            generation=[record.generation[0] + 1, 0],
            phase=BUILDING,
            vm_state=vm_states.BUILDING,
            task_state="networking",
        )
    )


def _make(instance, record, given_seed, left_off):
    spec = record.spec
    host = instance.host.for_guests(spec.get("pool"))
    network.check(instance.host.connection, spec.get("networks"))
    instance.host.check_machine(domain_xml.machine(record, host))
    record = instance.swap(record.replace(task_state="block_device_mapping"))
    instance.observe("build disks")
    domain_xml.remove_guest(instance.host.connection, instance.uuid, record)
    disk.remove_all(host.pool_path, instance.uuid, record.name, instance.host.identify())
    if clones.of(spec):
        record = instance.clone(instance, record)
    else:
        disk.build(host.pool_path, instance.uuid, spec, instance.host.identify(), instance.host.settings)
    instance.observe("build volumes")
    volume_files.make(instance.host, record)
    instance.observe("build seed")
    seed.build(host.pool_path, record, given_seed, [planned.name for planned in disk.plan(shelves.ended(spec))])
    if shelves.of(spec):
        instance.observe("build active")
        shelved = vm_states.said(vm_states.SHELVED)
        return instance.swap(record.replace(phase=ACTIVE, task_state=UNSHELVING, **shelved))
    record = instance.swap(record.replace(task_state=SPAWNING))
    instance.observe("build define")
    record = domain_xml.define_guest(instance.host.connection, record, host)
    instance.observe("build active")
    if left_off:
        volume.mark_used(instance.store, record)
        record = record.replace(task_state=None, spec=volumes.used(spec))
    now = vm_states.said(vm_states.STOPPED if left_off else vm_states.ACTIVE)
    return instance.swap(record.replace(phase=ACTIVE, **now))


def _clean_up(instance, error):
    """Remove what the build made, and count a failure that is the host's fault. Report what could not be removed; its
    record stays in phase deleting."""
    try:
        record = instance.store.read(instance.uuid)
        delete.delete(instance, record, volumes.undone(record.spec))
        if error.host_fault:
            counters.add_failed_build(instance.store.state_dir)
    except (BerthError, OSError) as trouble:
        raise CleanupFailed(
            "the build failed (%s) and could not be removed: %s" % (error, trouble),
            hint=hints.again_when_well(),
            cause=error.to_dict(),
        )


POLL = 0.2  # s
TIMEOUT = 3600  # s: as long as a build may wait for another's download of its image


@contextlib.contextmanager
def build_slot(state_dir, limit, timeout=TIMEOUT):
    """Wait for one of ``limit`` slots, or raise HostBusy after ``timeout`` seconds. A killed build frees its slot."""
    directory, fd = _wait(state_dir, limit, time.monotonic() + timeout)
    try:
        yield
    finally:
        os.close(fd)
        os.close(directory)


def _wait(state_dir, limit, deadline):
    while True:
        for number in range(limit):
            try:
                return lock.acquire(
                    lambda: durable.open_directory(state_dir, create=True),
                    "build-%d.lock" % number,
                    0,
                    "build",
                    HostBusy,
                )
            except HostBusy as busy:
                last = busy
        if time.monotonic() >= deadline:
            raise HostBusy("%d builds are under way, the last of them by %s" % (limit, last))
        time.sleep(POLL)
