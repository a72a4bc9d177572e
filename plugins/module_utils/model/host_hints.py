# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What errors about the set-up of a host, or of the controller, tell people to do; hints.py has the others and says the rules."""

from __future__ import annotations


def prepare_host(host: str) -> str:
    """The host has no settings or certificates, or libvirt does not ask the boot gate. The host says its own name."""
    return (
        "Run berth.kvm.prepare_hosts --limit %s (the name that the host has in the inventory): it restarts libvirt where "
        "that is needed, guests keep running. Then run this again" % host
    )


def uuid_changed(path: str) -> str:
    """libvirt's host uuid is not the one of the preparation: a cloned host, or other hardware."""
    return (
        "If the host was cloned, set host_uuid in its libvirtd.conf. If the machine was replaced on purpose and holds no "
        "instance, remove %s and run berth.kvm.prepare_hosts" % path
    )


def allow_become(host: str, method: str) -> str:
    """The user of the login may not become root on the host, has no password for it, or the program is not there."""
    return (
        "On %s install %s and let that user run everything by it; where it asks for a password, run this again with "
        "--ask-become-pass. Or log in there as root (ansible_user)" % (host, method)
    )


def install_binding() -> str:
    """The Python that Ansible uses on the host cannot import libvirt."""
    return "Install python3-libvirt, or set ansible_python_interpreter to the Python that has it"


def start_libvirt() -> str:
    """libvirt's socket does not answer."""
    return "Start libvirtd (or virtqemud) on the host, then run again"


def install_package() -> str:
    """A program is missing on the host."""
    return "Install the package that provides it, or run berth.kvm.prepare_hosts -e kvm_host_packages=true"


def confine_guests() -> str:
    """Neither SELinux nor AppArmor confines QEMU."""
    return (
        "Switch one of them on for libvirt, or set berth_host_security_driver_none_ok and run berth.kvm.prepare_hosts"
    )


def read_facts_first() -> str:
    """A decision was asked for without the host's facts."""
    return "run berth.kvm.host_facts on it first"


def empty_host(host: str) -> str:
    """A host is to be removed and holds something."""
    return (
        "Have what is on %s moved (berth.kvm.migrate), its moves confirmed or reverted, and what nobody needs deleted "
        "(berth.kvm.delete, berth.kvm.delete_volume). Then run this again" % host
    )


def give_up_instances(host: str) -> str:
    """A lost host is to be removed, and others remember instances there that are nowhere else."""
    return (
        "For those whose disks are on storage that others share run berth.kvm.take_over -e berth_lost_hosts=%(host)s first. The others "
        "are lost with %(host)s: give their names to --limit, and run berth.kvm.delete -e berth_lost_hosts=%(host)s for those that "
        "nobody needs, berth.kvm.create -e berth_lost_hosts=%(host)s for those that are to be made anew, empty. Then run this again"
        % {"host": host}
    )


def take_out_host(host: str) -> str:
    """The certificates of a host were revoked."""
    return (
        "Take %s out of the inventory now. Then run berth.kvm.prepare_hosts: it gives the other hosts the list of what is "
        "revoked, and until then they take its certificates" % host
    )


def note_certificates(host: str) -> str:
    """An authority does not remember what it has signed for a host: an earlier version did not note it."""
    return (
        "If %s is up, run berth.kvm.prepare_hosts --limit %s, which notes its certificates, and then this again. If not, the "
        "other hosts take its certificates until these end" % (host, host)
    )


def doctor_fixes() -> str:
    """Something small on a host is not as it was made, and is made so again without touching a guest."""
    return "berth.kvm.doctor -e berth_fix=true mends it"


def check_again(host: str) -> str:
    """The doctor could not look at something on a host, such as a file that cannot be read or libvirt that does not answer."""
    return (
        "Until then nothing is known of what this check looks at. Put right on %s what stands in its way, then run "
        "berth.kvm.doctor again" % host
    )


def mount_storage(host: str) -> str:
    """A host has the record of an instance, and its disks are in no pool there."""
    return "Mount the storage of %s again, then run berth.kvm.doctor again. Nothing was removed" % host


def set_clock(host: str) -> str:
    """The clock of a host is not the controller's."""
    return "Have %s and the controller get their time from the same source, such as chrony" % host


def newer_version() -> str:
    """A record was written by a newer version of the collection."""
    return "Use the version of berth.kvm that wrote it, or a newer one"


# --- the controller


def install_known_ansible(requirement: str) -> str:
    """The controller has an ansible-core that the collection was not tried with."""
    return "Run pip install '%s' where Ansible is installed, then the same again" % requirement
