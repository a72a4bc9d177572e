# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the conductor: what stops the creation of one instance, or of the run."""

from __future__ import annotations

from typing import Collection, Iterable, List

from ..model import input_hints
from ..model.errors import BerthError
from ..model.unknown_names import did_you_mean


class AddressPoolExhausted(BerthError):
    """All addresses of the network's pool are taken. Nothing was claimed."""


class AddressesUnknown(BerthError):
    """A host does not answer, so it is unknown which addresses its instances have. None was assigned, of a pool or fixed."""


class ClaimConflict(BerthError):
    """Another run is creating the same instance, or has begun or ended a move of it, and has priority."""


class InstanceUnknown(BerthError):
    """The instance may be on a host that does not answer. Nothing was done (fail closed)."""


class NoMajority(BerthError):
    """No host knows the instance, and no more than half of the fleet's hosts answer: another part of a divided network may
    make it, too. Nothing was created."""


class InstanceMoving(BerthError):
    """The instance is in a move, or waits for confirm or revert, and the operation is not allowed in this state (Nova:
    InstanceInvalidState)."""


class RegistryUnknown(BerthError):
    """The registry gives no answer, or has no majority of its members: nothing is known to be there or not, and what was being
    written may have been written. A later run finishes or undoes it."""


class RegistryRefused(RegistryUnknown):
    """The registry answers that it does not do it: it has no space left, or does not know the user of this controller. Nothing
    was written."""


class RegistryRestored(RegistryUnknown):
    """The registry was restored from a backup while the run went on, or by hand since the fleet came to it. The run writes nothing
    more there."""


class RegistryAuthorityMissing(BerthError):
    """This controller has no authority for the certificates of the registry that berth_registry names, so it cannot reach it."""


class RecordMissing(BerthError):
    """A host held the instance and never removed it, but has no record of it now: the record was lost."""


class RecordOutdated(BerthError):
    """The host that answers as owner has an older record than other hosts remember: another host owns the instance, or
    the record is an old copy."""


class DomainWithoutRecord(BerthError):
    """A host without a record of the instance has a guest with its uuid. No host creates or starts the instance."""


class DisksOwnerUnknown(BerthError):
    """No host remembers which host had the instance to take over, so the owner of its disks is unknown."""


class DisksDiffer(BerthError):
    """Hosts see different files beside the disks of an instance that is to be taken over: they do not see the same storage."""


class DisksNotShared(BerthError):
    """The lost host had the disks of the instance on storage that no other host sees, so it cannot be taken over."""


class DuplicateInstance(BerthError):
    """More than one host reports that it owns the instance. A person has to decide."""


class DuplicateRuns(BerthError):
    """More than one copy of the instance runs. None is stopped until a person confirms it."""


class ReportNotWritten(BerthError):
    """The run has ended, and its result could not be written to the file of berth_report. What the run did stays
    done."""


class GroupPolicyViolation(BerthError):
    """The instance's host would break the policy of its server group."""

    retryable = True


class GroupMembersUnknown(BerthError):
    """A host does not answer, so it is unknown whether members of the affinity group are there. Nothing was created."""


class InstanceSuperseded(BerthError):
    """A host that was declared lost is back with its old copy of the instance, which now belongs to another host."""


class DataWouldBeLost(BerthError):
    """The instance, or a volume for it, would be made anew, empty, although a host that was declared lost may have the
    disks. A person has to name the instance as one whose data are given up. Nothing was created."""


class HostNotLost(BerthError):
    """A host that berth_lost_hosts declares lost has answered."""


class HostNameAmbiguous(BerthError):
    """Other hosts know several silent hosts by the name given in berth_lost_hosts. None of them is treated as lost."""


class HostInUse(BerthError):
    """The KVM host to remove holds instances or volumes, or may hold some. Nothing was changed."""


class HostNotCleaned(BerthError):
    """The KVM host to remove was not fully cleaned. Its certificates were not revoked. Run berth.kvm.remove_host again."""


class HostUnknown(BerthError):
    """The host stopped answering while it worked on the instance. Its result is unknown, so no other host is tried."""


