# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about moves, followed over two hosts in memory by the real steps, as the real conductor decides them."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "protocol"))

import memory  # noqa: E402
import memory_controller  # noqa: E402
import memory_names  # noqa: E402
from move_runs import D, Run, S, check_one_alone, check_whole, fleet, said_to_others, walk, worlds  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor import drift, unconfirmed  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints, state_hints  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import MigrationConflict  # noqa: E402

NAME = memory_names.NAME


def resized(**more):
    world = memory.World(**more)
    assert walk(world, memory_controller.Controller("resize", "op0")).state == "done"
    world.write()
    return world


def stopped_at(role, phase):
    """A resize whose controller died when the source was in that state."""
    world, controller = memory.World(kind="resize"), memory_controller.Controller("resize", "op0")
    while (world.records[S]["role"], world.records[S]["phase"]) != (role, phase):
        controller.advance(world)
    return world


def refused(world, run, hint):
    """The run is refused with that hint, and nothing is changed."""
    before = world.key()
    walk(world, run)
    assert run.state == "failed" and hint in run.error, getattr(run, "error", run.state)
    assert world.key() == before


def done(world, run):
    assert walk(world, run).state == "done", run.error
    world.check()


@pytest.mark.follows("confirm_or_revert")
@pytest.mark.parametrize("action", ["confirm", "revert"])
def test_after_a_confirm_or_a_revert_another_resize_may_begin(action):
    world = resized()
    refused(world, Run("move", flavor="huge"), hints.confirm_or_revert(NAME))
    done(world, Run(action))
    owner = {"confirm": D, "revert": S}[action]
    check_whole(world, owner)
    again = walk(world, Run("move", flavor="huge"))
    assert again.state == "done" and world.records[owner]["op"] is None, "it is at rest: the next one is placed"


@pytest.mark.follows("move_again")
@pytest.mark.parametrize(
    "kind, playbook", [("resize", "berth.kvm.resize"), ("live-migration", "berth.kvm.live_migrate")]
)
def test_a_move_that_is_run_again_ends_and_can_be_confirmed(kind, playbook):
    world, controller = memory.World(kind=kind), memory_controller.Controller("resize", "op0")
    while not world.records[D]:
        controller.advance(world)
    refused(world, Run("confirm"), hints.move_again(NAME, playbook))
    done(world, Run("move"))
    done(world, Run("confirm"))
    check_whole(world, D)


@pytest.mark.follows("guest_crashed")
@pytest.mark.parametrize("kind", ["resize", "here"])
def test_the_crashed_guest_of_a_resize_is_reverted_or_confirmed_when_that_is_said(kind):
    for way in ("revert", "confirm"):
        world = resized(kind=kind)
        owner = S if kind == "here" else D
        world.crashed = owner
        refused(world, Run("confirm"), hints.guest_crashed(NAME))
        run = Run(way)
        run.options = {"crashed": way == "confirm"}
        done(world, run)
        check_whole(world, {"revert": S, "confirm": owner}[way])


@pytest.mark.follows("delete_again")
@pytest.mark.parametrize("action", ["move", "confirm", "revert"])
def test_a_delete_that_was_begun_is_ended_by_a_delete(action):
    world = resized()
    world.fuse = 1
    walk(world, Run("delete"))
    world.fuse = None
    refused(world, Run(action), hints.delete_again(NAME))
    done(world, Run("delete"))
    walk(world, Run("delete"))
    assert not any(world.records.values()) and not any(world.disks.values()) and not any(world.kept.values())


@pytest.mark.follows("end_confirm")
def test_a_confirm_that_was_interrupted_is_ended_by_a_confirm_and_no_revert_is_offered():
    world, confirm = resized(), Run("confirm")
    while world.records[D]["phase"] != "confirming":
        confirm.advance(world)
    assert said_to_others(world) == fleet_hints.end_confirm(NAME)
    [place] = [place for place in fleet(world).places[memory_names.UUID] if place["host"] == D]
    assert (
        unconfirmed.waits(place["phase"]) == "was being confirmed by a run that ended; confirm_resize goes on with it"
    )
    done(world, Run("confirm"))
    check_whole(world, D)
    assert said_to_others(world) is None


