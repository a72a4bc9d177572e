# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What libvirt is asked for the backup of a running guest. Its files are looked at in the integration tests."""

from __future__ import annotations

from types import SimpleNamespace
from xml.etree import ElementTree

import fake_libvirt
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import make, off, running
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import agent, domain, qemu_nodes
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import (
    block_jobs,
    left_backup,
    live_backup,
    storage_daemon,
    watchdog,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.paths import bitmap_of
from ansible_collections.berth.kvm.plugins.module_utils.model.backups import FULL, INCREMENT
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed

SOCKET = block_jobs.SOCKET
UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
BEFORE, NOW = "20260101T000000Z", "20260102T000000Z"
NAMES = {"root": "qcow2", "swap": "raw", "data-db": "qcow2", "seed": "raw"}
MORE = {
    "VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE": 1,
    "VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE_VALIDATE": 8,
    "VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY": 2,
}
DISK = "<disk><source file='/pool/%s'/><target dev='vd%s'/></disk>"
TEXT = "<domain><name>x</name><devices>%s</devices></domain>" % "".join(
    DISK % (name, letter) for name, letter in zip(NAMES, "abcd")
)


class Guest:
    """``done``: what was asked of it, in order; ``refuses``: whether it begins no backup; ``noted``: its checkpoints."""

    def __init__(self):
        self.done, self.refuses, self.noted, self.nodes = [], False, [], []
        self.now = fake_libvirt.RUNNING

    def UUIDString(self):  # noqa: N802
        return UUID

    def XMLDesc(self, _flags):  # noqa: N802
        return TEXT

    def state(self):
        return [self.now, 1]

    def listAllCheckpoints(self, _flags):  # noqa: N802
        return [
            SimpleNamespace(
                getName=lambda name=name: name,
                delete=lambda flags, name=name: self.done.append(("forget", name, flags)),
            )
            for name in self.noted
        ]

    def checkpointCreateXML(self, text, flags):  # noqa: N802
        self.done.append(("note", ElementTree.fromstring(text), flags))

    def backupBegin(self, backup, checkpoint, flags):  # noqa: N802
        if self.refuses:
            raise fake_libvirt.libvirtError(1, "no")
        self.done.append(
            ("begin", ElementTree.fromstring(backup), checkpoint and ElementTree.fromstring(checkpoint), flags)
        )


@pytest.fixture
def guest(monkeypatch):
    found = Guest()
    library = fake_libvirt.library()
    for name, value in MORE.items():
        setattr(library, name, value)
    monkeypatch.setattr(connection, "libvirt", library)
    monkeypatch.setattr(live_backup, "finish_backup", lambda _guest, *_also: found.done.append(("finish",)))
    monkeypatch.setattr(live_backup, "socket_of", lambda _guest: "/run/" + SOCKET)
    monkeypatch.setattr(live_backup, "discard_backup", lambda paths: found.done.append(("discard", list(paths))))
    monkeypatch.setattr(live_backup.paths, "free_bytes", lambda _path: 1 << 40)
    monkeypatch.setattr(domain, "retry_failed_io", lambda _guest: found.done.append(("retry",)))
    monkeypatch.setattr(storage_daemon, "is_there", lambda: True)
    monkeypatch.setattr(off, "copy_part", lambda part, path, _wanted: found.done.append(("part", path, part.target)))
    monkeypatch.setattr(off, "copy_whole", lambda part, path, _form: found.done.append(("whole", path, part.target)))

    def follow(command, *_given, **_more):
        found.done.append(("read", tuple(command[-2:]), command[command.index("-O") + 1]))

    monkeypatch.setattr(watchdog, "follow", follow)
    monkeypatch.setattr(left_backup, "end_backup", lambda _guest: found.done.append(("end",)))
    monkeypatch.setattr(agent, "freeze", lambda _found: found.done.append(("freeze",)) or True)
    monkeypatch.setattr(agent, "thaw", lambda _found: found.done.append(("thaw",)))
    return found


def parts(**kinds):
    return [
        make.Part(
            name, "/pool/" + name, form, 1 << 20, kinds.get(name.replace("-", "_"), FULL), "", "/b/%s.qcow2" % name
        )
        for name, form in NAMES.items()
        if name != "seed"
    ]


def chosen(element, attribute, value):
    return [each.get("name") for each in element.iterfind("disks/disk") if each.get(attribute) == value]


def steps(guest):
    return [each[0] for each in guest.done if each[0] != "discard"]


def begun(guest):
    return next(each[1:] for each in guest.done if each[0] == "begin")


def test_whole_disks_are_read_as_they_are_at_one_moment_and_the_qcow2_ones_record_writes_from_then(guest):
    assert running.copy(guest, NOW, None, parts()) is True
    backup, checkpoint, _flags = begun(guest)
    assert chosen(backup, "backup", "yes") == ["vda", "vdb", "vdc"] and chosen(backup, "backup", "no") == ["vdd"]
    assert backup.get("mode") == "pull"
    assert [each[1] for each in guest.done if each[0] == "read"] == [
        ("driver=nbd,server.type=unix,server.path=/run/%s,export=vd%s" % (SOCKET, letter), "/b/%s.qcow2" % name)
        for letter, name in zip("abc", NAMES)
    ]
    assert chosen(checkpoint, "checkpoint", "bitmap") == ["vda", "vdc"]
    assert checkpoint.findtext("name") == bitmap_of(NOW)


def test_an_increment_is_asked_since_the_bitmap_of_the_backup_before_which_libvirt_is_told_of_again(guest):
    running.copy(guest, NOW, BEFORE, parts(root=INCREMENT, data_db=INCREMENT))
    note = next(each for each in guest.done if each[0] == "note")
    assert note[1].findtext("name") == bitmap_of(BEFORE) and note[2] == 9 and note[1].find("domain") is not None
    assert chosen(note[1], "checkpoint", "bitmap") == ["vda", "vdc"]
    backup = begun(guest)[0]
    assert backup.findtext("incremental") == bitmap_of(BEFORE) and backup.get("mode") == "push"
    assert chosen(backup, "backupmode", "full") == ["vdb"]
    assert [each[:3] for each in guest.done if each[0] in ("part", "whole")] == [
        ("part", "/pool/root.scratch", "/b/root.qcow2"),
        ("whole", "/pool/swap.scratch", "/b/swap.qcow2"),
        ("part", "/pool/data-db.scratch", "/b/data-db.qcow2"),
    ]


@pytest.mark.parametrize("kinds", [{}, {"root": INCREMENT, "data_db": INCREMENT}])
def test_qemu_writes_beside_the_disks_alone_since_where_it_cannot_write_the_guest_cannot(guest, kinds):
    """What QEMU cannot save before the guest overwrites it fails the guest's own write."""
    running.copy(guest, NOW, BEFORE, parts(**kinds))
    backup = begun(guest)[0]
    written = [each.get("file") for part in ("target", "scratch") for each in backup.iter(part)]
    assert written == ["/pool/%s.scratch" % name for name in list(NAMES)[:3]]


@pytest.mark.parametrize("kinds", [{}, {"root": INCREMENT, "data_db": INCREMENT}])
def test_what_fails_after_a_backup_has_begun_ends_it_and_leaves_nothing_beside_the_disks(guest, monkeypatch, kinds):
    def fail(*_arguments, **_more):
        raise TransferFailed("Input/output error")

    for place, name in ((watchdog, "follow"), (off, "copy_part")):
        monkeypatch.setattr(place, name, fail)
    with pytest.raises(TransferFailed, match="Input/output"):
        running.copy(guest, NOW, BEFORE, parts(**kinds))
    assert [each[0] for each in guest.done][-3:] == ["end", "discard", "retry"]
    assert guest.done[-2][1] == ["/run/" + SOCKET, *("/pool/%s.scratch" % name for name in list(NAMES)[:3])]


def test_no_backup_of_a_running_guest_begins_or_goes_on_where_its_disks_have_no_room(guest, monkeypatch):
    monkeypatch.setattr(live_backup.paths, "free_bytes", lambda _path: live_backup.LEAST_ROOM - 1)
    with pytest.raises(TransferFailed, match="only 1023 MiB are free beside the disks: the copy was ended"):
        running.copy(guest, NOW, None, parts())
    assert guest.done == []
    left = iter([live_backup.LEAST_ROOM, 1])
    monkeypatch.setattr(live_backup.paths, "free_bytes", lambda _path: next(left))
    monkeypatch.setattr(watchdog, "follow", lambda *_given, also: [each.check() for each in also])
    with pytest.raises(TransferFailed, match="only 0 MiB"):
        running.copy(guest, NOW, None, parts())
    monkeypatch.setattr(live_backup.paths, "free_bytes", lambda _path: 1 << 40)
    with pytest.raises(TransferFailed, match="not ended within 0 s"):
        running.copy(guest, NOW, None, parts(), watchdog.Limit(0))
    assert ("end",) in guest.done


def test_a_guest_is_frozen_only_for_the_moment_in_which_the_backup_begins(guest):
    running.copy(guest, NOW, None, parts())
    assert steps(guest)[:4] == ["freeze", "begin", "thaw", "read"]


def test_a_guest_goes_on_also_if_no_backup_begins_and_a_paused_one_is_not_asked(guest):
    guest.refuses = True
    with pytest.raises(TransferFailed, match="libvirt began no backup"):
        running.copy(guest, NOW, None, parts())
    assert steps(guest)[:2] == ["freeze", "thaw"]
    guest.refuses, guest.now, guest.done = False, fake_libvirt.PAUSED, []
    assert running.copy(guest, NOW, None, parts()) is False
    assert steps(guest)[:2] == ["begin", "read"]


@pytest.mark.parametrize("wrong", [{"inconsistent": True}, {"recording": False}, {"persistent": False}])
def test_a_bitmap_counts_only_if_it_recorded_all_writes(guest, monkeypatch, wrong):
    good = {"persistent": True, "recording": True, "busy": False}
    nodes = [
        {"node-name": "f", "file": "/pool/root", "drv": "file"},
        {
            "node-name": "n", "file": "/pool/root", "drv": "qcow2",
            "dirty-bitmaps": [{"name": "a", **good}, {"name": "b", **good, **wrong}],
        },
        {"node-name": "o", "file": "/pool/other", "drv": "qcow2", "dirty-bitmaps": [{"name": "c", **good}]},
    ]  # fmt: skip
    monkeypatch.setattr(qemu_nodes, "_ask", lambda *_arguments, **_more: nodes)
    assert running.usable(guest, "/pool/root") == {"a": True, "b": False}


def test_the_bitmaps_of_earlier_backups_are_removed_and_those_of_others_stay(guest, monkeypatch):
    asked = []

    def ask(_guest, command, **arguments):
        asked.append((command, arguments))
        bitmaps = [{"name": name} for name in (bitmap_of(BEFORE), bitmap_of(NOW), "mine")]
        return [{"node-name": "n", "file": "/pool/root", "drv": "qcow2", "dirty-bitmaps": bitmaps}]

    monkeypatch.setattr(qemu_nodes, "_ask", ask)
    running.drop(guest, "/pool/root", bitmap_of(NOW))
    assert asked[1:] == [("block-dirty-bitmap-remove", {"node": "n", "name": bitmap_of(BEFORE)})]


def test_a_backup_that_a_killed_run_left_is_ended_and_one_of_somebody_else_never(guest):
    text = "<domainbackup><disks><disk><target file='%s'/></disk></disks></domainbackup>"
    assert block_jobs.is_ours(guest, text % "/pool/root.scratch")
    for path in ("/b/%s/root.qcow2" % UUID, "/pool/other.scratch"):
        assert not block_jobs.is_ours(guest, text % path)


def test_a_copy_that_is_no_backup_begins_no_bitmap_and_has_the_format_that_is_asked_for(guest):
    wanted = [part._replace(target_format="raw") if part.name == "root" else part for part in parts()]
    assert running.copy(guest, None, None, wanted) is True
    assert begun(guest)[1] is None
    assert [each[2] for each in guest.done if each[0] == "read"] == ["raw", "qcow2", "qcow2"]
