# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move walked once on two hosts in memory: the names it shows, the history it leaves, what its end looks like (R02, R03, R16-R26)."""

from __future__ import annotations

import contextlib
import itertools
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "protocol"))

import memory  # noqa: E402
import memory_controller  # noqa: E402
import memory_names  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import StaleRecord  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import claim, table  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import hints  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceNotResized  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record, RecordInvalid  # noqa: E402

S, D = memory_names.S, memory_names.D


def walk(world, action, op="op0"):
    controller = memory_controller.Controller(action, op)
    while controller.state == "run":
        controller.advance(world)
    return controller


@pytest.mark.parametrize("kind", ["resize", "here", "live-migration"])
def test_room_for_a_move_is_counted_and_claimed_in_one_hold_of_the_hosts_lock(kind, monkeypatch):
    """Else two runs at once would both be given the last room: its own claim and another instance's."""
    seen, holds, held = [], itertools.count(1), []

    @contextlib.contextmanager
    def host_lock(_store):
        held.append(next(holds))
        yield
        held.pop()

    def noted(event, function):
        def called(*arguments, **options):
            seen.append((event, tuple(held)))
            return function(*arguments, **options)

        return called

    monkeypatch.setattr(memory.Store, "host_lock", host_lock)
    monkeypatch.setattr(memory.Store, "compare_and_swap", noted("written", memory.Store.compare_and_swap))
    monkeypatch.setattr(memory.Effects, "allocate", noted("counted", memory.Effects.allocate))
    assert walk(memory.World(kind=kind), "resize").state == "done"
    (at,) = [number for number, (event, _held) in enumerate(seen) if event == "counted"]
    assert seen[at][1] and seen[at + 1] == ("written", seen[at][1]), seen


def names(world, host):
    record = world.records[host]
    return record and (record["role"], record["vm_state"], record["task_state"], record["migration"]["status"])


def step_by_step(world, action):
    """The names after each step that changed something: [(source's, destination's)]."""
    seen, controller = [], memory_controller.Controller(action, "op0")
    while controller.state == "run":
        controller.advance(world)
        now = tuple(
            names(world, host) if world.records[host] and world.records[host]["migration"] else None for host in (S, D)
        )
        if not seen or seen[-1] != now:
            seen.append(now)
    return seen


def test_a_resize_shows_novas_names_at_every_step():
    """R18: RESIZE_PREP, RESIZE_MIGRATING, RESIZE_MIGRATED, then VERIFY_RESIZE; pre-migrating to finished."""
    seen = step_by_step(memory.World(), "resize")
    source = [entry[0][1:] for entry in seen if entry[0]]
    assert list(dict.fromkeys(source)) == [
        ("active", "resize_prep", "pre-migrating"),
        ("active", "resize_migrating", "migrating"),
        ("active", "resize_migrated", "post-migrating"),
    ]
    assert seen[-1][1] == ("OWN", "resized", None, "finished")


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("before, guest", [("active", memory_names.ON), ("stopped", memory_names.OFF)])
@pytest.mark.parametrize(
    "action, host, flavor, last", [("confirm", D, "new", "confirmed"), ("revert", S, "old", "reverted")]
)
def test_the_end_of_a_resize(shared, before, guest, action, host, flavor, last):
    """R02, R16: as it was before, with the flavor of its side; the other side holds nothing."""
    world = memory.World(vm_state=before, shared=shared)
    walk(world, "resize")
    walk(world, action)
    record, other = world.records[host], D if host == S else S
    assert (record["role"], record["vm_state"], record["task_state"], record["migration"]) == (
        "OWN",
        before,
        None,
        None,
    )
    assert (
        record["spec"]["flavor"]["name"] == flavor and record["resources"]["vcpus"] == record["spec"]["flavor"]["vcpus"]
    )
    assert (world.guest[host], world.guest[other], world.records[other]) == (guest, memory_names.OFF, None)
    assert record["history"][-1]["event"] == last


def test_the_migration_record_is_on_both_hosts_and_has_both_flavors():
    """R03."""
    world = memory.World()
    walk(world, "resize")
    for host in (S, D):
        migration = world.records[host]["migration"]
        assert (migration["id"], migration["type"]) == ("op0", "resize")
        assert [migration[part]["flavor"]["name"] for part in ("old_spec", "new_spec")] == ["old", "new"]
        assert [migration[side]["name"] for side in ("source", "destination")] == [S, D]