@pytest.mark.follows("finish_move", "confirm_or_revert")
@pytest.mark.parametrize("kind", ["resize", "live-migration"])
@pytest.mark.parametrize("action", ["move", "revert"])
def test_in_every_moment_of_a_move_a_start_is_told_how_to_end_it_and_that_ends_it(kind, action):
    seen = set()
    for moment, world in worlds(kind, False, "revert", D):
        hint = said_to_others(world)
        seen.add(hint)
        if hint == hints.finish_move(NAME):
            ended = walk(world, Run(action))
            # What had no way back was ended first, and then there is nothing left to revert.
            assert ended.state == "done" or "InstanceNotResized" in ended.error and not world.records[D]["op"], moment
        else:
            assert hint == hints.confirm_or_revert(NAME), moment
            done(world, Run("revert"))
        world.check()
        assert said_to_others(world) in (None, hints.confirm_or_revert(NAME)), moment
    assert hints.finish_move(NAME) in seen


@pytest.mark.follows("another_run")
def test_a_run_that_was_overtaken_is_run_again_and_finds_the_move_ended():
    world, late = memory.World(), memory_controller.Controller("resize", "op0")
    while not (world.records[D] and world.channel[D]):
        late.advance(world)
    other = Run("move")
    for _step in range(5):
        other.advance(world)
    walk(world, late)
    assert late.state == "failed" and hints.another_run() in late.error, getattr(late, "error", late.state)
    done(world, other)
    done(world, Run("move"))
    assert world.records[D]["phase"] == "resized"


def told_of_flavor(world, side):
    """What create says of the flavor of the record there, where the inventory says the new one."""
    has = world.host(side).store.read(memory_names.UUID).spec["flavor"]["name"]
    return drift.of_flavor_name(NAME, has, memory_names.NEW["flavor"])


@pytest.mark.follows("resize_to_follow")
def test_who_gave_it_another_flavor_in_the_inventory_is_told_to_resize_and_then_nothing_more_is_said():
    world = memory.World()
    assert told_of_flavor(world, S).endswith(fleet_hints.resize_to_follow(NAME))
    done(world, memory_controller.Controller("resize", "op0"))
    done(world, Run("confirm"))
    check_whole(world, D)
    assert told_of_flavor(world, D) is None


# --- a host is lost

ACTIONS = {"move", "confirm", "revert"}


def follow(world, lost, action, hint):
    """Do what the hint says, and see what became of the instance."""
    survivor = S if lost == D else D
    if hint == fleet_hints.bring_source_back(S, D):
        before = world.key()
        ended = walk(world, Run(action))
        assert ended.state == "done" or world.key() == before or not world.records[S]["op"], ended.error
        done(world, Run("move"))
        return
    action = {
        fleet_hints.revert_with_lost_destination(S, D): "revert",
        fleet_hints.revert_gives_up(S, D): "revert",
        fleet_hints.confirm_with_lost_source(S, D): "confirm",
        hints.delete_again(NAME): "delete",
    }[hint]
    done(world, Run(action, gone=(lost,), lost=(lost,)))
    if action == "delete":
        assert world.records[survivor] is None
    else:
        check_one_alone(world, survivor)


@pytest.mark.follows(
    "revert_with_lost_destination", "revert_gives_up", "confirm_with_lost_source", "bring_source_back", "delete_again"
)
@pytest.mark.parametrize("lost", [S, D])
@pytest.mark.parametrize("then", ["confirm", "revert"])
def test_whoever_asks_of_one_host_what_needs_both_is_told_what_the_one_can_do(lost, then):
    seen = set()
    for _moment, world in worlds("resize", False, then, lost):
        for action in sorted(ACTIONS):
            run = Run(action, gone=(lost,), lost=(lost,))
            before = world.key()
            tried = copy.deepcopy(world)
            if walk(tried, run).state == "failed" and "InstanceInvalidState" in run.error:
                assert tried.key() == before
                hint = run.error.split(". ", 1)[1]
                seen.add(hint)
                follow(copy.deepcopy(world), lost, action, hint)
    expected = {
        S: {fleet_hints.confirm_with_lost_source(S, D), fleet_hints.bring_source_back(S, D)},
        D: {fleet_hints.revert_with_lost_destination(S, D), fleet_hints.revert_gives_up(S, D)},
    }
    assert expected[lost] <= seen


