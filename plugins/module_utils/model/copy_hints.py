# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints for an instance of which two hosts have a copy, for taking over the instances of a lost host, and for what such a
host left: see hints.py.
"""

from __future__ import annotations

import shlex
from typing import Optional, Sequence

NEWER = "the host with the newer record"  # whose name this host does not know


def find_the_right_copy(name: str, hosts: Sequence[str]) -> str:
    """Two hosts say that they own the instance."""
    return (
        "Find out which copy is right, that on %s: berth.kvm.show --limit %s -v has the history of each. Then run "
        "berth.kvm.keep_one_copy --limit %s -e berth_keep_on=HOST with the host whose copy stays: the other is stopped and set aside "
        "with its disks" % (" or that on ".join(hosts), name, name)
    )


def keep_copy_with_disks(name: str, owner: Optional[str]) -> str:
    """On shared storage two copies of an instance have the same disks, which belong to the host of the other copy."""
    return (
        "Run berth.kvm.keep_one_copy --limit %s -e berth_keep_on=HOST with the host whose uuid is %s: only its copy can stay"
        % (name, owner or "that one")
    )


def keep_whole_copy(name: str, host: str, missing: Sequence[str]) -> str:
    """The copy that was to stay has a record and no disks, as after an old state directory was restored. If all copies lack
    some, one has to be kept before the instance can be deleted, or its disks restored."""
    directories = shlex.join(sorted({path.rpartition("/")[0] for path in missing}))
    return (
        "Run berth.kvm.keep_one_copy --limit %s -e berth_keep_on=HOST with the host whose copy has its disks. If the disks on %s are only "
        "not mounted, mount them first and run the same again. If no copy has all its disks any more, put these back from a "
        "backup, or, if they are lost for good, an empty file for each, as root on %s: mkdir -p -m 711 -- %s && touch -- %s; then "
        "run the same again" % (name, host, host, directories, shlex.join(missing))
    )


def keep_one_confirmed(name: str, host: str, others: Sequence[str]) -> str:
    """Both copies of an instance run, and one was named as the copy that stays."""
    return (
        "Log in to both guests and compare them. Then run berth.kvm.keep_one_copy --limit %s -e berth_keep_on=%s -e "
        "berth_keep_on_confirmed=true: the guest on %s is stopped, and its disks are set aside"
        % (name, host, ", ".join(others))
    )


def keep_what_moves(name: str, host: str) -> str:
    """Of two copies of an instance the later one is in a move, and the other was named as the copy that stays."""
    return (
        "The copy on %s is the later one, and only a copy at rest is set aside. Run berth.kvm.keep_one_copy --limit %s -e "
        "berth_keep_on=%s: the other copy is set aside with its disks. Then confirm or revert the move"
        % (host, name, host)
    )


def keep_one_again(name: str) -> str:
    """A run that set this copy aside was interrupted."""
    return (
        "Run berth.kvm.keep_one_copy --limit %s again, with the same berth_keep_on: it finishes what it began. If the host of that "
        "copy is lost for good, name this host with berth_keep_on and that one with berth_lost_hosts: this copy comes back"
        % name
    )


def keep_the_other(name: str, host: str, others: Sequence[str]) -> str:
    """The copy that was named to stay is one that an interrupted run was setting aside or deleting."""
    return (
        "An earlier run did not finish with that copy. Run berth.kvm.keep_one_copy --limit %s -e berth_keep_on=%s: the copy on %s is "
        "set aside with what it has" % (name, " or ".join(others), host)
    )


def remove_set_aside(name: str, host: str) -> str:
    """A copy was set aside, and stays."""
    return (
        "When nobody needs it any more, berth.kvm.remove_set_aside --limit %s -e berth_set_aside_on=%s removes it; nothing "
        "else does" % (name, host)
    )


def keep_where_set_aside() -> str:
    """A copy was to come back on a host where none was set aside."""
    return "Name with berth_keep_on the host where it was set aside: its /var/lib/berth/set-aside.json lists it"


def put_disks_back(directory: str) -> str:
    """A copy that was set aside is to come back, and some of its disks are not there any more."""
    return (
        "Put these files back into %s, from where they were moved or from a backup, and run the same again" % directory
    )


def one_keeps_the_address(name: str) -> str:
    """The record of an instance is to come back, and another has one of its addresses by now."""
    return (
        "An instance keeps its address for as long as it exists. To bring %s back, save what is on the other, run "
        "berth.kvm.delete for it, and then run the same again. A guest that berth does not manage gets another address "
        "instead. Until then %s stays as it is" % (name, name)
    )


def lock_again(name: str) -> str:
    """The record of an instance came back from a copy that does not say whether it was locked."""
    return "if it was locked, run berth.kvm.lock --limit %s: the lock was lost with the record" % name


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


def mount_the_same(one: str, other: str) -> str:
    """Two hosts see different disks of one instance of a lost host."""
    return "Mount the storage of the lost host on both %s and %s, or on one of them alone, and run the same again" % (
        one,
        other,
    )


def find_its_address(uuid: str) -> str:
    """The lost host knew which address of a pool the instance has; the instance's seed contains it too."""
    return (
        "Give the instance that address in berth_networks and run again. It is in network-config of "
        "instances/%s/seed.iso in the shared pool (isoinfo -R -i seed.iso -x /network-config)" % uuid
    )


def mount_or_give_up(name: str, lost: str, has_backup: bool = False) -> str:
    """No host sees the disks: the shared storage is mounted nowhere, or the lost host alone had them."""
    mount = (
        "If they are on shared storage, mount it on a host that is up and run again. If only the lost host had them, "
    )
    if has_backup:
        return mount + "run again with -e berth_evacuate_from_backup=true, which restores that backup on another host"
    return mount + (
        "they are lost with it: berth.kvm.create --limit %(name)s -e berth_lost_hosts=%(lost)s -e berth_rebuild_lost=%(name)s "
        "-e berth_state=stopped makes it again, empty and off. If it has a backup, berth.kvm.restore --limit %(name)s "
        "-e berth_restore_discards=%(name)s gives it the newest. Then berth.kvm.start --limit %(name)s starts it"
        % {"name": name, "lost": lost}
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
