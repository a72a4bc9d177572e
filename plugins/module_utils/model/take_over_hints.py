# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints for taking over the instances of a lost host, and for what such a host left: see hints.py."""

from __future__ import annotations


def name_lost_hosts() -> str:
    """A take-over was run without saying which hosts are gone."""
    return (
        "Switch the host off, so that it cannot write to the shared storage any more, and see that it is off. Then name it: "
        "-e berth_lost_hosts=HOST"
    )


def nothing_to_take_over(host: str) -> str:
    """A host was named as switched off, but it answers."""
    return (
        "Its instances are on %s: berth.kvm.start starts them there, and berth.kvm.migrate moves them. If that host "
        "was reinstalled and has a new uuid, read the file instances/UUID/owner of the instance in the shared pool, "
        "and add -e berth_disks_of=UUID with the uuid in that file, which is the host's old one" % host
    )


def name_owner_of_disks(uuid: str) -> str:
    """No host remembers that the lost host had the instance."""
    return (
        "Read the file instances/%s/owner in the shared pool: it has the uuid of the host that owns the disks. If that is the host "
        "that is switched off for good, add -e berth_disks_of=UUID" % uuid
    )


def find_its_address(uuid: str) -> str:
    """The lost host knew which address of a pool the instance has; the instance's seed contains it too."""
    return (
        "Give the instance that address in berth_networks and run again. It is in network-config of "
        "instances/%s/seed.iso in the shared pool (isoinfo -R -i seed.iso -x /network-config)" % uuid
    )


def mount_or_give_up(name: str, lost: str) -> str:
    """No host sees the disks: the shared storage is mounted nowhere, or the lost host alone had them."""
    return (
        "If they are on shared storage, mount it on a host that is up and run again. If only the lost host had them, "
        "they are lost with it: berth.kvm.create --limit %s -e berth_lost_hosts=%s -e berth_rebuild_lost=%s makes it again, empty"
        % (name, lost, name)
    )


def take_over_without_volumes(name: str) -> str:
    """No other host's records say whose the lost host's volumes are, and which of them are on the shared storage."""
    return (
        "Bring that host back. Or remove berth_volumes of %s from the inventory and run again: the instance continues "
        "without its volumes, and nothing on them is touched" % name
    )


def bring_boot_volume_back(name: str, volume: str) -> str:
    """The instance boots from a volume of the lost host, and has no root disk of its own."""
    return "Bring that host back: %s boots from volume %s, and does not continue without it" % (name, volume)


def switch_user_of_disk_off(path: str) -> str:
    """A QEMU process on some host has a disk open that is to be taken over."""
    return "Switch off the host on which a guest still uses %s, then run again" % path


def describe_what_it_has(name: str) -> str:
    """The inventory describes other disks than the existing ones."""
    return "Give %s in the inventory the flavor and the data disks that it had, then run again" % name


def bring_back_for_move() -> str:
    """The lost host was in a move of the instance: only its record says which disks are the right ones."""
    return "Bring that host back and finish the move there, or restore the disks from a backup"


def put_files_away(directory: str) -> str:
    """The destination of a move has files of the instance, for example from before it was reinstalled."""
    return (
        "If /var/lib/berth of the destination is lost or not mounted, restore or mount it. If nobody needs what is in %s there, "
        "move that directory elsewhere. Then run the same again, or move to another host" % directory
    )
