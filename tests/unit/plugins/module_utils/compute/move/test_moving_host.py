# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the steps of a move do to a guest of a real record, on a fake libvirt."""

from __future__ import annotations

import contextlib

import pytest
from fake_libvirt import BY_USER, PAUSED, RUNNING, SHUTOFF
from full_disk import FullDisk

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import FileNotUsable, GuestHung
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host


@pytest.fixture
def effects(web):
    web.make()
    return moving_host.MovingHost(web.host).effects


def test_a_copy_that_arrived_in_vain_is_off_before_another_one_comes(web, effects):
    """The source has the guest, at least as new; libvirt takes no second one beside the first."""
    web.domain.now, web.domain.reason = PAUSED, BY_USER
    effects.discard_arrived(web.record)
    assert not web.domain.isActive()


def test_no_move_begins_with_a_guest_that_does_not_answer(web, effects, monkeypatch):
    """It could not be stopped, or not without what it has not written yet."""

    def hangs(_connection, _uuid, _name, host):
        raise GuestHung("the guest hangs on %s" % host)

    monkeypatch.setattr(moving_host.block_jobs, "check_no_others_jobs", lambda *_arguments: None)
    effects.check_movable(web.record)
    monkeypatch.setattr(moving_host.health, "check_answers", hangs)
    with pytest.raises(GuestHung):
        effects.check_movable(web.record)


@pytest.mark.parametrize("forced", [True, False])
def test_a_guest_that_a_move_had_to_end_as_it_did_not_shut_down_is_told(web, effects, monkeypatch, forced):
    monkeypatch.setattr(moving_host.domain, "stop", lambda *_arguments: forced)
    effects.stop(web.record.uuid, 5)
    assert effects.warnings == ["web1 did not shut down within 5 s and was ended"] * forced


@pytest.mark.parametrize(
    "permitted, runs, after", [(True, True, True), (True, False, True), (False, True, True), (False, False, False)]
)
def test_nobody_starts_the_guest_while_its_kept_disks_are_merged(web, effects, monkeypatch, permitted, runs, after):
    """If its QEMU dies in between, the disks look whole and are not. A run that was killed in between left no permit."""
    permits = {web.record.uuid} if permitted else set()
    for name, does in (("is_permitted", permits.__contains__), ("revoke", permits.discard), ("permit", permits.add)):
        monkeypatch.setattr(gate, name, does)
    web.domain.now = RUNNING if runs else SHUTOFF

    def drop(*_arguments):
        assert not permits
        raise OSError

    monkeypatch.setattr(moving_host.disks, "drop_kept", drop)
    with pytest.raises(OSError):
        effects.drop_disks(web.record)
    assert not permits, "what did not end is merged by the next run"
    permits |= {web.record.uuid} if permitted else set()
    monkeypatch.setattr(moving_host.disks, "drop_kept", lambda *_arguments: None)
    effects.drop_disks(web.record)
    assert bool(permits) is after


@pytest.mark.parametrize("failing", ["disks", "permits"])
def test_before_a_guest_is_stopped_for_a_revert_its_old_host_can_write_beside_its_disks_and_permit_its_start(
    web, effects, monkeypatch, failing, tmp_path
):
    """On a file system that became read-only or full it would be off, and on neither host."""
    full, checked = FullDisk(), gate.check_writable
    monkeypatch.setattr(durable, "os", full)
    monkeypatch.setattr(moving_host.disks, "check_kept", lambda *_arguments: None)
    monkeypatch.setattr(moving_host.gate, "check_writable", lambda uuid: checked(uuid, str(tmp_path / "run")))
    if failing == "permits":
        monkeypatch.setattr(moving_host.owner, "check_writable", lambda *_arguments: None)
    else:
        monkeypatch.setattr(moving_host.gate, "check_writable", lambda uuid: None)
    before = {path.name: path.read_bytes() for path in web.root.parent.iterdir()}
    effects.check_kept(web.record, "")
    full.at = full.count + 1
    with pytest.raises(durable.StateNotWritten):
        effects.check_kept(web.record, "")
    full.at = 0
    effects.check_kept(web.record, "")
    assert before == {path.name: path.read_bytes() for path in web.root.parent.iterdir()}
    assert list((tmp_path / "run").rglob("*tried*")) == []


def test_a_revert_on_one_host_whose_disks_fill_the_file_system_is_not_refused_since_it_makes_room_there(
    web, effects, monkeypatch, tmp_path
):
    """The kept disks are only renamed, which takes no room; what the guest wrote since is removed."""
    full, permits = FullDisk(), []
    monkeypatch.setattr(durable, "os", full)
    monkeypatch.setattr(moving_host.gate, "check_writable", permits.append)
    full.at = full.count + 1
    with contextlib.suppress(durable.StateNotWritten):
        effects.check_restorable(web.record)
    assert permits == [web.record.uuid]
    monkeypatch.setattr(moving_host.disk.os, "access", lambda path, _mode: str(tmp_path) not in path)
    with pytest.raises(FileNotUsable, match="Read-only"):
        effects.check_restorable(web.record)
