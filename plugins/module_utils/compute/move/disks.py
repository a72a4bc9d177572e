# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of an instance in a move: what to copy, how it arrives, and how the old disks of a resize are kept (on
shared storage or on the same host), restored, and dropped at the confirm.

A disk to copy is {name, path, format, size (bytes)}. A copy has no backing image, so it cannot depend on one that the
destination may lack. The seed and the UEFI variables are copied like disks, and so are volumes if the hosts do not
share the storage.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os

from ...model import adopted, disk_hints, volume_hints
from ...model.move_errors import CannotResizeDisk, MigrationConflict, MigrationPreCheckError, TransferFailed
from .. import paths
from ..disk import disk as disks
from ..disk import image_check, inside, layers, volume_files
from ..disk.disk import NVRAM, READ_ONLY, planned
from ..guest import nvram
from ..run import run
from .merge import merge

LARGEST = 64 << 40


def files(pool_path, uuid, spec):
    """Return [(disk, path)] of all that an instance has: its own files, then its volumes."""
    own = [(disk, paths.instance(pool_path, uuid, disk.file)) for disk in planned(spec)]
    return own + volumes_of(pool_path, spec)


def seen_by_guest(pool_path, uuid, spec):
    """The same without what is no disk to the guest: its seed and UEFI variables."""
    return [(disk, path) for disk, path in files(pool_path, uuid, spec) if disk.kind not in disks.KINDS_OF_NO_DISKS]


def volumes_of(pool_path, spec):
    return [(disk, path) for path, disk in volume_files.planned(pool_path, spec).items()]


def manifest(pool_path, record, with_path=False):
    """Return [{name, format, size}] of disks and volumes on this host, with {variables} of the file of UEFI variables
    (nvram.form), and {whole} of a disk with snapshots inside. Raise VolumeNotFound if a volume is missing."""
    found = []
    for disk, path in files(pool_path, record.uuid, record.spec):
        if disk.kind == disks.VOLUME and not os.path.lexists(path):
            raise volume_files.not_there(disk.serial, path)
        if os.path.lexists(path):
            entry = {"name": disk.name, "format": disk.format, "size": virtual_size(path, disk.format)}
            if disk.format == "qcow2" and layers.read_header(path).snapshots:
                entry["whole"] = whole_size(path, entry["size"])
            if disk.kind == NVRAM.kind:
                entry["variables"] = nvram.form(path)
            found.append(dict(entry, path=path) if with_path else entry)
    return found


# A disk with snapshots is copied as the file that it is, when its guest is off. What arrives was written by another host:
# its header is checked like that of an image before it is used.
CLUSTERS = 64 << 20  # bytes, more than what the tables of a file begin with


