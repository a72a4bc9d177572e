# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move whose other side is silent, lost for good, or back after it was given up."""

from __future__ import annotations

import pytest
from moved_instance import MOVE, UUID, plan, returned, view

from ansible_collections.berth.kvm.plugins.module_utils.conductor import sides
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import (
    DuplicateInstance,
    HostNotLost,
    HostUnknown,
    InstanceSuperseded,
)
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState

DOWN, KEPT = "UNREACHABLE: no route", {"kvm1": {UUID: view("OUT", "keep", MOVE, generation=[2, 0])}}


def without_kvm2(views=None, names=None, silent=None, lost=("y",)):
    return sides.find(UUID, "vm", views or KEPT, names or {"u1": "kvm1"}, silent or {"y": DOWN}, lost)


def test_a_silent_side_that_is_lost_for_good_is_given_up():
    """The move calls its hosts by their names in the inventory: x and y."""
    assert plan("revert", without_kvm2())["sequence"] == "reclaim_alone"
    with pytest.raises(HostUnknown) as raised:
        without_kvm2(lost=("z",))
    assert "-e berth_lost_hosts=z,y" in raised.value.hint


def test_a_side_that_left_the_inventory_is_not_called_silent_and_comes_back_into_it_or_is_given_up():
    """remove_host takes out a lost host that has a part of a move: nobody can bring it back who is told that it is silent."""
    with pytest.raises(HostUnknown, match="y, which is not in this inventory") as raised:
        without_kvm2(silent={"other": DOWN}, lost=())
    assert raised.value.hint == fleet_hints.unlisted("y", ["other"])
    with pytest.raises(HostUnknown, match="y, which does not answer"):
        without_kvm2(lost=())


@pytest.mark.parametrize("action", ["move", "confirm"])
def test_what_a_lost_host_makes_impossible_is_refused_with_what_helps(action):
    with pytest.raises(InstanceInvalidState) as raised:
        plan(action, without_kvm2())
    assert "revert_resize -e berth_lost_hosts=y" in raised.value.hint


@pytest.mark.parametrize("reason", ["LibvirtUnavailable: no", "HostIdentityConflict: two", "did not tell its records"])
def test_a_host_that_answers_is_not_lost_whatever_it_says(reason):
    with pytest.raises(HostNotLost):
        without_kvm2(silent={"y": reason})


def test_a_host_that_has_a_part_of_the_move_is_not_lost_and_one_that_was_made_anew_is():
    names = {"u1": "kvm1", "u2": "y"}
    held = {**KEPT, "y": {UUID: view("OWN", "resized", MOVE, generation=[2, 3])}}
    with pytest.raises(HostNotLost):
        without_kvm2(held, names, {"other": DOWN})
    assert plan("revert", without_kvm2({**KEPT, "y": {}}, names, {"y": DOWN}))["sequence"] == "reclaim_alone"


def test_the_kept_copy_is_not_taken_back_while_a_third_host_is_silent():
    """I1: the instance may have gone on to it after this host was given up as lost."""
    with pytest.raises(HostUnknown, match="kvm3"):
        without_kvm2(silent={"y": DOWN, "kvm3": DOWN})
    assert without_kvm2(silent={"y": DOWN, "kvm3": DOWN}, lost=("y", "kvm3"))


def test_the_copy_of_a_host_that_returned_counts_for_nothing_and_goes_only_when_it_is_named():
    """I1, I3: it has what the guest wrote last, so nobody removes it by the way."""
    with pytest.raises(InstanceSuperseded) as raised:
        returned("OWN", "resized", [2, 7])
    assert "-e berth_lost_hosts=kvm2" in raised.value.hint
    move = plan("revert", returned("OWN", "resized", [2, 7], lost=["kvm2"]))
    assert (move["sequence"], move["destination"], move["settles"], move["token"]["op"]) == (
        "sweep",
        "kvm2",
        True,
        "op",
    )


@pytest.mark.parametrize("role, phase", [("IN", "incoming"), ("OUT", "keep")])
def test_what_returned_and_never_owned_or_had_let_go_is_removed_by_any_run(role, phase):
    assert plan("move", returned(role, phase, [2, 0]))["sequence"] == "sweep"


@pytest.mark.parametrize("role, phase", [("IN", "incoming"), ("OUT", "keep"), ("OWN", "resized")])
def test_what_a_host_says_of_a_move_that_was_not_its_own_has_nothing_removed(role, phase):
    """The instance may have gone on to it; or it lies."""
    with pytest.raises(InstanceSuperseded):
        returned(role, phase, [2, 0], teller="kvm3")
    assert plan("move", returned(role, phase, [2, 0], teller="kvm3", lost=["kvm2"]))["sequence"] == "sweep"


def test_two_owners_of_one_generation_are_an_error_whatever_one_says_of_the_other():
    """I1."""
    with pytest.raises(DuplicateInstance):
        returned("OWN", "resized", [3, 4])
