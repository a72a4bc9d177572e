# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small fleets of which other systems say what becomes of them: tests/fleet/peers.yml."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
import yaml
from plans_case import fleet, group, instance

from ansible_collections.berth.kvm.plugins.module_utils.fleet import make_plan, questions
from ansible_collections.berth.kvm.plugins.module_utils.fleet.check import check
from ansible_collections.berth.kvm.plugins.module_utils.fleet.goals import Goal

pytest.importorskip("ortools")
CASES = yaml.safe_load((Path(__file__).resolve().parents[4] / "fleet" / "peers.yml").read_text("utf-8"))
GOALS = {"repair": Goal("repair"), "balance": Goal("balance", max_moves=10)}


def made(case, on=None):
    """The fleet of a case; ``on``: where its instances are by now."""
    groups = {name: group(name, policy) for name, policy in case.get("groups", {}).items()}
    instances = []
    for name, (host, memory_mb, vcpus, *of) in case["instances"].items():
        each = instance(name, (on or {}).get(name, host), 1, group=groups[of[0]] if of else None, vcpus=vcpus)
        each.request["flavor"]["memory_mb"] = memory_mb
        instances.append(dataclasses.replace(each, home="uuid-" + host))
    found = fleet(dict.fromkeys(case["hosts"], 1), instances)
    for host, (memory_mb, vcpus) in case["hosts"].items():
        ratio = case.get("vcpus_of_a_cpu", 4)
        found.documents[host].update(memory_mb=memory_mb, vcpus=vcpus, cpu_allocation_ratio=float(ratio))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_a_small_fleet_ends_as_other_systems_say_or_as_nova_does(case):
    found, ask, expect = made(case), case["ask"], case["expect"]
    if ask == "survive":
        answer = questions.survive(found, 1)
        assert (not answer.hosts, list(answer.hosts)) == (expect["survives"], expect["failing"])
        return
    if "capacity" in ask:
        memory_mb, vcpus = ask["capacity"]
        request = instance("one more", "", vcpus=vcpus).request
        request["flavor"]["memory_mb"] = memory_mb
        assert questions.capacity(found, request).count == expect["fits"]
        return
    goal = Goal("drain", frozenset((ask["drain"],))) if isinstance(ask, dict) else GOALS[ask]
    plan = make_plan.make(found, goal)
    where = check(found, plan.waves, goal.closed).where
    held = Counter(where.values())
    assert len(plan.moves) == expect["moves"] and not held.keys() & goal.closed
    assert expect.get("on", {}).items() <= where.items() and expect.get("count", {}).items() <= held.items()
    assert max(held.values()) <= expect.get("most", len(where))
    back = make_plan.make(made(case, where), Goal("return", goal.hosts)).moves
    assert "returns" not in expect or back == [(uuid, ask["drain"]) for uuid, _host in plan.moves]
