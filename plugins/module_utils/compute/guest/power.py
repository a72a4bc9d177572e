# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power of an instance as the inventory names it (a locked one keeps its power), and its reboot."""

from __future__ import annotations

import contextlib
import json

from ...model import hints, vm_states
from ...model.errors import BerthError
from ...model.lifecycle import ACTIVE, ALIVE, OWN, PAUSED, POWERING_OFF, REBOOTING_HARD, SAVED
from ...model.move_errors import InstanceInvalidState
from ...model.safe_text import clean
from ..record import journal
from . import domain, gate, mend, startable
from .packet_path import IN_KERNEL

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
        task = vm_states.CHANGES[_method(hard)].task
        record = instance.store.compare_and_swap(
            record, record.next(task_state=task, **vm_states.said(vm_states.ACTIVE))
        )
        instance.observe("reboot")
        gate.revoke(instance.uuid, instance.host.run_dir)
        forced = _power_off(instance, hard, grace)
        instance.tell_force(forced and grace)
        instance.observe("rebooted off")
        noted = journal.noted(record, "reboot", hard=hard, forced=forced)
        instance.store.compare_and_swap(record, noted.next())
        instance.started()
        return forced


def _power_off(instance, hard, grace):
    """Return whether the guest had to be ended although it was asked. A hard reboot asks nothing of it, as in Nova."""
    if hard:
        domain.stop(instance.host.connection, instance.uuid, 0, freeze=False)
        domain.discard_memory(instance.host.connection, instance.uuid)
        return False
    return domain.stop(instance.host.connection, instance.uuid, grace)


def would_reboot(instance, hard):
    _rebootable(instance, hard)
    return True


def _method(hard):
    return "hard reboot" if hard else "reboot"


def _rebootable(instance, hard):
    """Return the record, if the guest should be running and would start again. A hard reboot gives up the memory of a
    suspended guest, not what somebody saved by hand."""
    record, host = instance.at_rest(_method(hard)), instance.host
    if record.task_state == POWERING_OFF:
        hint = hints.start_it(record.name)
        raise InstanceInvalidState(record.name, "task_state", record.task_state, "reboot", hint=hint)
    power = domain.state(host.connection, instance.uuid)
    gives_up = record.vm_state == vm_states.SUSPENDED or record.task_state == REBOOTING_HARD
    if domain.is_saved(host.connection, instance.uuid) and not (hard and gives_up):
        power = SAVED
    if power == SAVED or power in PAUSED and not hard:
        hint = hints.let_go_on(record.name)
        raise InstanceInvalidState(record.name, "power_state", power, "reboot", hint=hint)
    host.require_prepared()
    startable.check(host, record)
    startable.check_attached(host, record)
    return record


# Starts guests that should run and that nobody ended: after a host lost its power, or when their QEMU died.
#
# A host starts none of them by itself, since an instance may have continued elsewhere meanwhile. The controller reads
# all hosts and names those that this host must start.


def recover(instance):
    """Start the guest if its record says that it runs and nobody ended it. Return whether it was started."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        return would_recover(instance) and instance.started()


def would_recover(instance):
    return is_due(instance.host, instance.store.read(instance.uuid))


def is_due(host, record):
    """Whether to start it. One that ended in this boot of the host was ended by somebody, unless it crashed."""
    if record is None or record.op or (record.role, record.phase) != (OWN, ACTIVE):
        return False
    meant = vm_states.VM_STATES.get(record.vm_state or vm_states.ACTIVE)
    if meant is None or not meant.recovered or record.power_state not in ALIVE:
        return False
    if domain.is_active(host.connection, record.uuid):
        return False
    this_boot = gate.is_permitted(record.uuid, host.run_dir)
    return not this_boot or domain.has_crashed(host.connection, record.uuid)


# The lock that keeps people from changing an instance (Nova's lock). It is in the record, visible to every controller.


def lock(instance, by, reason):
    """Lock the instance. Return whether it was unlocked before. An existing lock keeps its owner."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        if not would_lock(instance):
            return False
        record = instance.at_rest("lock")
        noted = journal.noted(record, "lock", reason=reason)
        locked = {"by": by, "reason": reason, "at": journal.now()}
        instance.store.compare_and_swap(record, noted.next(lock=locked))
        return True


def would_lock(instance):
    return instance.at_rest("lock").lock is None


def unlock(instance):
    """Unlock the instance, whoever locked it. Return whether it was locked."""
    with instance.store.instance_lock(instance.uuid, timeout=instance.timeout):
        if not would_unlock(instance):
            return False
        record = instance.at_rest("unlock")
        noted = journal.noted(record, "unlock", locked=record.locked_by())
        instance.store.compare_and_swap(record, noted.next(lock=None))
        return True


