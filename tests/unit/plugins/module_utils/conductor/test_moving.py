# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller makes of what the hosts hold (R09-R14, R24)."""

from __future__ import annotations

import pytest
from moved_instance import BIG, MOVE, NAMES, SMALL, UUID, at_rest, find, plan, returned, view

from ansible_collections.berth.kvm.plugins.module_utils.conductor import moving, sides, unconfirmed
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import (
    DuplicateInstance,
    HostLibvirtTimeout,
    HostUnknown,
    InstanceSuperseded,
    MoveContradicted,
)
from ansible_collections.berth.kvm.plugins.module_utils.model import copy_hints, fleet_hints, hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InstanceIsLocked
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import (
    CannotResizeDisk,
    InstanceInvalidState,
    InstanceNotFound,
    InstanceNotResized,
)


def resized():
    there = view("OWN", "resized", MOVE, vm_state="resized")
    return find({"kvm1": {UUID: view("OUT", "keep", MOVE)}, "kvm2": {UUID: there}})


def test_another_flavor_is_placed():
    assert plan("move", at_rest())["place"]


def test_the_same_flavor_is_no_change():
    """R09."""
    move = plan("move", at_rest(), SMALL)
    assert (move["place"], move["sequence"]) == (False, None)


def test_a_smaller_disk_is_refused_before_anything():
    """R13."""
    with pytest.raises(CannotResizeDisk):
        plan("move", at_rest(), {**BIG, "root_gb": 0})


def test_a_locked_instance_is_left_alone():
    """R10."""
    with pytest.raises(InstanceIsLocked) as raised:
        plan("move", at_rest(), locked="the owner")
    assert raised.value.details["locked_by"] == "the owner"


@pytest.mark.parametrize("action", ["confirm", "revert"])
def test_what_was_not_resized_is_neither_confirmed_nor_reverted(action):
    """R14."""
    with pytest.raises(InstanceNotResized, match="has not been resized"):
        plan(action, at_rest())


def test_a_confirm_again_is_no_change():
    """I4."""
    assert plan("confirm", at_rest(last_move="confirmed"))["sequence"] is None


@pytest.mark.parametrize(
    "busy, hint",
    [
        ({"phase": "building"}, fleet_hints.end_it("vm", "create")),
        ({"phase": "deleting"}, fleet_hints.end_it("vm", "delete")),
        ({"phase": "setting_aside"}, copy_hints.keep_one_again("vm")),
        ({"task_state": "powering-off"}, fleet_hints.end_it("vm", "stop")),
    ],
)
def test_a_busy_instance_is_refused_with_what_ends_that(busy, hint):
    """R11."""
    with pytest.raises(InstanceInvalidState) as refused:
        plan("move", at_rest(**busy))
    assert refused.value.hint == hint


def begun():
    return find({"kvm1": {UUID: view("OWN", "frozen", MOVE)}, "kvm2": {UUID: view("IN", "incoming", MOVE)}})


OTHERS = {
    "another flavor": dict(flavor={**BIG, "name": "huge", "vcpus": 4}),
    "another kind": dict(kind="migration"),
    "another target": dict(target="kvm3"),
}


def test_a_resize_that_was_begun_goes_on():
    move = plan("move", begun(), target="kvm2")
    assert (move["sequence"], move["settles"]) == ("resize", False)


@pytest.mark.parametrize("action, why", [("delete", "ends"), ("confirm", "goes on with"), ("revert", "goes on with")])
def test_a_delete_ends_the_move_that_waits_and_nothing_else_is_said_of_it(action, why):
    assert plan(action, resized())["why"] == why + " the resize that was begun"


@pytest.mark.parametrize("other", OTHERS)
def test_another_move_than_the_one_begun_is_planned_after_that_is_given_up(other):
    """I4: the inventory says what is wanted, and nothing was handed over yet."""
    move = plan("move", begun(), **OTHERS[other])
    assert (move["sequence"], move["settles"]) == ("abort", True)


