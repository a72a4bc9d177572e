# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of an instance on its way: what there is to copy, how it arrives, and how old ones are kept on one host.

A disk on its way is {name, path, format, size (bytes)}. What arrives has no backing image: the copy is whole in itself,
so it cannot depend on what the destination may lack.
"""

from __future__ import annotations

import json
import os
import re

from .. import disk, domain, paths
from ..run import run
from . import transfer
from .errors import CannotResizeDisk, MigrationConflict, MigrationPreCheckError, TransferFailed

LARGEST = 64 << 40
MARK = "moving-"
SEED = disk.Disk("seed", "seed.iso", "raw", None, "seed")


def planned(spec):
    return disk.plan(spec) + [SEED]


def manifest(pool_path, record, with_path=False):
    """The disks that the instance has on this host: [{name, format, size}]."""
    found = []
    for one in planned(record.spec):
        path = paths.instance(pool_path, record.uuid, one.file)
        if os.path.lexists(path):
            entry = {"name": one.name, "format": one.format, "size": virtual_size(path, one.format)}
            found.append(dict(entry, path=path) if with_path else entry)
    return found


def info(path, form):
    return json.loads(
        run(["qemu-img", "info", "-U", "--output=json", "-f", form, "--", path], timeout=60, error=TransferFailed)
    )


def virtual_size(path, form):
    return info(path, form)["virtual-size"]


def expected(pool_path, record, told):
    """The source's manifest as this host takes it: names, formats and paths are its own, only sizes are the
    source's."""
    paths.make_directory(os.path.join(pool_path, "instances"))
    paths.make_directory(paths.instance(pool_path, record.uuid))
    known = {one.name: one for one in planned(record.migration["old_spec"])}
    wanted = []
    for entry in told:
        one = known.get(entry.get("name"))
        size = entry.get("size")
        if one is None or one.format != entry.get("format") or not isinstance(size, int) or not 0 < size <= LARGEST:
            raise MigrationConflict("the source offers a disk that %s does not have: %r" % (record.uuid, entry))
        path = paths.instance(pool_path, record.uuid, one.file)
        wanted.append({"name": one.name, "format": one.format, "size": size, "path": path})
    return wanted


def publish(pool_path, record, make_new=True):
    """What has arrived becomes the instance's disks: grown to the new flavor, fsynced, renamed. New disks are made."""
    sizes = {one.name: one.size for one in disk.plan(record.spec)}
    for one in planned(record.migration["old_spec"]):
        path = paths.instance(pool_path, record.uuid, one.file)
        part = transfer.incoming(path, record.migration["attempt"])
        if os.path.lexists(part):
            grow(part, one.format, sizes.get(one.name))
            os.chmod(part, 0o600)
            paths.publish(part, path)
    if make_new:
        add_new(pool_path, record)
    discard_older(pool_path, record)


def grow(path, form, size):
    """Make a disk ``size`` bytes large; a disk never shrinks."""
    if size is None:
        return
    now = virtual_size(path, form)
    if now > size:
        raise CannotResizeDisk("%s has %d bytes, the flavor only %d" % (os.path.basename(path), now, size))
    if now < size:
        run(["qemu-img", "resize", "-q", "-f", form, "--", path, str(size)], error=TransferFailed)


def add_new(pool_path, record):
    """Disks that the new flavor has and the old one had not."""
    for one in disk.plan(record.spec):
        path = paths.instance(pool_path, record.uuid, one.file)
        if one.name != "root" and not os.path.lexists(path):
            temporary = path + ".tmp"
            paths.remove(temporary)
            disk._make(one, temporary, None)
            paths.publish(temporary, path)


def discard_older(pool_path, record):
    """Parts that earlier attempts left."""
    directory = paths.instance(pool_path, record.uuid)
    for name in os.listdir(directory):
        if ".incoming-" in name:
            paths.remove(os.path.join(directory, name))


# ---- is it one storage? --------------------------------------------------------------------------------------------


