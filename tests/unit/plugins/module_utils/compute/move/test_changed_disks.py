# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A snapshot's layer over a disk stops every step of a move that would lose it, at whatever moment it is made (I3)."""

from __future__ import annotations

import copy
import types

import fake_libvirt
import pytest
from memory_walks import D, S, come_past, come_to, memory, memory_names, walk

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host as hosts
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import table

# kind of move, what went before, the action, the step, the host on which the snapshot is
REFUSING = [
    ("resize", [], "resize", "begin", S),
    ("resize", [], "resize", "presend", S),
    ("resize", [], "resize", "freeze", S),
    ("resize", [], "resize", "release", S),
    ("resize", ["resize"], "confirm", "confirm", D),
    ("resize", ["resize"], "confirm", "purge", S),
    ("resize", ["resize"], "confirm", "drop_old", D),
    ("resize", ["resize"], "revert", "see_kept", S),
    ("resize", ["resize"], "revert", "revert", D),
    ("resize", ["resize"], "revert", "give_back", D),
    ("resize", ["resize"], "revert", "take_back", S),
    ("resize", ["resize"], "revert", "purge", D),
    ("resize", ["resize"], "delete", "erase", D),
    ("resize", ["resize"], "delete", "purge", S),
    ("live-migration", [], "resize", "begin", S),
    ("live-migration", [], "resize", "migrate_live", S),
    ("live-migration", [], "resize", "purge", S),
    ("here", [], "resize", "begin", S),
    ("here", [], "resize", "freeze", S),
    ("here", [], "resize", "resize_here", S),
    ("here", ["resize"], "confirm", "confirm", S),
    ("here", ["resize"], "confirm", "drop_old", S),
    ("here", ["resize"], "revert", "restore_here", S),
]


def check_refused(world, controller, **found):
    """The next step is refused where this is found, and changes nothing."""
    seen = copy.deepcopy((world.records, world.disks, world.kept, world.guest))
    vars(world).update(found)
    controller.advance(world)
    assert (controller.error or "").startswith("DiskChainChanged"), (controller.state, controller.steps)
    assert (world.records, world.disks, world.kept, world.guest) == seen


@pytest.mark.parametrize("kind, before, action, step, host", REFUSING)
def test_a_step_that_would_lose_a_snapshots_layer_is_refused_with_nothing_changed(kind, before, action, step, host):
    world, controller = come_past(kind, before, action, step)
    check_refused(world, controller, changed=host)


@pytest.mark.parametrize(
    "kind, before, action, step, host",
    [
        ("resize", [], "resize", "presend", S),
        ("live-migration", [], "resize", "migrate_live", S),
        ("live-migration", [], "resize", "purge", S),
        ("resize", ["resize"], "confirm", "purge", S),
        ("resize", ["resize"], "revert", "purge", D),
    ],
)
def test_no_move_copies_and_no_purge_removes_a_directory_with_files_of_somebody_else(kind, before, action, step, host):
    world, controller = come_past(kind, before, action, step)
    check_refused(world, controller, beside=host)


def test_files_of_somebody_else_hold_up_no_resize_on_the_same_host():
    """Nothing is removed there."""
    world, controller = come_past("here", [], "resize", "begin")
    world.beside = S
    controller.advance(world)
    assert controller.error is None, controller.error


@pytest.mark.parametrize("kind", ["resize", "live-migration"])
def test_files_of_somebody_else_hold_up_no_move_on_shared_storage(kind):
    """Only the owner of the directory changes. Whether it is shared, the destination finds at its claim."""
    world = memory.World(kind=kind, shared=True)
    world.beside = S
    done = walk(world, "resize")
    assert done.state == "done", done.error


@pytest.mark.parametrize("shared", [True, False])
def test_files_of_somebody_else_matter_where_the_storage_is_not_shared(shared, monkeypatch):
    looked = []
    monkeypatch.setattr(disk_chain, "check_beside", lambda _host, record: looked.append(record))
    effects = hosts.Effects.__new__(hosts.Effects)
    effects.host = types.SimpleNamespace(compute=None)
    effects.check_beside(types.SimpleNamespace(migration={"shared": shared}))
    assert bool(looked) is not shared


def test_a_guest_is_not_stopped_to_go_back_to_disks_that_are_not_there():
    """Somebody removed them, or both records are of a backup from before the confirmation."""
    world, controller = come_past("resize", ["resize"], "revert", "see_kept")
    world.changed = S
    while controller.state == "run":
        controller.advance(world)
    assert controller.error.startswith("DiskChainChanged") and world.guest == {S: memory.OFF, D: memory.ON}


def test_a_guest_is_not_stopped_to_go_back_to_disks_whose_files_are_gone():
    """The record of the source says that it kept them, and somebody removed the directory."""
    world, controller = come_past("resize", ["resize"], "revert", "see_kept")
    world.disks[S] = world.kept[S] = None
    while controller.state == "run" and world.guest[D] == memory.ON:
        controller.advance(world)
    assert world.guest == {S: memory.OFF, D: memory.ON} and "gone" in controller.error


@pytest.mark.parametrize("kind, before, action, step, host", REFUSING)
def test_when_the_layer_is_taken_back_the_same_run_again_ends_it(kind, before, action, step, host):
    """I4."""
    world, controller = come_past(kind, before, action, step)
    world.changed = host
    controller.advance(world)
    world.changed = None
    again = walk(world, action)
    assert again.state == "done", getattr(again, "error", again.state)