@pytest.mark.parametrize("other", OTHERS)
def test_another_move_of_a_resized_instance_is_refused(other):
    """R11: as in Nova, confirm or revert comes first."""
    with pytest.raises(InstanceInvalidState, match="vm_state resized.*confirm_resize or berth.kvm.revert_resize"):
        plan("move", resized(), **OTHERS[other])


def test_a_revert_of_what_was_given_up_is_no_change():
    """I4."""
    assert plan("revert", at_rest(last_move="given up"))["sequence"] is None


@pytest.mark.parametrize("action, sequence", [("confirm", "confirm"), ("revert", "revert"), ("move", "hand_over")])
def test_a_resized_instance_goes_where_it_is_wished(action, sequence):
    assert plan(action, resized())["sequence"] == sequence


def test_a_confirm_of_a_resize_that_has_not_ended_is_refused():
    with pytest.raises(InstanceNotResized):
        plan("confirm", begun())


def test_a_silent_side_is_unknown():
    """Fail closed: the other side may own the instance."""
    with pytest.raises(HostUnknown):
        find({"kvm1": {UUID: view("OUT", "keep", MOVE)}}, {"u1": "kvm1"}, ["kvm2"])


def test_two_owners_are_an_error():
    """I1."""
    with pytest.raises(DuplicateInstance):
        find({"kvm1": {UUID: view()}, "kvm2": {UUID: view()}})


def test_an_instance_that_is_nowhere_is_said_so():
    with pytest.raises(InstanceNotFound, match="kvm3"):
        find({"kvm1": {}}, silent=["kvm3"])


def test_what_pinned_an_instance_does_not_bind_its_move():
    """R24."""
    spec = moving.request(view(), {"flavor": BIG}, "resize", ["kvm1"])
    assert (spec["force_hosts"], spec["requested_destination"], spec["ignore_hosts"]) == ([], None, ["kvm1"])
    assert spec["flavor"] == BIG


def test_a_migration_keeps_the_flavor():
    assert moving.request(view(), None, "migration", [])["flavor"] == SMALL


def test_every_candidate_has_an_operation_of_its_own():
    """R27."""
    ops = iter(["a", "b"])
    found = moving.candidates(
        {"host": "kvm2", "host_uuid": "u2", "alternates": [{"host": "kvm3", "host_uuid": "u3"}]}, lambda: next(ops)
    )
    assert [(entry["op"], entry["host"], entry["destination"]["uuid"]) for entry in found] == [
        ("a", "kvm2", "u2"),
        ("b", "kvm3", "u3"),
    ]


@pytest.mark.parametrize(
    "phase, confirm_in, due",
    [("resized", 0, True), ("resized", 1, False), ("resized", None, False), ("confirming", None, True)],
)
def test_due_is_what_its_own_host_says_is_due_and_a_confirm_that_was_begun(phase, confirm_in, due):
    """R05: no clock of the controller is asked."""
    owner = dict(view("OWN", phase, MOVE), confirm_in=confirm_in)
    lying = dict(view("OUT", "keep", MOVE), confirm_in=0)
    sides = find({"kvm1": {UUID: lying}, "kvm2": {UUID: owner}})
    assert unconfirmed.is_due(plan("confirm", sides)) is due


@pytest.mark.parametrize(
    "confirm_in, said",
    [(None, "waits for confirm_resize or revert_resize"), (3600, "confirm_due confirms it in 3600 s")],
)
def test_what_waits_says_for_what_and_how_long(confirm_in, said):
    """R02, R05."""
    assert unconfirmed.described("resized", confirm_in).endswith(said)


@pytest.mark.parametrize("kind, begins", [("resize", "resize"), ("live-migration", "live_migrate")])
def test_a_move_whose_room_was_not_claimed_is_given_up_and_placed_anew(kind, begins):
    """Only the source would know where it was to go, and as what."""
    move = dict(MOVE, type=kind)
    unclaimed = find({"kvm1": {UUID: view("OWN", "resizing", move)}, "kvm2": {}})
    planned = plan("move", unclaimed, kind=kind)
    assert (planned["sequence"], planned["settles"]) == ("abort", True)
    assert plan("revert", unclaimed)["sequence"] == "abort"
    claimed = find({"kvm1": {UUID: view("OWN", "resizing", move)}, "kvm2": {UUID: view("IN", "incoming", move)}})
    assert plan("move", claimed, kind=kind)["sequence"] == begins