def mark(pool_path, record):
    """A file that says: this directory is the source's. Where the destination sees it, both have one storage."""
    fd = os.open(
        marker(pool_path, record.uuid, record.op), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    os.close(fd)
    paths.sync_directory(paths.instance(pool_path, record.uuid))


def marker(pool_path, uuid, op):
    if not re.match(r"[0-9a-f]{8,64}\Z", op):
        raise MigrationConflict("%r is not the id of an operation" % (op,))
    return paths.instance(pool_path, uuid, MARK + op)


def unmark(pool_path, uuid):
    """Remove the marks of moves that ended."""
    directory = paths.instance(pool_path, uuid)
    for name in os.listdir(directory):
        if name.startswith(MARK):
            paths.remove(os.path.join(directory, name))


def check_apart(pool_path, uuid, op):
    """Refuse a destination that holds anything of the instance: on shared storage a copy would overwrite the
    original."""
    if os.path.lexists(marker(pool_path, uuid, op)):
        raise MigrationPreCheckError(
            uuid, ["source and destination have one storage, and only local disks can be moved"]
        )
    directory = paths.instance(pool_path, uuid)
    if os.path.lexists(directory) and os.listdir(directory):
        raise MigrationPreCheckError(
            uuid, ["the destination holds files in %s that no record accounts for" % directory]
        )


# ---- one host: the old disks stay under another name ---------------------------------------------------------------


def kept(path, record):
    return "%s.pre-%s" % (path, record.op)


def has_kept(pool_path, record):
    return any(
        os.path.lexists(kept(paths.instance(pool_path, record.uuid, one.file), record))
        for one in disk.plan(record.migration["old_spec"])
    )


def keep(pool_path, record):
    """Rename the old disks and lay new ones over them; done again it starts from the kept ones. The guest is off."""
    sizes = {one.name: one.size for one in disk.plan(record.migration["new_spec"])}
    for one in disk.plan(record.migration["old_spec"]):
        path = paths.instance(pool_path, record.uuid, one.file)
        old = kept(path, record)
        if not os.path.lexists(old):
            paths.publish(path, old)
        temporary = path + ".tmp"
        paths.remove(temporary)
        lay_over(old, temporary, one.format, max(virtual_size(old, one.format), sizes.get(one.name) or 0))
        os.chmod(temporary, 0o600)
        paths.publish(temporary, path)
    add_new(pool_path, record.replace(spec=record.migration["new_spec"]))


def lay_over(old, path, form, size):
    """A qcow2 disk becomes an overlay; a raw one is cloned where the file system can, else copied."""
    if form == "qcow2":
        run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", old, "--", path, str(size)],
            error=TransferFailed,
        )
    else:
        run(["cp", "--reflink=auto", "--sparse=always", "--", old, path], error=TransferFailed)
        grow(path, form, size)


def restore(pool_path, record):
    """Back to the kept disks; what the guest wrote since is given up. The guest is off."""
    old_names = set()
    for one in planned(record.migration["old_spec"]):
        path = paths.instance(pool_path, record.uuid, one.file)
        old_names.add(one.name)
        if os.path.lexists(kept(path, record)):
            paths.publish(kept(path, record), path)
    for one in disk.plan(record.migration["new_spec"]):
        if one.name not in old_names:
            paths.remove(paths.instance(pool_path, record.uuid, one.file))


def drop_kept(connection, pool_path, record):
    """Make the new disks independent of the kept ones, then remove those."""
    for one in disk.plan(record.migration["old_spec"]):
        path = paths.instance(pool_path, record.uuid, one.file)
        old = kept(path, record)
        if not os.path.lexists(old):
            continue
        if one.format == "qcow2" and info(path, "qcow2").get("full-backing-filename") == old:
            pull(connection, record.uuid, path, info(old, "qcow2"))
            if info(path, "qcow2").get("full-backing-filename") == old:
                raise TransferFailed("%s still needs %s" % (path, old))
        paths.remove(old)
        paths.sync_directory(os.path.dirname(old))


def pull(connection, uuid, path, below):
    """Take into the disk at ``path`` what the layer under it holds, so that it stands on that layer's own base."""
    base = below.get("full-backing-filename")
    if domain.is_active(connection, uuid):
        from . import jobs

        jobs.pull(domain.find(connection, uuid), path, base)
        return
    command = ["qemu-img", "rebase", "-q", "-f", "qcow2"]
    command += ["-F", below["backing-filename-format"], "-b", base] if base else ["-b", ""]
    run(command + ["--", path], timeout=3600, error=TransferFailed)
