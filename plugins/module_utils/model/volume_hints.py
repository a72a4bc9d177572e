# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about volumes: see hints.py."""

from __future__ import annotations

import shlex
from typing import Optional, Sequence


def detach_volumes(name: str, volumes: Sequence[str]) -> str:
    """Another instance needs a volume, or the instance must move without it."""
    return (
        "Take %s out of berth_volumes of %s and run berth.kvm.update_disks --limit %s, which detaches and keeps all "
        "data"
        % (
            " and ".join(volumes),
            name,
            name,
        )
    )


def finish_claim(name: str, volume: str) -> str:
    """A run of create has claimed a volume for another instance, and has not built that."""
    return (
        "Wait until that run of berth.kvm.create has ended. If it was interrupted, run berth.kvm.create --limit %s: it gets the "
        "volume, or, with %s taken out of its berth_volumes, gives it up" % (name, volume)
    )


def stay_with_boot_volume(name: str, volume: str) -> str:
    """An instance would move to a host that shares its disks but not its boot volume, which nobody can detach."""
    return "%s boots from %s. It keeps running on its host" % (name, volume)


def say_what_it_boots_from(name: str, has: Optional[str], wanted: Optional[str]) -> str:
    """The inventory gives boot_index 0 to another volume of an instance than it was created with, or to none."""
    if not has:
        return "Take boot_index from %s in berth_volumes of %s" % (wanted, name)
    give = "Give %s boot_index: 0 in berth_volumes of %s" % (has, name)
    return "%s, and take it from %s" % (give, wanted) if wanted else give


def attach_again(name: str, volume: str) -> str:
    """A volume is to have another place in the boot order."""
    return (
        "To change it, take %s out of berth_volumes of %s, run berth.kvm.update_disks --limit %s, which keeps what is on it, and "
        "name it again" % (volume, name, name)
    )


def keep_writes_or_revert(name: str, resize: bool) -> str:
    """A revert would lose what was written to volumes that the move copied."""
    back = "berth.kvm.resize with the former flavor" if resize else "berth.kvm.cold_migrate"
    return (
        "To keep the writes: berth.kvm.confirm_resize --limit %s, then %s moves the instance back with its volumes as "
        "they are. To discard them: run berth.kvm.revert_resize --limit %s -e berth_revert_volumes=true"
        % (name, back, name)
    )


def grow_record(name: str, volume: str, size_gb: int) -> str:
    """The file of a volume was made larger by hand."""
    return (
        "Set size_gb of %s to %d in berth_volumes_defined and run berth.kvm.update_disks --limit %s, then move it"
        % (
            volume,
            size_gb,
            name,
        )
    )


def claim_growth(name: str, volume: str, size_gb: int) -> str:
    """The record of a volume is from before it grew, and the inventory does not name the volume."""
    return (
        "The record of volume %s is older than that of %s. Name %s in berth_volumes of %s, with size_gb %d in "
        "berth_volumes_defined, and run berth.kvm.update_disks --limit %s again"
        % (volume, name, volume, name, size_gb, name)
    )


def unmount(name: str, disk: str) -> str:
    """A running guest does not release a volume or data disk."""
    return "Unmount %s in %s and run the same again, or stop %s first" % (disk, name, name)


def delete_volume_again(volume: str, project: str) -> str:
    """The deletion of a volume was interrupted. Another project may have one of the same name."""
    return "Run berth.kvm.delete_volume -e berth_volume=%s -e berth_project=%s again" % (
        shlex.quote(volume),
        shlex.quote(project),
    )


def delete_begun_elsewhere(volume: str, project: str, host: str) -> str:
    """A run that was interrupted has begun a volume on another host than that of the instance, and nothing is on it."""
    return (
        "No guest has seen it. If no other run makes it now: berth.kvm.delete_volume -e berth_volume=%s -e berth_project=%s removes "
        "it from %s; then run the same again" % (shlex.quote(volume), shlex.quote(project), host)
    )


def use_or_delete_volume(volume: str, project: str) -> str:
    """A volume belongs to no instance."""
    return (
        "It keeps its room. Name it in berth_volumes of an instance of project %s and run berth.kvm.create or berth.kvm.update_disks, or "
        "delete it with all that is on it: berth.kvm.delete_volume -e berth_volume=%s -e berth_project=%s"
        % (project, shlex.quote(volume), shlex.quote(project))
    )


def name_project(volume: str, project: str) -> str:
    """Another project has a volume of this name."""
    return "If that is meant: -e berth_volume=%s -e berth_project=%s" % (shlex.quote(volume), shlex.quote(project))


def delete_begun_volume(volume: str, project: str) -> str:
    """A volume was begun with another size, pool or image than the inventory has now, and nothing is on it."""
    return (
        "No guest has seen it. Run berth.kvm.delete_volume -e berth_volume=%s -e berth_project=%s, then the same again"
        % (shlex.quote(volume), shlex.quote(project))
    )


def mount_or_restore_volume(host: str) -> str:
    """The file of a volume is not where its record says."""
    return (
        "On %s, mount the storage of that file again, or restore the file from a backup. berth makes no new one in "
        "its place" % host
    )


def restore_volume_record(uuid: str) -> str:
    """A host has the file of a volume and no record of it, or another host has the storage too."""
    return (
        "From a backup of the host that had the volume, restore record.json below volumes/%s in its state directory, "
        "and run again: the file of the volume stays as it is. Or give the new volume another name" % uuid
    )


def keep_one_volume(volume: str, uuid: str, hosts: Sequence[str]) -> str:
    """More than one host has a volume of this name, for example after a host that was given up as lost is back."""
    return (
        "Copy volumes/%(uuid)s/disk.qcow2 of the storage pool on each of %(hosts)s, and find out which copy is right. "
        "On each of the other hosts: if an instance has the volume there, detach it (take %(volume)s out of its "
        "berth_volumes, and run berth.kvm.update_disks --limit with that instance); then move record.json below "
        "volumes/%(uuid)s out of the state directory, and keep it. The file of the volume stays as it is. Then run "
        "the same again" % {"uuid": uuid, "hosts": " and ".join(hosts), "volume": volume}
    )


def forget_old_volume(volume: str, uuid: str) -> str:
    """A host has an old record of a volume on shared storage that another host owns now."""
    return (
        "Move record.json below volumes/%s out of the state directory of this host, and keep it. Volume %s itself "
        "stays unchanged, and the host that has it reports it" % (uuid, volume)
    )


def forget_or_have_volume(volume: str, uuid: str, owner_file: str) -> str:
    """The same, but the other host may be lost and this record may be the only one."""
    return (
        "%s. Only if that host is switched off for good: leave the record in place, run rm %s, and this host has the "
        "volume"
        % (
            forget_old_volume(volume, uuid),
            shlex.quote(owner_file),
        )
    )


def detach_by_hand(name: str, uuid: str, path: str) -> str:
    """A guest uses the file of a volume, and no record says that the volume is its."""
    return (
        "Stop %s and run on its host: virsh detach-disk %s %s --config. If its berth_volumes names the volume, "
        "berth.kvm.update_disks --limit %s attaches it again" % (name, uuid, shlex.quote(path), name)
    )


def update_disks_to_attach(name: str) -> str:
    """Somebody detached a disk of an instance from its running guest."""
    return "berth.kvm.update_disks --limit %s" % name
