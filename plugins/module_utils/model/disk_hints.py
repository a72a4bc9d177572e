# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about the files of a guest's disks, such as what somebody did to them, and about memory that somebody saved: see
hints.py.
"""

from __future__ import annotations

import shlex
from typing import Sequence


def bring_image_back(host: str, name: str, path: str) -> str:
    """The cached image on which a disk stands was removed. A guest that runs still has it open; once off, it cannot start."""
    return (
        "Put a copy of that image there on %s: it has the name %s below images in the pools of other hosts, too, and that name is "
        "its SHA-256. Then run the same again. While %s runs, berth.kvm.live_migrate --limit %s also saves it: its disks are whole "
        "on the other host" % (host, path.rpartition("/")[2], name, name)
    )


def unpack_image(kind: str) -> str:
    """The file of an image is an archive, a CD, or compressed in a way that is not unpacked here."""
    if kind == "ISO 9660":
        return (
            "A CD installs a system and is no disk. Use the publisher's cloud image, or set its disk_format to iso, and boot an "
            "instance from it by berth.kvm.rescue"
        )
    commands = {
        "zip": "unzip",
        "tar": "tar -xf",
        "7z": "7z x",
        "zstd": "zstd -d",
        "lz4": "lz4 -d",
        "xz": "xz -d",
        "gzip": "gunzip",
    }
    return (
        "Unpack it with %s FILE, and give the disk image that comes out, as qcow2 (qemu-img convert -O qcow2 DISK NEW.qcow2), "
        "with its own checksum" % commands.get(kind, "bunzip2")
    )


def bring_files_back(host: str, name: str) -> str:
    """Files of an instance's disks are gone. A guest that still runs has the only copy of what it writes."""
    return (
        "On %s, mount the storage of these files again, or restore them from a backup. If the guest of %s still runs, do not "
        "end it by hand: berth.kvm.stop --limit %s is refused with the command that saves its disks"
        % (host, name, name)
    )


def undo_before_a_move(name: str) -> str:
    """Somebody changed an instance's disks, for example by a snapshot, so no move takes it as it is."""
    return (
        "Before it is moved, undo that: berth.kvm.cold_migrate or live_migrate --limit %s, whichever you would use, is refused "
        "before anything stops, with the commands" % name
    )


def convert_back(host: str, path: str) -> str:
    """The file of a disk has another format than its record and its definition say."""
    here, away = shlex.quote(path), shlex.quote(path + ".before")
    return (
        "If it was converted, convert it back while the guest is off, as root on %s: mv -- %s %s && qemu-img convert -f FORMAT -O "
        "qcow2 -- %s %s, with the format that it has now, such as raw. Or restore it from a backup. Then run the same again"
        % (host, here, away, away, here)
    )


def choose_disk(host: str, path: str, take: str, forget: str) -> str:
    """The definition of a guest that is off names another file in place of its disk. By both commands both files are kept."""
    return (
        "If the guest used %s last, as root on %s: %s. If it did not: %s, which leaves all disks as they are. Then run the same "
        "again" % (path, host, take, forget)
    )


def delete_snapshots(host: str, uuid: str, path: str) -> str:
    """A disk has snapshots inside its qcow2 file (virsh snapshot-create-as): no copy of the disk would have them."""
    return (
        "As root on %s, virsh snapshot-list %s lists them: delete those that nobody needs, virsh snapshot-delete %s NAME. libvirt may "
        "not know all: while the guest is off, qemu-img snapshot -l %s lists them, and qemu-img snapshot -d NAME %s deletes one. Then "
        "run the same again" % (host, uuid, uuid, shlex.quote(path), shlex.quote(path))
    )


def forget_snapshots(host: str, uuid: str, names: Sequence[str]) -> str:
    """libvirt has noted snapshots of a guest whose disks have none: their layers were merged. It migrates no such guest."""
    forget = ("virsh snapshot-delete %s %s --metadata" % (uuid, shlex.quote(name)) for name in names)
    return "As root on %s: %s; then run the same again. That touches no disk" % (host, "; ".join(forget))


def claim_grown_disk(name: str, disk: str, gib: int) -> str:
    """Somebody grew a disk beyond what its record says (virsh blockresize, qemu-img resize). No disk is made smaller."""
    if disk.startswith("data-"):
        return (
            "Give %s of berth_disks of %s a size_gb of %d and run berth.kvm.update_disks --limit %s; then this again"
            % (disk[len("data-") :], name, gib, name)
        )
    return (
        "Set berth_flavor of %s to a flavor whose disk %s has %d GiB or more, and run berth.kvm.resize --limit %s: the disk stays as "
        "it is, and its size counts. A live migration takes it as it is" % (name, disk, gib, name)
    )


def put_changed_image_away(path: str) -> str:
    """A cached image is not what was verified, for example since a snapshot's layer was committed down into it."""
    return (
        "As root on this host: mv -- %s %s, which deletes nothing; then run the same again, and the image is fetched anew. Guests "
        "whose disks stand on it read what is there when they start next. If one of them lacks data then, the file that was moved "
        "away may have it" % (shlex.quote(path), shlex.quote(path + ".changed"))
    )