def test_the_history_tells_who_did_what_and_in_which_state():
    """R19."""
    world = memory.World()
    walk(world, "resize")
    walk(world, "revert")
    events = [entry["event"] for entry in world.records[S]["history"]]
    assert events[:3] == ["resize begins", "the guest is stopped", "released"] and events[-2:] == [
        "taken back",
        "reverted",
    ]
    there = [(entry["on"], entry["event"]) for entry in world.records[S]["history"][3:-2]]
    assert there == [
        (D, event) for event in ("resize is claimed", "acquired", "started", "revert begins", "given back")
    ]
    assert {"vm_state", "task_state", "migration_status", "at"} <= set(world.records[S]["history"][0])


@pytest.mark.parametrize("step", ["claim", "receive", "send", "complete", "define"])
def test_what_fails_before_the_source_lets_go_gives_the_guest_back_as_it_was(step, monkeypatch):
    """R22, R23: Nova leaves it in ERROR, powered off."""
    world = memory.World()
    effect = {"claim": "check_destination"}.get(step, step)

    def fail(self, *args, **kw):
        raise BerthError("the test fails this")

    monkeypatch.setattr(memory.Effects, effect, fail)
    assert walk(world, "resize").state == "failed"
    monkeypatch.undo()
    walk(world, "abort")
    record = world.records[S]
    assert (record["vm_state"], record["task_state"], record["migration"], record["spec"]["flavor"]["name"]) == (
        "active", None, None, "old",
    )  # fmt: skip
    assert (world.guest[S], world.records[D], world.disks[D]) == (memory_names.ON, None, None)


def test_of_two_controllers_that_begin_one_gets_the_instance():
    """R18: compare and swap, as Nova's expected_task_state."""
    world = memory.World()
    store = world.host(S).store
    record = store.read(memory_names.UUID)
    with store.instance_lock(memory_names.UUID):
        store.compare_and_swap(record, record.next(token="one"))
    with pytest.raises(StaleRecord), store.instance_lock(memory_names.UUID):
        store.compare_and_swap(record, record.next(token="other"))


def test_a_record_of_a_newer_version_is_refused_before_anything_is_done_with_it():
    """R20."""
    data = memory.World().records[S]
    with pytest.raises(RecordInvalid, match="schema"):
        Record.from_dict({**data, "schema": data["schema"] + 1})


def test_the_room_of_both_flavors_is_taken_until_the_resize_is_confirmed():
    """R17, R25: claimed on the destination before the source is touched."""
    world = memory.World()
    controller = memory_controller.Controller("resize", "op0")
    while world.records[D] is None:
        controller.advance(world)
    assert (world.records[D]["role"], world.records[D]["resources"]["vcpus"]) == ("IN", 2)
    assert (world.records[S]["resources"]["vcpus"], world.guest[S]) == (1, memory_names.ON)
    while controller.state == "run":
        controller.advance(world)
    assert [world.records[host]["resources"]["vcpus"] for host in (S, D)] == [1, 2]


@pytest.mark.parametrize("action, held", [("confirm", 2), ("revert", 1)])
def test_on_the_same_host_too_the_room_of_both_flavors_is_taken_until_the_end(action, held):
    """R17, I2: the old disks lie beside the new ones, and a revert has its room."""
    world = memory.World(kind="here")
    walk(world, "resize")
    assert (world.records[S]["vm_state"], world.records[S]["resources"]["vcpus"]) == ("resized", 1 + 2)
    walk(world, action)
    assert (world.records[S]["vm_state"], world.records[S]["resources"]["vcpus"]) == ("active", held)


def test_the_room_of_two_flavors_is_the_sum_of_every_amount():
    old = {
        "vcpus": 1,
        "disk_gb": 2,
        "resources": {"VCPU": 1, "CUSTOM_OLD": 1},
        "numa_topology": None,
        "pci_devices": [],
    }
    new = {
        "vcpus": 2,
        "disk_gb": 3,
        "resources": {"VCPU": 2, "CUSTOM_NEW": 1},
        "numa_topology": None,
        "pci_devices": [],
    }
    assert claim.added(old, new) == {
        "vcpus": 3, "disk_gb": 5, "resources": {"VCPU": 3, "CUSTOM_OLD": 1, "CUSTOM_NEW": 1}, "numa_topology": None,
        "pci_devices": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    "kind, shared", [("resize", False), ("resize", True), ("here", False), ("live-migration", False)]
)
@pytest.mark.parametrize("advances", range(2, 16, 2))
def test_a_delete_at_any_moment_of_a_move_leaves_nothing(kind, shared, advances):
    """I5: as in Nova, where a delete is allowed in every state."""
    world = memory.World(kind=kind, shared=shared)
    controller = memory_controller.Controller("resize", "op0")
    for _each in range(advances):
        if controller.state == "run":
            controller.advance(world)
    assert walk(world, "delete", "op1").state == "done"
    assert not any(world.records.values()) and not any(world.disks.values()) and not any(world.kept.values())
    assert (world.guest, world.channel) == ({S: memory_names.OFF, D: memory_names.OFF}, {S: None, D: None})


