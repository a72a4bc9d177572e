# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan whose run is killed at any moment goes on: each move of what ran side by side may have reached each of its stages."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from plans_case import fleet, group, instance, told

from ansible_collections.berth.kvm.plugins.module_utils.fleet import make_plan, plan_file, propose, waves
from ansible_collections.berth.kvm.plugins.module_utils.fleet.check import PlanNotLegal, check
from ansible_collections.berth.kvm.plugins.module_utils.fleet.goals import Goal

PAIR = group("pair", "affinity")
SIZES = {"a": 7, "b": 6, "c": 6, "d": 8}
HERE = [
    instance("x", "a", 4),
    instance("v", "a", 1, group=PAIR),
    instance("w", "a", 1, group=PAIR),
    instance("y", "b", 4),
    instance("z", "c", 4, group=group("apart")),
    instance("u", "d", 2, group=group("apart")),
]
DRAIN = Goal("drain", frozenset("a"))
WAVES = [[("y", "d")], [("x", "b"), ("v", "d"), ("w", "d")]]
BEFORE, CLAIMED, SWITCHED, DONE = "before", "claimed", "switched", "done"
STAGES = (BEFORE, CLAIMED, SWITCHED, DONE)


def moments(at_once):
    """({uuid: its stage} of all moves of the plan, at each moment at which a run may be killed)."""
    begin = fleet(SIZES, HERE)
    parts = [part for wave in WAVES for part in waves.batches(wave, begin, at_once, 2)]
    seen = []
    for number, part in enumerate(parts):
        for stages in itertools.product(STAGES, repeat=len(part)):
            now = {uuid: DONE for earlier in parts[:number] for uuid, _host in earlier}
            now.update({uuid: stage for (uuid, _host), stage in zip(part, stages)})
            now.update({uuid: BEFORE for later in parts[number + 1 :] for uuid, _host in later})
            seen += [now] if now not in seen else []
    return seen


def killed(stages, closed=False):
    """The fleet as its hosts report it then; an instance whose move has not ended counts on both hosts."""
    to, now, also = {uuid: host for wave in WAVES for uuid, host in wave}, [], []
    for each in HERE:
        stage = stages.get(each.uuid, BEFORE)
        going = {"fixed": "a move of it has not ended", "going": to[each.uuid]} if stage in (CLAIMED, SWITCHED) else {}
        host = to[each.uuid] if stage in (SWITCHED, DONE) else each.host
        now.append(dataclasses.replace(each, host=host, **going))
        also += [(to[each.uuid], "IN", each)] if stage == CLAIMED else []
        also += [(each.host, "OUT", each)] if stage == SWITCHED else []
    found = fleet(SIZES, now)
    for host, role, each in also:
        document, flavor = found.documents[host], each.request["flavor"]
        document["instances"].append({**told(each), "role": role})
        document["vcpus_used"] += flavor["vcpus"]
        document["memory_mb_used"] += flavor["memory_mb"]
        document["local_gb_used"] += 1
    if closed:
        found.documents["a"]["service"] = {"disabled": True, "up": True}
    return found


def carried_out(document, now):
    """Where each instance is when the plan has gone on to its end, as apply_plan goes on, or why it cannot."""
    written = plan_file.read(document, "plan.yml")
    waves, first = plan_file.left(written, now), plan_file.begun(written, now)
    assert not {uuid for uuid, _host in first} & {uuid for wave in waves for uuid, _host in wave}
    ends = [(written.moves[uuid]["from"], uuid, host) for uuid, host in first]
    try:
        return check(now, waves, written.goal.closed, ends).where
    except PlanNotLegal as error:
        return {"a": str(error)}


@pytest.fixture(scope="module")
def document():
    plan = make_plan.Plan(DRAIN, WAVES, {}, True, "", (0,), (0,))
    return plan_file.to_document(fleet(SIZES, HERE), plan)


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_plan_that_is_killed_at_any_stage_of_its_moves_goes_on_to_the_same_end(document, at_once):
    end = carried_out(document, fleet(SIZES, HERE))
    assert {uuid: end[uuid] for wave in WAVES for uuid, _host in wave} == dict(WAVES[0] + WAVES[1])
    for stages in moments(at_once):
        assert carried_out(document, killed(stages)) == end, stages


def test_the_members_of_a_broken_affinity_group_follow_one_another_also_when_the_plan_is_killed_between_them():
    """Neither a nor b has room for both, d only after x has left."""
    sizes, to = {"a": 2, "b": 2, "d": 4}, [("v", "d"), ("x", "a"), ("w", "d")]
    here = [instance("v", "a", 2, group=PAIR), instance("w", "b", 2, group=PAIR), instance("x", "d", 2)]
    plan = make_plan.Plan(Goal("repair"), [[move] for move in to], {}, True, "", (1,), (0,))
    written = plan_file.to_document(fleet(sizes, here), plan)
    for made in range(4):
        now = [dataclasses.replace(each, host=dict(to[:made]).get(each.uuid, each.host)) for each in here]
        assert carried_out(written, fleet(sizes, now)) == dict(to), made


@pytest.mark.parametrize("at_once", [1, 4])
def test_a_drain_that_is_killed_at_any_stage_of_its_moves_and_planned_anew_empties_its_host(monkeypatch, at_once):
    """From where the room was made: then it needs no solver."""
    monkeypatch.setattr(propose, "cp_model", None)
    for stages in moments(at_once):
        if stages["y"] == DONE:
            now = killed(stages, closed=True)
            again = plan_file.to_document(now, make_plan.make(now, DRAIN))
            end = carried_out(again, now)
            assert again["stays"] == {} and set(end) == {each.uuid for each in HERE} and "a" not in end.values(), stages
