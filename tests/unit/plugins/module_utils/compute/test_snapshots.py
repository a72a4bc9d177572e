# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of an instance on a host: real qcow2 files, a libvirt in memory, and a QEMU that answers for its disks."""

from __future__ import annotations

import json

import pytest
from data_disk_case import needs_qemu_img
from instance_case import Killed
from records import plant
from snapshot_case import Web, answer_as_qemu, is_so, made_web, qemu
from volume_case import make_house

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain, layers
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    DiskChainChanged,
    SnapshotFailed,
    SnapshotIncomplete,
    SnapshotNotPossible,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import acts, agent, snapshots
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import merge
from ansible_collections.berth.kvm.plugins.module_utils.model import reply_shapes
from ansible_collections.berth.kvm.plugins.module_utils.model import snapshots as named
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState
from ansible_collections.berth.kvm.plugins.module_utils.model.snapshots import SnapshotLimitExceeded, SnapshotNotFound

pytestmark = needs_qemu_img
STEPS = ["snapshot record", "snapshot take", "snapshot taken"]


@pytest.fixture
def qmp(monkeypatch):
    return answer_as_qemu(monkeypatch)


@pytest.fixture
def web(prepared, wanted, monkeypatch, qmp):
    return made_web(prepared, wanted, monkeypatch)


@pytest.mark.parametrize("runs", [True, False])
def test_a_snapshot_is_of_all_disks_and_again_is_no_change_and_a_check_run_says_so(web, qmp, runs):
    if not runs:
        web.stop()
    before = web.record
    assert snapshots.would_snapshot(web.instance(), "one") and web.record == before and web.tags() == [[], []]
    assert [web.take(), web.take(), snapshots.would_snapshot(web.instance(), "one")] == [True, False, False]
    assert web.tags() == [["berth-one"], ["berth-one"]]
    (entry,) = web.record.spec["snapshots"]
    assert entry["disks"] == ["root", "data-logs"] and entry["made_at"] and entry["size_gb"] == 3
    assert entry["taken"] == ("running" if runs else "off") and web.record.task_state is None
    assert qmp["orders"] == (["transaction"] if runs else [])
    assert web.record.history[-1]["event"] == "snapshot"


@pytest.mark.parametrize("memory", [False, True])
def test_what_a_check_run_tells_of_a_snapshot_is_a_whole_snapshot(web, monkeypatch, memory):
    monkeypatch.setattr(snapshots.snapshot_memory, "check", lambda *_: None)
    before, params = web.record, {"state": "snapshotted", "snapshot": "one", "snapshot_memory": memory}
    params |= {"mend": False, "seed": None}
    (told,) = acts.outcome_of(web.instance(), params, True)["instance"]["snapshots"]
    assert reply_shapes._SNAPSHOT(told) == told and web.record == before
    assert (told["made_at"], told["memory"], told["disks"]) == (None, memory, ["root", "data-logs"])


def test_the_guest_goes_back_to_it_while_it_is_off_and_what_is_newer_is_gone(web):
    web.take()
    web.write(2)
    web.take("two")
    web.write(3)
    web.stop()
    assert snapshots.would_revert(web.instance(), "one") and all(web.holds(3))
    assert [web.revert(), web.revert(), snapshots.would_revert(web.instance(), "one")] == [True, False, False]
    assert all(web.holds(1)) and web.record.task_state is None
    assert web.revert("two") is True and all(web.holds(2))
    web.instance().started()
    assert web.state() == ("active", None, "running", True)


def test_a_deleted_snapshot_is_on_no_disk_and_gives_its_room_back(web):
    before = web.gb()
    web.take()
    assert web.gb()[0] == before[0] + 3
    assert snapshots.would_delete(web.instance(), "one")
    assert [web.delete(), web.delete(), snapshots.would_delete(web.instance(), "one")] == [True, False, False]
    assert web.tags() == [[], []] and "snapshots" not in web.record.spec and web.gb()[0] == before[0]


@pytest.mark.follows("make_room_for_more")
def test_snapshots_that_the_pool_may_not_come_to_hold_are_refused_before_anything_is_done(web, qmp):
    web.take()
    web.take("two")
    before, orders = web.record, list(qmp["orders"])
    for act in (web.take, lambda name: snapshots.would_snapshot(web.instance(), name)):
        with pytest.raises(BerthError) as caught:
            act("three")
        assert caught.value.code == "ClaimFailed"
        assert "Delete snapshots there that nobody needs (berth.kvm.snapshots lists them)" in caught.value.hint
    assert web.record == before and qmp["orders"] == orders
    web.delete("two")
    assert web.take("three") is True


def test_a_snapshot_for_which_the_file_system_is_full_says_how_to_make_room(web, monkeypatch):
    web.stop()
    full = "qemu-img failed with 1: Could not create snapshot: No space left on device"

    def make(_path, _tag):
        raise SnapshotFailed(full)

    monkeypatch.setattr(snapshots.inside, "make", make)
    with pytest.raises(
        SnapshotFailed, match="No space left on device. Remove files that nobody needs from the file system of"
    ):
        web.take()
    assert "snapshots" not in web.record.spec