NOTHING_THERE = ({"uuid": memory_names.UUID, "host": {"uuid": "host-S", "name": S}, "role": None}, {}, None)


@pytest.mark.parametrize("peer", NOTHING_THERE, ids=["no record", "no word", "none"])
@pytest.mark.parametrize("step", [step for step in table.STEPS if step != "take_over"])
@pytest.mark.parametrize("kind", ["resize", "live-migration"])
@pytest.mark.parametrize("advances", [0, 5, 9, 40])
def test_no_step_falls_over_a_host_that_holds_nothing(kind, step, peer, advances):
    """Every step on either side at rest, in the middle and at the end of a move: done, passed over, or a typed error."""
    for name in (S, D):
        world, controller = memory.World(kind=kind), memory_controller.Controller("resize", "op0")
        for _each in range(advances):
            if controller.state == "run":
                controller.advance(world)
        record = world.records[name] or world.records[S] or world.records[D]
        migration = record["migration"] or {"attempt": 0}
        token = {"op": record["op"] or "op0", "attempt": migration["attempt"]}
        with contextlib.suppress(BerthError):
            table.run(world.host(name), memory_names.UUID, step, token, peer, **memory_controller.decided(world))
        world.check()


@pytest.mark.follows("no_copy_to_revert_to")
def test_a_revert_without_a_copy_on_the_source_is_refused_and_a_confirm_ends_the_move():
    world = memory.World()
    walk(world, "resize")
    world.records[S] = world.disks[S] = None
    record = world.records[D]
    token, peer = {"op": "op0", "attempt": record["migration"]["attempt"]}, NOTHING_THERE[0]
    with pytest.raises(InstanceNotResized) as refused:
        table.run(world.host(D), memory_names.UUID, "revert", token, peer)
    assert refused.value.hint == hints.no_copy_to_revert_to() and world.records[D] == record
    assert walk(world, "confirm").state == "done"
    assert (world.records[D]["phase"], world.guest[D]) == ("active", memory_names.ON)


def released_after():
    """After how many advances of a resize its source has let go."""
    world, controller = memory.World(), memory_controller.Controller("resize", "op0")
    for count in range(60):
        if world.records[S]["role"] == "OUT":
            return count
        controller.advance(world)
    raise AssertionError("the source never let go")


@pytest.mark.parametrize("looks", [1, 2, 3, 4])
def test_a_run_whose_source_lets_go_after_it_looked_ends_the_move(looks):
    """The controller of the first run is killed, and what it had the source do goes on while the second one plans."""
    world, first, second = (
        memory.World(),
        memory_controller.Controller("resize", "op0"),
        memory_controller.Controller("resize", "op1"),
    )
    for _step in range(released_after() - 1):
        first.advance(world)
    for _step in range(looks):
        second.advance(world)
    first.advance(world)
    while second.state == "run":
        second.advance(world)
    if second.state == "failed":  # it had taken the move up before: then the first one could not let go
        assert world.records[S]["role"] == "OWN"
        assert walk(world, "resize").state == "done"
    assert (world.records[D]["role"], world.records[D]["phase"], world.guest[D]) == ("OWN", "resized", memory_names.ON)


def test_a_resize_on_the_same_host_that_was_only_begun_is_taken_back():
    """I4: its controller was killed, or the claim did not stand, before the guest was stopped."""
    world, controller = memory.World(kind="here"), memory_controller.Controller("resize", "op0")
    while not controller.is_before("freeze"):
        controller.advance(world)
    assert walk(world, "revert").state == "done"
    assert (world.records[S]["phase"], world.records[S]["op"], world.guest[S]) == ("active", None, memory_names.ON)


def test_what_fails_on_the_destination_is_given_up_by_the_same_run(monkeypatch):
    """R22: nobody has to run anything for the guest to go on, and the failure is what the run says."""
    world = memory.World()

    def receive(*_all):
        raise BerthError("the disk is full")

    monkeypatch.setattr(memory.Effects, "receive", receive)
    run = walk(world, "resize")
    assert run.state == "failed" and "the disk is full" in run.walk.failure
    assert (world.records[S]["phase"], world.records[S]["op"], world.guest[S]) == ("active", None, memory_names.ON)
    assert (world.records[D], world.disks[D], world.parts[D]) == (None, None, None)
