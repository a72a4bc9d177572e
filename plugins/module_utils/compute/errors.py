# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors on the KVM host.

``retryable`` follows Nova: after a lost claim or a problem of the host, the next host is tried; after bad input, none.
"""

from __future__ import annotations

import contextlib
import errno
import os

from ..model import state_hints
from ..model.errors import BerthError
from ..model.safe_text import clean, in_utf8


class HostBusy(BerthError):
    """Another run holds this host's lock for longer than the time limit."""

    retryable = True


class InstanceBusy(BerthError):
    """Another run is working on this instance; the message says which."""


class StaleRecord(BerthError):
    """Another run changed the record after it was read."""


class StateUnsafe(BerthError):
    """A state file or directory is a link, or other users than its owner can read or write it."""


class DisksOfAnotherHost(BerthError):
    """By the file ``owner`` beside them, the disks belong to another host: several hosts share this pool, or the directory
    was restored from a backup of another host."""


class DisksWithoutRecord(BerthError):
    """The host has disks of the instance but no record of it. They may be the only copy, so nothing is built there."""


class DirectoryInside(BerthError):
    """Among the files to remove is a directory that berth did not make. No file was removed."""


class StorageNotMounted(BerthError):
    """The files to remove or to set aside and their directory are missing, probably because the pool's file system is not
    mounted. They would reappear with it."""


class SnapshotFailed(BerthError):
    """QEMU or qemu-img did not make, delete or go back to a snapshot of a disk. The disks are as they were."""


class SnapshotNotPossible(BerthError):
    """The instance has no disk of its own that can have a snapshot, or one that cannot: it is raw, or an adopted one that stands
    on another file. Or its memory is asked for, and its guest does not run or also writes to what the snapshot leaves out."""


class MemoryNotRestored(BerthError):
    """libvirt did not bring the memory of a snapshot back. The disks are those of the snapshot, and the guest is off. Another revert
    tries it again."""


class SnapshotIncomplete(BerthError):
    """The snapshot is not in all of its disks, or a snapshot, its removal or a revert has not ended."""


class DiskChainChanged(BerthError):
    """The guest's disks are not those that its record names: there is a snapshot, or a disk was copied elsewhere or
    attached. Moving, starting or deleting the guest would lose data, so it was left as it is. The message has the
    command that undoes the change."""


class GuestHung(BerthError):
    """The guest's QEMU does not answer, so the guest cannot be moved. It was left as it is."""


class DiskIOError(BerthError):
    """QEMU paused the guest because one of its disks cannot be read or written, for example on a full file system, and
    paused it again when it was resumed. While it is paused, nothing that it wrote is lost."""


class FileNotUsable(BerthError):
    """The host's operating system refused to read or write a file, for example on a full file system. A move is given
    up, or the next run continues it. The next run continues everything else that was begun."""

    retryable = True


class DisksBusy(BerthError):
    """Another program backs up or copies the disks of the running guest (``virsh backup-begin``, ``virsh blockcopy``).
    A move would interrupt that, so the guest was left as it is."""


class DisksNotHere(BerthError):
    """This host does not see the disks to take over, or their base image. Another host may."""

    retryable = True


class CopyNotOutdated(BerthError):
    """Another host owns the instance with a later record, and nothing proves that the disks here are outdated. They were kept."""


class DisksUnfit(BerthError):
    """The disks to take over are not those that the inventory describes, or a move of them is unfinished."""


class DisksUsed(BerthError):
    """A QEMU process still uses a disk to take over: the host that was declared off is not off. Or another domain of the
    host, such as a copy that somebody made by hand, has a disk of the instance to start, move or delete."""


class GuestSaved(BerthError):
    """The guest's memory was saved, for example with ``virsh managedsave``. A move would lose this memory or separate
    it from the disks. Setting a copy aside would lose it, and so would a start if the memory is in a file of ``virsh
    save``. The guest was left as it is."""


class SavedMemoryGone(BerthError):
    """The instance is suspended, and libvirt no longer has its guest's memory, for example after ``virsh
    managedsave-remove``. Nothing was started."""


class NoRoomForMemory(BerthError):
    """The file system on which libvirt keeps the memory of suspended guests has less room than the guest has memory. The
    guest was left as it is."""


class GuestCrashed(BerthError):
    """The guest has crashed. A confirm would make a revert impossible, so nothing was done."""


class GuestNotSeen(BerthError):
    """It is unknown whether the guest came up after its move. The timer did not confirm it, so its former copy is kept."""


class ClaimRevoked(BerthError):
    """The claim was withdrawn, or another controller adopted it."""


class GroupPolicyViolated(BerthError):
    """The host's final check: a member of the instance's server group on this host forbids the instance."""

    retryable = True


