# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans without a solver: a drain is placed by placement alone, a checker proves each moment, questions are answered."""

from __future__ import annotations

import dataclasses

import pytest
from plans_case import fleet, group, instance, told

from ansible_collections.berth.kvm.plugins.module_utils.fleet import make_plan, propose, questions
from ansible_collections.berth.kvm.plugins.module_utils.fleet.check import PlanNotLegal, check
from ansible_collections.berth.kvm.plugins.module_utils.fleet.goals import Goal
from ansible_collections.berth.kvm.plugins.module_utils.fleet.propose import SolverMissing
from ansible_collections.berth.kvm.plugins.module_utils.fleet.state import State
from ansible_collections.berth.kvm.plugins.module_utils.fleet.waves import ordered

DRAIN_A = Goal("drain", frozenset(("a",)))


@pytest.fixture(autouse=True)
def _no_solver(monkeypatch):
    monkeypatch.setattr(propose, "cp_model", None)


def test_a_drain_moves_what_the_host_has_in_one_wave_and_no_plan_has_fewer_moves():
    found = fleet({"a": 8, "b": 8, "c": 8}, [instance("x", "a", 4), instance("y", "a", 2), instance("z", "b", 4)])
    plan = make_plan.make(found, DRAIN_A)
    assert [sorted(uuid for uuid, _host in wave) for wave in plan.waves] == [["x", "y"]]
    assert plan.proven and plan.stays == {}
    check(found, plan.waves, {"a"})


def test_what_few_hosts_can_take_is_placed_first():
    """x fits on b alone; y, which is larger, fits on both and would take its place."""
    zone = {"name": "az", "hosts": ["a", "b"], "metadata": {"availability_zone": "az"}}
    found = fleet(
        {"a": 16, "b": 8, "c": 8},
        [instance("x", "a", 4, availability_zone="az"), instance("y", "a", 6), instance("z", "c", 1)],
        [zone],
    )
    assert dict(make_plan.make(found, DRAIN_A).moves) == {"x": "b", "y": "c"}


def test_what_finds_no_place_stays_with_the_reasons_of_placement():
    found = fleet({"a": 8, "b": 4}, [instance("x", "a", 6), instance("y", "a", 2)])
    plan = make_plan.make(found, DRAIN_A)
    assert [uuid for uuid, _host in plan.moves] == ["y"]
    assert "MEMORY_MB: needs 6144, 2048 free" in plan.stays["x"]
    assert not plan.proven and "OR-tools" in plan.proof


def test_what_may_not_move_stays_and_says_why():
    plan = make_plan.make(fleet({"a": 8, "b": 8}, [instance("x", "a", 1, fixed="x is locked")]), DRAIN_A)
    assert plan.waves == [] and plan.stays == {"x": "x is locked"}


def test_what_may_not_move_is_not_told_how_to_where_no_host_is_left():
    plan = make_plan.make(fleet({"a": 8}, [instance("x", "a", 1, fixed="x is locked")]), DRAIN_A)
    assert plan.stays == {"x": "no host is left for it"}


def test_an_affinity_group_leaves_together_to_one_host():
    pair = group("pair", "affinity")
    found = fleet({"a": 8, "b": 3, "c": 4}, [instance("x", "a", 2, group=pair), instance("y", "a", 2, group=pair)])
    plan = make_plan.make(found, DRAIN_A)
    assert plan.waves == [[("x", "c"), ("y", "c")]]
    check(found, plan.waves, {"a"})


def test_an_affinity_group_stays_whole_where_no_host_takes_all_of_it():
    pair = group("pair", "affinity")
    found = fleet({"a": 8, "b": 3}, [instance("x", "a", 2, group=pair), instance("y", "a", 2, group=pair)])
    plan = make_plan.make(found, DRAIN_A)
    assert plan.waves == [] and set(plan.stays) == {"x", "y"}


def test_a_member_of_an_affinity_group_follows_one_whose_move_has_begun():
    pair = group("pair", "affinity")
    here = [instance("x", "a", 2, group=pair, fixed="moves"), instance("y", "a", 2, group=pair)]
    here[0] = dataclasses.replace(here[0], going="c")
    found = fleet({"a": 8, "b": 8, "c": 4}, here)
    assert make_plan.make(found, DRAIN_A).moves == [("y", "c")]


def test_other_goals_are_refused_with_the_command_that_installs_the_solver():
    with pytest.raises(SolverMissing) as caught:
        make_plan.make(fleet({"a": 8}, []), Goal("balance"))
    assert "pip install ortools" in caught.value.hint


def test_the_room_that_a_wave_frees_is_used_in_the_next_wave():
    found = fleet({"a": 4, "b": 4, "c": 4}, [instance("z", "a", 4), instance("y", "b", 4)])
    assert ordered(State(found), [{"z": "b", "y": "c"}]).waves == [[("y", "c")], [("z", "b")]]


