# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do source and destination share a storage? This is proven with a marker file, never guessed from a path.

The source leaves a mark in the instance's directory that has the id of the operation, a nonce, in its name. Where the
destination finds it in its own pool the directory is one: then nothing is copied, the disks change hands, and what is
purged on either side leaves them alone. (Nova: _is_instance_storage_shared, with a temporary file.)
"""

from __future__ import annotations

import os
import re

from ...model import volumes
from ...model.move_errors import MigrationConflict, MigrationPreCheckError
from .. import paths
from ..disk import owner

MARK = "moving-"


def mark(pool_path, record, host_uuid, uuid=None, of=paths.instance):
    """Say on the source whose the directory is, and which operation is at work. ``of`` and ``uuid`` are those of the instance, or
    of a volume of it."""
    uuid = uuid or record.uuid
    owner.write(pool_path, uuid, host_uuid, of)
    fd = os.open(marker(pool_path, uuid, record.op, of), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.close(fd)
    paths.sync_directory(of(pool_path, uuid))


def marker(pool_path, uuid, op, of=paths.instance):
    if not re.match(r"[0-9a-f]{8,64}\Z", op):
        raise MigrationConflict("%r is not the id of an operation" % (op,))
    return os.path.join(of(pool_path, uuid), MARK + op)


def unmark(pool_path, uuid, of=paths.instance):
    """Remove the marks of moves that ended."""
    for name in _names(pool_path, uuid, of):
        if name.startswith(MARK):
            paths.remove(os.path.join(of(pool_path, uuid), name))


def is_one(pool_path, uuid, op, of=paths.instance):
    """Whether the destination sees the source's mark. It lists the directory: a look at the name alone may be answered
    from what the host remembers of a network file system."""
    return os.path.basename(marker(pool_path, uuid, op, of)) in _names(pool_path, uuid, of)


def check_apart(pool_path, uuid, of=paths.instance):
    """Refuse a destination that holds anything of the instance, or of a volume: a copy would overwrite it."""
    if _names(pool_path, uuid, of):
        raise MigrationPreCheckError(
            uuid,
            ["the destination holds files in %s that no record accounts for" % of(pool_path, uuid)],
        )


def check_still(pool_path, record):
    """MigrationConflict where the destination sees now what it did not see at its claim, or the other way round."""
    seen = [is_one(pool_path, record.uuid, record.op)]
    seen += [is_one(pool_path, entry["uuid"], record.op, paths.volume) for entry in volumes.of(record.spec)]
    if seen != [is_shared(record)] * len(seen):
        raise MigrationConflict("whether %s and its source have one storage changed since the claim" % record.uuid)


def is_shared(record):
    """What the destination found out at its claim, and told the source before that let go."""
    return bool((record.migration or {}).get("shared"))


def exists(pool_path, uuid):
    return os.path.isdir(paths.instance(pool_path, uuid))


def _names(pool_path, uuid, of=paths.instance):
    return paths.entries(of(pool_path, uuid))
