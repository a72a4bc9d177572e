# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints: what errors tell people to do. All hints of the collection are made here or in another *_hints.py.

A hint is followed word for word, at three in the morning, by somebody who does not know the code. So each is safe to
follow in every state in which it is printed. A test is marked with the hint's name, creates that state, does what the
hint says and checks the result; tests/unit/test_hints.py fails for a hint without one. Playbook names are complete, as
people type them. No hint gives up a host or removes a disk because a single host says so.
"""

from __future__ import annotations

from typing import Optional, Sequence

from .errors import shortened
from .lifecycle import REBUILDING

LOST = "If it is switched off for good and never comes back: -e berth_lost_hosts=%s"


# --- which instances a run is about


def select_instances() -> str:
    """A playbook that stops, moves, changes or deletes guests was run without a selection, or with one of all."""
    return "Say which with --limit or -e berth_instances=PATTERN. Where all of them are meant: -e berth_all=true"


def select_in_play() -> str:
    """A role that moves, changes or deletes guests is in a play over all hosts."""
    return "Say which with --limit, or name them or a group in the hosts of the play. Where all of them are meant: -e berth_all=true"


# --- a guest that was adopted


def leave_adopted(name: str) -> str:
    """An adopted instance was to be given a disk."""
    return "To do that with libvirt's own tools, give the guest back: berth.kvm.leave --limit %s" % name


def name_adopted(uuid: str) -> str:
    """An instance was asked for by its name, and is a guest that was adopted: its uuid does not follow from the name."""
    return (
        "If that is the one: set berth_adopted: %(uuid)s for it in the inventory, or add -e berth_adopted=%(uuid)s"
        % {"uuid": uuid}
    )


def adopt_guest(name: str, uuid: str) -> str:
    """A guest of a host is no instance, and nothing is in the way of making it one. ``name``: NAME if its own does not do."""
    return "To adopt it: berth.kvm.adopt -e berth_name=%s -e berth_adopted=%s" % (name, uuid)


def adopt_it(name: str) -> str:
    """The inventory gives an instance the uuid of a guest that is no instance, never was or is none any more."""
    return "To make it one as it is: berth.kvm.adopt --limit %s" % name


def list_guests() -> str:
    """The guest to adopt was not found, or its name is that of several."""
    return "The playbook berth.kvm.adopt without berth_name lists the guests that are no instances, each with its uuid"


# --- a host that did not answer


def bring_back_or_lost(hosts: Sequence[str], given: Sequence[str] = ()) -> str:
    """``hosts`` of the inventory that may hold the instance are silent. The run gave up those that are ``given``."""
    return "Bring %s back and run again. %s" % (", ".join(hosts), LOST % ",".join([*given, *hosts]))


def bring_back(hosts: Sequence[str]) -> str:
    """The same, and one of them was closed by the inventory before it was switched off: it is not lost."""
    return "Bring %s back and run again" % ", ".join(hosts)


def not_lost(host: str) -> str:
    """A host that answers was named as lost."""
    return "Run it again without -e berth_lost_hosts=%s" % host


def mend_lost_host(host: str) -> str:
    """A host named as lost answers, but its libvirt or its records cannot be read."""
    return "Repair what the message names on %s, or switch that host off for good" % host


def split_the_fleet() -> str:
    """There are more instances than a host can remember."""
    return "Nothing was changed. One inventory can hold no more instances: divide the hosts among several inventories"


# --- moves


def confirm_or_revert(name: str) -> str:
    """The instance was resized or migrated and waits for its confirmation."""
    return "Run berth.kvm.confirm_resize or berth.kvm.revert_resize for %s first" % name


def confirm_or_revert_left(name: str, host: str) -> str:
    """A host holds what is left of a move that has ended without it."""
    return "Run berth.kvm.confirm_resize or berth.kvm.revert_resize for %s: it removes what is left on %s" % (
        name,
        host,
    )


def finish_move(name: str) -> str:
    """Another operation found the instance in the middle of a move."""
    return "Run the playbook that moves %s again, or give the move up with berth.kvm.revert_resize" % name


def migrate_what_is_off(name: str) -> str:
    """A live migration was requested for an instance that does not run."""
    return "Run berth.kvm.migrate --limit %s, which moves it as it is, or berth.kvm.start first" % name


def move_again(name: str, playbook: str) -> str:
    """A confirm came before the move had ended; ``playbook`` is the playbook of this kind of move."""
    return "The move of %s has not ended: run %s again" % (name, playbook)


def delete_again(name: str) -> str:
    """A delete of the instance was begun and has not ended."""
    return "A delete of %s was begun: run berth.kvm.delete again to finish it" % name


def another_run() -> str:
    """Another run holds the instance, or took it over."""
    return "Another run is working on it: run again when that run has ended"


def run_again() -> str:
    """The state that caused the error has ended, or running the same again ends it."""
    return "Run the same again"


def source_differs(source: str, name: str) -> str:
    """The source of a move sent the destination a request that differs from the one that placement used."""
    return (
        "%s stays where it is. Run the same again. If it fails in the same way, examine %s before anything else: "
        "its answers about its instances change" % (name, source)
    )


def no_copy_to_revert_to() -> str:
    """A revert was requested, and the source holds nothing of the move."""
    return (
        "The source holds no copy to go back to: the instance stays where it is; berth.kvm.confirm_resize ends the move"
    )


def restart_hung_libvirt() -> str:
    """libvirt on a host accepts a connection or a call and does not answer."""
    return "Restart libvirtd (or virtqemud) on that host, its guests keep running; then run the same again"


def no_whole_copy(name: str) -> str:
    """A confirm or a delete has begun to remove the kept copy, so the other host had a complete one. That host is declared
    lost."""
    return (
        "Bring the other host back: its copy is complete. If that is impossible, restore a backup. If %s was deleted since, "
        "and this record came back with a backup of the state directory, berth.kvm.delete --limit %s removes it"
        % (name, name)
    )


def update_disks_to_follow(name: str) -> str:
    """The inventory gives an instance data disks that it lacks, or larger ones."""
    return "Run berth.kvm.update_disks --limit %s" % name


def migrate_with_devices(name: str) -> str:
    """A running guest has devices of its host, which no live migration takes along."""
    return "berth.kvm.cold_migrate --limit %s moves it, and gives it others there" % name


def take_all_disks(name: str) -> str:
    """A running guest lacks a disk of its instance whose file exists: libvirt would not copy it."""
    return "Run berth.kvm.cold_migrate --limit %s, which takes it along" % name


def make_anew_to_follow(name: str) -> str:
    """The inventory differs in something that an instance keeps from its creation: networks, keys, image, metadata, server
    group."""
    return (
        "%s keeps those that it was created with: put them back into what the inventory says. Only an instance that is made anew gets "
        "others, and a delete before that loses all that is on its disks" % name
    )


def mend(name: str) -> str:
    """Somebody changed the definition of an instance's guest in libvirt. The hint is a command within a sentence."""
    return "berth.kvm.create --limit %s -e berth_mend=true" % name


