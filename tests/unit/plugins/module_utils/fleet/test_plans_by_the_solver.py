# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans by the solver: the best final places, an order in which each moment is legal, and what placement refuses."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from plans_case import fleet, group, instance

from ansible_collections.berth.kvm.plugins.module_utils.fleet import make_plan, propose, questions, terms
from ansible_collections.berth.kvm.plugins.module_utils.fleet.check import check
from ansible_collections.berth.kvm.plugins.module_utils.fleet.goals import Goal
from ansible_collections.berth.kvm.plugins.module_utils.fleet.state import State

pytest.importorskip("ortools")

DRAIN_A = Goal("drain", frozenset(("a",)))


def planned(found, goal):
    plan = make_plan.make(found, goal)
    check(found, plan.waves, goal.hosts)
    return plan


def test_a_drain_makes_room_by_moving_others_first():
    """x fits nowhere until y has left b for c."""
    found = fleet({"a": 4, "b": 4, "c": 2}, [instance("x", "a", 3), instance("y", "b", 2)])
    plan = planned(found, DRAIN_A)
    assert plan.waves == [[("y", "c")], [("x", "b")]] and plan.proven


def test_a_drain_that_no_order_of_moves_completes_is_proven_to_be_so():
    found = fleet({"a": 4, "b": 4, "c": 4}, [instance("x", "a", 2), instance("y", "b", 3), instance("z", "c", 3)])
    plan = planned(found, DRAIN_A)
    assert plan.waves == [] and plan.proven and "x" in plan.stays


def test_where_no_instance_can_move_first_no_plan_is_searched_and_that_is_the_proof(monkeypatch):
    """b has memory left and no vCPUs, c the other way around: places that are good exist, and no way begins."""
    monkeypatch.setattr(make_plan.propose, "propose", None)
    found = fleet(
        {"a": 8, "b": 8, "c": 8},
        [instance("x", "a", 2, vcpus=2), instance("y", "b", 4, vcpus=128), instance("z", "c", 8)],
    )
    plan = planned(found, DRAIN_A)
    assert plan.proven and plan.waves == [] and "no instance can move first" in plan.proof and "VCPU" in plan.stays["x"]


def test_an_affinity_group_that_can_move_as_a_set_is_something_to_begin_with():
    pair = group("pair", "affinity")
    held = [instance("v", "b", 1, group=pair), instance("w", "b", 1, group=pair)]
    found = fleet({"a": 4, "b": 4, "c": 2}, [instance("x", "a", 4), *held])
    assert planned(found, DRAIN_A).waves == [[("v", "c"), ("w", "c")], [("x", "b")]]


def test_places_that_are_good_and_cannot_be_reached_are_replaced_by_others():
    """Without regard to the order, x and y would trade places."""
    zone = {"name": "az", "hosts": ["a", "b"], "metadata": {"availability_zone": "az"}}
    found = fleet(
        {"a": 4, "b": 4, "c": 4}, [instance("x", "a", 4, availability_zone="az"), instance("y", "b", 4)], [zone]
    )
    plan = planned(found, DRAIN_A)
    assert plan.waves == [[("y", "c")], [("x", "b")]]


def in_one_order():
    """To drain a and g: x fits on h at once, and would then keep zv out, for which y waits, for which z waits."""
    zone = {"name": "az", "hosts": ["a", "g", "h"], "metadata": {"availability_zone": "az"}}
    return fleet(
        {"a": 2, "g": 2, "h": 6, "k": 4},
        [
            instance("x", "a", 2, availability_zone="az"),
            instance("z", "g", 2, availability_zone="az"),
            instance("y", "h", 3),
            instance("zv", "k", 2),
            instance("w", "k", 1, fixed="w is locked"),
        ],
        [zone],
    )


ORDER = [[("zv", "h")], [("y", "k")], [("x", "h"), ("z", "h")]]


def test_places_that_the_largest_first_does_not_reach_are_reached_in_another_order():
    plan = planned(in_one_order(), Goal("drain", frozenset("ag")))
    assert plan.waves == ORDER and plan.proof == "proven optimal"


def test_what_the_best_places_move_is_searched_in_more_waves_than_what_may_move_at_all(monkeypatch):
    monkeypatch.setattr(make_plan, "_in_another_order", lambda _fleet, _known, _to, tried, done, _effort: (tried, done))
    monkeypatch.setattr(make_plan, "MOST_WAVES", 1)
    assert planned(in_one_order(), Goal("drain", frozenset("ag"))).waves == ORDER