LIE = {
    "id": "op",
    "type": "resize",
    "source": {"uuid": "u9", "name": "kvm1"},
    "destination": {"uuid": "u2", "name": "kvm2"},
}


@pytest.mark.follows("which_record")
@pytest.mark.parametrize("lie", [LIE, {**LIE, "source": {"uuid": "u1", "name": "kvm1"}}])
@pytest.mark.parametrize("role, phase", [("OUT", "keep"), ("IN", "incoming")])
def test_no_host_speaks_for_the_owner_of_an_instance_at_rest(lie, role, phase):
    """A lying host must not make anybody give up the good one, nor move, end or remove what it has."""
    views = {"kvm1": {UUID: view(generation=[3, 1])}, "kvm2": {UUID: view(role, phase, lie, generation=[9, 0])}}
    with pytest.raises(MoveContradicted) as raised:
        sides.find(UUID, "vm", views, NAMES, {})
    assert "kvm2" in str(raised.value) and "berth_lost_hosts" not in str(raised.value)
    assert raised.value.hint == fleet_hints.which_record("vm", UUID, ["kvm1", "kvm2"]), (
        "neither is named as the wrong one"
    )


@pytest.mark.follows("which_record")
def test_a_host_that_tells_of_a_move_between_others_is_not_believed():
    told = {**LIE, "source": {"uuid": "u1", "name": "kvm1"}}
    views = {"kvm1": {UUID: view()}, "kvm3": {UUID: view("OUT", "keep", told)}}
    with pytest.raises(MoveContradicted, match="kvm3") as raised:
        sides.find(UUID, "vm", views, {**NAMES, "u3": "kvm3"}, {})
    assert raised.value.hint == fleet_hints.which_record("vm", UUID, ["kvm1", "kvm3"])
    views["kvm3"] = {}
    assert sides.find(UUID, "vm", views, {**NAMES, "u3": "kvm3"}, {})[:1] == ("kvm1",)


FOUR = {**NAMES, "u3": "kvm3", "u4": "kvm4"}
LATER = {
    **MOVE,
    "source": {"uuid": "u3", "name": "kvm3"},
    "destination": {"uuid": "u4", "name": "kvm4"},
}


def two_moves(role, generation):
    """kvm1 and kvm2, which were given up, are back in a move to kvm2; meanwhile the instance was made anew on kvm3, and moves on."""
    return {
        "kvm1": {UUID: view("OUT", "keep", MOVE, generation=[2, 0])},
        "kvm2": {UUID: view(role, "resized", MOVE, generation=generation)},
        "kvm3": {UUID: view("OUT", "keep", LATER, op="op2", generation=[4, 0])},
        "kvm4": {UUID: view("IN", "incoming", LATER, op="op2", generation=[3, 6])},
    }


@pytest.mark.follows("which_record")
@pytest.mark.parametrize("role", ["OWN", "OUT"])
def test_of_two_moves_at_once_none_goes_on_until_a_person_has_found_out_which_record_is_old(role):
    """The source of one and the destination of the other would be taken for the sides of one move."""
    views = two_moves(role, [2, 2])
    for gone in ("kvm1", "kvm2"):
        with pytest.raises(MoveContradicted, match="kvm3 .from kvm3 to kvm4, generation 4.0") as raised:
            sides.find(UUID, "vm", views, FOUR, {})
        hosts = sorted(set(views) - {"kvm4"})
        assert raised.value.hint == fleet_hints.which_record("vm", UUID, hosts)
        del views[gone]
    assert sides.find(UUID, "vm", views, FOUR, {})[::2] == ("kvm3", "kvm4")


