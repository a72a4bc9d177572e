# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do source and destination share storage? A marker file proves it; it is never guessed from a path. Later steps look
again, and stop if the answer is another one than at the claim.

The source leaves a mark in the instance's directory, with the id of the operation, a nonce, in its name. If the
destination finds it in its own pool, both see one directory: then nothing is copied, the disks only change their owner,
and a purge on either side does not touch them. (Nova: _is_instance_storage_shared, with a temporary file.)
"""

from __future__ import annotations

import os
import re

from ...model import adopted, copy_hints, host_hints, operation_hints, shelves, volumes
from ...model.lifecycle import IN
from ...model.move_errors import MigrationConflict, MigrationPreCheckError
from .. import paths
from ..disk import owner
from ..disk.storage_pools import allocated_below
from . import disks

MARK = "moving-"


def mark(pool_path, record, host_uuid, uuid=None, of=paths.instance):
    """On the source, mark the directory with its owner and the operation. ``of`` and ``uuid`` are those of the
    instance, or of one of its volumes."""
    uuid = uuid or record.uuid
    if adopted.files(record.spec):  # its disks lie elsewhere
        paths.make_directory(os.path.dirname(of(pool_path, uuid)))
        paths.make_directory(of(pool_path, uuid))
    owner.write(pool_path, uuid, host_uuid, of)
    fd = os.open(marker(pool_path, uuid, record.op, of), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.close(fd)
    paths.sync_directory(of(pool_path, uuid))


def marker(pool_path, uuid, op, of=paths.instance):
    if not re.match(r"[0-9a-f]{8,64}\Z", op):
        raise MigrationConflict("%r is not the id of an operation" % (op,))
    return os.path.join(of(pool_path, uuid), MARK + op)


def unmark(pool_path, uuid, of=paths.instance):
    """Remove the marks of moves that have ended."""
    for name in _names(pool_path, uuid, of):
        if name.startswith(MARK):
            paths.remove(os.path.join(of(pool_path, uuid), name))


def is_one(pool_path, uuid, op, of=paths.instance):
    """Whether the destination sees the source's mark. It lists the directory, since look-ups by name may be cached."""
    return os.path.basename(marker(pool_path, uuid, op, of)) in _names(pool_path, uuid, of)


def is_owned_by_source(pool_path, record):
    """Whether the disks seen here are the source's: how shared storage is known before the source has marked it."""
    return owner.read(pool_path, record.uuid) == record.migration["source"]["uuid"]


def check_side(pool_path, record):
    """Raise DisksOfAnotherHost if the disks are those of a host outside the move."""
    sides = [record.migration[side]["uuid"] for side in ("source", "destination")]
    if owner.read(pool_path, record.uuid) not in (None, *sides):
        owner.refuse(pool_path, record.uuid, record.name)


def check_no_files(pool_path, uuid, of=paths.instance):
    """Refuse a destination with any files of the instance, or of a volume: a copy would overwrite them."""
    if _names(pool_path, uuid, of):
        raise MigrationPreCheckError(
            uuid,
            ["the destination holds files in %s that no record accounts for" % of(pool_path, uuid)],
            hint=copy_hints.put_files_away(of(pool_path, uuid)),
        )


def check_backup(host_name, record):
    """Raise MigrationPreCheckError if the disks of a shelved instance are in a directory that this host does not see."""
    shelved = shelves.of(record.spec)
    if not shelved or shelved["host"]:
        return
    if not os.path.isdir(os.path.join(shelved["to"], record.uuid, shelved["backup"])):
        problem = "%s does not see its backup %s in %s" % (host_name, shelved["backup"], shelved["to"])
        raise MigrationPreCheckError(
            record.uuid, [problem], hint=operation_hints.mount_its_backup(host_name, shelved["to"])
        )


def check_shared_as_claimed(pool_path, record):
    """Raise MigrationConflict if the hosts share the storage now and did not at the claim, or the reverse."""
    seen = [is_one(pool_path, record.uuid, record.op)]
    seen += [is_one(pool_path, entry["uuid"], record.op, paths.volume) for entry in volumes.of(record.spec)]
    if seen != [is_shared(record)] * len(seen):
        then, now = ("shared", "does not") if is_shared(record) else ("did not share", "does")
        raise MigrationConflict(
            "at the claim of %s this host %s the storage with its source, and now it %s" % (record.name, then, now)
        )


def is_shared(record):
    """Whether storage is shared, as the destination found at its claim and told the source before that let go."""
    return bool((record.migration or {}).get("shared"))


def exists(pool_path, uuid):
    return os.path.isdir(paths.instance(pool_path, uuid))


def _names(pool_path, uuid, of=paths.instance):
    return paths.entries(of(pool_path, uuid))


# Whether the disks of a move fit into what is really free on the destination, before their guest stops. A claim counts
# what disks may become; a copy needs what they take up, at once, beside the other copies that are on their way.


def arriving_bytes(manifest):
    """Return how many bytes the source has to copy."""
    return sum(entry.get("used") or 0 for entry in manifest or ())


def check_room(host, pool_of, record, manifest):
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
        free = paths.free_bytes(pool) - others.get(device, 0)
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