# --- create, start, stop, delete


def stop_and_update_disks(name: str) -> str:
    """A running guest could not be given a data disk."""
    return (
        "Run berth.kvm.stop --limit %s, then berth.kvm.update_disks and berth.kvm.start with the same selection" % name
    )


def run_it(operation: str) -> str:
    """A run found an instance that does not run, and left it so."""
    return "run berth.kvm.%s" % operation


def create_it(name: str) -> str:
    """The instance is in the inventory but on no host."""
    return "Run berth.kvm.create --limit %s to create it" % name


def create_again() -> str:
    """Another run made the instance meanwhile, or a build failed and was cleaned up."""
    return "Run berth.kvm.create again: it continues from what is there"


def create_or_delete(name: str) -> str:
    """Every attempt to build the instance failed; the host remembers why."""
    return "Run berth.kvm.create again, or berth.kvm.delete for %s to forget it" % name


def create_if_wanted(name: str) -> str:
    """A create or start found a delete that had been interrupted, and ended it: the instance is gone."""
    return "If %s is still wanted, run berth.kvm.create again, which makes it anew" % name


def again_when_well() -> str:
    """A failed build could not be cleaned up completely."""
    return "Run the same again when the host works: it first removes what is left"


def disks_of_another_host(name: Optional[str], owner: Optional[str]) -> str:
    """On storage that hosts share, the disks of the instance belong to the host with the uuid ``owner``. The only copy may
    be there."""
    if name is None or owner is None:
        return "Bring that host back: the instance is there"
    return (
        "Bring that host back: the instance is there. If it is switched off for good, run berth.kvm.evacuate --limit %s -e "
        "berth_lost_hosts=%s: another host then continues with these disks" % (name, owner)
    )


def disks_without_record(directory: str) -> str:
    """The host has files of the instance and no record of it: its state directory may be lost or not mounted."""
    return (
        "If /var/lib/berth of that host is lost or not mounted, restore or mount it. If nobody needs these disks, "
        "move %s elsewhere and run berth.kvm.create again" % directory
    )


def take_disks_back(host: str, commands: Sequence[str]) -> str:
    """A guest's disks are not those that its record names; the commands restore those and lose nothing."""
    return "As root on %s: %s; then run the same again" % (host, "; ".join(commands))


def bring_disks_back(host: str, name: str) -> str:
    """A disk's file is missing: its storage is not mounted, or somebody removed it."""
    return (
        "On %s, mount the storage of these files, or restore them from a backup, and run the same again. To give the "
        "instance up: berth.kvm.delete --limit %s" % (host, name)
    )


