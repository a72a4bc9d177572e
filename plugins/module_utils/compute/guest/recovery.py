# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts guests that should run and that nobody ended: after a host lost its power, or when their QEMU died.

A host starts none of them by itself, since an instance may have continued elsewhere meanwhile. The controller reads all
hosts and names those that this host must start.
"""

from __future__ import annotations

from ...model.lifecycle import ACTIVE, OWN
from . import domain, gate


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
    if record.power_state != "running" or domain.is_active(host.connection, record.uuid):
        return False
    this_boot = gate.is_permitted(record.uuid, host.run_dir)
    return not this_boot or domain.has_crashed(host.connection, record.uuid)
