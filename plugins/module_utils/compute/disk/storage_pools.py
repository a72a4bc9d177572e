# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage pools of this host: their capacity and what is really free, and which of them share a file system."""

from __future__ import annotations

import os
from xml.etree import ElementTree

from ...model.lifecycle import ACTIVE, OWN
from ...model.pools import DIRECTORIES
from ..connection import LibvirtTimeout, require_libvirt

GIB = 1 << 30


def read_pools(connection, deadline, warnings):
    """Return {name: {path, type, capacity, free, images, device}} of the active pools; sizes in bytes, ``images`` that of the
    cached images, device is the st_dev.

    A pool that cannot be read within the time limit is left out and named in ``warnings``.
    """
    library = require_libvirt()
    found = {}
    for pool in connection.listAllStoragePools(library.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
        name = pool.name()
        try:
            found[name] = deadline.call(_read, pool, what="reading storage pool %s" % name)
        except (library.libvirtError, LibvirtTimeout, OSError) as error:
            warnings.append("storage pool %s is left out: %s" % (name, getattr(error, "message", error)))
    return found


def _read(pool):
    root = ElementTree.fromstring(pool.XMLDesc(0))
    kind, path = root.get("type"), root.findtext("target/path")
    if kind in DIRECTORIES:  # the file system is asked, since libvirt's numbers are those of its last refresh
        sizes = os.statvfs(path)
        capacity, free = sizes.f_blocks * sizes.f_frsize, sizes.f_bavail * sizes.f_frsize
        images = allocated_below(os.path.join(path, "images"))
        room = {"capacity": capacity, "free": free, "images": images}
        return {"type": kind, "path": path, **room, "device": os.stat(path).st_dev}
    pool.refresh(0)
    _state, capacity, _allocation, free = pool.info()
    return {"type": kind, "path": path, "capacity": capacity, "free": free, "images": 0, "device": None}


def storages(pools, first):
    """Return {pool: the pool that stands for its file system}: of pools that share one, the ``first`` or least name."""
    stands_for, found = {}, {}
    for name in sorted(pools, key=lambda name: (name != first, name)):
        device = pools[name]["device"]
        found[name] = name if device is None else stands_for.setdefault(device, name)
    return found


def allocated_below(path):
    """Return the bytes that a directory's files take on disk; 0 if there is no such directory."""
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat(follow_symlinks=False).st_blocks * 512 for entry in entries)
    except OSError:
        return 0


# Whether the file system of a storage pool is mounted. libvirt calls a pool of type dir active all the same. What is
# built below the mount is hidden once it is mounted, and what is deleted meanwhile is there again.


def not_mounted(pool_path, name, first, records):
    """Return (the missing directory of disks, the name of an instance that has disks there), or None if it is there.
    ``first``: the pool of the records that name none."""
    directory = os.path.join(pool_path, "instances")
    if os.path.isdir(directory):
        return None
    for record in records:
        if record.state() == (OWN, ACTIVE) and (record.spec.get("pool") or first) == name:
            return directory, record.name
    return None


def only_mounted(pools, first, records, warnings):
    """Return the pools, as ``read_pools`` does, without those that are not mounted; the ``warnings`` name them."""
    found = {}
    for name, pool in pools.items():
        lacking = pool["type"] in DIRECTORIES and not_mounted(pool["path"], name, first, records)
        if lacking:
            warnings.append(
                "storage pool %s is left out: %s is not there, and %s has its disks in it. Mount its file system"
                % (name, *lacking)
            )
        else:
            found[name] = pool
    return found