@pytest.mark.parametrize(
    "action, host, says",
    [
        ("confirm", S, "The move of vm is confirmed and it stays on D: only what S has left of it was not removed"),
        ("revert", D, "The move of vm is reverted and it stays on S: only what D has left of it was not removed"),
    ],
)
def test_a_move_that_has_ended_but_for_the_disks_left_behind_says_so_and_the_same_run_again_ends_it(action, host, says):
    """The owner is past the point of no return, and the other host refuses to remove disks that somebody uses."""
    world, controller = come_past("resize", ["resize"], action, "purge")
    world.changed = host
    controller.advance(world)
    assert says in controller.error
    world.changed = None
    owner = D if action == "confirm" else S
    assert walk(world, action).state == "done" and world.records[host] is None
    assert (world.records[owner]["role"], world.records[owner]["op"]) == ("OWN", None)


@pytest.mark.parametrize("action, step, host", [("confirm", "confirm", D), ("delete", "purge", S)])
def test_a_move_that_can_still_be_reverted_or_is_deleted_is_not_called_ended(action, step, host):
    world, controller = come_past("resize", ["resize"], action, step)
    world.changed = host
    controller.advance(world)
    assert "was not removed" not in controller.error


def test_a_snapshot_that_is_made_while_the_guest_shuts_down_is_seen_when_it_has_stopped(monkeypatch):
    world = memory.World()
    controller = come_to(world, "resize", "freeze")
    stop = memory.Effects.stop

    def stop_late(effects, uuid, timeout):
        stop(effects, uuid, timeout)
        world.changed = S

    monkeypatch.setattr(memory.Effects, "stop", stop_late)
    controller.advance(world)
    assert controller.error.startswith("DiskChainChanged")
    given_up = walk(world, "abort")
    assert given_up.state == "done" and world.guest[S] == memory_names.ON, (
        "the guest goes on with its snapshot as it was"
    )


@pytest.mark.parametrize("step, host", [("erase", D), ("purge", S)])
def test_a_delete_that_is_told_so_goes_on(step, host):
    world, controller = come_past("resize", ["resize"], "delete", step)
    world.changed = host
    controller.options = {"changed_disks": True}
    controller.go_on()
    while controller.state == "run":
        controller.advance(world)
    assert controller.state == "done" and world.records == {S: None, D: None}


def test_a_copy_that_never_was_the_instance_is_removed_whatever_lies_over_it():
    world = memory.World()
    come_to(world, "resize", "presend")
    world.changed = D
    assert walk(world, "abort").state == "done" and world.records[D] is None


def test_every_step_is_known_to_look_or_not_to_need_it():
    """What neither writes, removes nor hands over a disk that a guest has used."""
    unneeded = {
        "claim", "receive", "thaw", "send", "acquire", "start", "finish", "abort", "forget", "receive_seed",
        "send_seed", "prepare_live", "inspect_live", "check_live", "follow_live", "verify_live", "tell", "take_over",
        "grow",
    }  # fmt: skip
    assert {step for _kind, _before, _action, step, _host in REFUSING} | {"reclaim"} | unneeded == set(table.STEPS)


# ---- the definition --------------------------------------------------------------------------------------------------


@pytest.fixture
def effects(monkeypatch):
    """Effects of a host whose guest has a snapshot's layer; what is defined and started is noted."""
    done = []
    found = [disk_chain.Difference("overlay", "vda is x", None)]
    monkeypatch.setattr(disk_chain, "differences", lambda *_all: found)
    monkeypatch.setattr(hosts.domain_xml, "define_guest", lambda *_all: done.append("define"))
    monkeypatch.setattr(hosts.packet_filter, "define", lambda *_all: done.append("filters"))
    monkeypatch.setattr(domain, "start", lambda *_all: done.append("start"))
    monkeypatch.setattr(hosts.gate, "permit", lambda *_all: None)
    monkeypatch.setattr(hosts.precopy, "tidy", lambda *_all: None)
    monkeypatch.setattr(hosts.disks, "manifest", lambda *_all, **_more: [])
    host_effects = hosts.Effects.__new__(hosts.Effects)
    compute = fake_libvirt.NamedHost(paths.POOL_PATH)
    compute.require_prepared = lambda: None
    compute.for_guests = lambda _pool: None
    host_effects.host = memory.contextlib.nullcontext()
    host_effects.host.compute, host_effects.host.identity, host_effects.connection = (
        compute,
        {"name": "kvm1", "uuid": "k"},
        None,
    )
    return host_effects, done, found


def test_a_definition_that_names_a_snapshots_layer_is_never_made_anew(effects):
    host_effects, done, found = effects
    record = memory.World().host(S).store.read(memory_names.UUID)
    with pytest.raises(DiskChainChanged):
        host_effects.define(record)
    with pytest.raises(DiskChainChanged):
        host_effects.start(record)
    assert done == []
    host_effects.start(record.replace(phase="restoring"))
    host_effects.start(record.replace(phase="resizing"))
    assert done == ["filters", "start"] * 2, "a move that was given up leaves the guest as it was"
    done.clear()
    found.clear()
    host_effects.start(record.replace(phase="restoring"))
    assert done == ["define", "filters", "start"]


def test_disks_are_not_taken_back_from_a_lost_host_under_a_snapshots_layer():
    world, _controller = come_past("resize", ["resize"], "revert", "revert")
    token = {"op": world.records[S]["op"], "attempt": world.records[S]["migration"]["attempt"]}
    world.changed = S
    with pytest.raises(DiskChainChanged):
        table.run(world.host(S), memory_names.UUID, "reclaim", token, None, lost=True)
    assert world.records[S]["role"] == "OUT"