def test_repair_parts_a_group_with_as_few_moves_as_possible():
    apart = group("apart")
    members = [instance(name, "a", group=apart) for name in ("x", "y", "z")]
    plan = planned(fleet({"a": 8, "b": 8, "c": 8}, members), Goal("repair"))
    assert len(plan.moves) == 2 and {host for _uuid, host in plan.moves} == {"b", "c"} and plan.after == (0, 2)


def test_repair_empties_a_host_that_is_over_its_limit_only_as_far_as_it_must():
    found = fleet({"a": 4, "b": 8}, [instance("x", "a", 3), instance("y", "a", 2), instance("z", "a", 1)])
    assert planned(found, Goal("repair")).after == (0, 1)


def test_repair_moves_what_its_host_would_not_take_today():
    zone = {"name": "az", "hosts": ["b"], "metadata": {"availability_zone": "az"}}
    found = fleet({"a": 8, "b": 8}, [instance("x", "a", availability_zone="az")], [zone])
    assert planned(found, Goal("repair")).moves == [("x", "b")]


def test_repair_of_a_fleet_that_breaks_no_rule_moves_nothing():
    plan = planned(fleet({"a": 8, "b": 8}, [instance("x", "a")]), Goal("repair"))
    assert plan.moves == [] and plan.proof == "no rule is broken"


def test_repair_unites_an_affinity_group_on_a_host_that_has_room_for_one_member_after_the_other():
    pair = group("pair", "affinity")
    members = [instance("v", "a", 2, group=pair), instance("w", "b", 2, group=pair)]
    plan = planned(fleet({"a": 2, "b": 2, "d": 4}, [*members, instance("x", "d", 2)]), Goal("repair"))
    assert plan.waves in ([[("v", "d")], [("x", "a")], [("w", "d")]], [[("w", "d")], [("x", "b")], [("v", "d")]])
    assert plan.proof == "proven optimal"


def test_a_plan_has_no_part_of_a_group_whose_rest_placement_does_not_let_follow(monkeypatch):
    """y may part from z, but v went to d only because w would follow."""
    apart, pair = group("apart"), group("pair", "affinity")
    members = [instance("v", "a", 2, group=pair), instance("w", "b", 2, group=pair)]
    others = [instance("x", "d", 2, fixed="locked"), instance("y", "c", group=apart), instance("z", "c", group=apart)]
    proposal = propose.Proposal([{"v": "d", "y": "e"}, {"w": "d"}], True, 0, 0)
    monkeypatch.setattr(propose, "propose", lambda *_args: proposal)
    assert planned(fleet({"a": 2, "b": 2, "c": 2, "d": 4, "e": 1}, [*members, *others]), Goal("repair")).waves == []


def test_balance_lowers_the_fullest_host_as_far_as_its_moves_can():
    found = fleet({"a": 8, "b": 8}, [instance(name, "a", 2) for name in "wxyz"])
    plan = planned(found, Goal("balance", max_moves=1))
    assert (plan.before[0], plan.after) == (1.0, (0.75, 1))
    assert planned(found, Goal("balance", max_moves=9)).after == (0.5, 2)


@pytest.mark.parametrize("most, least", [(0, (10000, 0)), (1, (7500, 1)), (2, (5000, 2)), (3, (3750, 3)), (9, (0, 6))])
def test_below_what_the_hosts_could_give_away_no_balance_is_searched(most, least):
    """a is full by 4, 2 and 2 of 8, b by 3, 2 and 1, and c has nothing to give."""
    sizes = [("a", 4), ("a", 2), ("a", 2), ("b", 3), ("b", 2), ("b", 1)]
    found = fleet(dict.fromkeys("abc", 8), [instance("i%d" % at, *each) for at, each in enumerate(sizes)])
    known = terms.terms(found, terms.Empty(found), found.instances, "abc")
    model = propose._Model(State(found), known, Goal("balance", max_moves=most), (), 0)
    assert model._least_full("MEMORY_MB", most) == least


def test_balance_again_has_nothing_to_gain():
    found = fleet({"a": 8, "b": 8}, [instance("x", "a", 4), instance("y", "b", 4)])
    plan = planned(found, Goal("balance", max_moves=5))
    assert plan.moves == [] and plan.proof.startswith("nothing to gain")


def test_balance_moves_nothing_for_less_than_the_least_gain():
    found = fleet({"a": 10, "b": 10}, [instance("x", "a", 5), instance("y", "a", 1), instance("z", "b", 4)])
    assert planned(found, Goal("balance", max_moves=5)).moves == [("y", "b")]
    assert planned(found, Goal("balance", max_moves=5, least_gain=0.2)).moves == []


