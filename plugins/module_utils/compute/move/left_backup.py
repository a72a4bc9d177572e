# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A backup of berth's that a killed run left in a running guest: beside it QEMU makes no snapshot and gives up no disk, libvirt
saves and migrates no guest, and what the guest overwrites fills the pool. Whatever is done with the instance next ends it.

Whoever makes a backup holds the lock of its instance. So to who has that lock now, a backup that goes on is one that was left.
"""

from __future__ import annotations

from typing import Any

from ...model.lifecycle import ACTIVE, OWN
from .. import paths
from ..connection import Bounded, LibvirtTimeout, require_libvirt
from ..disk import disk, owner, volume_files
from ..errors import HostNotPrepared
from ..guest import domain
from .block_jobs import has_ended, is_ours


def end_at_rest(host: Any, uuid: str) -> None:
    """End it if the instance is this host's and in no move, which has backups of its own. The caller holds the instance's lock."""
    record = host.store.read(uuid)
    if record is None or (record.role, record.phase) != (OWN, ACTIVE):
        return
    if not domain.is_active(host.connection, uuid):
        return
    try:
        pool = host.pool_of(record)
    except HostNotPrepared:
        return  # a stop needs no pool, and ends it too
    if not owner.is_another(pool, uuid, host.identify()):
        end(host, record)


def end(host: Any, record: Any) -> Any:
    """End it, and remove what it wrote beside the disks. Return the domain of a guest that runs."""
    found = domain.find_active(host.connection, record.uuid)
    if found is not None:
        forget(found)
    for path in _disks(host.pool_of(record), record):
        paths.remove(paths.scratch_file(path))
    return found


def forget(found: Any) -> None:
    """End it, and drop libvirt's notes of checkpoints. The bitmaps stay."""
    library = require_libvirt()
    end_backup(Bounded(found))
    for checkpoint in found.listAllCheckpoints(0):
        if checkpoint.getName().startswith(paths.BITMAP):
            checkpoint.delete(library.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY)


def end_backup(guest: Any) -> None:
    """End a backup of this guest by berth, if there is one."""
    library = require_libvirt()
    try:
        if not is_ours(guest, guest.backupGetXMLDesc(0)):
            return  # another program's
    except (library.libvirtError, LibvirtTimeout):
        return
    try:
        guest.abortJob()
        has_ended(guest)
    except (library.libvirtError, LibvirtTimeout):
        pass  # QEMU does not answer: the next copy ends it


def end_backup_of(connection: Any, uuid: str) -> None:
    guest = domain.find_active(connection, uuid)
    if guest is not None:
        end_backup(guest)


def _disks(pool_path: str, record: Any) -> Any:
    own = [paths.instance(pool_path, record.uuid, each.file) for each in disk.planned(record.spec)]
    return own + list(volume_files.planned(pool_path, record.spec))
