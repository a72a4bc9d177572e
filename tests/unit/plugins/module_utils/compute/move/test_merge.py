# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kept disk of a resize is merged into the new one, and goes when nothing needs it any more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from data_disk_case import CHECKSUM, OP, UUID, holds, info, needs_qemu_img, pool, record, write

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import block_jobs, disks, merge
from ansible_collections.berth.kvm.plugins.module_utils.model import disk_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed


@pytest.fixture
def resized(files, monkeypatch):
    """A resize to be confirmed: the new disks stand on the kept ones. Return the names of the kept disks that are left;
    the guest is off."""
    monkeypatch.setattr(domain, "find_active", lambda connection, uuid: None)
    disks.layer(pool(files), record())
    disks.swap_in(pool(files), record("IN"))
    return lambda: sorted(path.name for path in files.iterdir() if paths.is_kept_or_incoming(path.name))


def rebase(path, *more):
    subprocess.run(["qemu-img", "rebase", "-q", "-f", "qcow2", *more, "-b", "", "--", path], check=True)


@needs_qemu_img
def test_a_kept_disk_that_the_new_one_stands_on_after_all_is_not_removed(files, monkeypatch, resized):
    """Whatever qemu-img or libvirt says: the guest would lose all that was written before the move."""
    monkeypatch.setattr(merge, "_pull", lambda *_arguments: None)
    with pytest.raises(TransferFailed, match="still needs"):
        disks.drop_kept(None, pool(files), record("IN"))
    assert "root.qcow2.pre-" + OP in resized()


def being_merged(path):
    note = Path(paths.merging_file("%s.pre-%s" % (path, OP)))
    note.write_bytes(merge._identity(str(path)))
    return note


@needs_qemu_img
def test_a_qemu_that_died_right_after_a_merge_left_out_the_data_and_the_next_confirm_merges_them(files, resized):
    """QEMU writes into the disk's header that it stands on nothing before it writes where in it the data are."""
    write(files / "data-send.qcow2", "0x43")

    for name in ("root.qcow2", "data-logs.qcow2", "data-send.qcow2"):
        rebase(files / name, "-u")
        being_merged(files / name)
    disks.drop_kept(None, pool(files), record("IN"))
    assert holds(files / "data-logs.qcow2", "0x42") and holds(files / "data-send.qcow2", "0x43")
    assert Path(info(files / "root.qcow2")["full-backing-filename"]) == Path(paths.image(pool(files), CHECKSUM))
    assert not resized()


@needs_qemu_img
def test_a_merge_that_an_earlier_version_began_goes_on(files, resized):
    """Its note says of no file that it stood on the kept one."""
    rebase(files / "data-logs.qcow2", "-u")
    Path(paths.merging_file("%s.pre-%s" % (files / "data-logs.qcow2", OP))).touch()
    disks.drop_kept(None, pool(files), record("IN"))
    assert holds(files / "data-logs.qcow2", "0x42") and not resized()


@needs_qemu_img
def test_a_disk_that_somebody_made_independent_of_the_kept_one_keeps_its_content(files, resized):
    """qemu-img convert leaves out what is zero in the new disk and was not in the kept one."""
    disk_file, copy = files / "data-logs.qcow2", files / "copy"
    write(disk_file, "0")
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", "--", disk_file, copy], check=True)
    copy.rename(disk_file)
    disks.drop_kept(None, pool(files), record("IN"))
    assert holds(disk_file, "0") and not resized()


@needs_qemu_img
@pytest.mark.parametrize(
    "by, command, holding",
    [("a backup", "rm", "0"), ("a copy", "qemu-img", "0x42"), ("a backup after rm", "rm", "0")],
)
@pytest.mark.follows("say_what_replaced_it")
def test_a_disk_that_was_replaced_in_mid_merge_is_not_touched_until_a_person_says_what_it_is(
    files, resized, by, command, holding
):
    disk_file, new = files / "data-logs.qcow2", files / "new"
    rebase(disk_file, "-u")
    being_merged(disk_file)
    shutil.copy(disk_file, new)
    if by == "a backup after rm":  # most file systems give the new file the inode of the removed one
        disk_file.unlink()
        new = files / "another"
    if by != "a copy":
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "--", new, "64M"], check=True)
    new.rename(disk_file)
    with pytest.raises(TransferFailed) as caught:
        disks.drop_kept(None, pool(files), record("IN"))
    assert "data-logs.qcow2.pre-" + OP in resized()
    said = caught.value.hint[caught.value.hint.index(command + " ") :].split(". ")[0]
    subprocess.run(["sh", "-ec", said], check=True)
    disks.drop_kept(None, pool(files), record("IN"))
    assert holds(disk_file, holding) and not resized()


@pytest.fixture
def running(files, monkeypatch, resized):
    """The guest runs, and libvirt pulls. ``answers`` are those of its QEMU to a flush, by the name of the file."""
    answers = {}

    def ask(_guest, text):
        asked = json.loads(text)
        if asked["execute"] == "query-named-block-nodes":
            found = [{"node-name": path.name, "file": str(path)} for path in sorted(files.iterdir())]
            return json.dumps({"return": found})
        _qemu_io, name, _flush = asked["arguments"]["command-line"].split()
        assert "%s.pre-%s" % (name, OP) in resized(), "it is flushed while its kept disk is there"
        flushed.append(name)
        return json.dumps(answers.get(name, {"return": ""}))

    def pull(_guest, path, base):
        assert os.path.lexists(paths.merging_file("%s.pre-%s" % (path, OP))), "it is noted before it begins"
        rebase(path, *(["-u"] if base else []))

    flushed = []
    monkeypatch.setattr(domain, "find_active", lambda connection, uuid: "the guest")
    monkeypatch.setattr(domain, "ask_qemu", ask)
    monkeypatch.setattr(block_jobs, "pull", pull)
    return answers, flushed


@needs_qemu_img
def test_a_running_guest_has_written_its_new_disk_out_before_the_kept_one_is_removed(files, running, resized):
    """Killed after a pull, QEMU would leave a disk that neither has the kept one's data nor stands on it."""
    _answers, flushed = running
    disks.drop_kept(None, pool(files), record("IN"))
    assert sorted(flushed) == ["data-logs.qcow2", "data-send.qcow2", "root.qcow2"]
    assert not resized()


@needs_qemu_img
@pytest.mark.parametrize("answer", [{"return": "Device not found"}, {"error": {"class": "GenericError"}}])
@pytest.mark.follows("merge_with_guest_off")
def test_without_qemus_word_that_it_has_written_the_disk_out_the_kept_one_stays_until_the_guest_is_off(
    files, running, resized, monkeypatch, answer
):
    answers, _flushed = running
    answers["data-logs.qcow2"] = answer
    with pytest.raises(TransferFailed) as caught:
        disks.drop_kept(None, pool(files), record("IN"))
    assert caught.value.hint == disk_hints.merge_with_guest_off("vm", UUID, os.uname().nodename)
    assert "data-logs.qcow2.pre-" + OP in resized()
    with pytest.raises(TransferFailed):
        disks.drop_kept(None, pool(files), record("IN"))
    monkeypatch.setattr(domain, "find_active", lambda connection, uuid: None)
    disks.drop_kept(None, pool(files), record("IN"))
    assert holds(files / "data-logs.qcow2", "0x42") and not resized()