@pytest.mark.follows("bring_record_of_move_back")
@pytest.mark.parametrize("action", ["move", "confirm", "revert"])
@pytest.mark.parametrize("role", ["IN", "OUT"])
def test_a_source_that_answers_without_its_record_is_not_said_to_be_silent(role, action):
    """Its whole host came from a backup of before the move: the other one may have the only copy, and it may be incomplete."""
    world, revert = stopped_at("OUT", "keep") if role == "IN" else resized(), Run("revert")
    while world.records[D]["role"] != role:
        revert.advance(world)
    record, world.records[S] = world.records[S], None
    refused(world, Run(action), fleet_hints.bring_record_of_move_back(S, D, NAME, memory_names.UUID))
    given_up = copy.deepcopy(world)
    done(given_up, Run("delete"))
    assert not any(given_up.records.values())
    world.records[S] = record
    done(world, Run("move" if role == "IN" else "revert"))


@pytest.mark.follows("bring_back_or_lost")
@pytest.mark.parametrize("back", [True, False], ids=["it comes back", "it is switched off for good"])
def test_with_a_silent_side_nothing_is_done_until_it_is_back_or_given_up(back):
    world = resized()
    refused(world, Run("revert", gone=(D,)), hints.bring_back_or_lost([D]))
    if back:
        done(world, Run("revert"))
        check_whole(world, S)
    else:
        world.crash_host(D)
        done(world, Run("revert", gone=(D,), lost=(D,)))
        check_one_alone(world, S)


@pytest.mark.follows("not_lost")
def test_a_host_that_answers_is_not_given_up_and_without_that_word_the_move_ends():
    world = resized()
    refused(world, Run("confirm", lost=(D,)), hints.not_lost(D))
    done(world, Run("confirm"))
    check_whole(world, D)


@pytest.mark.follows("mend_lost_host")
@pytest.mark.parametrize("mended", [True, False], ids=["it is mended", "it is switched off for good"])
def test_a_lost_host_whose_libvirt_alone_is_away_is_mended_or_switched_off(mended):
    world = resized()
    refused(world, Run("revert", gone=(D,), lost=(D,), reason="LibvirtUnavailable: no"), hints.mend_lost_host(D))
    if mended:
        refused(world, Run("revert", lost=(D,)), hints.not_lost(D))
        done(world, Run("revert"))
        check_whole(world, S)
    else:
        world.crash_host(D)
        done(world, Run("revert", gone=(D,), lost=(D,)))
        check_one_alone(world, S)


@pytest.mark.follows("superseded_copy", "confirm_or_revert_left")
def test_the_copy_of_a_lost_host_that_is_back_goes_only_when_a_person_has_looked_and_names_it():
    world = resized()
    world.crash_host(D)
    done(world, Run("revert", gone=(D,), lost=(D,)))
    assert said_to_others(world) == hints.confirm_or_revert_left(NAME, D)
    for action in sorted(ACTIONS):
        refused(world, Run(action), fleet_hints.superseded_copy(D, S))
    assert world.guest == {S: memory_names.ON, D: memory_names.OFF}, (
        "who looks finds the guest on the host that the hint names"
    )
    done(world, Run("revert", lost=(D,)))
    check_whole(world, S)


@pytest.mark.follows("confirm_or_revert_left")
@pytest.mark.parametrize("action", ["confirm", "revert"])
def test_what_is_left_of_a_move_on_a_host_that_was_lost_is_removed_by_a_confirm_or_a_revert(action):
    world = stopped_at("OWN", "frozen")
    world.crash_host(D)
    done(world, Run("revert", gone=(D,), lost=(D,)))
    assert said_to_others(world) == hints.confirm_or_revert_left(NAME, D)
    refused(world, Run("delete"), hints.confirm_or_revert_left(NAME, D))
    walk(world, Run(action))
    check_whole(world, S)


LEFT = {"role": "CLAIM", "phase": "claimed", "generation": [1, 1], "op": None, "migration": None}


@pytest.mark.parametrize("end, owner", [("confirm", D), ("revert", S)])
def test_a_claim_that_a_killed_create_left_on_the_destination_stops_no_move(end, owner):
    world = memory.World()
    world.records[D] = {**copy.deepcopy(world.records[S]), **LEFT}
    assert walk(world, memory_controller.Controller("resize", "op0")).state == "done"
    done(world, Run(end))
    check_whole(world, owner)


def test_a_move_that_is_given_up_leaves_a_claim_on_its_destination_as_it_is():
    """It is no part of the move: the instance would else stay half given up for ever."""
    world = stopped_at("OWN", "resizing")
    claim = {**copy.deepcopy(world.records[S]), **LEFT}
    world.records[D] = copy.deepcopy(claim)
    done(world, Run("revert"))
    assert world.records[D] == claim and world.records[S]["phase"] == "active"