def whole_size(path, virtual):
    """Return how large the file may be when the guest is off: it may write all of the disk until then."""
    size = end_of_data(path) + virtual + virtual // 512 + CLUSTERS
    return -(-size // disks.SECTOR) * disks.SECTOR


def end_of_data(path):
    """What lies behind is a hole: an arrived file is as large as its source had said."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = 0
        with contextlib.suppress(OSError):  # ENXIO: there is no more data
            while True:
                end = os.lseek(fd, os.lseek(fd, end, os.SEEK_DATA), os.SEEK_HOLE)
        return end or os.fstat(fd).st_size
    finally:
        os.close(fd)


def is_whole(entry):
    """Whether a disk of a manifest is copied as a file, not as what its guest sees."""
    return bool(entry.get("whole"))


def check_container(path):
    """Raise ImageInvalid if an arrived qcow2 file refers to another file, or is not sound."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        image_check.inspect(fd, "qcow2")
    finally:
        os.close(fd)


def variables(manifest):
    """Return the form of the guest's UEFI variables that the source tells, or None."""
    return next((entry.get("variables") for entry in manifest or () if entry.get("name") == NVRAM.name), None)


def virtual_size(path, form):
    return inside.info(path, form, TransferFailed)["virtual-size"]


def expected(pool_path, record, manifest):
    """Return the source's manifest as this host uses it: names, formats and paths are its own, sizes the source's."""
    paths.make_directory(os.path.join(pool_path, "instances"))
    paths.make_directory(paths.instance(pool_path, record.uuid))
    known = {disk.name: (disk, path) for disk, path in files(pool_path, record.uuid, record.migration["old_spec"])}
    wanted = []
    for entry in manifest:
        disk, path = known.get(entry.get("name"), (None, None))
        size = entry.get("size")
        whole = entry.get("whole")
        if disk is None or disk.format != entry.get("format") or not (_is_size(size) and _fits(whole, disk)):
            raise MigrationConflict("the source offers a disk that %s does not have: %r" % (record.uuid, entry))
        if disk.kind == disks.VOLUME:
            paths.make_directory(os.path.dirname(os.path.dirname(path)))
            paths.make_directory(os.path.dirname(path))
        wanted.append({"name": disk.name, "format": disk.format, "size": size, "path": path, "whole": whole})
    return wanted


def _fits(whole, disk):
    """Whether the disk may be copied as a file of that size; None: it is not."""
    return whole is None or disk.format == "qcow2" and _is_size(whole) and whole % disks.SECTOR == 0


def _is_size(size):
    return isinstance(size, int) and 0 < size <= LARGEST


def check_volumes_offered(pool_path, record, arriving):
    """Before the guest stops, check that every volume comes, and that none is larger than the room claimed for it."""
    sizes = {entry["name"]: entry["size"] for entry in arriving}
    for disk, _path in volumes_of(pool_path, record.spec):
        if disk.name not in sizes:
            raise MigrationConflict("the source does not offer volume %s of %s" % (disk.serial, record.name))
        if sizes[disk.name] > disk.size:
            raise CannotResizeDisk(
                "volume %s of %s has %d bytes, %d by its record: nothing was moved"
                % (disk.serial, record.name, sizes[disk.name], disk.size),
                hint=volume_hints.grow_record(record.name, disk.serial, -(-sizes[disk.name] // disks.GIB)),
            )


def grown(arriving, record):
    """Return the arriving disks with their size on this host; none shrinks. Swap is made again, so it grows later."""
    sizes = {disk.name: disk.size or 0 for disk in disks.plan(record.spec)}
    swap = [disk.name for disk in disks.plan(record.spec) if disk.kind == "swap"]
    for entry in arriving:
        if entry["size"] > sizes.get(entry["name"], 0) > 0:
            raise CannotResizeDisk(
                "disk %s of %s has %d bytes, but %d by its record: nothing was moved"
                % (entry["name"], record.name, entry["size"], sizes[entry["name"]]),
                hint=disk_hints.claim_grown_disk(record.name, entry["name"], -(-entry["size"] // disks.GIB)),
            )
    return [
        entry if entry["name"] in swap else dict(entry, size=max(entry["size"], sizes.get(entry["name"], 0)))
        for entry in arriving
    ]


def publish(pool_path, record):
    """Make what has arrived the instance's disks: fsync, rename. A repeated call skips what is done."""
    _publish(files(pool_path, record.uuid, record.migration["old_spec"]), record)
    discard_older(pool_path, record)


def publish_volumes(pool_path, record):
    """Publish the volumes alone, for an instance that is deleted after the source let go: they outlive it."""
    check_volumes_arrived(pool_path, record)
    _publish(volumes_of(pool_path, record.migration["old_spec"]), record)


def _publish(arrived, record):
    sizes = {disk.name: disk.size for disk in disks.plan(record.spec)}
    for disk, path in arrived:
        part = part_of(path, record)
        if os.path.lexists(part):
            if disk.kind == "swap":
                fit(disk, part, sizes.get(disk.name))
            elif disk.format == "qcow2" and layers.read_header(part).snapshots:
                check_container(part)
                grow(disk, part, sizes.get(disk.name))
            os.chmod(part, 0o600)
            paths.publish(part, path)


def is_read_only(entry):
    """Whether the guest never writes to an entry of a manifest: the seed, the kernel."""
    return entry["name"] in [disk.name for disk in READ_ONLY]


def is_read_only_file(path):
    return os.path.basename(path) in [disk.file for disk in READ_ONLY]


def read_only(manifest):
    """Return the part of a manifest that neither libvirt nor an increment copies."""
    return [entry for entry in manifest if is_read_only(entry)]


def check_arrived(pool_path, record):
    """Refuse to take over what is missing. A guest that boots from a volume may have no disk of its own."""
    for disk in disks.plan(record.migration["old_spec"])[:1]:
        path = paths.instance(pool_path, record.uuid, disk.file)
        # On shared storage the old disk has this name too, until swap_in renames it.
        done = kept(path, record) if record.migration.get("shared") else path
        if not os.path.lexists(part_of(path, record)) and not os.path.lexists(done):
            raise TransferFailed("the copy of %s is not here any more; the source keeps the original" % record.uuid)
    check_volumes_arrived(pool_path, record)


def check_volumes_arrived(pool_path, record):
    for disk, path in volumes_of(pool_path, record.migration["old_spec"]):
        if not os.path.lexists(part_of(path, record)) and not os.path.lexists(path):
            raise TransferFailed(
                "the copy of volume %s of %s is not here any more; the source keeps the original"
                % (disk.serial, record.name)
            )


def check_kept(pool_path, record, hint):
    """Refuse to take back what a confirm, a delete or a person has begun to remove. ``hint`` says what to do then."""
    for disk in planned(record.migration["old_spec"]):
        path = paths.instance(pool_path, record.uuid, disk.file)
        # The firmware makes its variables again.
        if disk.kind != NVRAM.kind and not os.path.lexists(path) and not os.path.lexists(kept(path, record)):
            raise MigrationConflict("a file of %s is gone: %s" % (record.name, path), hint=hint)


def fit(disk, path, size):
    """Grow a disk to ``size`` bytes (None: leave it); a disk never shrinks. Swap is made again, as in Nova."""
    now = virtual_size(path, disk.format)
    if size is None or now == size:
        return
    if now > size:
        raise CannotResizeDisk("%s has %d bytes, the flavor only %d" % (os.path.basename(path), now, size))
    run(["qemu-img", "resize", "-q", "-f", disk.format, "--", path, str(size)], error=TransferFailed)
    if disk.kind == "swap":
        disks.make_swap(path)


def grow(disk, path, size):
    """Grow a disk to ``size`` bytes if it has less (None: leave it)."""
    fit(disk, path, max(size or 0, virtual_size(path, disk.format)))


def add_new(pool_path, record):
    """Make disks that only the new flavor has. What should have been copied is never replaced by an empty disk."""
    for disk in only_new(record):
        path = paths.instance(pool_path, record.uuid, disk.file)
        if not os.path.lexists(path):
            temporary = path + ".tmp"
            paths.remove(temporary)
            disks.make(disk, temporary, None)
            paths.publish(temporary, path)


def discard_older(pool_path, record):
    """Remove partial disks of earlier attempts."""
    volumes = [os.path.dirname(path) for _disk, path in volumes_of(pool_path, record.spec)]
    for directory in [paths.instance(pool_path, record.uuid), *volumes]:
        for name in os.listdir(directory) if os.path.isdir(directory) else ():
            if paths.is_incoming(name):
                paths.remove(os.path.join(directory, name))
    for path in adopted.files(record.spec):  # among the files of others
        for part in glob.glob(paths.incoming_files(glob.escape(path))):
            paths.remove(part)


# ---- shared storage: the old disks are kept under another name -------------------------------------------------------


def check_seen(pool_path, record, manifest):
    """Raise MigrationPreCheckError unless this host sees every disk that the source named, with all backing images."""
    problems = []
    known = {disk.name: (disk, path) for disk, path in files(pool_path, record.uuid, record.spec)}
    for entry in manifest or ():
        disk, path = known.get(entry.get("name"), (None, None))
        if disk is None:
            raise MigrationConflict("the source reports a disk that %s does not have: %r" % (record.uuid, entry))
        command = ["qemu-img", "info", "-U", "--backing-chain", "--output=json", "-f", disk.format, "--", path]
        if disk.kind == disks.FOUND and not os.path.lexists(path):
            text = "the hosts share the storage, and %s of the adopted guest is not in it. Move it first to a host without that storage"
            problems.append(text % disk.name)
            continue
        try:
            size = json.loads(run(command, timeout=60, error=TransferFailed))[0]["virtual-size"]
        except TransferFailed as error:
            problems.append("the storage is shared, but not all of %s: %s" % (disk.file, error))
        else:
            if size != entry.get("size"):
                problems.append("%s has %d bytes here, %r on the source" % (disk.file, size, entry.get("size")))
    if problems:
        raise MigrationPreCheckError(record.uuid, problems)


def kept(path, record):
    return paths.kept_file(path, record.op)


def part_of(path, record):
    return paths.incoming_file(path, record.migration["attempt"])


def has_kept(pool_path, record):
    return any(
        os.path.lexists(kept(paths.instance(pool_path, record.uuid, disk.file), record))
        for disk in disks.plan(record.migration["old_spec"])
    )


def layer(pool_path, record):
    """On the source, make the new disks beside the old ones, which stay as they are until swap_in renames both. The
    guest is off. A repeated call starts from the old ones."""
    sizes = {disk.name: disk.size for disk in disks.plan(record.migration["new_spec"])}
    for disk in old_ones(pool_path, record):
        path = paths.instance(pool_path, record.uuid, disk.file)
        old, part = kept(path, record), part_of(path, record)
        paths.remove(part)
        lay_over(disk, old if os.path.lexists(old) else path, old, part, sizes.get(disk.name))
        os.chmod(part, 0o600)
        paths.sync(part)
    for disk in only_new(record):
        part = part_of(paths.instance(pool_path, record.uuid, disk.file), record)
        paths.remove(part)
        disks.make(disk, part, None)
        paths.sync(part)
    own = [paths.instance(pool_path, record.uuid, disk.file) for disk in disks.plan(record.migration["new_spec"])]
    for directory in {os.path.dirname(path) for path in own}:
        paths.sync_directory(directory)


def old_ones(pool_path, record):
    """Return the disks from before the move that the guest may have written to."""
    found = []
    for disk in planned(record.migration["old_spec"]):
        path = paths.instance(pool_path, record.uuid, disk.file)
        if disk not in READ_ONLY and (os.path.lexists(path) or os.path.lexists(kept(path, record))):
            found.append(disk)
    return found


def only_new(record):
    """Return the disks that only the new flavor has. Data disks belong to no flavor, so a move makes none."""
    before = {disk.name for disk in disks.plan(record.migration["old_spec"])}
    return [
        disk for disk in disks.plan(record.migration["new_spec"]) if disk.name not in before and disk.kind != disks.DATA
    ]


def lay_over(disk, source, backing, path, size):
    """Make a qcow2 overlay on ``backing``, the future name of ``source``. Clone a raw disk, or else copy it; so with one that
    has snapshots, which a layer would not have."""
    now = virtual_size(source, disk.format)
    with_snapshots = disk.format == "qcow2" and bool(layers.read_header(source).snapshots)
    if disk.format == "qcow2" and not with_snapshots:
        command = ["qemu-img", "create", "-q", "-u", "-f", "qcow2", "-F", "qcow2", "-b", os.path.basename(backing)]
        run(command + ["--", path, str(max(now, size or 0))], error=TransferFailed)
    else:
        run(["cp", "--reflink=auto", "--sparse=always", "--", source, path], timeout=None, error=TransferFailed)
        (grow if with_snapshots else fit)(disk, path, size)


def swap_in(pool_path, record):
    """Make the disks that ``layer`` made the instance's, and give the old ones their other name."""
    for disk in planned(record.migration["old_spec"]) + only_new(record):
        path = paths.instance(pool_path, record.uuid, disk.file)
        old, part = kept(path, record), part_of(path, record)
        if not os.path.lexists(part):
            continue
        if os.path.lexists(path) and not os.path.lexists(old):
            paths.publish(path, old)
        paths.publish(part, path)
    discard_older(pool_path, record)


def restore(pool_path, record):
    """Go back to the kept disks; discard what the guest wrote since. The guest is off."""
    for disk in planned(record.migration["old_spec"]):
        path = paths.instance(pool_path, record.uuid, disk.file)
        if os.path.lexists(kept(path, record)):
            paths.publish(kept(path, record), path)
    for disk in only_new(record):
        paths.remove(paths.instance(pool_path, record.uuid, disk.file))
    discard_older(pool_path, record)


def drop_kept(connection, pool_path, record):
    """Make the new disks independent of the kept ones, then remove those. Nobody may start the guest meanwhile."""
    for disk in planned(record.migration["old_spec"]):
        path = paths.instance(pool_path, record.uuid, disk.file)
        old = kept(path, record)
        if os.path.lexists(old):
            if disk.format == "qcow2":
                merge(connection, record, path, old)
            paths.remove(old)
            paths.sync_directory(os.path.dirname(old))
        paths.remove(paths.merging_file(old))
