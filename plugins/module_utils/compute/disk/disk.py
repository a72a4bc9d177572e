# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of an instance. They follow from its request alone, so computing them again gives the same disks.

root      qcow2 on the cached image (overlay), or a copy of it: flavor extra spec berth:root_disk = overlay, full or raw
          none if the guest boots from a volume
ephemeral0 raw, ext4, labelled ephemeral0
swap      raw, labelled swap
data-NAME qcow2, empty; the guest knows it by its serial number NAME
rescue    qcow2 on another cached image, while the instance is rescued; the last one
Sizes are in bytes. Every call of qemu-img names its formats and ends its options with --.
"""

from __future__ import annotations

import collections
import errno
import os

from ...model import adopted, data_disks, hints, rescues, shelves, volumes
from ...model.errors import InvalidInput
from ...model.safe_text import clean
from .. import durable, paths
from ..errors import DisksWithoutRecord, ImageInvalid, file_not_usable
from ..guest import nvram
from ..run import TIMEOUT, run
from . import image as images
from . import owner

# Kernel and initrd of a guest that is booted directly. A move copies them with its disks, and needs no web server.
LARGEST = 1 << 30  # bytes of each
SECTOR = 512
PARTS = ("kernel", "initrd")


def named_boot_files(spec):
    """Return the parts that the image of a request has: kernel, or kernel and initrd."""
    return [part for part in PARTS if (spec.get("image") or {}).get(part)]


def cached_boot_file(pool_path, spec, part, settings):
    """Get the kernel or initrd into the cache of images, and return what image.ensure does."""
    source = dict(spec["image"][part], name="%s of %s" % (part, spec["image"].get("name")), disk_format="raw")
    return images.ensure(pool_path, dict(source, most_bytes=LARGEST), 0, settings)


def build_boot_files(pool_path, uuid, spec, settings):
    """Copy them from the host's image cache to beside the instance's disks."""
    for part in named_boot_files(spec):
        cached = cached_boot_file(pool_path, spec, part, settings)
        path = paths.instance(pool_path, uuid, part)
        temporary = path + ".tmp"
        paths.remove(temporary)
        run(["cp", "--reflink=auto", "--", cached["path"], temporary])
        # Disks are copied in whole sectors; a kernel ignores the padding.
        os.truncate(temporary, -(-os.path.getsize(temporary) // SECTOR) * SECTOR)
        os.chmod(temporary, 0o600)
        paths.publish(temporary, path)


GIB = 1 << 30
MIB = 1 << 20
ROOT_KINDS = ("overlay", "full", "raw")
DATA, VOLUME, FOUND = "data", "volume", "found"
Disk = collections.namedtuple("Disk", "name file format size kind bus serial slot", defaults=(None, None, None))
SEED = Disk("seed", paths.SEED, "raw", None, "seed")
NVRAM = Disk("nvram", nvram.FILE, "raw", None, "nvram")
BOOT_FILES = tuple(Disk(part, part, "raw", None, part) for part in PARTS)
RESCUE = Disk("rescue", "rescue.qcow2", "qcow2", None, rescues.KEY)
IGNITION = Disk("ignition", paths.IGNITION, "raw", None, "ignition")
OF_SEED = (SEED, IGNITION)  # what is made from the inventory
READ_ONLY = (*OF_SEED, *BOOT_FILES)  # a guest never writes to them
NO_DISKS = (*READ_ONLY, NVRAM)  # files that may be in an instance's directory but not among its devices
KINDS_OF_NO_DISKS = frozenset(each.kind for each in NO_DISKS)


def root_kind(spec):
    kind = (spec["flavor"].get("extra_specs") or {}).get("berth:root_disk", "overlay")
    if kind not in ROOT_KINDS:
        raise InvalidInput("flavor.extra_specs.berth:root_disk", kind, "one of " + ", ".join(ROOT_KINDS))
    return kind


def plan(spec):
    """Return the disks in the order of the guest's devices. A root size of None is the image's own (root_gb 0). Of an adopted
    instance the file is the whole path, as long as it lies where it was found. A shelved instance has none."""
    if shelves.of(spec):
        return []
    if adopted.of(spec):
        return [Disk(each["target"], each["path"], each["format"], each["size"], FOUND) for each in adopted.disks(spec)]
    flavor = spec["flavor"]
    kind = root_kind(spec)
    form = "raw" if kind == "raw" else "qcow2"
    root = Disk("root", "root." + form, form, (flavor.get("root_gb") or 0) * GIB or None, kind)
    disks = [] if volumes.boot(spec) else [root]
    if flavor.get("ephemeral_gb"):
        disks.append(Disk("ephemeral0", "ephemeral0", "raw", flavor["ephemeral_gb"] * GIB, "ephemeral"))
    if flavor.get("swap"):
        disks.append(Disk("swap", "swap", "raw", flavor["swap"] * MIB, "swap"))
    data = data_disks.check(spec)
    disks += [_data(disk, slot) for disk, slot in zip(data, data_disks.slots(data))]
    return disks + [RESCUE] if rescues.of(spec) else disks


def _data(disk, slot):
    """Return a qcow2 disk, which a move copies while the guest runs. The prefix keeps it apart from other disks."""
    name = "data-" + disk["name"]
    return Disk(
        name,
        data_disks.file_of(disk["name"]),
        "qcow2",
        disk["size_gb"] * GIB,
        DATA,
        disk.get("bus"),
        disk["name"],
        slot,
    )


def check_none(pool_path, uuid, name, host_uuid):
    """Refuse to begin a build if there are disks already: this build did not make them."""
    directory = paths.instance(pool_path, uuid)
    try:
        there = sorted(set(os.listdir(directory)) - {owner.FILE})
    except FileNotFoundError:
        return
    owner.check(pool_path, uuid, name, host_uuid)
    if there:
        raise DisksWithoutRecord(
            "%s has files of instance %s (%s), but no record of it. They were not touched"
            % (directory, uuid, clean(", ".join(there), 200)),
            hint=hints.disks_without_record(directory),
        )


def planned(spec):
    """Return all files of an instance: its disks, the seed, kernel and initrd if it has them, the UEFI variables."""
    boots = [disk for disk in BOOT_FILES if disk.name in named_boot_files(spec)]
    return plan(spec) + of_seed(spec) + boots + _variables(spec)


def _variables(spec):
    """Return the file of the UEFI variables. The definition of an adopted guest says where it is."""
    found = adopted.of(spec)
    if not found:
        return [NVRAM]
    return [NVRAM._replace(file=found["variables"])] if found.get("variables") else []


def of_seed(spec):
    if adopted.of(spec):
        return []
    return list(OF_SEED) if spec.get("ignition") else [SEED]


def let_pass(pool_path, uuid):
    """Before a start, let QEMU reach the disks."""
    own = paths.instance(pool_path, uuid)
    for path in (os.path.dirname(own), own):
        if os.path.isdir(path):
            paths.let_pass(path)


def remove_of_rescue(pool_path, record):
    """Remove the disk of a rescue that has ended, or that a killed run made before it began."""
    if not rescues.of(record.spec):
        paths.remove(paths.instance(pool_path, record.uuid, RESCUE.file))


def check_writable(pool_path, record, host_name):
    """Raise FileNotUsable if a disk is on a file system that can only be read: QEMU would not start from it."""
    for path in (paths.instance(pool_path, record.uuid, disk.file) for disk in plan(record.spec)):
        if os.path.lexists(path) and not os.access(path, os.W_OK):
            raise file_not_usable(
                OSError(errno.EROFS, os.strerror(errno.EROFS), path), host_name, "the start of %s" % record.name
            )


def build(pool_path, uuid, spec, host_uuid, settings):
    """Make all disks of an instance on the host ``host_uuid`` with these settings. Discard earlier attempts."""
    root_gb = volumes.root_gb(spec)
    base = (
        None if volumes.boot(spec) or shelves.of(spec) else images.ensure(pool_path, spec["image"], root_gb, settings)
    )
    paths.make_directory(os.path.join(pool_path, "instances"))
    paths.make_directory(paths.instance(pool_path, uuid))
    owner.write(pool_path, uuid, host_uuid)
    for disk in plan(spec):
        path = paths.instance(pool_path, uuid, disk.file)
        temporary = path + ".tmp"
        paths.remove(path)
        paths.remove(temporary)
        make(disk, temporary, base)
        os.chmod(temporary, 0o600)
        paths.publish(temporary, path)
    build_boot_files(pool_path, uuid, spec, settings)
    return base


def make(disk, path, base):
    """Make one disk at ``path``; a root disk and a volume to boot from are made from ``base``, the cached image."""
    with durable.private():
        if disk.kind in ("overlay", RESCUE.kind):
            size = str(disk.size or base["virtual_size"])
            _read_image(
                ["qemu-img", "create", "-q", "-f", "qcow2", "-F", base["format"], "-b", base["path"], "--", path, size],
                60,
            )
        elif disk.name == "root" or disk.kind == VOLUME and base:
            _read_image(
                ["qemu-img", "convert", "-q", "-f", base["format"], "-O", disk.format, "--", base["path"], path]
            )
            if disk.size:
                run(["qemu-img", "resize", "-q", "-f", disk.format, "--", path, str(disk.size)])
        elif disk.kind in (DATA, VOLUME):
            run(["qemu-img", "create", "-q", "-f", disk.format, "--", path, str(disk.size)], timeout=60)
        else:
            _make_sparse(path, disk.size)
            if disk.kind == "swap":
                make_swap(path)
            else:
                run(["mke2fs", "-q", "-F", "-t", "ext4", "-L", disk.name, "--", path])


def _read_image(arguments, timeout=TIMEOUT):
    """Run a program that reads the image. If it exceeds its limits, the image is to blame: no other host is tried."""
    run(arguments, timeout=timeout, over=ImageInvalid)


def make_swap(path):
    run(["mkswap", "-q", "-L", "swap", "--", path])


def _make_sparse(path, size):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, size)
    finally:
        os.close(fd)


def is_there(pool_path, uuid):
    try:
        paths.check_directory(paths.instance(pool_path, uuid))
    except FileNotFoundError:
        return False
    return True


def remove_all(pool_path, uuid, name, host_uuid):
    """Remove the instance's directory with all in it. Return whether there was one.

    Raise DisksOfAnotherHost if a host other than ``host_uuid`` owns them: the storage is shared, they are not orphans.
    """
    if not is_there(pool_path, uuid):
        return False
    owner.check(pool_path, uuid, name, host_uuid)
    return paths.remove_directory(paths.instance(pool_path, uuid))
