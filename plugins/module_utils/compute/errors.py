# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong on the KVM host.

``retryable`` follows Nova: a lost claim and trouble of the host go to the next host, bad input does not.
"""

from __future__ import annotations

from ..model.errors import BerthError
from ..model.safe_text import clean


class HostBusy(BerthError):
    """Another run holds this host's lock for longer than the time limit."""

    retryable = True


class InstanceBusy(BerthError):
    """Another run is working on this instance; the message says which."""


class StaleRecord(BerthError):
    """The record changed since it was read: somebody else took over."""


class StateUnsafe(BerthError):
    """A file or directory of the state is a link, or others than its owner may write or read it."""


class DisksOfAnotherHost(BerthError):
    """The pool is one storage for several hosts, and the disks there belong to an instance on another host."""


class DisksWithoutRecord(BerthError):
    """The host has disks of an instance that it has no record of: they may be all there is, so nothing is built there."""


class DirectoryInside(BerthError):
    """Among the files that are to be removed there is a directory that berth did not make: none of them was removed."""


class StorageNotMounted(BerthError):
    """The pool does not have what is to be removed, nor the directory that it is in: it would be there again with its file system."""


class DiskChainChanged(BerthError):
    """The guest's disks are not those that its record names: a snapshot's layer, a disk copied elsewhere or attached. What
    moves, starts or removes it would lose data, so the guest is left as it is; the message has the command that takes it back."""


class GuestHung(BerthError):
    """The guest's QEMU does not answer, so it can be neither copied nor handed over. It was left as it is."""


class DisksBusy(BerthError):
    """Another program backs up or copies the disks of the running guest (``virsh backup-begin``, ``virsh blockcopy``): a move would
    break that off, so the guest is left as it is."""


class DisksNotHere(BerthError):
    """This host does not see the disks that are to be taken over, or the image below them; another one may."""

    retryable = True


class DisksUnfit(BerthError):
    """The disks that are to be taken over are not those that the inventory describes, or a move of them has not ended."""


class DisksUsed(BerthError):
    """A QEMU still uses a disk that is to be taken over: the host that was named as switched off is not off. Or another domain has a
    disk of an instance that is to be deleted."""


class GuestSaved(BerthError):
    """The guest's memory was saved, as ``virsh managedsave`` does: a move would lose it, or leave it beside disks that it does not
    fit; a copy that is set aside would lose it. The guest is left as it is."""


class GuestCrashed(BerthError):
    """A resize or migration is to be confirmed, and its guest has crashed. A confirmation removes the way back, so nothing was
    done."""


class ClaimRevoked(BerthError):
    """The claim was withdrawn, or another controller adopted it."""


class GroupPolicyViolated(BerthError):
    """A member of the instance's server group on this host forbids it (the late check)."""

    retryable = True


class ImageInvalid(BerthError):
    """The image is not what it was declared to be, or is of a form that is never used."""


class ImageUnavailable(BerthError):
    """This host could not get the image."""

    retryable = True


class ImageUrlDead(BerthError):
    """Nothing is at the image's url: its server is unknown, refuses, or has no such file. No host would find it."""


class ImagePathRefused(BerthError):
    """The image's path is not below the directories that the host's settings name for images, or has a link in it."""


class FlavorTooSmall(BerthError):
    """The image does not fit into the flavor (Nova: FlavorDiskSmallerThanImage, FlavorMemoryTooSmall)."""


class BuildFailed(BerthError):
    """The host could not build or start the instance; it left nothing behind."""

    retryable = True
    host_fault = True


class PacketFilterForeign(BerthError):
    """This host has a network filter with the name of a guest's packet filter that berth did not make: it is left alone."""

    retryable = True


class VgpuUnavailable(BerthError):
    """A vGPU that the host set aside for a guest cannot be had there: the GPU is gone, offers another type by now, is used up by
    others, or somebody else made a mediated device with its uuid. Nothing was done to the guest."""

    retryable = True


class GuestNotSupported(BuildFailed):
    """This host's libvirt or QEMU refuses the guest's machine type, device or firmware; another host may accept it."""

    host_fault = False


class GuestRunsAlready(BerthError):
    """The record says that the guest was not made yet, and the guest runs: the record is an old copy. Nothing was done."""


class BuildBroken(BerthError):
    """The build met an error that nobody foresaw, most likely a defect of this collection; it left nothing behind."""


class StateUnknown(BerthError):
    """libvirt did not answer in time: what it did is not known, so no other host is tried."""


class DiskNotAttached(BerthError):
    """The running guest takes no disk of this kind, or none more: it gets it while it is off."""


class DiskNotDetached(BerthError):
    """The running guest does not let go of a disk, such as one that is mounted: it keeps it."""


class DeletionFinished(BerthError):
    """A delete had been interrupted. The start finished it, so the instance is gone."""

    retryable = True


class CleanupFailed(BerthError):
    """A part of the instance could not be removed: run the same again before trying another host."""


class HostNotPrepared(BerthError):
    """The host lacks what role kvm_host installs, or is set up in a way that is refused."""

    retryable = True


class HostIdentityChanged(BerthError):
    """libvirt's host uuid is not the one that was pinned when the host was prepared: a copied disk, or another machine."""

    retryable = True


class BootGateMissing(HostNotPrepared):
    """libvirt does not ask the boot gate on this host, so nothing is started there: run berth.kvm.prepare_hosts on it."""


def typed(error):
    """The error as one of ours: a build never ends in a traceback that leaves its parts behind."""
    if isinstance(error, BerthError):
        return error
    if isinstance(error, OSError):
        return BuildFailed("%s: %s" % (error.filename or "the host", error.strerror or error))
    return BuildBroken("the build met %s: %s" % (type(error).__name__, clean(str(error), 300)))