def test_an_owner_later_than_what_is_left_of_another_move_goes_on_with_its_own():
    views = two_moves("OWN", [4, 2])
    assert sides.find(UUID, "vm", views, FOUR, {})[::2] == ("kvm1", "kvm2")


def test_nobody_is_told_to_give_up_a_host_that_answers_because_another_says_it_is_gone():
    views = {"kvm1": {}, "kvm2": {UUID: view("IN", "incoming", LIE)}}
    with pytest.raises(HostUnknown) as raised:
        sides.find(UUID, "vm", views, NAMES, {})
    assert "kvm1" in raised.value.message and "berth_lost_hosts" not in raised.value.message


@pytest.mark.follows("replaced_in_move")
def test_a_side_of_a_move_that_was_installed_anew_is_given_up_by_who_knows_that_it_was():
    """Whoever knows that it was not is told that the record is wrong, and to give nothing up."""
    move = {**MOVE, "destination": {"uuid": "former", "name": "kvm2"}}
    views = {"kvm1": {UUID: view("OUT", "keep", move, generation=[2, 0])}, "kvm2": {}}
    with pytest.raises(HostUnknown) as raised:
        sides.find(UUID, "vm", views, NAMES, {})
    assert raised.value.hint == fleet_hints.replaced_in_move("kvm2", UUID, [])
    assert "reinstalled or replaced" in raised.value.hint and "give up nothing" in raised.value.hint
    assert plan("revert", sides.find(UUID, "vm", views, NAMES, {}, ["kvm2"]))["sequence"] == "reclaim_alone"


def test_no_operation_is_not_the_same_as_another_without_one():
    """A null is equal to a null, and tells nothing: at rest there is no operation."""
    owner, other = view(generation=[3, 4], lost_moves=[None]), view("CLAIM", "claimed", generation=[2, 0])
    other["role"] = "OWN"
    with pytest.raises(DuplicateInstance):
        sides.find(UUID, "vm", {"kvm1": {UUID: owner}, "kvm2": {UUID: other}}, NAMES, {})


def test_who_names_a_copy_that_may_go_is_told_whose_word_it_is_and_to_look_first():
    with pytest.raises(InstanceSuperseded) as raised:
        returned("OWN", "resized", [2, 7])
    assert "Only kvm1 says so" in raised.value.hint and "log in" in raised.value.hint


@pytest.mark.follows("no_copy_to_revert_to")
def test_a_revert_with_nothing_on_the_source_is_refused_and_a_confirm_ends_the_move():
    sides_now = find({"kvm1": {}, "kvm2": {UUID: view("OWN", "resized", MOVE)}})
    with pytest.raises(InstanceNotResized) as refused:
        plan("revert", sides_now)
    assert refused.value.hint == hints.no_copy_to_revert_to()
    assert plan("confirm", sides_now)["sequence"] == "confirm"


@pytest.mark.follows("confirm_without")
@pytest.mark.parametrize("action", ["revert", "confirm", "move"])
def test_a_revert_that_was_begun_and_has_no_copy_left_says_how_the_guest_goes_on(action):
    held = {"kvm1": {}, "kvm2": {UUID: view("OWN", "reverting", MOVE)}}
    with pytest.raises(InstanceNotResized) as refused:
        plan(action, find(held))
    assert refused.value.hint == fleet_hints.confirm_without("kvm1")
    assert plan("confirm", find(held, lost=["kvm1"]))["sequence"] == "confirm_alone"


@pytest.mark.follows("restart_hung_libvirt")
def test_a_hung_libvirt_is_not_an_instance_that_could_not_be_found():
    """What was not answered is not absent; with libvirt restarted the instance is there."""
    silent = {"kvm1": "LibvirtTimeout: opening qemu:///system did not end in time"}
    with pytest.raises(HostLibvirtTimeout, match="libvirt on kvm1 does not answer") as refused:
        find({"kvm2": {}}, silent=silent)
    assert refused.value.hint == hints.restart_hung_libvirt() and refused.value.details["hosts"] == ["kvm1"]
    assert find({"kvm1": {UUID: view()}, "kvm2": {}})[0] == "kvm1"