class ImageInvalid(BerthError):
    """The image differs from its declaration, or its format is not allowed."""


class ImageUnavailable(BerthError):
    """This host could not get the image."""

    retryable = True


class ImageUrlDead(BerthError):
    """There is no image at the url: its server is unknown, refuses, or has no such file. No host would find it."""


class ImagePathRefused(BerthError):
    """The image's path is outside the image directories in the host's settings, or contains a link."""


class FlavorTooSmall(BerthError):
    """The image does not fit into the flavor (Nova: FlavorDiskSmallerThanImage, FlavorMemoryTooSmall)."""


class BuildFailed(BerthError):
    """The host could not build or start the instance; it left nothing behind."""

    retryable = True
    host_fault = True


class PacketFilterForeign(BerthError):
    """This host has a network filter with the name of the guest's packet filter, but berth did not make it. It was left
    alone."""

    retryable = True


class PacketFilterInUse(BerthError):
    """A guest that berth does not manage uses the packet filter of a guest that was removed, for example a clone of it. The
    filter was left alone."""


class VgpuUnavailable(BerthError):
    """The host cannot provide the guest's vGPU: the GPU is gone, now offers another type, has no free vGPU, or somebody
    else made a mediated device with that uuid. Nothing was done to the guest."""

    retryable = True


class GuestNotSupported(BuildFailed):
    """This host's libvirt or QEMU refuses the guest's machine type, device or firmware; another host may accept it."""

    host_fault = False


class GuestRunsAlready(BerthError):
    """The record says that the guest was never built, but it runs: the record is an old copy. Nothing was done."""


class BuildBroken(BerthError):
    """The build failed with an unexpected error, most likely a defect of this collection. It left nothing behind."""


class StateUnknown(BerthError):
    """libvirt did not answer in time. The result is unknown, so no other host is tried."""


class DiskNotAttached(BerthError):
    """The running guest cannot get a disk of this kind, or no more disks. Attach it while the guest is off."""


class DiskNotDetached(BerthError):
    """The running guest does not release the disk, for example because it is mounted. The disk stays attached."""


class DeletionFinished(BerthError):
    """A delete had been interrupted. The start finished it, so the instance is gone."""

    retryable = True


class CleanupFailed(BerthError):
    """A part of the instance could not be removed. Run the same playbook again before trying another host."""


class HostNotPrepared(BerthError):
    """The host lacks what the role kvm_host installs, or its configuration is refused."""

    retryable = True


class HostNotEmpty(BerthError):
    """The host to clean still has instances, volumes or their files. Nothing was changed."""


class HostIdentityChanged(BerthError):
    """libvirt's host uuid differs from the one recorded when the host was prepared: its disk was copied, or it is
    another machine."""

    retryable = True


class BootGateMissing(HostNotPrepared):
    """libvirt on this host does not run the boot gate, so it starts nothing: run berth.kvm.prepare_hosts for it."""


def typed(error):
    """Return the error as a BerthError: a build must not end in a traceback that leaves its parts behind."""
    if isinstance(error, BerthError):
        return error
    if isinstance(error, OSError):
        return BuildFailed("%s: %s" % (error.filename or "the host", error.strerror or error))
    return BuildBroken("the build met %s: %s" % (type(error).__name__, clean(str(error), 300)))


@contextlib.contextmanager
def failing(module):
    """End the module with what it reports of an error. Any other exception is a defect, and Ansible shows its traceback."""
    try:
        yield
    except (BerthError, OSError) as error:
        module.fail_json(**result_of(error))


def result_of(error):
    typed_error = error if isinstance(error, BerthError) else file_not_usable(error, os.uname().nodename)
    return in_utf8(typed_error.to_result())


def reason(error, path):
    """Return the words of the OSError that a file met; also that inodes lack, where a file system has bytes left."""
    words = error.strerror or str(error)
    if error.errno == errno.ENOSPC and lacks_inodes(path):
        words += " (it has no free inodes, as df -i shows)"
    return words


def lacks_inodes(path):
    """Whether the file system of the file, which need not be there, counts inodes and has none left but has room."""
    try:
        left = os.statvfs(path if os.path.lexists(path) else os.path.dirname(path) or ".")
    except (OSError, TypeError, ValueError):
        return False
    return bool(left.f_files and not left.f_favail and left.f_bavail)


def file_not_usable(error, host, doing="the task"):
    """Return FileNotUsable for the OSError. ``doing`` says what was not finished."""
    what = "%s: %s" % (error.filename, reason(error, error.filename)) if error.filename else error
    return FileNotUsable("%s on %s: %s" % (doing, host, what), hint=state_hints.make_room_for_file(host), host=host)