@pytest.mark.follows("delete_one")
def test_an_instance_has_so_many_snapshots_at_most(web, monkeypatch):
    monkeypatch.setattr(named, "MOST", 1)
    web.take()
    with pytest.raises(SnapshotLimitExceeded) as caught:
        web.take("two")
    assert "berth.kvm.delete_snapshot --limit web1 -e berth_snapshot=one" in caught.value.hint
    web.delete()
    assert web.take("two") is True


@pytest.mark.parametrize("name", ["", "a b", "-x", "x-", "../x", "x" * 41, None, 3, "ä"])
def test_a_name_that_is_none_is_refused(web, name):
    for act in (web.take, web.revert, web.delete):
        if act == web.revert:
            web.stop()
        with pytest.raises(InvalidInput):
            act(name)


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("step", STEPS)
def test_a_snapshot_killed_at_a_step_is_made_anew_by_the_next_run(web, runs, step):
    if not runs:
        web.stop()
    with pytest.raises(Killed):
        web.take(killed_at=step)
    assert web.record.task_state == (None if step == STEPS[0] else "image_snapshot"), "a move would be refused"
    web.write(2)
    assert web.take() is True and web.tags() == [["berth-one"], ["berth-one"]]
    web.write(3)
    if runs:
        web.stop()
    web.revert()
    assert all(web.holds(2)) and web.record.resources["disk_gb"] == 6


@pytest.mark.parametrize("step", ["snapshot delete", "snapshot deleted"])
def test_a_delete_killed_at_a_step_is_finished_by_the_next_run_and_nobody_goes_back_to_what_is_left(web, step):
    before = web.gb()
    web.take()
    web.stop()
    with pytest.raises(Killed):
        web.delete(killed_at=step)
    with pytest.raises(SnapshotIncomplete):
        web.revert()
    assert web.delete() is True and web.tags() == [[], []] and web.gb()[0] == before[0]


def test_a_whole_snapshot_is_never_made_anew_whatever_else_was_killed(web):
    web.take()
    before = web.record.spec["snapshots"][0]
    web.write(2)
    web.take("two")
    with pytest.raises(Killed):
        web.delete("two", killed_at="snapshot deleted")
    assert web.take() is False and web.record.spec["snapshots"][0] == before
    web.stop()
    web.revert()
    assert all(web.holds(1))


@pytest.mark.follows("finish_revert")
@pytest.mark.parametrize("number", [0, 1])
def test_a_guest_starts_from_no_disks_that_are_half_reverted(web, number):
    web.take()
    web.write(2)
    web.stop()
    steps = iter(range(5))

    def killed(step):
        if step == "revert disk" and next(steps) == number:
            raise Killed(step)

    instance = web.instance()
    instance.observe = killed
    with pytest.raises(Killed):
        snapshots.revert(instance, "one")
    web.stop()  # which ends the task state
    for act in (web.instance().started, lambda: web.take("two"), web.delete):
        with pytest.raises(SnapshotIncomplete, match="reverted to snapshot one") as caught:
            act()
        assert "berth.kvm.revert_snapshot --limit web1 -e berth_snapshot=one" in caught.value.hint
    assert web.revert() is True and all(web.holds(1))
    assert web.instance().started() is True


def test_a_disk_that_grew_keeps_its_size(web):
    web.take()
    web.stop()
    update_disks(web.instance(), [{"name": "logs", "size_gb": 3}])
    web.revert()
    assert json.loads(qemu("qemu-img", "info", "--output=json", str(web.data)))["virtual-size"] == 3 << 30


def test_the_bitmaps_of_a_backup_say_nothing_any_more_after_a_revert(web):
    web.take()
    web.stop()
    qemu("qemu-img", "bitmap", "--add", str(web.root), "theirs")
    web.revert()
    assert "theirs" not in qemu("qemu-img", "info", str(web.root))


def test_a_snapshot_that_qemu_refuses_leaves_nothing(web, qmp):
    before = web.gb()
    qmp["refuses"] = "transaction"
    with pytest.raises(SnapshotFailed, match="no space left"):
        web.take()
    assert "snapshots" not in web.record.spec and web.gb()[0] == before[0] and web.record.task_state is None
    assert web.record.faults[-1]["code"] == "SnapshotFailed"


@pytest.mark.parametrize("answers", [True, False])
def test_the_agent_freezes_the_guest_meanwhile_and_lets_it_write_again_whatever_happens(web, qmp, monkeypatch, answers):
    called = []
    monkeypatch.setattr(agent, "freeze", lambda _guest: called.append("freeze") or answers)
    monkeypatch.setattr(agent, "thaw", lambda _guest: called.append("thaw"))
    web.take()
    assert web.record.spec["snapshots"][0]["taken"] == ("frozen" if answers else "running")
    qmp["refuses"] = "transaction"
    with pytest.raises(SnapshotFailed):
        web.take("two")
    assert called == ["freeze", "thaw"] * 2