def save_removed_disks(host: str, name: str, commands: Sequence[str]) -> str:
    """The file of a disk was removed under the running guest, which still has it open: once off, its data is lost."""
    return (
        "Do not stop %s: only the running guest still has these disks. If their storage is not mounted, mount it again. Otherwise, as "
        "root on %s: %s; then run the same again. To give the instance up: berth.kvm.delete --limit %s"
        % (name, host, "; ".join(commands), name)
    )


def keep_or_restore(host: str, name: str, uuid: str, commands: Sequence[str]) -> str:
    """A file was put in place of a disk while its guest runs: a person says whether it, or what the guest has, is right."""
    return (
        "Do not stop %s: only the running guest has its latest writes. To save them, as root on %s: %s; then run the same again. "
        "To discard them and continue with the file that was put there, for example from a backup: virsh destroy %s there, then "
        "berth.kvm.start --limit %s" % (name, host, "; ".join(commands), uuid, name)
    )


def merge_with_guest_off(name: str, uuid: str, host: str) -> str:
    """QEMU did not write out the disk into which the kept one was merged."""
    return (
        "Run berth.kvm.confirm_resize for %s again. If this comes again, shut the guest down on %s (virsh shutdown %s) "
        "and run it once more: then no QEMU is needed; afterwards run berth.kvm.start"
    ) % (name, host, uuid)


def detach_attached(host: str, files: Sequence[str], commands: Sequence[str]) -> str:
    """libvirt does not start a guest to whose definition somebody has added a disk or CD, whose file may not be usable."""
    return "%s was added to the guest: if that is why, as root on %s: %s; then run the same again. The file stays" % (
        " and ".join(files), host, "; ".join(commands),
    )  # fmt: skip


def detach_gone(host: str, files: Sequence[str], commands: Sequence[str]) -> str:
    """Somebody added a disk or CD to a running guest and removed its file since: once off, the guest would stay off."""
    return "Bring %s back, or take it from the guest, as root on %s: %s; then run the same again" % (
        " and ".join(files), host, "; ".join(commands),
    )  # fmt: skip


def take_files_away(host: str) -> str:
    """Somebody made files beside the disks of an instance: the disks of a clone, a copy before a change. They would go."""
    return (
        "What is beside the disks of an instance is removed where these are: as root on %s, move these files to another "
        "directory, or remove those that nobody needs. Then run the same again" % host
    )


def say_what_replaced_it(name: str, host: str, path: str, kept: str, note: str) -> str:
    """Between two calls of a merge the new disk was replaced, by a backup or by a copy of its file system."""
    below = shlex.quote(kept.rpartition("/")[2])
    return (
        "If the file was restored from a backup and is whole: as root on %s, rm %s. If it is a copy of the disk that was there: "
        "qemu-img rebase -u -f qcow2 -F qcow2 -b %s %s. Then run berth.kvm.confirm_resize --limit %s"
        % (host, shlex.quote(note), below, shlex.quote(path), name)
    )


def remove_kept(host: str, path: str) -> str:
    """A disk was brought back to its place, and what was there is kept beside it."""
    return (
        "When the guest has all its data, remove %s as root on %s, or move it elsewhere; it goes with the instance too"
        % (
            shlex.quote(path),
            host,
        )
    )


def keep_or_drop_memory(name: str, host: str, uuid: str) -> str:
    """The copy of an instance that is to be set aside has its memory saved (virsh managedsave)."""
    return (
        "If this is the right copy, run berth.kvm.keep_one_copy for %s with this host as berth_keep_on: the copy stays, "
        "with its memory. If nobody needs that memory, run on %s: virsh managedsave-remove %s; then run the same again"
        % (name, host, uuid)
    )


def give_up_move(name: str) -> str:
    """Somebody saved the guest's memory (virsh managedsave) between two runs of a move."""
    return "berth.kvm.revert_resize --limit %s gives the move up and resumes %s; then run the same again" % (name, name)


def restore_or_boot(name: str) -> str:
    """Somebody saved the guest's memory to a file of their own."""
    return (
        "Run virsh restore FILE on its host, with that file. Or boot the guest without that memory: berth.kvm.stop "
        "--limit %s, then berth.kvm.start --limit %s. Never restore the file afterwards: it no longer fits the disks"
        % (name, name)
    )


def right_format(detected: str) -> str:
    """The content of an image has another format than the catalog says."""
    return (
        "If the file is that image, set its disk_format to %s. If not, correct url: it may give a web page" % detected
    )


def one_vmdk() -> str:
    """A vmdk of VMware names other files that the disk is in."""
    return (
        "Export the machine as OVA or OVF and give the vmdk in it. Of a datastore, a file -flat.vmdk is the disk, as raw. "
        "Where all its files are, qemu-img convert -O qcow2 FILE NEW.qcow2 makes one of them"
    )


def reach_image() -> str:
    """The host cannot download an image, or the server has no such file."""
    return (
        "Correct its url or checksum in berth_images, or let the hosts reach it, by berth_host_image_proxy if need be"
    )


def put_image() -> str:
    """The url of an image is a path at which the host has no file."""
    return "Put the file there on every host, or say upload: with a path on the controller in place of url:"
