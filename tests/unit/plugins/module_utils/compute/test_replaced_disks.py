# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that has another file in place of its disk, as after virsh edit or a blockcommit down into the disk that a resize
keeps: the message has commands, which keep both files (I3)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from disk_case import OP, UUID, make_guest, off, overlay, record
from fake_libvirt import NamedHost

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.model import disk_hints, state_hints


def written(path, pattern):
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", "write -P %d 0 64k" % pattern, str(path)], check=True, stdout=-3)


def has(path, pattern):
    read = ["qemu-io", "-r", "-f", "qcow2", "-c", "read -P %d 0 64k" % pattern, str(path)]
    return "failed" not in subprocess.run(read, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def guest(tmp_path, monkeypatch):
    return make_guest(tmp_path, monkeypatch)


@pytest.fixture
def copy(tmp_path):
    path = tmp_path / "the copy"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "--", path, "1M"], check=True)
    written(path, 7)
    return path


def test_a_running_guest_writes_its_disk_to_where_the_record_has_it(guest, copy):
    guest.use("vda", copy)
    (difference,) = guest.found()
    own = guest.file("root.qcow2")
    copies = "virsh blockcopy %s vda --dest %s --format qcow2 --transient-job --wait --pivot" % (UUID, own)
    assert difference.command == "ln -- %s %s.replaced && rm -- %s && %s" % (own, own, own, copies)


def test_a_guest_whose_disk_was_committed_into_the_one_that_a_resize_keeps_can_be_confirmed_again(guest):
    """virsh blockcommit --active --pivot without --base, while the resize waits for its confirmation."""
    own = Path(guest.file("root.qcow2"))
    kept = own.rename(str(own) + ".pre-" + OP)
    guest.use("vda", kept)
    overlay(str(own), kept)
    waits = record(phase="resized", op=OP, migration={"old_spec": record().spec, "new_spec": record().spec})
    (difference,) = guest.found(waits)
    assert "virsh blockcopy %s vda --dest %s" % (UUID, own) in difference.command and str(kept) in difference.text


def test_where_only_the_next_start_of_a_running_guest_would_use_another_file_the_definition_goes(guest, copy):
    guest.at_rest["vda"] = (str(copy), "qcow2")
    (difference,) = guest.found()
    assert difference.command == state_hints.UNDEFINE % UUID


@pytest.mark.follows("choose_disk")
@pytest.mark.parametrize("used", [True, False])
def test_of_a_guest_that_is_off_a_person_says_which_file_it_used_last_and_both_stay(guest, copy, used):
    own = guest.file("root.qcow2")
    written(own, 5)
    guest.use("vda", copy)
    off(guest)
    (difference,) = guest.found()
    with pytest.raises(DiskChainChanged) as refused:
        disk_chain.check(NamedHost(guest.pool), record())
    forget = state_hints.UNDEFINE % UUID
    assert refused.value.hint == disk_hints.choose_disk("kvm1", str(copy), difference.command, forget)
    if used:
        commands, _and, undefine = difference.command.rpartition(" && ")
        assert undefine == forget
        subprocess.run(commands, shell=True, check=True)
    guest.use("vda", own)  # the next run defines it by its record
    assert guest.found() == [] and has(copy, 7) and has(own, 7 if used else 5)
    assert not used or has(own + ".replaced", 5)


def test_where_several_disks_are_others_no_command_guesses_which_is_which(guest, copy):
    guest.use("vda", copy)
    guest.use("vdb", str(copy) + "2", "raw")
    assert [(each.kind, each.command) for each in guest.found()] == [("replaced", None)] * 2


def test_a_copy_to_where_the_disk_was_that_failed_can_be_made_again(guest, copy):
    """As on a full pool: what was there is beside it by then."""
    own = Path(guest.file("root.qcow2"))
    guest.use("vda", copy)
    (difference,) = guest.found()
    aside, _and, copies = difference.command.rpartition(" && ")
    subprocess.run(aside, shell=True, check=True)
    assert not own.exists() and Path(str(own) + ".replaced").exists()
    assert copies in [each.command for each in guest.found()]


@pytest.mark.parametrize("device", ["cdrom", "floppy"])
def test_the_medium_of_a_drive_is_not_written_to_where_a_disk_is(guest, copy, device):
    """The disk was detached, and an image was put into a drive."""
    del guest.live["vda"], guest.at_rest["vda"]
    guest.use("sda", copy)
    guest.devices["sda"] = device
    assert [each.command for each in guest.found()] == [None]


def test_the_commands_end_before_they_replace_what_was_kept_earlier(guest, copy):
    own = guest.file("root.qcow2")
    written(own, 5)
    Path(own + ".replaced").write_text("kept")
    guest.use("vda", copy)
    off(guest)
    commands = guest.found()[0].command.rpartition(" && ")[0]
    assert subprocess.run(commands, shell=True, check=False, stderr=-3).returncode
    assert has(own, 5) and Path(own + ".replaced").read_text() == "kept"
