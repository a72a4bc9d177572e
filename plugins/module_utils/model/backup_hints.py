# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about backups: see hints.py."""

from __future__ import annotations

from typing import Sequence

from .backups import MOST_NAMED
from .errors import shortened


def mount_backups(host: str, path: str) -> str:
    """The directory for backups is not there, or is on the root file system of the host: its own is not mounted."""
    return "On %s, mount the storage for backups at %s and run the same again" % (host, path)


def make_room_for_backups(name: str, to: str, ids: Sequence[str]) -> str:
    """The storage for backups is full. Older ones are removed only after a new one was made. ``ids``: those of the instance on which
    its newest does not stand."""
    others = "Enlarge the storage of %s, or remove directories there of instances whose backups nobody needs" % to
    if not ids:
        return others
    return "%s. %s deletes those on which the newest of %s does not stand" % (others, delete_backups(name, ids), name)


def delete_backups(name: str, ids: Sequence[str]) -> str:
    """A backup is to be deleted on which others stand: it goes with all of them. The run has said where they are."""
    return "berth.kvm.delete_backup --limit %s -e berth_backup=%s" % (name, ",".join(ids[:MOST_NAMED]))


def name_another_place() -> str:
    """The directory for backups is among the disks of instances."""
    return "Name a directory on other storage with -e berth_backup_to"


def name_backup_directory() -> str:
    """berth_backup_to is not set."""
    return "Name the directory with -e berth_backup_to=DIRECTORY, or in the inventory"


def name_backed_up(names: Sequence[str]) -> str:
    """No backup in that directory is of the name. ``names``: those of whom there are some."""
    return "It has backups of %s" % shortened(sorted(names)) if names else name_backup_directory()


def list_backups(name: str, to: str) -> str:
    """There is no such backup, or no whole one."""
    return "berth.kvm.backups --limit %s -e berth_backup_to=%s lists those that are there" % (name, to)


def discard_writes(name: str) -> str:
    """A restore replaces disks, and what was written to them since is lost."""
    return (
        "To keep that, run berth.kvm.backup for it first. To discard it, run the same again with -e berth_restore_discards=%s"
        % name
    )


def restore_into_another() -> str:
    """-e names a new instance, and a restore gives disks to one that there is."""
    return (
        "Make the new one first, off: berth.kvm.create --limit NEW -e berth_state=stopped. Then run this with --limit NEW and -e"
        " berth_backup_of=OLD -e berth_restore_discards=NEW"
    )


def name_whose_backup(uuids: Sequence[str]) -> str:
    """Several instances of one name were backed up to that directory, or one of another project."""
    return "Say which with -e berth_backup_of=UUID: %s" % ", ".join(uuids)


def resize_to_restore(name: str) -> str:
    """A disk in the backup is larger than that of the instance."""
    return "Resize %s to a flavor with larger disks with berth.kvm.resize, then run the same again" % name


def evacuate_again(name: str, lost: str) -> str:
    """An instance was made again from its backup, with other disks than that has, and is shelved there. ``lost``: the uuid of the host
    that had it."""
    return (
        "Give %s in the inventory the flavor, the data disks and the volumes that the backup has. Then run berth.kvm.delete --limit %s, "
        "which leaves the backup and what is on the lost host, and berth.kvm.evacuate as before, with -e berth_disks_of=%s"
        % (name, name, lost)
    )


def next_window() -> str:
    """More instances were to be backed up than fit into the window of a run."""
    return "The next run begins with those whose last backup is the oldest. More at once: a higher -f; or longer: -e berth_backup_minutes"


def install_tools(host: str) -> str:
    """A backup host lacks a program of QEMU."""
    return "Install QEMU's tools on %s: apt-get install qemu-utils, or dnf install qemu-img" % host


def correct_address(host: str) -> str:
    """The address at which KVM hosts are to reach a backup host is not one of its own."""
    return "Set berth_host_migration_address of %s to one of its own addresses, and run the same again" % host


def back_up_again(name: str) -> str:
    """What a run found of an instance is so no more, or a backup is damaged."""
    return "Run berth.kvm.backup --limit %s again" % name


def name_backup_host() -> str:
    """berth_backup_host names none of the group."""
    return "Put the machine that keeps backups into the group berth_backup_hosts of the inventory"
