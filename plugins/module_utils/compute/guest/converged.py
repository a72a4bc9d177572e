# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the guest of an instance is already what its record says, so that no step is needed."""

from __future__ import annotations

from ...model.lifecycle import ACTIVE, OWN, SPAWNING
from . import domain, gate


def is_made(record, left_off=False):
    """Whether its guest was started once, or is to be ``left_off``. Before that, create finishes what it began."""
    return record.role == OWN and record.phase == ACTIVE and (left_off or record.task_state != SPAWNING)


def is_started(host, record):
    return (
        (record.power_state, record.vm_state, record.task_state) == ("running", "active", None)
        and domain.state(host.connection, record.uuid) == "running"
        and gate.is_permitted(record.uuid, host.run_dir)
    )


def is_stopped(host, record):
    states = (record.power_state, record.vm_state, record.task_state)
    return states == ("shutdown", "stopped", None) and not domain.is_active(host.connection, record.uuid)
