# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the conductor: what stops the creation of one instance, or of the run."""

from __future__ import annotations

from typing import Iterable

from ..model.errors import BerthError
from ..model.suggest import did_you_mean


class AddressPoolExhausted(BerthError):
    """All addresses of a network's pool are taken: nothing was claimed."""


class AddressesUnknown(BerthError):
    """A host does not answer, so which addresses of a network's pool its instances have is not known: none is given out."""


class ClaimConflict(BerthError):
    """Another run is creating the same instance; it goes first."""


class InstanceUnknown(BerthError):
    """The instance may be on a host that does not answer: nothing is done about it (fail closed)."""


class InstanceMoving(BerthError):
    """The instance is in the middle of a move, or was not confirmed after it: Nova's InstanceInvalidState for what is not
    allowed then."""


class RecordMissing(BerthError):
    """A host held the instance and has no record of it any more, though it never removed it: its records were lost."""


class RecordOutdated(BerthError):
    """The record of the host that answers as owner is older than what other hosts have seen: another owns it, or it is an old
    copy."""


class DomainWithoutRecord(BerthError):
    """libvirt knows a guest with the instance's uuid on a host that has no record of it: it is not made or started anywhere."""


class DisksOwnerUnknown(BerthError):
    """No host remembers which host had the instance that is to be taken over, so whose disks it gets is not known."""


class DuplicateInstance(BerthError):
    """More than one host says that it owns the instance: a person has to look."""


class DuplicateRuns(BerthError):
    """More than one copy of the instance runs: none is stopped until a person has confirmed it."""


class GroupPolicyViolation(BerthError):
    """The server group's policy does not hold for the place the instance was given."""

    retryable = True


class InstanceSuperseded(BerthError):
    """A host that was given up as lost is back with its copy of the instance, which has gone on elsewhere."""


class HostNotLost(BerthError):
    """A host that was said to be lost for good answers."""


class HostNameAmbiguous(BerthError):
    """Several hosts that do not answer are remembered by the name that was given as lost: none of them is given up."""


class HostInUse(BerthError):
    """A KVM host that is to be removed holds instances or volumes, or may hold some: nothing was changed."""


class HostUnknown(BerthError):
    """The host stopped answering while it worked on the instance: what it did is not known, so no other host is tried."""


class HostLibvirtTimeout(BerthError):
    """libvirt of a host that may hold the instance does not answer: whether it is there is not known."""


class AnsibleUnknown(BerthError):
    """The collection was not tried with this ansible-core; no host was asked and nothing was changed."""


class BecomeFailed(BerthError):
    """The user that Ansible logs in as cannot become root on the host, by sudo or what is used for it: nothing was done there."""


class NoHostAnswered(BerthError):
    """No KVM host answered, or the inventory has none: nothing is known, so nothing is done."""


class KvmHostNotFound(BerthError):
    """A variable of the run names a KVM host that the inventory does not have."""

    @classmethod
    def of(cls, field: str, name: str, known: Iterable[str]) -> KvmHostNotFound:
        return cls(
            "%s: there is no KVM host %s" % (field, name), field=field, value=name, hint=did_you_mean(name, known)
        )


class UnknownVariable(BerthError):
    """The collection has no variable of this name with the prefix berth_: it is probably misspelled."""


class SharedVariableDiffers(BerthError):
    """A variable that all instances share differs between two of them, so the result would depend on which ones are selected."""

    @classmethod
    def of(cls, variable: str, first: str, second: str) -> SharedVariableDiffers:
        return cls(
            "%s is not the same for %s and %s" % (variable, first, second),
            field=variable,
            rule="one value for all instances of the inventory, as in the variables of group all",
        )


class SelectionNotExplicit(BerthError):
    """A destructive playbook was run without naming its instances."""


class CertificateForeign(BerthError):
    """The host has certificates that another authority signed; they are not replaced."""


class AuthorityUnsafe(BerthError):
    """The directory of the authorities, or a key in it, may be read by others than its owner, or is broken."""


class MoveContradicted(BerthError):
    """A host contradicts the instance's owner about a move, or tells of a move between other hosts."""


class UploadUnusable(BerthError):
    """The file that an image is uploaded from is not there, is no plain file, or has another checksum."""


class UploadFailed(BerthError):
    """An image could not be copied from the controller to the host, such as where its disk is full."""

    retryable = True
