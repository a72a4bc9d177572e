# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's pause and suspend, and their ways back.

A paused guest stays in its host's memory. That of a suspended one is in a file that libvirt keeps (its managed save), and
the host keeps the room that the instance claimed. QEMU itself pauses a guest whose disk fails: that is not taken for a
person's pause.
"""

from __future__ import annotations

import os

from ...model import hints, host_hints
from ...model.errors import BerthError
from ...model.move_errors import InstanceInvalidState
from ...model.vm_states import ACTIVE, CHANGES, PAUSED, SUSPENDED, VM_STATES, said
from .. import paths
from ..disk import disk_chain
from ..errors import NoRoomForMemory
from ..record import journal
from . import domain, gate, start, startable
from .summary import is_in, is_started

SAVED_IN = "/var/lib/libvirt/qemu/save"  # no setting of libvirt changes it
MIB = 1 << 20


def pause(instance):
    """Stop the guest's CPUs. Return whether anything was changed."""
    return _to(instance, "pause", would_pause, domain.pause)


def would_pause(instance):
    record, connection = instance.at_rest("pause"), instance.host.connection
    if is_in(instance.host, record, PAUSED):
        return False
    shown = domain.state(connection, instance.uuid)
    if shown != "running" and not domain.is_paused_by_user(connection, instance.uuid):
        raise _not_running(record, shown, "pause")
    return True


def suspend(instance):
    """Write the guest's memory to a file and end it. Return whether anything was changed."""
    return _to(instance, "suspend", would_suspend, _save)


def would_suspend(instance):
    record, connection = instance.at_rest("suspend"), instance.host.connection
    if is_in(instance.host, record, SUSPENDED):
        return False
    shown = domain.state(connection, instance.uuid)
    if shown == "running":
        disk_chain.check_stop(instance.host, record)
        _check_room(instance.host, record)
    elif domain.is_active(connection, instance.uuid) or not domain.has_memory(connection, instance.uuid):
        start.check_memory(instance, record)
        raise _not_running(record, shown, "suspend")
    return True


def _not_running(record, shown, method):
    back = VM_STATES[record.vm_state or ACTIVE].back or "start"
    hint = hints.make_active(record.name, back)
    return InstanceInvalidState(record.name, "power_state", shown, method, hint=hint)


def _check_room(host, record):
    """libvirt would find out after it has stopped the guest for a long time."""
    needed, name = record.spec["flavor"]["memory_mb"], host.connection.getHostname()
    directory = SAVED_IN if os.path.isdir(SAVED_IN) else os.path.sep
    free = paths.free_bytes(directory) // MIB
    if free < needed:
        raise NoRoomForMemory(
            "the memory of %s takes up to %d MiB in %s on %s, where %d MiB are free. The guest goes on"
            % (record.name, needed, SAVED_IN, name, free),
            hint=host_hints.room_for_memory(name, SAVED_IN),
            field=SAVED_IN,
            value=free,
            rule="at least %d MiB" % needed,
        )


def _save(connection, uuid):
    if domain.is_active(connection, uuid):
        domain.save(connection, uuid)


def _to(instance, operation, would, act):
    """The record says what is under way, so the next run of the operation finishes it."""
    change = CHANGES[operation]
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        if not would(instance):
            return False
        record = instance.at_rest(operation)
        startable.own_disks(instance.host, record)
        record = instance.swap(record.replace(task_state=change.task))
        instance.observe(operation)
        try:
            act(instance.host.connection, instance.uuid)
        except BerthError as error:
            _failed(instance, error)
            raise
        instance.observe(change.after)
        if not VM_STATES[change.after].on():
            gate.revoke(instance.uuid, instance.host.run_dir)
        instance.swap(journal.noted(record, operation).replace(**said(change.after), task_state=None))
        return True


def _failed(instance, error):
    record = journal.faulted(instance.store.read(instance.uuid), error)
    if domain.state(instance.host.connection, instance.uuid) == "running":
        record = record.replace(task_state=None)  # nothing is under way, so the instance can be moved
    instance.swap(record)


def bring_back(instance, operation):
    """Let the guest go on: ``operation`` is unpause or resume. Return whether anything was changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        return start.converge(instance, _to_bring_back(instance, operation), operation)


def would_bring_back(instance, operation):
    record = _to_bring_back(instance, operation)
    start.check(instance, record)
    return not is_started(instance.host, record)


def _to_bring_back(instance, operation):
    """Return the record. A guest that is off though it is active was ended, and is not for these to start."""
    record = instance.at_rest(operation)
    at_rest = (record.vm_state, record.task_state) == (ACTIVE, None)
    if at_rest and not domain.is_active(instance.host.connection, instance.uuid):
        raise _not_running(record, "shutdown", operation)
    return record
