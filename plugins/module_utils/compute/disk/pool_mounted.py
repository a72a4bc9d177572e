# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the file system of a storage pool is mounted. libvirt calls a pool of type dir active all the same. What is built
below the mount is hidden once it is mounted, and what is deleted meanwhile is there again."""

from __future__ import annotations

import os

from ...model.lifecycle import ACTIVE, OWN
from ...model.pools import DIRECTORIES


def missing(pool_path, name, first, records):
    """Return (directory, name of an instance) if the pool lacks the directory in which that has its disks by the records of
    instances; else None. ``first``: the pool of the records that name none."""
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
        lacking = pool["type"] in DIRECTORIES and missing(pool["path"], name, first, records)
        if lacking:
            warnings.append(
                "storage pool %s is left out: %s is not there, and %s has its disks in it. Mount its file system"
                % (name, *lacking)
            )
        else:
            found[name] = pool
    return found