@pytest.mark.follows("forget_old_move")
@pytest.mark.parametrize("then, restored, owner", [("confirm", S, D), ("revert", D, S)])
def test_a_record_of_an_ended_move_that_a_backup_brought_back_is_forgotten_as_the_hint_says(then, restored, owner):
    """It became or ceased to be no owner since, so its state directory is taken for the newest."""
    world, run = resized(), Run(then)
    old = {}
    while run.state == "run":
        run.advance(world)
        record = world.records[restored]
        if record and record["role"] == "OUT":
            old = copy.deepcopy((record, world.buried[restored]))
    world.records[restored], world.buried[restored] = old
    assert said_to_others(world) == hints.confirm_or_revert_left(NAME, restored)
    for action in (*sorted(ACTIONS), "delete"):
        refused(world, Run(action), state_hints.forget_old_move(memory_names.UUID, restored, owner))
    world.records[restored] = None
    check_whole(world, owner)
    assert said_to_others(world) is None
    done(world, Run("move", flavor="huge"))


@pytest.mark.follows("no_whole_copy")
def test_a_kept_copy_that_was_being_removed_is_not_taken_back_and_the_lost_host_has_it_whole():
    for fuse in range(9):
        world = resized()
        world.fuse = fuse
        walk(world, Run("confirm"))
        world.fuse = None
        if world.records[S] and not world.disks[S]:
            break
    world.crash_host(D)
    refused(world, Run("revert", gone=(D,), lost=(D,)), "the kept disks are gone")
    done(world, Run("confirm"))
    assert (world.records[D]["phase"], world.records[S]) == ("active", None)
    assert world.disks[D]["version"] == world.latest


@pytest.mark.follows("no_whole_copy")
def test_the_kept_record_of_an_instance_that_was_deleted_since_is_deleted_too_when_a_backup_brings_it_back():
    world = resized()
    old = copy.deepcopy((world.records[S], world.buried[S]))
    done(world, Run("delete"))
    world.records[S], world.buried[S] = old
    refused(world, Run("revert", lost=(D,)), hints.no_whole_copy(NAME))
    done(world, Run("delete"))
    assert (world.records[S], world.records[D]) == (None, None)


@pytest.mark.follows("restore_or_confirm")
@pytest.mark.parametrize("then, owner", [("revert", S), ("confirm", D)])
def test_before_the_guest_stops_for_disks_that_are_gone_they_can_be_restored_or_it_stays(then, owner):
    world = resized()
    backup, world.disks[S] = world.disks[S], None
    refused(world, Run("revert"), state_hints.restore_or_confirm(NAME, S))
    assert world.guest[D] == memory.ON and world.records[D]["phase"] == "resized"
    if then == "revert":
        world.disks[S] = backup
    done(world, Run(then))
    check_whole(world, owner)


@pytest.mark.follows("no_copy_to_revert_to")
def test_without_a_copy_on_the_source_the_instance_stays_and_a_confirm_ends_the_move():
    world = resized()
    world.records[S] = world.disks[S] = None  # its disk and its state directory were replaced
    refused(world, Run("revert"), hints.no_copy_to_revert_to())
    done(world, Run("confirm"))
    check_whole(world, D)


@pytest.mark.follows("no_whole_copy")
@pytest.mark.parametrize("way", ["the disk itself", "the disk as it was kept"])
def test_with_its_disks_restored_from_a_backup_the_kept_copy_is_taken_back(tmp_path, way):
    spec = {"flavor": {**memory_names.OLD["flavor"], "ephemeral_gb": 0, "swap": 0}}
    record = SimpleNamespace(uuid=memory_names.UUID, name=NAME, op="op0", migration={"old_spec": spec})
    files = [Path(paths.instance(str(tmp_path), memory_names.UUID, entry.file)) for entry in disk.planned(spec)]
    files[0].parent.mkdir(parents=True)
    for file in files[1:]:
        file.touch()
    with pytest.raises(MigrationConflict) as refusal:
        disks.check_kept(str(tmp_path), record, hints.no_whole_copy(NAME))
    assert refusal.value.hint == hints.no_whole_copy(NAME)
    (files[0] if way == "the disk itself" else Path("%s.pre-op0" % files[0])).touch()
    disks.check_kept(str(tmp_path), record, hints.no_whole_copy(NAME))
