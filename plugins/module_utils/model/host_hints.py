# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about the set-up of a host or of the controller. See hints.py, which also has the rules for hints."""

from __future__ import annotations

import shlex
from typing import Sequence

FULL = "No space left on device"  # as the kernel says it, and QEMU after it
NO_BRIDGE = ", which is gone"  # ends what is said of a tap


def prepare_host(host: str) -> str:
    """The host has no settings or certificates, or libvirt does not ask the boot gate. ``host``: its own name."""
    return (
        "Run berth.kvm.prepare_hosts --limit %s (the name that the host has in the inventory): it restarts libvirt "
        "if needed; guests keep running. Then run this again" % host
    )


def uuid_changed(path: str, uuid: str) -> str:
    """libvirt's host uuid is not the one of the preparation, ``uuid``: a cloned host, or other hardware."""
    return (
        'If it is still the same host, set host_uuid = "%s" in its libvirtd.conf (or virtqemud.conf) and restart libvirt. '
        "If its disks are a copy of another host's, move /var/lib/berth and /etc/berth elsewhere, run berth.kvm.prepare_hosts, "
        "then berth.kvm.doctor. If the machine was replaced on purpose and holds no instance, remove %s and run "
        "berth.kvm.prepare_hosts" % (uuid, path)
    )


def install_binding() -> str:
    """The Python that Ansible uses on the host cannot import libvirt."""
    return "Install python3-libvirt, or set ansible_python_interpreter to the Python that has it"


def run_as_root() -> str:
    """A module of a host ran as an ordinary user."""
    return "Modules run as root there: remove ansible_become: false and ansible_become_user, or log in as root"


def start_libvirt() -> str:
    """libvirt's socket does not answer. It does not start without its listen_addr, or with a certificate that does not count now."""
    return (
        "Start libvirtd (or virtqemud) on the host, then run again. If it ends at once, see its log. Cannot bind: remove "
        "the line with listen_addr from /etc/libvirt/libvirtd.conf. Certificate expired or not yet active: set the host's clock if "
        "it is wrong, otherwise move /etc/pki/libvirt/servercert.pem away and stop libvirtd-tls.socket. Then start it and run "
        "berth.kvm.prepare_hosts"
    )


def libvirt_ended(where: str) -> str:
    """The connection to libvirt broke in the midst of work."""
    return "When libvirtd (or virtqemud) runs again on %s, run the same again" % where


def switch_on_daemon(host: str, daemon: str, package: str) -> str:
    """Where libvirt has a daemon for each driver, one is not installed or was not started. ``package``: its name on Fedora."""
    return (
        "As root on %s: systemctl enable --now %s.socket, once the package that has it is installed (%s on Fedora and its "
        "relatives). Then run this again" % (host, daemon, package)
    )


def install_package() -> str:
    """A program is missing on the host."""
    return "Install the package that provides it, or run berth.kvm.prepare_hosts -e berth_host_packages=true"


def confine_guests() -> str:
    """Neither SELinux nor AppArmor confines QEMU."""
    return (
        "Switch one of them on for libvirt, or set berth_host_security_driver_none_ok and run berth.kvm.prepare_hosts"
    )


def enable_mdev_type(kind: str, parent: str, host: str) -> str:
    """An instance has a vGPU of a type that its host's settings no longer name for the GPU."""
    return (
        "Set {type: %s, parents: ['%s']} in berth_host_enabled_mdev_types of %s, with no other entry for that GPU, run "
        "berth.kvm.prepare_hosts --limit %s (the name that the host has in the inventory), then this again"
        % (kind, parent, host, host)
    )


def correct_migration_address(host: str) -> str:
    """The address at which other hosts are to reach a host is not one of its own."""
    return (
        "Set berth_host_migration_address of %s to one of its own addresses, run berth.kvm.prepare_hosts --limit %s (the name "
        "that the host has in the inventory), then this again" % (host, host)
    )


def start_gpu_driver(parent: str, host: str) -> str:
    """The kernel lists no vGPUs of that type for a GPU: the GPU was removed, or its driver does not run."""
    return (
        "Start the driver of the GPU %s on %s, so that /sys/class/mdev_bus/%s exists with that type. If the GPU is "
        "gone for good, migrate the instance while it is off: it gets a vGPU of another host" % (parent, host, parent)
    )


def remove_mdev(device: str, host: str) -> str:
    """A mediated device that berth did not make is in the way. Its maker may still use it."""
    return (
        "Find out who uses the mediated device %s on %s. When nobody does, remove it: "
        "echo 1 > /sys/bus/mdev/devices/%s/remove, then run this again" % (device, host, device)
    )


def room_for_memory(host: str, directory: str) -> str:
    """A guest is to be suspended, and its memory does not fit on its host."""
    return "Make room in the file system of %s on %s, then run the same again; or use berth.kvm.pause" % (
        directory,
        host,
    )


def free_vgpus(parent: str, host: str) -> str:
    """The GPU makes no more vGPUs: others created mediated devices there without berth."""
    return (
        "The mediated devices that others made on %s are those in /sys/class/mdev_bus/%s that no instance has in its record. Have "
        "their owners remove one, then run this again" % (host, parent)
    )


def read_facts_first() -> str:
    """A decision was requested without the host's facts."""
    return "run module berth.kvm.host_facts on it in an earlier task"


def doctor_fixes() -> str:
    """Something small on a host has changed, and the doctor can restore it without touching a guest."""
    return "berth.kvm.doctor -e berth_fix=true repairs it"


