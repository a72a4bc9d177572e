# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a delete of an instance gives up here, by name and size, and what a rebuild, a revert or the delete of a snapshot does."""

from __future__ import annotations

import contextlib

from ...model import adopted, disk_words, snapshots, volumes
from ...model.errors import BerthError
from .. import paths
from ..disk import disk, virtual_size
from . import delete


def words(instance, state, snapshot):
    """What that state of module instance gives up. ``snapshot``: the name of one, or None."""
    if state == "absent":
        return by_delete(instance)
    if state not in ("snapshot_reverted", "snapshot_deleted", "rebuilt"):
        return []
    record = instance.store.read(instance.uuid)
    if state == "rebuilt":
        return by_rebuild(instance, record) if record else []
    entry = snapshots.find(record.spec, snapshot) if record else None
    if entry is None:
        return []
    if state == "snapshot_deleted":
        return [
            "snapshot %s%s" % (snapshot, " of %s" % entry["made_at"] if entry["made_at"] else ", which is not whole")
        ]
    return ["what was written to %s since %s" % (", ".join(entry["disks"]), entry["made_at"])]


def by_delete(instance):
    """Return the disks in words, files without a record by their paths. Empty for a build that has not made a disk yet."""
    record = instance.store.read(instance.uuid)
    if record is None:
        return instance.remains()
    spec, pool_path = delete.spec_to_go(record), None
    with contextlib.suppress(BerthError):  # a pool that is not there now: the record says what goes
        pool_path = instance.host.pool_of(record)
        if not (adopted.of(spec) or disk.is_there(pool_path, instance.uuid)):
            return disk_words.volumes_going(spec)
    return disk_words.going(spec, _image_gb(pool_path, instance.uuid, spec))


def by_rebuild(instance, record):
    """Return the root disk and the snapshots in words."""
    gb = volumes.root_gb(record.spec) or _image_gb(instance.host.pool_of(record), instance.uuid, record.spec)
    names = [each["name"] for each in snapshots.of(record.spec)]
    return [disk_words.root(gb), *("snapshot %s" % name for name in names)]


def _image_gb(pool_path, uuid, spec):
    """The GiB of a root disk that is as large as its image; 0 if it is another, or nobody can tell."""
    with contextlib.suppress(BerthError, LookupError, OSError, TypeError, ValueError):
        root = disk.plan(spec)[0]
        if root.name == "root" and pool_path:
            virtual, _used, _device = virtual_size.read(paths.instance(pool_path, uuid, root.file), root.format)
            return -(-virtual // disk.GIB)
    return 0