def name_data_disks(name: str, disks: Sequence[str]) -> str:
    """The guest has data disks that its record, such as one from a backup, does not name. A move would leave them behind."""
    return (
        "Name %s in berth_disks of %s, with the size_gb that it has or more, and run berth.kvm.update_disks --limit %s: the file "
        "stays as it is. If it is no disk of %s, such as a copy of one, move it to another directory instead, and run the same "
        "again" % (" and ".join(disks), name, name, name)
    )


def delete_changed_disks(goes: Sequence[str], stays: Sequence[str]) -> str:
    """A delete found disks that the record does not name: it removes those in ``goes`` and keeps ``stays``."""
    said = "-e berth_delete_changed_disks=true deletes the instance as it is"
    said += ", %s with it" % shortened(list(goes)) if goes else ""
    return said + ("; %s stays there" % shortened(list(stays)) if stays else "")


def another_address(name: str) -> str:
    """Another instance already has the MAC address or fixed address."""
    return "Give %s another address in berth_networks; the instance that has this one keeps it" % name


def hung_guest(name: str) -> str:
    """The guest's QEMU does not answer."""
    return (
        "Run the same again when QEMU answers. Or run berth.kvm.stop, which ends %s as a power cut would; then it can "
        "be moved"
    ) % name


def end_job(host: str, uuid: str) -> str:
    """Another program backs up or copies the disks of a running guest that is to be moved."""
    return (
        "Wait until it has ended, then run the same again. Or end it on %(host)s: a backup with virsh domjobabort "
        "%(uuid)s, a copy with virsh blockjob %(uuid)s DISK --abort" % {"host": host, "uuid": uuid}
    )


def guest_crashed(name: str) -> str:
    """A confirmation would remove the way back of a guest that is known to have crashed."""
    return (
        "berth.kvm.revert_resize --limit %(name)s goes back to the guest from before the move and discards what it has "
        "written since. To keep it as it is, with no way back: berth.kvm.confirm_resize --limit %(name)s "
        "-e berth_confirm_crashed=true" % {"name": name}
    )


def guest_not_seen(name: str) -> str:
    """A timer would remove the way back of a guest that nobody saw come up: it boots, is silent, or hangs."""
    return (
        "Look at it with berth.kvm.console --limit %(name)s. If it works: berth.kvm.confirm_resize --limit %(name)s. If not: "
        "berth.kvm.revert_resize --limit %(name)s" % {"name": name}
    )


def create_follows(berth_state: str) -> str:
    """An instance was stopped or started although the inventory asks for the opposite."""
    verb = {"active": "starts", "stopped": "stops"}[berth_state]
    return "inventory says berth_state: %s, so berth.kvm.create %s it again" % (berth_state, verb)


def start_it(name: str) -> str:
    """The guest is off although it should run, or its definition is gone."""
    return "berth.kvm.start --limit %s starts it" % name


def stop_to_restore(name: str) -> str:
    """The instance is active, and the operation is for one that is off."""
    return "Run berth.kvm.stop --limit %s first" % name


def finish_disks(name: str, task_state: Optional[str]) -> str:
    """A restore or a rebuild was interrupted: some disks of the instance may be new and others not."""
    what = "rebuild" if task_state == REBUILDING else "restore"
    return "A %s of %s was interrupted: run berth.kvm.%s for it again" % (what, name, what)


def make_active(name: str, back: str) -> str:
    """The instance is paused, suspended or stopped, and the operation is not legal then."""
    return "berth.kvm.%s --limit %s makes it active; then run the same again" % (back, name)


def boot_without_memory(name: str) -> str:
    """The memory of a suspended guest is gone."""
    return (
        "If it was copied, put it back and run the same again. Otherwise berth.kvm.reboot --limit %s -e berth_reboot=hard "
        "boots it from its disks, as after a power cut" % name
    )


def unlock(name: str) -> str:
    """Somebody locked the instance on its host."""
    return "When whoever locked it agrees: berth.kvm.unlock --limit %s" % name


def let_go_on(name: str) -> str:
    """The guest is paused."""
    return "berth.kvm.start resumes %s; then run the same again" % name


def migrate_off(name: str) -> str:
    """A guest that is off is to be migrated live."""
    return (
        "berth.kvm.migrate --limit %s moves it as it is, off; or start it with berth.kvm.start, then run the same again"
        % name
    )


def foreign_filter(name: str) -> str:
    """A network filter that somebody else made has the name that a guest's packet filter would have."""
    return "On that host: virsh nwfilter-dumpxml %s shows it. Give it another name, then run the same again" % name


def filter_in_use(name: str) -> str:
    """Another guest, such as a clone, uses the packet filter of a guest that was removed."""
    return (
        "On that host, grep -l %s /run/libvirt/qemu/*.xml names the guest. Stop it, take the filter out of it with virsh "
        "edit, start it, and run the same again" % name
    )


def another_name() -> str:
    """A domain that berth did not make has the requested name or uuid."""
    return "Choose another name for the instance; the domain is left alone. After berth.kvm.leave, berth.kvm.adopt takes it again"
