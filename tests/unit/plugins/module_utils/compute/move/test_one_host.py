# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a resize on one host are not for a move to another."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from memory_walks import come_past, walk

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "protocol"))

import memory  # noqa: E402
import memory_controller  # noqa: E402
import memory_names  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import resize, table  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import MigrationConflict  # noqa: E402

S = memory_names.S


@pytest.mark.parametrize("step, before", [("resize_here", "send"), ("restore_here", "presend")])
def test_a_move_to_another_host_is_not_ended_on_its_source_as_if_it_were_one_host(step, before):
    world, controller = memory.World(), memory_controller.Controller("resize", "op0")
    while not controller.is_before(before):
        controller.advance(world)
    held = world.key()
    with pytest.raises(MigrationConflict, match="vm is moved from S to D: that is no resize on one host"):
        table.run(world.host(S), memory_names.UUID, step, controller.token)
    assert world.key() == held


def test_a_run_that_planned_before_another_one_had_resized_the_instance_finds_it_resized():
    """Its controller was killed while the host went on: the run after it is no reason to revert the resize."""
    world = memory.World(kind="here")
    first, second = (memory_controller.Controller("resize", "op%d" % at) for at in range(2))
    while not first.is_before("resize_here"):
        first.advance(world)
    while not second.is_before("begin"):
        second.advance(world)
    while not first.is_before("start"):
        first.advance(world)
    while second.state == "run":
        second.advance(world)
    assert (second.state, second.error) == ("done", None)
    assert (world.host(S).store.read(memory_names.UUID).phase, world.guest[S]) == ("resized", memory_names.ON)


@pytest.mark.follows("make_room")
def test_a_guest_is_not_stopped_for_a_revert_on_its_host_that_cannot_write_beside_its_disks_and_is_once_it_can():
    world, controller = come_past("here", ["resize"], "revert", "restore_here")
    held, world.unwritable = world.key(), S
    controller.advance(world)
    assert controller.error.startswith("StateNotWritten") and "Make room" in controller.error
    assert world.guest[S] == memory_names.ON and world.key() == held
    world.unwritable = None
    assert walk(world, "revert").state == "done" and world.guest[S] == memory_names.ON


@pytest.mark.parametrize(
    "kind, goes", [("here", True), ("resize", False), ("migration", False), ("live-migration", False)]
)
def test_an_instance_with_a_snapshot_with_memory_is_resized_on_its_host_and_moved_to_no_other(kind, goes, monkeypatch):
    monkeypatch.setattr(resize.guards, "check_same_disks", lambda *_: None)  # the plan in memory has no snapshots
    world = memory.World(kind=kind)
    entry = {"name": "one", "made_at": "x", "taken": "running", "size_gb": 1, "disks": ["root"], "memory": True}
    world.records[S]["spec"] = {**world.records[S]["spec"], "snapshots": [entry]}
    controller = walk(world, "resize")
    assert controller.state == ("done" if goes else "failed"), controller.error
    if not goes:
        assert (
            "berth.kvm.delete_snapshot --limit vm -e berth_snapshot=one" in controller.error
            and world.records[S]["op"] is None
        )
        assert world.guest[S] == memory_names.ON


# ---- a resize without a restart


def grown(action=None, **world):
    """The world after a resize that needs no restart, and the run that does ``action`` after it."""
    world = memory.World(kind="here", grows=True, **world)
    assert walk(world, "resize").state == "done"
    return world, memory_controller.Controller(action, "op1") if action else None


def restarted(*_given):
    raise AssertionError("the guest was stopped or started")


def record_in(world):
    return world.host(S).store.read(memory_names.UUID)


def test_a_running_guest_grows_and_is_not_stopped(monkeypatch):
    monkeypatch.setattr(memory.Effects, "stop", restarted)
    monkeypatch.setattr(memory.Effects, "start", restarted)
    world, _controller = grown()
    record = record_in(world)
    assert (record.phase, record.vm_state, world.flavor) == ("resized", "resized", "new")
    assert (record.migration["grown"], record.migration["started"], world.kept[S]) == (True, True, None)


def test_from_then_on_the_room_of_the_new_flavor_is_all_that_it_has():
    world, _controller = grown()
    assert record_in(world).resources == record_in(world).migration["new_resources"]
    assert walk(world, "confirm").state == "done"
    assert record_in(world).resources["vcpus"] == 2


def test_a_revert_takes_from_it_what_it_got_and_leaves_it_running_with_all_that_it_wrote(monkeypatch):
    world, _controller = grown()
    world.write()
    monkeypatch.setattr(memory.Effects, "stop", restarted)
    assert walk(world, "revert").state == "done"
    record = record_in(world)
    assert (record.phase, record.spec["flavor"]["name"], world.flavor) == ("active", "old", "old")
    assert (world.disks[S]["version"], world.guest[S]) == (2, memory_names.ON)


def test_a_guest_that_does_not_let_go_is_restarted_with_the_old_flavor_and_all_that_it_wrote():
    world, _controller = grown()
    world.write()
    world.clings = True
    assert walk(world, "revert").state == "done"
    assert (world.flavor, world.disks[S]["version"], world.guest[S]) == ("old", 2, memory_names.ON)


def test_a_guest_that_a_killed_run_began_to_let_grow_is_taken_back_to_its_flavor():
    world = memory.World(kind="here", grows=True)
    first = memory_controller.Controller("resize", "op0")
    while not first.is_before("grow"):
        first.advance(world)
    world.fuse = 2
    with pytest.raises(memory_names.Killed):
        table.run(world.host(S), memory_names.UUID, "grow", first.token)
    world.fuse = None
    assert world.flavor == "between" and record_in(world).migration["grown"]
    assert walk(world, "revert").state == "done" and world.flavor == "old"


@pytest.mark.parametrize("state", ["stopped", "without ceilings"])
def test_a_guest_that_is_off_or_has_no_ceilings_is_resized_as_ever(state):
    off = state == "stopped"
    world = memory.World(kind="here", grows=off, vm_state="stopped" if off else "active")
    assert walk(world, "resize").state == "done"
    assert not record_in(world).migration["grown"] and world.kept[S] is not None


@pytest.mark.follows("stop_and_resize")
def test_a_guest_that_takes_no_more_goes_on_as_it_was_and_is_resized_once_it_is_off():
    world = memory.World(kind="here", grows=True)
    world.takes_no_more = True
    failed = walk(world, "resize")
    assert (
        failed.error.startswith("GuestNotGrown") and "berth.kvm.stop --limit vm, then berth.kvm.resize" in failed.error
    )
    assert (record_in(world).phase, world.flavor, world.guest[S]) == ("active", "old", memory_names.ON)
    world.guest[S] = memory_names.OFF
    world.records[S].update(vm_state="stopped", power_state="shutdown")
    assert walk(world, "resize").state == "done" and record_in(world).spec["flavor"]["name"] == "new"
