# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of an instance as the inventory names it (a locked one keeps its power), and its reboot."""

from __future__ import annotations

from ...model import hints
from ...model.lifecycle import PAUSED, SAVED
from ...model.move_errors import InstanceInvalidState
from ..disk import attached
from ..record import journal
from . import domain, gate, startable

RUNNING, OFF = "running", "shutdown"


def converge(instance, token, seed, power_state, grace):
    """Make the instance as ``Instance.made`` does, then bring it to ``power_state``: RUNNING, OFF, or None, which
    leaves an existing one as it is. A locked one is left, too. Return whether anything was changed."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        changed = instance.made(token, seed, left_off=power_state == OFF)
        if changed or not power_state or instance.store.read(instance.uuid).lock:
            return changed
        return instance.started() if power_state == RUNNING else instance.stopped(grace)


def would_converge(instance, token, power_state):
    """Make the same decision without any change."""
    if instance.would_make(token, left_off=power_state == OFF):
        return True
    if not power_state or instance.store.read(instance.uuid).lock:
        return False
    return instance.would_start() if power_state == RUNNING else instance.would_stop()


def reboot(instance, hard, grace):
    """Power the guest off, within ``grace`` seconds for its own shutdown, or at once if ``hard``, and start it again.
    Return whether it had to be ended although it was asked.

    The record says throughout that it runs, and the permit is removed before it is off. So after an interruption, a
    recovery, a start or the next reboot starts the guest.
    """
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        record = _rebootable(instance, hard)
        startable.own_disks(instance.host, record)
        record = instance.store.compare_and_swap(
            record, record.next(task_state="rebooting_hard" if hard else "rebooting")
        )
        instance.observe("reboot")
        gate.revoke(instance.uuid, instance.host.run_dir)
        forced = _power_off(instance, hard, grace)
        instance.observe("rebooted off")
        noted = journal.noted(record, "reboot", hard=hard, forced=forced)
        instance.store.compare_and_swap(record, noted.next())
        instance.started()
        return forced


def _power_off(instance, hard, grace):
    """Return whether the guest had to be ended although it was asked. A hard reboot asks nothing of it, as in Nova."""
    if hard:
        domain.stop(instance.host.connection, instance.uuid, 0, freeze=False)
        return False
    return domain.stop(instance.host.connection, instance.uuid, grace)


def would_reboot(instance, hard):
    _rebootable(instance, hard)
    return True


def _rebootable(instance, hard):
    """Return the record, if the guest should be running and would start again."""
    record, host = instance.at_rest("reboot"), instance.host
    if record.power_state != RUNNING:
        hint = hints.start_it(record.name)
        raise InstanceInvalidState(record.name, "vm_state", record.vm_state, "reboot", hint=hint)
    power = domain.state(host.connection, instance.uuid)
    if domain.is_saved(host.connection, instance.uuid):
        power = SAVED
    if power == SAVED or power in PAUSED and not hard:
        hint = hints.let_go_on(record.name)
        raise InstanceInvalidState(record.name, "power_state", power, "reboot", hint=hint)
    host.require_prepared()
    startable.check(host, record)
    attached.check(host, record)
    return record
