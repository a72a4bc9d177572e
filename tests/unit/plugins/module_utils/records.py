# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records for tests, put where they are without the way there."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import store as stores


def plant(store, record):
    """Write the record as it is, whatever was there; gives it back as it reads. The store itself keeps to the life cycle."""
    with store.instance_lock(record.uuid):
        durable.write(store._held[record.uuid], stores.RECORD, stores._encode(record))
        return store.read(record.uuid)
