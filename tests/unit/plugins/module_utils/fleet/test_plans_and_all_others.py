# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan says of all other plans, against all that there are: of a small fleet every sequence of moves can be tried."""

from __future__ import annotations

import random

import pytest
from plans_case import fleet, group, instance

from ansible_collections.berth.kvm.plugins.module_utils.fleet import make_plan
from ansible_collections.berth.kvm.plugins.module_utils.fleet.goals import Goal

pytest.importorskip("ortools")

HOSTS, CLOSED = "abcd", "a"
OF_FEW = "of all plans with at most"  # a claim that is not about all plans


def crowded(seed):
    """({host: GiB}, [instance]) with at most 1 GiB free on each host but the one that is drained."""
    rng = random.Random(seed)
    sizes = {host: rng.randint(3, 7) for host in HOSTS[: rng.choice((3, 4))]}
    instances = []
    for host, size in sizes.items():
        left = size - (rng.randint(0, 3) if host == CLOSED else rng.randint(0, 1))
        while left > 0 and len(instances) < 6:
            instances.append(instance("i%d" % len(instances), host, rng.randint(1, min(left, 4))))
            left -= instances[-1].request["flavor"]["memory_mb"] // 1024
    return sizes, instances


def best_of_all(sizes, instances):
    """(how many stay, moves) of the best plan: also one that moves an instance many times. A wave is no more than its moves."""
    gib = [each.request["flavor"]["memory_mb"] // 1024 for each in instances]
    layer = [tuple(each.host for each in instances)]
    seen, best, moves = set(layer), [], 0
    while layer:
        best += [(places.count(CLOSED), moves) for places in layer]
        layer = sorted({after for places in layer for after in next_places(sizes, gib, places)} - seen)
        seen.update(layer)
        moves += 1
    return min(best)


def next_places(sizes, gib, places):
    for host in sizes.keys() - {CLOSED}:
        free = sizes[host] - sum(size for size, at in zip(gib, places) if at == host)
        for number, (size, at) in enumerate(zip(gib, places)):
            if at != host and size <= free:
                yield (*places[:number], host, *places[number + 1 :])


def test_what_a_plan_proves_of_all_plans_is_true_of_each_of_them():
    proofs = set()
    for seed in range(40):
        sizes, instances = crowded(seed)
        plan = make_plan.make(fleet(sizes, instances), Goal("drain", frozenset(CLOSED)))
        if plan.proven and OF_FEW not in plan.proof:
            assert plan.after == best_of_all(sizes, instances), (seed, plan.proof)
            proofs.add(plan.proof)
    assert proofs == {
        "there is nothing to move",
        "no plan has fewer moves",
        "proven optimal",
        "proven: no instance can move first, as no host takes any of those that may move",
    }


def test_where_the_best_places_are_reached_only_by_moving_an_instance_twice_the_proof_is_about_fewer_plans():
    """i0 leaves a in the last of seven moves. What other places show to be best says nothing of these."""
    zone = {"name": "az", "hosts": ["a", "c", "d"], "metadata": {"availability_zone": "az"}}
    instances = [
        instance("i0", "a", 2, vcpus=40), instance("i1", "b", 1, vcpus=40), instance("i3", "c", 2, vcpus=8),
        instance("i2", "c", 4, vcpus=32, availability_zone="az"), instance("i4", "d", 1, vcpus=16),
        instance("i5", "d", 1, vcpus=16, availability_zone="az"), instance("i6", "d", 4, vcpus=32, group=group("apart")),
    ]  # fmt: skip
    found = fleet({"a": 3, "b": 3, "c": 6, "d": 8}, instances, [zone], vcpus=64, cpu_allocation_ratio=1.0)
    plan = make_plan.make(found, Goal("drain", frozenset("a")))
    assert plan.moves == [] and OF_FEW in plan.proof
