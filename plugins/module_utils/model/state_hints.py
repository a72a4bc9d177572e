# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about the files of a host's state directory: see hints.py."""

from __future__ import annotations

import shlex
from typing import Sequence

from . import hints

# virsh refuses to undefine a domain with snapshots or checkpoints without these, and they remove no storage.
UNDEFINE = "virsh undefine %s --keep-nvram --snapshots-metadata --checkpoints-metadata"
SAVED = "One with a saved state needs --managed-save too, which discards that state"


def restore_damaged_record(uuid: str, host: str = "this host") -> str:
    """The record of an instance cannot be read, or is an old copy."""
    return (
        "Restore record.json below instances/%s in the state directory of %s from a backup. If there is none, move that "
        "file out of the state directory, keep it, and run berth.kvm.restore_record for the instance" % (uuid, host)
    )


def merge_layers(host: str, command: str, layers: Sequence[str]) -> str:
    """A snapshot's layer is next to a disk, and no definition says that a guest uses it."""
    return "If the guest used that last, as root on %s: %s. If it did not, move %s elsewhere. Then run again" % (
        host,
        command,
        " and ".join(layers),
    )


def take_directory_away(path: str) -> str:
    """A directory, or a mounted file system, is among the files that are to be removed."""
    return "Check what is in %s on the host. Move it elsewhere, or unmount it, then run the same again" % path


def restore_or_confirm(name: str, source: str) -> str:
    """A revert has not yet stopped the guest: the disks to go back to are gone, or their storage is not mounted."""
    return (
        "Mount on %s the storage that it was on, or restore it from a backup, and run the same again. To keep the instance where it "
        "is now: berth.kvm.confirm_resize --limit %s" % (source, name)
    )


def make_seed_anew(name: str) -> str:
    """Somebody removed the seed of an instance, which a move needs."""
    return "To make its seed anew from the inventory: %s" % hints.mend(name)


def delete_used_disks() -> str:
    """Another domain uses disks of an instance that is to be deleted."""
    return (
        "To keep what those domains wrote, first copy their disks to another directory: a delete removes all that is beside "
        "the instance's disks. Then undefine them (%s), and run the same again. -e berth_delete_changed_disks=true deletes "
        "the instance with its disks, and those domains lose theirs" % (UNDEFINE % "UUID")
    )


def undefine_users_of_disks(host: str) -> str:
    """Another domain, such as a copy that somebody made by hand, has disks of an instance that is to start or to move."""
    return (
        "As root on %s, virsh shutdown them. When they are off, move their own disks from beside those of the instance to "
        "another directory, and copy those of the instance that they wrote to: a move or a delete removes all that is there. "
        "Then %s. %s. Then run the same again" % (host, UNDEFINE % "UUID", SAVED)
    )


def wait_for_libguestfs(host: str) -> str:
    """All other domains that have disks of an instance are those that tools of libguestfs make while they run."""
    return (
        "Domains whose names begin with guestfs- belong to a tool of libguestfs on %s, such as virt-customize or guestfish, and "
        "end by themselves when the tool ends. Wait for it, then run the same again" % host
    )


def rename_domain(host: str, uuid: str) -> str:
    """A domain of another uuid, as virsh edit made it, has the name of a guest that is to be defined."""
    return (
        "As root on %s: (1) virsh shutdown %s, and wait until it is off; (2) virsh domrename %s NEW-NAME, or to give it up but keep "
        "its disks: %s. %s. (3) Run the same again" % (host, uuid, uuid, UNDEFINE % uuid, SAVED)
    )


def mount_storage_to_remove(directory: str) -> str:
    """A pool lacks the directory of files that are to be removed or set aside: its file system is not mounted, or lost."""
    return (
        "Mount the storage of %s on its host, and run the same again. If that storage is lost for good, create that "
        "directory there, empty, and run again: berth then forgets what was in it" % directory
    )


def restore_damaged_volume(uuid: str) -> str:
    """The record of a volume cannot be read: until it is restored, the volume is neither made anew, attached nor removed."""
    return (
        "Restore record.json below volumes/%s in the state directory of this host from a backup. If there is none, move that "
        "file out of the state directory and keep it: the volume has no record then, its file stays in the pool as it is"
        % uuid
    )


def restore_or_move_away(path: str) -> str:
    """A small file of the state directory is damaged."""
    return (
        "Restore %s from a backup of this host. If there is none, wait until no run works on it, move the file elsewhere "
        "and run again" % path
    )


def close_to_others(host: str) -> str:
    """A file or directory of a host's state is a link, or users other than its owner may read or write it."""
    return (
        "Find out who changed it. With chown and chmod on %s restore its owner and its mode. If it is a link or "
        "not a plain file, move it elsewhere and put back what was there. Then run the same again" % host
    )


