# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths of images, disks, volumes and console logs, made of uuids and checksums, no part from a user; and how directories
of disks are made, checked (whose they are, whether the storage is mounted), removed, and kept through a power cut.
"""

from __future__ import annotations

import glob
import hashlib
import os
import stat

from ..model import state_hints
from ..model.checksum import CHECKSUM, IN_LIST
from .errors import DirectoryInside, StateUnsafe, StorageNotMounted
from .record.store import check_uuid

POOL_PATH = "/var/lib/libvirt/berth"
SEED = "seed.iso"  # beside the disks of an instance
IGNITION = "ignition"  # the same for Ignition, to which QEMU shows it
CONSOLE_DIRECTORY = "/var/log/libvirt/qemu"
SWTPM, SWTPM_FILE = "/var/lib/libvirt/swtpm", "tpm2-00.permall"  # libvirt removes it with the guest's definition
# QEMU runs as another user: it may pass through the directories, but not list them
PASS_MODE = 0o711


def digest(checksum):
    """The 64 hexadecimal digits that name the cached file of an image: those of its sha256, or for another kind of checksum
    those of its text."""
    if not isinstance(checksum, str) or not (CHECKSUM.match(checksum) or IN_LIST.match(checksum)):
        raise StateUnsafe("%r is not the checksum of an image" % (checksum,))
    kind, _colon, digits = checksum.partition(":")
    return digits if kind == "sha256" else hashlib.sha256(checksum.encode()).hexdigest()


def image(pool_path, checksum):
    return os.path.join(pool_path, "images", digest(checksum))


def has_seed(pool_path, uuid):
    return os.path.lexists(instance(pool_path, uuid, SEED))


def instance(pool_path, uuid, *name):
    return os.path.join(pool_path, "instances", check_uuid(uuid), *name)


VOLUME_FILE = "disk.qcow2"


def volume(pool_path, uuid):
    return os.path.join(pool_path, "volumes", check_uuid(uuid))


def volume_file(pool_path, uuid):
    return os.path.join(volume(pool_path, uuid), VOLUME_FILE)


def volume_entries(pool_path, uuid):
    """The volume's file, and what somebody made beside it, as the layer of a snapshot or a copy: it goes with it."""
    directory = volume(pool_path, uuid)
    beside = sorted({*entries(directory)} - {VOLUME_FILE})
    return [volume_file(pool_path, uuid), *(os.path.join(directory, name) for name in beside)]


def left(pool_path, uuid):
    """The directory for the files of an adopted instance that has moved and is left to libvirt, see adopt.py."""
    return os.path.join(pool_path, "left", check_uuid(uuid))


def set_aside(pool_path):
    """The directory for copies of instances that were set aside, see set_aside.py."""
    return os.path.join(pool_path, "set-aside")


def console_log(uuid):
    """The file, limited in size, to which libvirt's log daemon writes the guest's serial console."""
    return os.path.join(CONSOLE_DIRECTORY, check_uuid(uuid) + "-console.log")


def console_logs(uuid):
    """The guest's console log and its rotated parts, as far as they exist."""
    path = console_log(uuid)
    return [path] * os.path.lexists(path) + sorted(glob.glob(path + ".*"))


def tpm_state(uuid):
    """The file in which swtpm keeps what the guest's TPM has, outside of the disks."""
    return os.path.join(SWTPM, check_uuid(uuid), "tpm2", SWTPM_FILE)


def remove_console_logs(uuid):
    removed = [remove(file) for file in console_logs(uuid)]
    return any(removed)


def make_directory(path):
    """Make a directory below the pool, or check an existing one: owned by root, no link, writable by nobody else."""
    try:
        os.mkdir(path, PASS_MODE)
        os.chmod(path, PASS_MODE)
        sync_directory(os.path.dirname(path))
    except FileExistsError:
        pass
    check_directory(path)
    return path


def check_directory(path):
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        message = "%s is not a directory that only its owner may write to" % path
        raise StateUnsafe(message, hint=state_hints.close_to_others(os.uname().nodename))


def let_pass(path):
    """Let QEMU, which is another user, reach what is in a directory of ours, if somebody took that from it by chmod."""
    status = os.lstat(path)
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and status.st_mode & PASS_MODE != PASS_MODE:
        os.chmod(path, stat.S_IMODE(status.st_mode) | PASS_MODE)


def check_mounted(path):
    """Raise StorageNotMounted if even the parent directory of ``path``, which nothing removes, is missing."""
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        raise StorageNotMounted(
            "%s is not there, so nothing in it can be removed or set aside" % directory,
            hint=state_hints.mount_storage_to_remove(directory),
        )


def remove_directory(path):
    """Remove a directory and its files. Return whether there was one. Links are removed, not followed. If it contains a
    directory, which berth never makes, raise DirectoryInside and remove nothing."""
    try:
        check_directory(path)
    except FileNotFoundError:
        return False
    with os.scandir(path) as entries:
        files = {entry.path: entry.is_dir(follow_symlinks=False) for entry in entries}
    inside = sorted(file for file, is_directory in files.items() if is_directory)
    if inside or os.path.ismount(path):
        there = inside[0] if inside else path
        raise DirectoryInside(
            "%s is a directory or a mount that somebody else made, so %s was not removed" % (there, path),
            hint=state_hints.take_directory_away(there),
        )
    for file in files:
        os.unlink(file)
    os.rmdir(path)
    sync_directory(os.path.dirname(path))
    return True


def sync_directory(path):
    """Make the names in the directory survive a power cut."""
    _sync(path, os.O_DIRECTORY)


def sync(path):
    """Make the content of the file survive a power cut."""
    _sync(path, os.O_NOFOLLOW)


def _sync(path, kind):
    fd = os.open(path, os.O_RDONLY | kind | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def publish(temporary, path):
    """Give a finished file its final name: fsync, rename, fsync of the directory."""
    sync(temporary)
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))


def free_bytes(path):
    room = os.statvfs(path)
    return room.f_bavail * room.f_frsize


def entries(path):
    """The names in a directory, none if it does not exist."""
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []


def remove(path):
    """Remove a file. Return whether there was one."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


# Of a backup: its directory until it is whole, and the bitmap of what is written afterwards.
PARTIAL, BITMAP = ".partial-", "berth-backup-"


def bitmap_of(mark):
    return BITMAP + mark


# The names of the files that a move writes beside a disk until it has ended.
KEPT, INCOMING, SCRATCH, MERGING = ".pre-", ".incoming-", ".scratch", ".merging"


def kept_file(path, op):
    """Return the name of the old disk in the move ``op``, until it is confirmed or reverted."""
    return path + KEPT + op


def merging_file(kept):
    """Return the name of the note that the kept disk is being merged into the new one."""
    return kept + MERGING


def incoming_file(path, attempt):
    """Return the name of an arriving disk. Each attempt has its own, so a late writer of an older one does no harm."""
    return "%s%s%d" % (path, INCOMING, attempt)


def incoming_files(path):
    """Return the pattern of its names, for any attempt."""
    return path + INCOMING + "[0-9]*"


def scratch_file(path):
    """Return the name of the file that a backup of the disk writes."""
    return path + SCRATCH


def is_incoming(name):
    return INCOMING in name


def is_kept_or_incoming(name):
    return KEPT in name or INCOMING in name


def is_of_move(name):
    return is_kept_or_incoming(name) or SCRATCH in name