def test_balance_counts_vcpus_if_asked():
    found = fleet({"a": 8, "b": 8}, [instance("x", "a", 1, vcpus=8), instance("y", "a", 1, vcpus=8)])
    assert len(planned(found, Goal("balance", max_moves=5, resource="VCPU")).moves) == 1


def test_consolidate_empties_as_many_hosts_as_its_moves_can():
    instances = [instance("x", "a"), instance("y", "b"), instance("z", "c", 2), instance("w", "c", 2)]
    assert planned(fleet(dict.fromkeys("abc", 8), instances), Goal("consolidate", max_moves=1)).after == (2, 1)
    assert planned(fleet(dict.fromkeys("abc", 8), instances), Goal("consolidate", max_moves=2)).after == (1, 2)


def test_how_many_hosts_can_be_empty_at_most_is_proven_with_little_effort():
    """Eight moves empty the four hosts that have least, and no eight moves empty five."""
    hosts = {"h%d" % number: 16 for number in range(20)}
    instances = [
        instance("i%02d.%d" % (at, number), "h%d" % at) for at in range(20) for number in range(2 if at < 4 else 6)
    ]
    plan = make_plan.make(fleet(hosts, instances), Goal("consolidate", max_moves=8), effort=0.2)
    assert (plan.after, plan.proven) == ((16, 8), True)


def test_what_placement_refuses_though_the_numbers_fit_is_not_proposed_again():
    """Hints are no part of the solver's terms."""
    found = fleet(
        {"a": 8, "b": 8, "c": 8},
        [
            instance("x", "a", 4, scheduler_hints={"different_host": ["y"]}),
            instance("y", "b", 1),
            instance("z", "a", 4),
        ],
        options={"enabled_filters": ["DifferentHostFilter"]},
    )
    plan = planned(found, Goal("balance", max_moves=5))
    assert dict(plan.moves).get("x") != "b" and plan.after[0] == 0.5


def test_the_same_seed_gives_the_same_plan():
    found = fleet(dict.fromkeys("abcd", 8), [instance("i%d" % number, "a", 1) for number in range(8)])
    first, second = (planned(found, Goal("balance", max_moves=6)) for _each in range(2))
    assert first == second


def test_the_plan_does_not_depend_on_the_order_of_sets():
    """Python orders sets of texts anew in each process."""
    script = """
import hashlib, conftest
from plans_case import fleet, instance
from ansible_collections.berth.kvm.plugins.module_utils.fleet import goals, propose, state, terms
found = fleet(dict.fromkeys("abcd", 8), [instance("i%d" % n, "a", 4, vcpus=33) for n in range(4)])
model = propose._Model(state.State(found), terms.terms(found, terms.Empty(found), found.instances, "bcd"), goals.Goal("balance"), (), 2)
print(hashlib.sha256(str(model.cp.Proto()).encode()).hexdigest())
"""
    here = Path(__file__).resolve()
    paths = os.pathsep.join(map(str, (here.parents[4], here.parents[1])))
    models = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed},
            check=True, capture_output=True, text=True,
        ).stdout
        for seed in "110"
    }  # fmt: skip
    assert len(models) == 1


def test_a_drain_of_a_crowded_fleet_is_proven_with_little_effort():
    """What stays and what moves are two aims, each with a bound; their weighted sum has none that is worth the name."""
    rng, instances = random.Random(0), []
    hosts = ["h%02d" % number for number in range(12)]
    for host in hosts:
        free = 62
        while free > 3:
            size = rng.choice([gib for gib in (2, 4, 8, 8, 16, 32) if gib <= free]) if rng.random() < 0.9 else free
            if rng.random() > 1.6 / 12:
                instances.append(instance("vm%d" % len(instances), host, size, vcpus=max(1, size // 4)))
            free -= size
    found = fleet(dict.fromkeys(hosts, 62), instances)
    assert make_plan.make(found, Goal("drain", frozenset(hosts[:1])), effort=0.5).proven


def test_a_failing_host_is_only_named_if_no_choice_of_places_takes_all():
    """One after the other, largest first, x would go where only both of the others fit."""
    instances = [instance("x", "a", 4), instance("y", "a", 3), instance("z", "a", 3)]
    found = fleet({"a": 12, "b": 6, "c": 4}, instances, options={"weight_classes": []})
    assert questions.survive(found, 1).hosts == ()