@pytest.mark.follows("stop_first")
def test_a_running_guest_is_not_reverted(web):
    web.take()
    with pytest.raises(InstanceInvalidState) as caught:
        web.revert()
    assert "berth.kvm.stop --limit web1" in caught.value.hint
    web.stop()
    assert web.revert() is True and web.instance().started() is True


def test_an_unknown_snapshot_is_told_with_those_that_are_there(web):
    web.take()
    web.stop()
    with pytest.raises(SnapshotNotFound, match="no snapshot two; it has one"):
        web.revert("two")


def test_a_raw_disk_has_no_snapshots(prepared, wanted, monkeypatch):
    make_house(prepared, wanted, monkeypatch)
    spec, seed = wanted("web1")
    spec["flavor"]["extra_specs"] = {"berth:root_disk": "raw"}
    raw = Web(prepared, (spec, seed))
    raw.make()
    raw.stop()
    with pytest.raises(SnapshotNotPossible, match="root is raw"):
        raw.take()
    assert "snapshots" not in raw.record.spec


# ---- what others, and what moves, see --------------------------------------------------------------------------------


@pytest.mark.follows("delete_rest")
def test_snapshots_of_others_are_named_and_ones_of_a_lost_record_are_deleted_as_the_message_says(web):
    older = web.record
    web.take()
    disk_chain.check(web.host, web.record)
    plant(web.host.store, older)
    with pytest.raises(DiskChainChanged, match="berth-one") as caught:
        disk_chain.check(web.host, web.record)
    assert "berth.kvm.delete_snapshot --limit web1 -e berth_snapshot=one" in caught.value.hint
    assert web.delete() is True
    disk_chain.check(web.host, web.record)
    web.take("two")
    qemu("qemu-img", "snapshot", "-c", "theirs", str(web.root))
    with pytest.raises(DiskChainChanged, match="record does not name: theirs") as caught:
        disk_chain.check(web.host, web.record)
    assert "virsh snapshot-delete" in caught.value.hint


def test_a_snapshot_that_somebody_deleted_from_a_disk_is_not_gone_back_to(web):
    web.take()
    web.stop()
    qemu("qemu-img", "snapshot", "-d", "berth-one", str(web.data))
    for act in (web.revert, web.take):
        with pytest.raises(SnapshotIncomplete, match="not in data-logs"):
            act()
    assert web.delete() is True and web.take() is True


@pytest.fixture
def overlay(web):
    """The root disk stands on its image."""
    spec = dict(web.record.spec, image=dict(web.record.spec["image"], disk_format="qcow2"))
    plant(web.host.store, web.record.replace(spec=spec))
    image = paths.image(str(web.host.pool), spec["image"]["checksum"])
    qemu("mkdir", "-p", image.rsplit("/", 1)[0])
    qemu("qemu-img", "create", "-q", "-f", "qcow2", image, "1G")
    qemu("qemu-io", "-f", "qcow2", "-c", "write -P 7 8M 1M", image)
    qemu("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image, str(web.root))
    web.write(1)
    web.stop()
    return web


def of_the_image(web):
    return is_so(web.root, "read -P 7 8M 1M")


def test_a_disk_that_stands_on_its_image_stands_alone_before_the_first_snapshot(overlay):
    overlay.take()
    assert layers.read_header(str(overlay.root)).backing is None and of_the_image(overlay)
    assert not (overlay.root.parent / "root.qcow2.merging").exists()


def test_what_was_only_recorded_of_a_snapshot_is_deleted_and_the_disk_stands_where_it_stood(overlay):
    with pytest.raises(Killed):
        overlay.take(killed_at="snapshot stands alone")
    assert overlay.delete() is True and "snapshots" not in overlay.record.spec
    assert layers.read_header(str(overlay.root)).backing


@pytest.mark.follows("finish")
def test_a_disk_that_was_being_made_independent_is_started_and_moved_by_nobody_until_it_is_whole(overlay, monkeypatch):
    made = merge.merge

    def killed(connection, record, path, kept, form, note):
        """QEMU has written that it stands on nothing, and not yet all data."""
        merge.durable.write_at(note, merge._identity(path), 0o600)
        qemu("qemu-img", "rebase", "-q", "-u", "-f", "qcow2", "-b", "", path)
        raise Killed

    monkeypatch.setattr(snapshots, "merge", killed)
    with pytest.raises(Killed):
        overlay.take()
    assert not of_the_image(overlay)
    overlay.stop()
    for act in (overlay.instance().started, lambda: disk_chain.check(overlay.host, overlay.record)):
        with pytest.raises(DiskChainChanged, match="is not whole") as caught:
            act()
        assert "berth.kvm.snapshot --limit web1 -e berth_snapshot=one" in caught.value.hint
    monkeypatch.setattr(snapshots, "merge", made)
    assert overlay.take() is True and of_the_image(overlay) and all(overlay.holds(1))
    assert overlay.instance().started() is True
