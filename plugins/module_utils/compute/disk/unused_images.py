# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cached images nothing on this host needs, and their removal.

An image is needed if a record names its checksum, a disk has it as its backing file, or the definition of a guest in
libvirt names its file. A pool keeps all its images while it has disks of an instance without a record on this host: an
instance of another host on shared storage, one that was set aside, or one whose record was lost.
"""

from __future__ import annotations

import os
import re
import time

from .. import paths
from ..guest import disk_users
from . import layers, owner
from .image import DOWNLOAD_TIME

# An image with the checksum of what was in its file, or what an interrupted download (.tmp), conversion (.new) or removal (.old) left.
# Anything else there is not ours.
CACHED = re.compile(r"([0-9a-f]{64})(\.sha256|\.tmp|\.new|\.old)?\Z", re.ASCII)


def remove(host, dry=False):
    """Remove them and return the paths of the files. Hold the host's lock, so that no claim comes in between."""
    with host.store.host_lock():
        records, used = host.store.records(), disk_users.files(host.connection)
        return [
            path
            for pool_path in host.pool_paths()
            for path in _unused(host, pool_path, records, used)
            if dry or _remove(host, pool_path, records, path)
        ]


def _remove(host, pool_path, records, path):
    """Rename the image, so no new disk uses it. If a host that shares the storage used it before, rename it back."""
    if not _is_whole(path):
        return paths.remove(path)
    aside = path + ".old"
    os.rename(path, aside)
    if _has_unknown(host, pool_path, records):
        os.rename(aside, path)
        return False
    return paths.remove(aside)


def _unused(host, pool_path, records, used):
    instances, directory = os.path.join(pool_path, "instances"), os.path.join(pool_path, "images")
    if not os.path.isdir(instances) or not os.path.isdir(directory) or _has_unknown(host, pool_path, records):
        return []
    paths.check_directory(directory)
    needed = {paths.digest(checksum) for checksum in checksums(records)} | _backing(instances)
    files = [os.path.join(directory, name) for name in sorted(os.listdir(directory)) if CACHED.match(name)]
    free = [path for path in files if digest(path) not in needed and os.path.realpath(path) not in used]
    return [path for path in free if _is_whole(path) or time.time() - os.lstat(path).st_mtime > DOWNLOAD_TIME]


def _is_whole(path):
    return os.path.basename(path) == digest(path)


def _has_unknown(host, pool_path, records):
    known = {record.uuid for record in records}
    unknown = set(paths.entries(os.path.join(pool_path, "instances"))) - known
    return bool(unknown or paths.entries(paths.set_aside(pool_path)) or owner.others_in(pool_path, host.identify()))


def digest(path):
    return CACHED.match(os.path.basename(path)).group(1)


def checksums(records):
    """Return the checksums of the images that any record needs, including the requests of a move."""
    specs = []
    for record in records:
        specs.append(record.spec)
        migration = record.migration or {}
        specs.extend(migration.get(part) or {} for part in ("old_spec", "new_spec"))
    parts = [entry for spec in specs for entry in (*(spec.get("volumes") or ()), spec.get("rescue") or {})]
    images = [part.get("image") or {} for part in (*specs, *parts)]
    parts = [part for image in images for part in (image, image.get("kernel") or {}, image.get("initrd") or {})]
    return {part.get("checksum") for part in parts} - {None}


def _backing(instances):
    """Return the names of the backing files of all disks of instances, whatever their records say."""
    files = (os.path.join(at, name) for at, _directories, names in os.walk(instances) for name in names)
    return {os.path.basename(layers.read_header(path).backing or "") for path in files}