def would_unlock(instance):
    return instance.at_rest("unlock").lock is not None


@contextlib.contextmanager
def unlocked(instance, dry=False):
    """Hold an instance so that nobody locks it meanwhile; raise InstanceIsLocked if it is. ``dry``: only check."""
    held = contextlib.nullcontext() if dry else instance.store.instance_lock(instance.uuid, timeout=instance.timeout)
    with held:
        record = instance.store.read(instance.uuid)
        if record is not None:
            record.check_unlocked()
        yield


# Brings an instance to the requested state, and returns the reply of module instance: what changed, and the result.
SHOWN = ("state", "power_state", "flavor", "vcpus", "memory_mb", "root_gb", "disks", "snapshots", "volumes", "image",
         "networks")  # fmt: skip


def outcome_of(instance, wanted, dry, bring, gone=(), shown="running", compared=True, parts=None):
    """Return {changed, instance, diff} after ``bring()``, which returns whether it changed anything.

    ``wanted``: the arguments of module instance; ``dry``: change nothing; ``gone``: what that gives up, in words; ``shown``,
    ``compared`` and ``parts``: see acts.py.
    """
    state = wanted["state"]
    before = instance.summary()
    mended = mend.mend(instance, wanted["seed"], dry, wanted["spec"]) if wanted["mend"] and state == "present" else []
    acted = bring()
    mended += instance.repaired
    after = _expected(before, shown, parts) if dry and acted else summary_after(instance)
    if acted and gone:
        after["gives_up"] = list(gone)
    if state == "present" or mended or compared and not dry:
        after.update(outcome_of_domain(instance, mended, dry))
    diff = {
        "before": _shown(before, gone, {part: has for part, _expected, has in mended}),
        "after": _shown(after, definition={part: expected for part, expected, _has in mended}),
    }
    return {"changed": acted or bool(mended), "instance": after, "diff": diff}


def _expected(before, shown, parts):
    """Return the summary as a run would leave it."""
    if shown == "absent":
        return {"uuid": before["uuid"], "state": shown}
    return {**before, "state": shown or before["state"], **(parts(before) if parts else {})}


def start(instance, token, seed):
    """Start the guest of an instance that is stopped, or build what was only claimed. Return whether anything changed."""
    _check_startable(instance)
    return instance.started(token, seed)


def would_start(instance, token):
    _check_startable(instance)
    return instance.would_start(token)


def _check_startable(instance):
    record = instance.store.read(instance.uuid)
    if record is not None and record.op is None:
        vm_states.check(record.name, record.vm_state, "start", record.task_state)


def present(instance, wanted, dry):
    """Make the instance with the requested power and packet filters. Return whether anything changed, or would."""
    if dry:
        makes = would_converge(instance, wanted["token"], wanted["power_state"])
        return makes or instance.filtered(wanted["spec"], dry=True)
    changed = converge(instance, wanted["token"], wanted["seed"], wanted["power_state"], wanted["shutdown_timeout"])
    return instance.filtered(wanted["spec"]) or changed


def summary_after(instance):
    """Return the state after the work. If libvirt does not report it, no other host may repeat the work."""
    try:
        return instance.summary()
    except BerthError as error:
        error.retryable = False
        raise


def outcome_of_domain(instance, mended, dry):
    """For the reply about an existing instance, return what was repaired, and how the guest still differs from its
    record. Do not fail if that cannot be read: the work is done."""
    differs = {}
    with contextlib.suppress(BerthError):
        record = instance.store.read(instance.uuid)
        differs = mend.differing(instance, record) if record else {}
    if not mended:
        return {"domain_differs": differs}
    parts = ", ".join("%s %s -> %s" % (part, has or "none", expected or "none") for part, expected, has in mended)
    text = "%s: %s" % ("would be repaired" if dry else "repaired", clean(parts, 900))
    return {
        "mended": text,
        "domain_differs": _left(differs, {part for part, _expected, _has in mended}) if dry else differs,
    }


def _left(differs, parts):
    """The differences that stay when the ``parts`` are repaired. The running guest keeps its own until its next start."""
    kernel = [each for each in differs.get(IN_KERNEL, ()) if each["nic"] not in parts]
    found = {
        **differs,
        "next_start": [each for each in differs.get("next_start", ()) if each[0] not in parts],
        IN_KERNEL: kernel,
    }
    return {when: each for when, each in found.items() if each}


def _shown(summary, gone=(), definition=None):
    """``gone``: what a delete removes; ``definition``: the repaired parts, {part: value}."""
    parts = {name: summary[name] for name in SHOWN if name in summary}
    if gone:
        parts["gives_up" if "name" in summary else "without_record"] = list(gone)
    if definition:
        parts["definition"] = definition
    return json.dumps(parts, indent=1, sort_keys=True) + "\n"
