# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether another domain of this host has disks of an instance, such as a copy that somebody made by virsh edit or
virt-clone. A start would make two guests of one disk, a move copies what somebody writes, and a confirm or a delete
removes the disk under that domain."""

from __future__ import annotations

import os

from ...model import state_hints, volumes
from .. import paths
from ..errors import DisksUsed
from ..guest import disk_users

LIBGUESTFS = "guestfs-"  # with this begin the names of the domains that its tools make


def check_start(host, record):
    """Raise DisksUsed if another domain runs from the disks. QEMU's own lock does not name it, and not every file system
    has locks. A copy beside a volume is no disk of the instance."""
    pool_path = host.pool_of(record)
    files = [paths.volume_file(pool_path, entry["uuid"]) for entry in volumes.of(record.spec)]
    _check(host, record, _undefine(host), files, only_running=True)


def check_move(host, record):
    """Raise DisksUsed if another domain has the disks, or the volumes, or what lies beside them and goes with them."""
    _check(host, record, _undefine(host), _with_volumes(host, record, volumes.of(record.spec)))


def check_delete(host, record):
    """The same of what a delete removes, with what can be done about it: other volumes stay."""
    gone = [entry for entry in volumes.of(record.spec) if entry["name"] in volumes.going(record.spec)]
    _check(host, record, state_hints.delete_used_disks(), _with_volumes(host, record, gone))


def _undefine(host):
    return state_hints.undefine_users_of_disks(host.connection.getHostname())


def _with_volumes(host, record, entries):
    """Return all that is in the directories of the volumes."""
    pool_path = host.pool_of(record)
    return [path for entry in entries for path in paths.volume_entries(pool_path, entry["uuid"])]


def _check(host, record, hint, of_volumes, only_running=False):
    own = paths.instance(host.pool_of(record), record.uuid)
    files = [*(os.path.join(own, name) for name in paths.entries(own)), *of_volumes]
    users = disk_users.of(host.connection, files)
    told = disk_users.told(record.uuid, users, only_running)
    if told:
        name = host.connection.getHostname()
        if all(user.name.startswith(LIBGUESTFS) for uuid, user in users.items() if uuid != record.uuid):
            hint = state_hints.wait_for_libguestfs(name)
        raise DisksUsed(
            "other domains on %s have disks of %s (%s): %s" % (name, record.name, record.uuid, told),
            hint=hint,
            instance=record.name,
            host=name,
        )
