# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock that keeps people from changing an instance (Nova's lock). It is in the record, visible to every
controller."""

from __future__ import annotations

import contextlib

from ..record import journal


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
