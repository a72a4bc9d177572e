# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the disks of a running guest are copied: what libvirt is asked for, and which copies count as whole."""

from __future__ import annotations

import os
from types import SimpleNamespace
from xml.etree import ElementTree

import fake_libvirt
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection, paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import (
    block_jobs,
    left_backup,
    live_backup,
    precopy,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed

RECORD = SimpleNamespace(uuid="0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", op="0123456789abcdef", migration={"attempt": 2})
NAMES = {"root": "qcow2", "ephemeral0": "raw", "data-db": "qcow2", "seed": "raw"}


class Guest:
    """A running guest of libvirt: ``begun`` has each backup with its checkpoint, ``ended`` says how many were ended, ``changes``
    the files from which further copies were made, and when libvirt had written them; ``left`` has what earlier attempts
    left, ``met`` what of that was still there when the first backup began."""

    def __init__(self, top):
        self.top, self.begun, self.ended, self.changes = top, [], 0, []
        self.left, self.met = {"backup", "checkpoints"}, None

    def UUIDString(self):
        return RECORD.uuid

    def XMLDesc(self, _flags):
        root = ElementTree.Element("domain")
        devices = ElementTree.SubElement(root, "devices")
        for at, name in enumerate(NAMES):
            drive = ElementTree.SubElement(devices, "disk")
            ElementTree.SubElement(drive, "source", file=str(self.top / name))
            ElementTree.SubElement(drive, "target", dev="vd" + "abcd"[at])
        return ElementTree.tostring(root, encoding="unicode")

    def state(self):
        return [1, 1]

    def backupBegin(self, backup, checkpoint, _flags):
        self.met = set(self.left) if self.met is None else self.met
        self.begun.append([ElementTree.fromstring(text) for text in (backup, checkpoint)])


@pytest.fixture
def guest(tmp_path, monkeypatch):
    made = Guest(tmp_path)
    monkeypatch.setattr(connection, "libvirt", fake_libvirt.library())
    monkeypatch.setattr(precopy.guests, "find", lambda *_arguments: made)
    monkeypatch.setattr(live_backup, "socket_of", lambda _domain: str(tmp_path / "socket"))

    def end(_domain):
        made.ended += 1
        made.left.discard("backup")

    monkeypatch.setattr(left_backup, "end_backup", end)
    monkeypatch.setattr(live_backup, "forget_checkpoints", lambda _domain: made.left.discard("checkpoints"))
    monkeypatch.setattr(precopy.live_backup, "finish_backup", lambda _domain: made.changes.append("written"))
    monkeypatch.setattr(
        precopy, "copy_by_daemon", lambda _uuid, disk, path, *_more: made.changes.append((disk["name"], path))
    )
    return made


class Sent:
    """transfer.send: ``names`` of the disks of each call, and the copies that counted as whole then."""

    def __init__(self, top, error=None):
        self.top, self.error, self.names, self.whole = top, error, [], []

    def __call__(self, _uuid, found, _targets, _key, _bandwidth, rest=None, also=()):
        for check in also:
            check.check()
        self.names.append([disk["name"] for disk in found])
        self.whole.append(whole(self.top))
        for disk in found:
            if rest:
                rest[disk["name"]](disk, {})
        if self.error:
            raise self.error
        return {"bytes": 1 << 20, "seconds": 1.0}


def whole(top):
    """The numbers of the copies of the first disk that count as whole."""
    root = str(top / "root")
    return [number for number in range(3) if os.path.lexists(precopy.copied_mark(root, RECORD, number))]


def manifest(top):
    return [{"name": name, "format": form, "path": str(top / name), "size": 1} for name, form in NAMES.items()]


def copy(guest, monkeypatch, again=0, error=None):
    """Copy once, and ``again`` so many times. -> Sent"""
    sent = Sent(guest.top, error)
    monkeypatch.setattr(precopy.transfer, "send", sent)

    def repeat(copies, _rate):
        for number in range(1, again + 1):
            copies.again(number)

    monkeypatch.setattr(precopy, "repeat", repeat)
    precopy.copy_running(None, RECORD, manifest(guest.top), [], "key", None)
    return sent


def chosen(element, attribute, value):
    return [disk.get("name") for disk in element.iterfind("disks/disk") if disk.get(attribute) == value]


def test_libvirt_notes_the_writes_of_the_disks_that_are_copied_from_the_moment_of_the_copy_and_of_no_others(
    guest, monkeypatch
):
    """Where a disk has no bitmap, what the guest writes after its copy would lack on the destination."""
    copy(guest, monkeypatch)
    ((backup, checkpoint),) = guest.begun
    name = precopy.bitmap_name(RECORD, 0)
    assert chosen(backup, "backup", "yes") == chosen(checkpoint, "checkpoint", "bitmap") == ["vda", "vdc"]
    assert chosen(backup, "backup", "no") == chosen(checkpoint, "checkpoint", "no") == ["vdb", "vdd"]
    assert checkpoint.findtext("name") == name and chosen(checkpoint, "bitmap", name) == ["vda", "vdc"]


def test_nothing_of_an_earlier_attempt_is_left_when_the_copy_begins(guest, monkeypatch):
    """libvirt begins no backup beside another one, and QEMU updates every bitmap at each write."""
    copy(guest, monkeypatch)
    assert guest.met == set()


def test_what_the_guest_only_reads_comes_with_the_first_copy_and_a_raw_disk_when_the_guest_is_off(guest, monkeypatch):
    assert copy(guest, monkeypatch, again=1).names == [["root", "data-db", "seed"], ["root", "data-db"]]


def test_a_copy_counts_as_whole_when_it_was_sent_and_not_before(guest, monkeypatch):
    assert copy(guest, monkeypatch, again=2).whole == [[], [0], [0, 1]]
    assert whole(guest.top) == [0, 1, 2]


def test_a_copy_that_fails_does_not_count_and_its_backup_is_ended_and_leaves_no_file(guest, monkeypatch):
    scratch = paths.scratch_file(str(guest.top / "root"))
    monkeypatch.setattr(guest, "backupBegin", lambda *_arguments: open(scratch, "w").close())
    with pytest.raises(TransferFailed):
        copy(guest, monkeypatch, error=TransferFailed("the link is cut"))
    assert (whole(guest.top), guest.ended > 0, os.path.lexists(scratch)) == ([], True, False)


def test_a_further_copy_has_what_was_written_since_the_one_before_it_began(guest, monkeypatch):
    copy(guest, monkeypatch, again=2)
    since = [backup.findtext("incremental") for backup, _checkpoint in guest.begun]
    began = [checkpoint.findtext("name") for _backup, checkpoint in guest.begun]
    assert since == [None, *began[:2]] and began == [precopy.bitmap_name(RECORD, number) for number in range(3)]
    changes = [(name, paths.scratch_file(str(guest.top / name))) for name in ("root", "data-db")]
    assert guest.changes == ["written", *changes] * 2


def test_the_room_for_further_copies_is_that_of_the_storage_with_the_least(guest, monkeypatch):
    """libvirt writes what changed beside each disk: a pool that is full pauses its guests."""
    free = [5, 3]
    monkeypatch.setattr(precopy.os, "statvfs", lambda _path: SimpleNamespace(f_bavail=free.pop(), f_frsize=4096))
    chosen_disks = [disk for disk in manifest(guest.top) if disk["format"] == "qcow2"]
    assert precopy.Copies(guest, RECORD, chosen_disks, None, None).room() == 3 * 4096


def test_no_copy_begins_or_goes_on_where_what_the_guest_overwrites_has_no_room(guest, monkeypatch):
    """QEMU would pause the guest, and with it all guests of a full pool. Then the disks are copied when it is off."""
    least = live_backup.LEAST_ROOM
    for free, begun in (([least - 1], 0), ([least, least - 1], 1)):
        guest.begun, left = [], iter(free)
        monkeypatch.setattr(
            precopy.os, "statvfs", lambda _p, left=left: SimpleNamespace(f_bavail=next(left), f_frsize=1)
        )
        with pytest.raises(TransferFailed, match="1023 MiB are free"):
            copy(guest, monkeypatch)
        assert (len(guest.begun), whole(guest.top)) == (begun, [])


@pytest.mark.parametrize("state, goes_on", [("IOERROR", True), ("USER", False)])
def test_a_guest_that_the_copy_had_paused_goes_on_when_its_files_are_gone(guest, monkeypatch, state, goes_on):
    """One that somebody paused stays paused."""
    resumed = []
    monkeypatch.setattr(guest, "state", lambda: [3, fake_libvirt.CONSTANTS["VIR_DOMAIN_PAUSED_" + state]])
    monkeypatch.setattr(guest, "resume", lambda: resumed.append(sorted(os.listdir(guest.top))), raising=False)
    monkeypatch.setattr(
        live_backup, "show_backup", lambda _domain, _socket, shown, _name: open(paths.scratch_file(shown["vda"]), "w")
    )
    copy(guest, monkeypatch)
    assert bool(resumed) is goes_on
    assert not any("scratch" in name for names in resumed for name in names)


def test_a_backup_is_a_moves_if_it_writes_beside_any_disk_of_the_guest(guest):
    """It has the copied disks only; one that a killed run left is ended, and one of somebody else never."""
    text = "<domainbackup><disks><disk><target file='%s'/></disk></disks></domainbackup>"
    assert block_jobs.is_ours(guest, text % paths.scratch_file(str(guest.top / "root")))
    assert not block_jobs.is_ours(guest, text % "/backups/root")


def test_libvirt_shows_each_disk_on_the_socket_and_writes_beside_it_alone(guest, monkeypatch):
    copy(guest, monkeypatch, again=1)
    first, further = (element for element, _flags in guest.begun)
    beside = {
        target: paths.scratch_file(str(guest.top / name)) for target, name in (("vda", "root"), ("vdc", "data-db"))
    }
    assert (first.get("mode"), first.find("server").get("socket")) == ("pull", str(guest.top / "socket"))
    shown = {disk.get("exportname"): disk.find("scratch").get("file") for disk in first.iterfind("disks/disk[scratch]")}
    assert shown == beside
    written = {disk.get("name"): disk.find("target").get("file") for disk in further.iterfind("disks/disk[target]")}
    assert (further.get("mode"), written) == ("push", beside)


def test_what_a_power_cut_left_of_another_guest_with_the_same_number_is_not_taken_for_the_guests_own_directory(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(live_backup, "LIBVIRT_DIR", str(tmp_path))
    running = SimpleNamespace(ID=lambda: 2, name=lambda: RECORD.uuid)
    (tmp_path / "domain-2-4f7cb66e-8c97-5fcf-b").mkdir()
    with pytest.raises(TransferFailed):
        live_backup.socket_of(running)
    own = tmp_path / "domain-2-0b7f9a52-3c6e-5d59-9"
    own.mkdir()
    assert live_backup.socket_of(running) == str(own / block_jobs.SOCKET)
