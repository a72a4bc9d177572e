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
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import make, running
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import agent, qemu_nodes
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import block_jobs, live_backup
from ansible_collections.berth.kvm.plugins.module_utils.compute.paths import bitmap_of
from ansible_collections.berth.kvm.plugins.module_utils.model.backups import FULL, INCREMENT
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
BEFORE, NOW = "20260101T000000Z", "20260102T000000Z"
NAMES = {"root": "qcow2", "swap": "raw", "data-db": "qcow2", "seed": "raw"}
MORE = {
    "VIR_DOMAIN_BACKUP_BEGIN_REUSE_EXTERNAL": 1,
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
    monkeypatch.setattr(live_backup, "finish_backup", lambda _guest: found.done.append(("finish",)))
    monkeypatch.setattr(live_backup, "end_backup", lambda _guest: found.done.append(("end",)))
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


def test_all_disks_are_written_to_their_files_and_the_qcow2_ones_record_writes_from_that_moment(guest):
    assert running.copy(guest, NOW, None, parts()) is True
    (_word, backup, checkpoint, flags) = next(each for each in guest.done if each[0] == "begin")
    assert chosen(backup, "backup", "yes") == ["vda", "vdb", "vdc"] and chosen(backup, "backup", "no") == ["vdd"]
    assert chosen(backup, "backupmode", "full") == ["vda", "vdb", "vdc"] and flags == 1
    assert [each.get("file") for each in backup.iter("target")] == ["/b/%s.qcow2" % name for name in list(NAMES)[:3]]
    assert chosen(checkpoint, "checkpoint", "bitmap") == ["vda", "vdc"]
    assert checkpoint.findtext("name") == bitmap_of(NOW)


def test_an_increment_is_asked_since_the_bitmap_of_the_backup_before_which_libvirt_is_told_of_again(guest):
    running.copy(guest, NOW, BEFORE, parts(root=INCREMENT, data_db=INCREMENT))
    note, begin = (each for each in guest.done if each[0] in ("note", "begin"))
    assert note[1].findtext("name") == bitmap_of(BEFORE) and note[2] == 9 and note[1].find("domain") is not None
    assert chosen(note[1], "checkpoint", "bitmap") == ["vda", "vdc"]
    assert chosen(begin[1], "incremental", bitmap_of(BEFORE)) == ["vda", "vdc"]
    assert chosen(begin[1], "backupmode", "full") == ["vdb"]


def test_a_guest_is_frozen_only_for_the_moment_in_which_the_backup_begins(guest):
    running.copy(guest, NOW, None, parts())
    assert [each[0] for each in guest.done] == ["freeze", "begin", "thaw", "finish"]


def test_a_guest_goes_on_also_if_no_backup_begins_and_a_paused_one_is_not_asked(guest):
    guest.refuses = True
    with pytest.raises(TransferFailed, match="libvirt began no backup"):
        running.copy(guest, NOW, None, parts())
    assert [each[0] for each in guest.done] == ["freeze", "thaw"]
    guest.refuses, guest.now, guest.done = False, fake_libvirt.PAUSED, []
    assert running.copy(guest, NOW, None, parts()) is False
    assert [each[0] for each in guest.done] == ["begin", "finish"]


def test_libvirts_notes_are_dropped_and_no_bitmap_with_them_since_it_migrates_no_guest_with_a_note(guest):
    guest.noted = [bitmap_of(BEFORE), "mine"]
    running.forget(guest)
    assert guest.done == [("end",), ("forget", bitmap_of(BEFORE), 2)]


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
    assert block_jobs.is_ours(guest, text % ("/b/%s/.partial-%s/root.qcow2" % (UUID, NOW)))
    for path in ("/b/%s/root.qcow2" % UUID, "/b/other/.partial-%s/root.qcow2" % NOW):
        assert not block_jobs.is_ours(guest, text % path)


def test_a_backup_that_makes_a_clone_is_ours_and_is_ended(guest):
    text = "<domainbackup><disks><disk><target file='%s'/></disk></disks></domainbackup>"
    assert block_jobs.is_ours(guest, text % ("/pool/instances/other/.partial-%s-root" % UUID))
    assert not block_jobs.is_ours(guest, text % "/pool/instances/other/.partial-other-root")


def test_a_copy_that_is_no_backup_begins_no_bitmap_and_has_the_format_that_is_asked_for(guest):
    wanted = [part._replace(target_format="raw") if part.name == "root" else part for part in parts()]
    assert running.copy(guest, None, None, wanted) is True
    (_word, backup, checkpoint, _flags) = next(each for each in guest.done if each[0] == "begin")
    assert checkpoint is None and [each.get("type") for each in backup.iter("driver")] == ["raw", "qcow2", "qcow2"]