def test_moves_that_wait_for_each_other_are_refused():
    found = fleet({"a": 4, "b": 4}, [instance("x", "a", 4), instance("y", "b", 4)])
    done = ordered(State(found), [{"x": "b", "y": "a"}])
    assert done.waves == [] and set(done.refused) == {"x", "y"}


@pytest.mark.parametrize(
    "waves, said",
    [
        ([[("x", "b"), ("y", "c")]], "x may not move to b: b: MEMORY_MB"),
        ([[("y", "c"), ("y", "c")]], "twice"),
        ([[("y", "b")]], "there already"),
        ([[("y", "d")]], "no such host"),
        ([[("gone", "c")]], "no host has it"),
        ([[("y", "a")]], "takes nothing in"),
        ([[("s", "c")]], "s is locked"),
    ],
)
def test_a_plan_with_a_move_that_placement_refuses_then_is_not_legal(waves, said):
    found = fleet(
        {"a": 5, "b": 4, "c": 8},
        [instance("x", "a", 4), instance("y", "b", 4), instance("s", "a", 1, fixed="s is locked")],
    )
    with pytest.raises(PlanNotLegal, match=said):
        check(found, waves, {"a"})


def test_what_has_begun_ends_before_the_rest_and_frees_what_it_leaves():
    """Else a plan that a kill has interrupted could not go on."""
    leaves, waits = instance("x", "b", 4), instance("y", "c", 4)
    found = fleet({"a": 4, "b": 4, "c": 4}, [leaves, waits])
    found.documents["a"]["instances"].append({**told(leaves), "role": "OUT"})
    found.documents["a"].update(vcpus_used=1, memory_mb_used=4096, local_gb_used=1)
    with pytest.raises(PlanNotLegal, match="y may not move to a"):
        check(found, [[("y", "a")]])
    check(found, [[("y", "a")]], begun=[("a", "x", "b")])


def test_two_members_of_a_group_that_pass_each_other_break_it_on_their_way():
    apart = group("apart")
    found = fleet({"a": 8, "b": 8, "c": 8}, [instance("x", "a", group=apart), instance("y", "b", group=apart)])
    with pytest.raises(PlanNotLegal, match="members of group apart"):
        check(found, [[("y", "c"), ("x", "b")]])
    check(found, [[("y", "c")], [("x", "b")]])


def test_an_instance_that_left_gives_its_room_back():
    found = fleet({"a": 4, "b": 4}, [instance("x", "a", 4)])
    state = State(found)
    state.enter("x", ["b"])
    assert state.hosts["a"].used["MEMORY_MB"] == state.hosts["b"].used["MEMORY_MB"] == 4096
    state.arrive()
    assert (state.hosts["a"].used["MEMORY_MB"], state.where["x"]) == (0, "b")


def test_an_entry_that_is_withdrawn_leaves_no_trace():
    state = State(fleet({"a": 4, "b": 4}, [instance("x", "a", 4)]))
    before = dict(state.hosts["b"].used)
    state.enter("x", ["b"])
    state.withdraw(["x"])
    assert state.hosts["b"].used == before and state.going == {} and "x" not in state.hosts["b"].instances


# -- questions
def test_capacity_counts_on_each_host_and_says_what_limits_it():
    found = questions.capacity(fleet({"a": 4, "b": 6}, [instance("x", "a", 1)]), instance("n", "a", 2).request)
    assert (found.count, found.of_host) == (4, {"a": 1, "b": 3})
    assert "MEMORY_MB: needs 2048, 1024 free" in found.limited["a"]


def test_capacity_with_hosts_kept_free_counts_without_those_that_could_take_most():
    found = questions.capacity(fleet({"a": 4, "b": 6}, []), instance("n", "a", 2).request, kept_free=1)
    assert found.count == 2


@pytest.mark.parametrize("policy, count", [("anti-affinity", 2), ("affinity", 3)])
def test_capacity_in_a_group_keeps_its_policy(policy, count):
    request = instance("n", "a", 2, group=group("g", policy)).request
    assert questions.capacity(fleet({"a": 4, "b": 6}, []), request).count == count


def test_hosts_that_are_away_fail_beside_those_that_are_asked_about():
    found = fleet({"a": 4, "b": 4, "c": 4}, [instance("x", "a", 3), instance("y", "b", 3)])
    assert questions.survive(found, 0, away=["a"]) == questions.Survival((), (), True)
    assert questions.survive(found, 1, away=["a"]).hosts == ("a", "b")
    assert questions.survive(found, 0, away=["a", "b"]).hosts == ("a", "b")


def test_a_fleet_survives_if_every_host_s_instances_find_a_place_on_the_others():
    found = fleet({"a": 4, "b": 4, "c": 4}, [instance("x", "a", 2), instance("y", "b", 2)])
    assert questions.survive(found, 1) == questions.Survival((), (), True)


def test_what_finds_no_place_without_its_host_is_named():
    found = questions.survive(fleet({"a": 4, "b": 2}, [instance("x", "a", 3), instance("y", "b", 1)]), 1)
    assert (found.hosts, found.names) == (("a",), ["x"])