class HostLibvirtTimeout(BerthError):
    """libvirt does not answer on a host that may hold the instance, so it is unknown whether the instance is there."""


class AnsibleUnknown(BerthError):
    """The collection does not run on this ansible-core: it is older than those that it was tested with. No host was contacted and
    nothing was changed."""


class CryptographyOutdated(BerthError):
    """The controller has no Python package cryptography, or one too old for the certificates of live migration. No
    authority was opened and nothing was changed."""


class BecomeFailed(BerthError):
    """The user that Ansible logs in as cannot become root on the host, by sudo or another become method. Nothing was
    done there."""


class PythonUnusable(BerthError):
    """The Python with which Ansible runs modules on the host is not there, is too old, or prints something else. Nothing was
    done there."""


class HostNotAsked(BerthError):
    """A variable with which Ansible logs in to the host cannot be read, such as one of a vault whose password was not given. The
    host was not asked."""


class NoHostAnswered(BerthError):
    """No KVM host answered, or the inventory has none. Nothing was done."""


class KvmHostNotFound(BerthError):
    """A variable of the run names a KVM host that the inventory does not have."""

    @classmethod
    def of(cls, field: str, name: str, known: Iterable[str], others: Collection[str] = ()) -> KvmHostNotFound:
        """``others``: what else the inventory has, such as instances."""
        shown = name if str(name) == str(name).strip() else repr(name)  # a space that nobody sees
        several = "," in name and field.endswith("_hosts")  # of a field that is a list
        hint = input_hints.list_with_e() if several else did_you_mean(name, known)
        text = "%s: %s is in the inventory, and no KVM host" if name in others else "%s: there is no KVM host %s"
        return cls(text % (field, shown), field=field, value=name, hint=hint)


class UnknownVariable(BerthError):
    """The collection has no variable of this name with the prefix berth_: it is probably misspelled."""


class SharedVariableDiffers(BerthError):
    """A variable that all instances share differs between two, so the result would depend on the selection."""

    @classmethod
    def of(cls, variable: str, first: str, second: str) -> SharedVariableDiffers:
        return cls(
            "%s is not the same for %s and %s" % (variable, first, second),
            field=variable,
            rule="one value for all instances of the inventory, as in the variables of group all",
        )


class SelectionNotExplicit(BerthError):
    """A playbook that stops, moves, changes or deletes guests was run without naming its instances."""


class HostIdentityConflict(BerthError):
    """Several hosts of the inventory answer with one host uuid, or a host has the certificate of another. Of those with one
    uuid none counts; none gets certificates."""


class CertificateForeign(BerthError):
    """The host has certificates that another authority signed. They were not replaced."""


class AuthorityStillNeeded(BerthError):
    """Some hosts have not shown that they are ready for the next phase of a rotation. All authorities stay trusted."""

    @classmethod
    def of(cls, hosts: List[str], awaited: str, hint: str) -> AuthorityStillNeeded:
        reason = "not known to %s: %s" % (awaited, ", ".join(hosts)) if hosts else "there is no KVM host"
        return cls("%s. Until then no authority is dropped" % reason, hosts=hosts, hint=hint)


class AuthorityUnsafe(BerthError):
    """Users other than the owner can read the directory of the authorities or a key in it, or it is damaged."""


class MoveContradicted(BerthError):
    """A host contradicts the instance's owner about a move, or reports a move between other hosts."""


class WorkEnded(BerthError):
    """One process did a task for all its instances and ended in the middle."""


class UploadUnusable(BerthError):
    """The file to upload as an image does not exist, is not a regular file, or has a different checksum."""


class UploadFailed(BerthError):
    """The image could not be copied from the controller to the host, for example because its disk is full."""

    retryable = True


class FenceFailed(BerthError):
    """The fence agent did not switch the host off, or did not say that it is off. So nothing was evacuated."""


class MetricsLibraryMissing(BerthError):
    """The controller lacks the Python package prometheus_client, which berth_metrics needs. No file was written."""
