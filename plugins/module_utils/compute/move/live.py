# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live migration through libvirt: peer to peer, and the guest arrives PAUSED.

Without PAUSED a lost reply leaves two running guests. So the destination's guest waits until the source has let go in
its record, and only then goes on. Never PERSIST_DEST (the destination defines from its own rendering) and never
UNDEFINE_SOURCE (the record decides what is removed).
"""

from __future__ import annotations

import time

from .. import domain as guests
from .. import paths
from ..connection import require_libvirt
from . import disks, transfer
from .errors import MigrationError, MigrationPreCheckError

POLL = 0.2


def has_arrived(connection, uuid):
    """Whether the whole guest waits here. While it is on its way libvirt gives another reason for the pause."""
    library = require_libvirt()
    found = guests.find(connection, uuid)
    if found is None:
        return False
    return found.state() == [library.VIR_DOMAIN_PAUSED, library.VIR_DOMAIN_PAUSED_USER]


def has_left(connection, uuid):
    """Whether libvirt on the source says that the guest has gone over: only then is the other one the newer."""
    library = require_libvirt()
    found = guests.find(connection, uuid)
    return found is not None and found.state() == [library.VIR_DOMAIN_SHUTOFF, library.VIR_DOMAIN_SHUTOFF_MIGRATED]


def abort(connection, uuid):
    """End a migration job of this guest; none there is fine."""
    library = require_libvirt()
    found = guests.find(connection, uuid)
    if found is None or not found.isActive():
        return
    try:
        if found.jobInfo()[0] != library.VIR_DOMAIN_JOB_NONE:
            found.abortJob()
        while found.jobInfo()[0] != library.VIR_DOMAIN_JOB_NONE:
            time.sleep(POLL)
    except library.libvirtError:
        pass


def prepare(effects, record, manifest):
    """L3 on the destination: own definition, empty disks of the right size. -> {uri, address, arrived}"""
    connection = effects.connection
    arrived = has_arrived(connection, record.uuid)
    active = guests.is_active(connection, record.uuid)
    effects.define(record)
    if not active:
        for entry in disks.expected(effects.pool_path(record), record, manifest):
            paths.remove(entry["path"])
            transfer.make_empty(entry["path"], entry["format"], entry["size"])
    return {"arrived": arrived}


def migrate(connection, record, targets, options):
    raise MigrationPreCheckError(record.uuid, ["live migration is not offered by this version"])


__all__ = ["MigrationError", "abort", "has_arrived", "has_left", "migrate", "prepare"]
