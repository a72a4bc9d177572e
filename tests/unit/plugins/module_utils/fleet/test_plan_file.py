# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan is a file: what it says, what it refuses, what is left of it after a part was carried out."""

from __future__ import annotations

import copy
import dataclasses

import pytest
from plans_case import fleet, instance

from ansible_collections.berth.kvm.plugins.module_utils.fleet import make_plan, plan_file, waves
from ansible_collections.berth.kvm.plugins.module_utils.fleet.goals import Goal
from ansible_collections.berth.kvm.plugins.module_utils.fleet.plan_file import PlanStale
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput

SIZES = {"a": 8, "b": 8, "c": 8}
HERE = [instance("x", "a", 4), instance("y", "a", 2, how="cold"), instance("z", "b", 4)]


def document(instances=None):
    found = fleet(SIZES, HERE if instances is None else instances)
    return plan_file.to_document(found, make_plan.make(found, Goal("drain", frozenset(("a",)))))


def moved(name, host):
    return [dataclasses.replace(each, host=host) if each.uuid == name else each for each in HERE]


def left(now, sizes=None, **host):
    return plan_file.left(plan_file.read(document(), "plan.yml"), fleet(sizes or SIZES, now, **host))


def test_each_move_says_from_where_to_where_how_how_much_and_why():
    ((first, _second),) = document()["waves"]
    assert first == {
        "instance": "x", "uuid": "x", "from": "a", "to": "c", "how": "live", "memory_mb": 4096, "disk_gb": 1,
        "why": "leaves a",
    }  # fmt: skip


def test_a_plan_shows_how_full_the_hosts_are_before_and_after():
    assert document()["hosts"]["a"] == "memory 75 % -> 0 %, vCPUs 3 % -> 0 %"


def test_the_plan_of_the_same_fleet_is_the_same_text():
    assert document() == document()


def test_all_of_a_plan_is_left_while_nothing_has_moved():
    assert sorted(uuid for wave in left(HERE) for uuid, _host in wave) == ["x", "y"]


def test_what_a_plan_has_moved_already_is_done():
    assert [uuid for wave in left(moved("x", "c")) for uuid, _host in wave] == ["y"]


def test_a_move_that_has_begun_goes_on_first_and_is_not_begun_again():
    now = [dataclasses.replace(each, going="c") if each.uuid == "x" else each for each in HERE]
    written = plan_file.read(document(), "plan.yml")
    assert plan_file.begun(written, fleet(SIZES, now)) == [("x", "c")]
    assert [uuid for wave in left(now) for uuid, _host in wave] == ["y"]


def test_a_drain_goes_on_first_with_the_moves_that_an_earlier_one_has_begun():
    """And says of none that it stays."""
    begun = [
        dataclasses.replace(HERE[0], fixed="a move of it has not ended", going="c"),
        HERE[1],
        dataclasses.replace(HERE[2], fixed="a move of it has not ended", going="c"),
    ]
    plan, now = document(begun), fleet(SIZES, begun)
    assert [[move["uuid"] for move in wave] for wave in plan["waves"]] == [["x"], ["y"]]
    assert plan["stays"] == {}
    written = plan_file.read(plan, "plan.yml")
    assert plan_file.begun(written, now) == [("x", "c")] and len(plan_file.left(written, now)) == 1


def test_what_comes_home_goes_to_the_host_that_it_left_by_a_drain_where_that_has_room():
    away = [dataclasses.replace(instance(name, "b", gib), home="uuid-a") for name, gib in (("x", 6), ("y", 3))]
    found = fleet({"a": 8, "b": 16}, [*away, instance("z", "b")])
    made = make_plan.make(found, Goal("return", frozenset("a")))
    assert made.moves == [("x", "a")] and list(made.stays) == ["y"] and "MEMORY_MB" in made.stays["y"]
    assert plan_file.to_document(found, made)["waves"][0][0]["why"] == "comes home"


@pytest.mark.parametrize(
    "now, said",
    [
        (moved("x", "b"), "x is on b now, not on a"),
        (moved("z", "c"), "z is on c now, not on b"),
        (HERE[1:], "x is gone"),
        ([*HERE, instance("new", "c")], "new is new on c"),
        ([dataclasses.replace(HERE[0], name="other"), *HERE[1:]], "x is called other now"),
    ],
)
def test_a_plan_is_refused_if_instances_are_elsewhere_and_says_which(now, said):
    with pytest.raises(PlanStale, match=said):
        left(now)


def test_a_plan_is_refused_if_hosts_changed():
    with pytest.raises(PlanStale, match="c has 7168 MEMORY_MB now, not 8192"):
        left(HERE, {**SIZES, "c": 7})
    with pytest.raises(PlanStale, match="c does not answer"):
        left(HERE, {"a": 8, "b": 8})
    with pytest.raises(PlanStale, match="b is closed now; c is closed now"):
        left(HERE, service={"disabled": True})


def test_that_the_host_which_a_plan_empties_was_closed_meanwhile_is_no_change():
    written = plan_file.read(document(), "plan.yml")
    now = fleet(SIZES, HERE)
    now.documents["a"]["service"] = {"disabled": True}
    assert plan_file.changes(written, now) == []


@pytest.mark.parametrize(
    "field, change",
    [
        ("berth_plan", lambda plan: plan.update(berth_plan=2)),
        ("waves", lambda plan: plan.pop("waves")),
        (r"waves\[0\]\[0\].how", lambda plan: plan["waves"][0][0].update(how="fast")),
        ("waves", lambda plan: plan["waves"].append(plan["waves"][0])),
        ("state.hash", lambda plan: plan["state"]["hosts"]["a"]["instances"].pop("x")),
        ("waves", lambda plan: plan["waves"][0][0].update(instance="another")),
        ("waves", lambda plan: plan["waves"][0][0].update({"from": "b"})),
        ("waves", lambda plan: plan["waves"][0][0].update(uuid="z")),
        ("goal.name", lambda plan: plan["goal"].update(name="win")),
    ],
)
def test_a_file_that_is_no_plan_is_refused_and_names_the_field(field, change):
    plan = copy.deepcopy(document())
    change(plan)
    with pytest.raises(InvalidInput, match="berth_plan plan.yml: %s" % field):
        plan_file.read(plan, "plan.yml")


@pytest.mark.parametrize("document", [{"all": {"children": {}}}, [], None, "plan"])
def test_a_file_of_something_else_is_named_and_what_is_expected(document):
    with pytest.raises(InvalidInput, match="'fleet.yml' is not valid .the file that berth.kvm.plan has written"):
        plan_file.read(document, "fleet.yml")


def test_a_wave_is_made_in_parts_with_so_many_moves_in_all_and_of_each_host():
    found = fleet(SIZES, HERE)
    wave = [("x", "c"), ("y", "b"), ("z", "c")]
    assert waves.batches(wave, found, 4, 4) == [wave]
    assert waves.batches(wave, found, 2, 4) == [wave[:2], wave[2:]]
    assert waves.batches(wave, found, 4, 1) == [[("x", "c")], [("y", "b")], [("z", "c")]]