def make_room(host: str) -> str:
    """A file of the state directory cannot be written."""
    return "%s, or make it writable again; then run the same again" % _room(host)


def failing_disk(host: str, uuid: str) -> str:
    """QEMU paused the guest because of its disk, and pauses it again."""
    return (
        "On %s: virsh domblkerror %s names the disk. Make room on its file system, or repair its storage. Then berth.kvm.start "
        "resumes the guest with all it wrote" % (host, uuid)
    )


def make_room_for_file(host: str) -> str:
    """A file of an instance, or of the state directory, cannot be written or read."""
    return "%s, or repair it; then run the same again" % _room(host)


def _room(host: str) -> str:
    return "Make room on that file system of %s (df shows its bytes, df -i its inodes: each file takes one)" % host


def restore_whereabouts(written: str) -> str:
    """The file in which a host remembers other hosts' instances is damaged, gone or older; ``written`` is next to it."""
    return (
        "First bring all other hosts up. Then restore the file, and %s beside it, from one backup of this host. If there "
        "is none, move both elsewhere. Then run berth.kvm.create, which brings both up to date" % written
    )


def mount_state_directory(directory: str) -> str:
    """The host's state directory is not mounted, is another one, or is older than it was."""
    return (
        "Mount %s, or restore its newest copy, and run again. If there is no newer copy than the present content, run "
        "berth.kvm.prepare_hosts -e berth_host_accept_state_directory=true with only that host in --limit. Instances "
        "that other hosts know elsewhere are still refused" % directory
    )


def restore_record(name: str, host: str) -> str:
    """A host has no record of the instance, or an older one than others have seen there."""
    return (
        "Mount or restore the state directory of %s, then run again. If there is no newer copy: berth.kvm.restore_record "
        "--limit %s restores what %s has, if no other host can have the instance" % (host, name, host)
    )


def restore_record_or_delete(name: str, host: str) -> str:
    """The same where no other host has the instance, and its host has no guest of it: the host may have been installed anew."""
    return restore_record(name, host) + (
        ". If it has nothing of it any more, as after %(host)s was installed anew: first make sure that all file systems of %(host)s "
        "are mounted, and that no backup has its state directory or the disks. Then berth.kvm.delete --limit %(name)s, after which "
        "berth.kvm.create makes %(name)s anew, empty" % {"name": name, "host": host}
    )


def make_latest(name: str, host: str, lost: Sequence[str]) -> str:
    """A host that is lost for good had the instance later than the one that answers."""
    return (
        "If %s can never come back and its copy of %s is lost, run berth.kvm.restore_record --limit %s -e berth_lost_hosts=%s: "
        "from then on the record of %s is the latest. Then run the same again"
        % (" or ".join(lost), name, name, ",".join(lost), host)
    )


def undefine_copies(uuid: str, hosts: Sequence[str], owned: bool) -> str:
    """``hosts`` run guests of an instance without a record, as after a manual migration; ``owned``: another has one."""
    where = " and on ".join(hosts) if owned else "each of %s but the one whose copy is right" % " and ".join(hosts)
    return (
        "Compare the copies, and save what only one of them has. Then on %s, as root: virsh shutdown %s; when it is off, %s, which "
        "leaves its disks where they are. %s. Then run the same again" % (where, uuid, UNDEFINE % uuid, SAVED)
    )


def restore_backup_of_record(uuid: str) -> str:
    """A record was lost, and no definition of a guest on the host has a copy of it. The other records stay."""
    return (
        "Restore record.json below instances/%s in the state directory of this host from a backup, and nothing else there, then run again"
        % uuid
    )


def forget_old_move(uuid: str, host: str, owner: str) -> str:
    """A host has a record of a move that has ended, from a backup, or since it was given up as lost; the owner has a later one."""
    return (
        "%(owner)s has the later record, so the instance stays there. If the state directory of %(host)s was restored from a backup, or "
        "%(host)s was given up as lost and is back, move record.json below instances/%(uuid)s out of it, keep that file, and run again. "
        "What disks it has there stay in its pool" % {"uuid": uuid, "host": host, "owner": owner}
    )


def own_restored(path: str, own: str, host: str) -> str:
    """The file ``path`` beside disks names another host than that of the uuid ``own``, since the directory is from a backup
    of the time when the instance was there. On shared storage the disks would be the other host's."""
    return (
        "If no other host has this storage, and the directory was restored from a backup of another host: as root on %s, "
        "printf %s > %s; then run the same again" % (host, own, shlex.quote(path))
    )


def take_out_miscounting(host: str = "the host that reports the count") -> str:
    """A host reports more owners of an instance than there can have been."""
    return (
        "What %s remembers is damaged or forged: look at /var/lib/berth/whereabouts.json and the instance's record there. "
        "Until it is repaired, take %s out of the inventory, and run the same again" % (host, host)
    )
