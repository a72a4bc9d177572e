# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the disks of a move fit into what is really free on the destination, before their guest stops. A claim counts
what disks may become; a copy needs what they take up, at once, beside the other copies that are on their way."""

from __future__ import annotations

import os

from ...model import host_hints
from ...model.lifecycle import IN
from ...model.move_errors import MigrationPreCheckError
from ..disk.storage_pools import allocated_below
from . import disks


def arriving(manifest):
    """Return how many bytes the source has to copy."""
    return sum(entry.get("used") or 0 for entry in manifest or ())


def check(host, pool_of, record, manifest):
    """Raise MigrationPreCheckError if the disks of ``record`` do not fit. ``pool_of``: record -> its pool's directory."""
    needed = {}  # st_dev -> [directory, bytes]
    used = {entry.get("name"): entry.get("used") or 0 for entry in manifest or ()}
    for disk, path in disks.files(pool_of(record), record.uuid, record.spec):
        pool = _pool(path)
        needed.setdefault(os.stat(pool).st_dev, [pool, 0])[1] += used.get(disk.name, 0)
    for directory in _directories(pool_of(record), record):  # what an earlier attempt has copied makes room
        _subtract(needed, directory)
    others = _of_others(host, pool_of, record)
    problems = []
    for device, (pool, size) in needed.items():
        status = os.statvfs(pool)
        free = status.f_bavail * status.f_frsize - others.get(device, 0)
        if 0 < size and free < size:
            text = "%s has %d MiB free for it below %s, its disks take %d MiB"
            problems.append((pool, text % (host.identity["name"], max(free, 0) >> 20, pool, -(-size >> 20))))
    if problems:
        raise MigrationPreCheckError(
            record.uuid, [text for _pool, text in problems], hint=host_hints.make_room_in_pool(problems[0][0])
        )


def _directories(pool_path, record):
    return {os.path.dirname(path) for _disk, path in disks.files(pool_path, record.uuid, record.spec)}


def _pool(path):
    """The pool's directory of a file: POOL/instances/UUID/FILE, or POOL/volumes/UUID/FILE."""
    return os.path.dirname(os.path.dirname(os.path.dirname(path)))


def _subtract(needed, directory):
    if os.path.isdir(directory):
        entry = needed[os.stat(directory).st_dev]
        entry[1] = max(0, entry[1] - allocated_below(directory))


def _of_others(host, pool_of, record):
    """Return {st_dev: bytes that other moves to this host have yet to write there}."""
    found = {}
    for other in host.store.records():
        if other.role == IN and other.uuid != record.uuid and other.migration.get("arriving"):
            pool = pool_of(other)
            arrived = sum(map(allocated_below, _directories(pool, other)))
            left = other.migration["arriving"] - arrived
            found[os.stat(pool).st_dev] = found.get(os.stat(pool).st_dev, 0) + max(0, left)
    return found
