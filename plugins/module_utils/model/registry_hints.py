# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about the registry. See hints.py."""

from __future__ import annotations

from typing import Sequence

from .errors import shortened


def name_members() -> str:
    """The inventory has no members of a registry."""
    return "Put the machines that are to be its members, one or three, into the group berth_registry_hosts of the inventory"


def use_its_registry(host: str) -> str:
    """A host belongs to a registry, and a run uses none or another one."""
    return (
        "Run again with -e berth_registry= as in the inventory of the fleet that %s belongs to. If that was so, %s missed a change "
        "of it: berth.kvm.use_registry with the same berth_registry brings it up to date" % (host, host)
    )


def enrol_host(host: str) -> str:
    """A run uses a registry, and a host belongs to none."""
    return "To let %s belong to it: berth.kvm.use_registry with the same berth_registry. Then run again" % host


def audit_registry() -> str:
    """A host has seen a newer revision of the registry than the run."""
    return (
        "Run again. If it is refused once more, the registry was restored from an older copy: berth.kvm.restore_registry makes it a "
        "new incarnation, and berth.kvm.audit compares it with the hosts"
    )


def free_name() -> str:
    """In the registry another instance has the name."""
    return "Choose another name. If that instance is gone, or has another name by now, berth.kvm.audit frees this one; then run again"


def run_again_later() -> str:
    """No majority of the registry's members answers, or an answer was lost."""
    return (
        "Run it again when a majority of the members answers: it goes on where it ended. berth.kvm.doctor tells of them"
    )


def see_doctor() -> str:
    """The registry says no: it is full, or does not know the controller."""
    return "berth.kvm.doctor tells what is wrong with the registry. Then run it again"


def name_its_registry(hosts: Sequence[str]) -> str:
    """Hosts belong to another registry than the one that use_registry names."""
    return (
        "Name the registry that %s belong to in berth_registry. If that one is lost, restore it from a backup: "
        "berth.kvm.restore_registry" % shortened(list(hosts))
    )


def find_registry_authority() -> str:
    """The controller cannot make its certificate for the registry."""
    return (
        "berth.kvm.prepare_registry makes the authority, on the controller that runs it, in the directory that berth_ca_directory "
        "names. Run there, or with berth_ca_directory set to a copy of that directory"
    )


def delete_old_copy(name: str, host: str) -> str:
    """A host that was lost is back, and has an instance that was deleted since."""
    return (
        "%s was given up as lost and is back with an old copy of %s. If nobody needs that: berth.kvm.delete --limit %s removes it, then "
        "berth.kvm.create --limit %s makes it anew" % (host, name, name, name)
    )


def end_what_was_begun(host: str) -> str:
    """A host is to be removed, and the registry has instances there of which it has no record."""
    return (
        "berth.kvm.audit brings the registry to what the hosts say. For those that stay, with their names in --limit: berth.kvm.delete "
        "gives up what a run has begun on %s, and berth.kvm.create goes on with it. Then run this again" % host
    )


def end_moves_to_lost(host: str) -> str:
    """A lost host is to be removed, and the registry has instances of other hosts on the way there."""
    return (
        "berth.kvm.audit -e berth_lost_hosts=%(host)s ends the moves to %(host)s of which the owner says that the instance rests there. "
        "For those that stay, run the playbook that moved them again, with -e berth_lost_hosts=%(host)s. Then run this again"
        % {"host": host}
    )


def compare_all_hosts() -> str:
    """The registry is closed: it was restored, or a change of the fleet was cut off."""
    return (
        "berth.kvm.audit opens a registry that was restored, once all hosts answer or are in berth_lost_hosts. If berth.kvm.use_registry "
        "was cut off, run that again. Then run this again"
    )


def fill_registry() -> str:
    """The registry is empty, or a change over to it or away from it was cut off."""
    return "berth.kvm.use_registry has the fleet use it, and ends a change that was cut off"


def name_registry() -> str:
    """A playbook about the registry was run without one."""
    return "Give berth_registry in the inventory, or with -e, as berth.kvm.prepare_registry told it"


def take_registry_out() -> str:
    """The hosts are alone again."""
    return "Take berth_registry out of the inventory"
