# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start of a guest, the first one and each later one. The permit is given right before it."""

from __future__ import annotations

from ...model import hints, vm_states, volumes
from ...model.errors import BerthError
from ...model.lifecycle import SPAWNING
from ..connection import LibvirtTimeout, LibvirtUnavailable
from ..disk import attached, disk, volume
from ..errors import BuildFailed, SavedMemoryGone
from ..host import mdev
from ..record import journal
from . import domain, domain_xml, gate, hardware, mend, nvram, packet_filter, startable
from .summary import is_started


def converge(instance, record, event="start"):
    """Start the guest of an instance that was made, or let it go on. Return whether anything changed. Its record notes the
    ``event``, and a failure."""
    if is_started(instance.host, record):
        instance.repaired = mend.packets(instance, record, dry=False)
        return bool(instance.repaired)
    instance.host.require_prepared()
    check(instance, record)
    suspended = record.vm_state == vm_states.SUSPENDED or event == "resume"
    try:
        start(instance, record, event)
    except BerthError as error:
        record = journal.faulted(instance.store.read(instance.uuid), error)
        if record.task_state == vm_states.CHANGES[event].task and _is_off(instance, error):
            record = record.replace(task_state=None)  # nothing is under way, so the instance can be moved elsewhere
            if suspended and domain.has_memory(instance.host.connection, instance.uuid):
                gate.revoke(instance.uuid, instance.host.run_dir)
                record = record.replace(**vm_states.said(vm_states.SUSPENDED))
        instance.swap(record)
        raise
    return True


def _is_off(instance, error):
    """Whether the guest certainly was not started: a call that has not ended may start it later."""
    if isinstance(error, (LibvirtTimeout, LibvirtUnavailable)):
        return False
    try:
        return not domain.is_active(instance.host.connection, instance.uuid)
    except BerthError:
        return False


def check(instance, record):
    if record.vm_state in (vm_states.ERROR, vm_states.SHELVED):
        # refuses: its disks are not of one time, or not here
        vm_states.check(record.name, record.vm_state, "start", record.task_state)
    startable.check_reverted(record)  # also while its guest runs, which a run that was killed has brought back
    if not domain.is_active(instance.host.connection, instance.uuid):
        check_memory(instance, record)
        startable.check(instance.host, record)


def check_memory(instance, record):
    """Raise SavedMemoryGone if a suspended guest would boot instead of going on."""
    if record.vm_state == vm_states.SUSPENDED and not domain.has_memory(instance.host.connection, instance.uuid):
        name = instance.host.connection.getHostname()
        raise SavedMemoryGone(
            "the memory of %s (%s), which is suspended on %s, is gone or incomplete: the guest would boot without it"
            % (record.name, record.uuid, name),
            hint=hints.boot_without_memory(record.name),
            instance=record.name,
            host=name,
        )


def start(instance, record, event="start"):
    """Start the guest. Define it again if libvirt lost it."""
    instance.host.require_prepared()
    task_state = SPAWNING if record.task_state == SPAWNING else vm_states.CHANGES[event].task
    record = instance.swap(record.replace(**vm_states.said(vm_states.started(record.spec)), task_state=task_state))
    record = make_ready(instance, record)
    instance.observe("start guest")
    _start_guest(instance.host, record)
    instance.observe("start done")
    form = nvram.form(nvram.path(instance.host.pool_of(record), record.uuid))  # libvirt has made the file by now
    spec = hardware.keep_variables(volumes.used(record.spec), form)
    instance.swap(journal.noted(record, event).replace(task_state=None, spec=spec))


def make_ready(instance, record):
    """Make all that a guest needs before it is started, its permit last. Return the record."""
    if domain.find(instance.host.connection, instance.uuid) is None:
        instance.observe("start define")
        host = instance.host.for_guests(record.spec.get("pool"))
        record = domain_xml.define_guest(instance.host.connection, record, host)
    else:
        mend.before_start(instance, record)
    packet_filter.define(instance.host.connection, record)
    mdev.make(instance.host, record)
    startable.own_disks(instance.host, record)
    attached.write(instance.host.pool_of(record), record)
    volume.mark_used(instance.store, record)
    disk.let_pass(instance.host.pool_of(record), record.uuid)
    disk.remove_of_rescue(instance.host.pool_of(record), record)
    instance.observe("start permit")
    gate.permit(instance.uuid, instance.host.run_dir)
    return record


def end(instance, record, grace):
    """End a guest that the caller starts again, within ``grace`` seconds for its own shutdown. The record says meanwhile that it runs."""
    gate.revoke(instance.uuid, instance.host.run_dir)
    domain.stop(instance.host.connection, instance.uuid, grace)
    mdev.remove(instance.host.connection, instance.uuid, record)


def _start_guest(host, record):
    try:
        domain.start(host.connection, record.uuid)
    except BuildFailed as error:
        error.hint = error.hint or startable.attached_hint(host, record)
        raise
