# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records for tests, put where they are without the way there."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import store as stores
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import MOVING
from ansible_collections.berth.kvm.plugins.module_utils.model.migration import RESIZE, new_migration

OP = "ab" * 16


def in_a_move(record):
    """The record of an instance in a phase of a move with a move, where the test names none."""
    if record.phase not in MOVING or "instance" in record.spec:
        return record
    op, side = record.op or OP, {"uuid": record.uuid, "name": "another"}
    migration = record.migration or new_migration(op, RESIZE, side, side, record, record.spec, 0)
    return record.replace(op=op, migration=migration)


def plant(store, record):
    """Write the record as it is, whatever was there; gives it back as it reads. The store itself keeps to the life cycle."""
    with store.instance_lock(record.uuid):
        durable.write(store._held[record.uuid], stores.RECORD, stores._encode(in_a_move(record)))
        return store.read(record.uuid)