def let_qemu_in(host: str, user: str, directories: Sequence[str], files: Sequence[str]) -> str:
    """Directories or files, of which berth made none, keep out the user that QEMU runs as. A file may be a private key, so it is
    opened to that user alone."""
    commands = ["chmod o+x %s" % shlex.quote(path) for path in directories]
    commands += ["setfacl -m u:%s:r %s" % (user, shlex.quote(path)) for path in files]
    package = " (setfacl is in the package acl)" if files else ""
    return "As root on %s: %s%s. Then run berth.kvm.prepare_hosts again" % (host, "; ".join(commands), package)


def check_again(host: str) -> str:
    """The doctor could not check something on a host: a file cannot be read, or libvirt does not answer."""
    return (
        "Until then the result of this check is unknown. Repair on %s what prevents it, then run "
        "berth.kvm.doctor again" % host
    )


def compare_mtu(address: str) -> str:
    """A host takes connections of the source at this address, and nothing that is sent over them comes through."""
    return (
        "Large packets may be lost on the way: ping -M do -s 1472 %s on the source shows it (-s 8972 with jumbo frames). "
        "Give both hosts the MTU that all between them has, and run the same again" % address
    )


def set_clock(host: str) -> str:
    """The clock of a host differs from the controller's."""
    return "Let %s and the controller get their time from the same source, for example with chrony" % host


def write_settings_anew(path: str) -> str:
    """The file with the settings of a host was edited or damaged, so prepare_hosts refuses the host, too."""
    return "Move %s of that host away. berth.kvm.prepare_hosts then writes it anew from the inventory" % path


def newer_version() -> str:
    """A record, or another file of a host, was written by a newer version of the collection."""
    return "Use the version of berth.kvm that wrote it, or a newer one"


def make_room_in_pool(path: str = "the destination's pool") -> str:
    """The file system of a pool is full. A guest that writes there is paused, and builds and copies fail."""
    return (
        "Remove files that nobody needs from the file system of %s (cached images: berth.kvm.prepare_hosts -e "
        "berth_host_remove_unused_images=true removes those that nothing needs), or enlarge it. If it is the host's own pool and "
        "others use space there, keep new instances away: set berth_host_reserved_host_disk_gb to that space and run "
        "berth.kvm.prepare_hosts" % path
    )


# --- the controller


def install_on_controller(requirement: str) -> str:
    """The controller lacks a package, or has a version of it with which the collection does not work."""
    return "Run pip install '%s' where Ansible is installed, then the same again" % requirement


def bring_network_back(host: str, name: str) -> str:
    """A guest is to be started where a bridge, network or filter of its NICs is gone."""
    return (
        "Bring that back on %s, then run the same again. Or move it to a host that has it, as it is, running or off: "
        "berth.kvm.migrate --limit %s" % (host, name)
    )


def bring_network_back_or_confirm(host: str, name: str) -> str:
    """A revert has not yet stopped the guest, and the host that it would go back to lacks a network of it."""
    return (
        "Bring that back on %s, then run the same again. To keep the instance as it is now: "
        "berth.kvm.confirm_resize --limit %s" % (host, name)
    )


def mount_pool(host: str, directory: str, name: str) -> str:
    """A host that is prepared again has instances, and its storage pool lacks the directory of their disks."""
    return (
        "Mount the file system of %s on %s, and run the same again. If it is lost for good, with the disks of %s, make that "
        "directory there, empty, and run again" % (directory, host, name)
    )


def usable_cpu_models() -> str:
    """No CPU model that the settings name can be had on the host."""
    return (
        "Set berth_host_cpu_models of the host to models among guest_cpu.usable of berth.kvm.host_facts (the doctor names the "
        "newest that all hosts have), and run berth.kvm.prepare_hosts"
    )


def name_cpu_model(model: str) -> str:
    """The hosts' guests have different CPUs."""
    return (
        "To move guests live between all of them, set berth_host_cpu_models: [%s] for all KVM hosts and run "
        "berth.kvm.prepare_hosts; a guest gets it when it is built or resized the next time (docs/live-migration.md)"
        % model
    )


def keep_pool(host: str, pool: str) -> str:
    """Instances have their disks in the storage pool that a host had."""
    return "Set berth_host_pool of %s to %s, and run the same again, or first migrate its instances away" % (host, pool)


def start_pool(host: str, pool: str, is_its_own: bool) -> str:
    """A storage pool was stopped, undefined or not started in libvirt; its files stay where they are. ``is_its_own``: it is the
    pool that prepare_hosts makes."""
    again = (
        "berth.kvm.prepare_hosts --limit %s makes it again" % host if is_its_own else "define it again with its path"
    )
    return (
        "As root on %s: virsh pool-start %s, and virsh pool-autostart %s. If libvirt does not know the pool, %s; its files stay "
        "as they are" % (host, pool, pool, again)
    )


def bring_firmware(host: str, variables: str) -> str:
    """A guest has UEFI variables of a form (raw-540672-authenticated) that the firmware of a host does not use."""
    return (
        "Nothing was changed. Bring a firmware with variables of the form %s back to %s, with a descriptor in /etc/qemu/firmware "
        "whose name sorts first, such as 10-berth.json: its nvram-template has that form. Or move the instance to a host "
        "that has one: berth.kvm.host_facts shows the firmware of each" % (variables, host)
    )


def make_room_for_more(name: str, host: str) -> str:
    """A host has no room for more disk of an instance that it has: a snapshot, a volume, a larger disk."""
    return (
        "Delete snapshots there that nobody needs (berth.kvm.snapshots lists them), or move an instance away from %s, such as "
        "berth.kvm.migrate --limit %s; then run the same again" % (host, name)
    )
