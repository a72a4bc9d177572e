# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's way to the walker: what a registered result becomes, and of which plan a walk is (R22)."""

from __future__ import annotations

from pathlib import Path

import yaml
from controller import Controller

from ansible_collections.berth.kvm.plugins.action import show_results
from ansible_collections.berth.kvm.plugins.module_utils.conductor.sequences import DECISION, SEQUENCES

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
PLAN = {
    "id": "plan-1", "uuid": UUID, "name": "web-1", "kind": "resize", "sequence": "resize", "source": "kvm1",
    "destination": "kvm2", "token": {"op": None, "attempt": 0}, "settles": False, "why": None, "place": True,
    "views": {"source": {"role": "OWN"}, "destination": {"role": None}}, "look": [], "spec": {"flavor": {"name": "big"}},
    "candidates": [{"op": "op", "host": "kvm2", "destination": {"uuid": "u2", "name": "kvm2"}, "limits": {}}],
    "source_host": {"uuid": "u1", "name": "kvm1"},
}  # fmt: skip
VIEW = {"uuid": UUID, "role": "OWN", "phase": "resizing", "confirm_in": None}
SAID = {"changed": True, "failed": False, "move": VIEW, "token": {"op": "op", "attempt": 1}}


def walk(before=None, answer=None, plan=None, **more):
    arguments = {"move": plan or PLAN, "walk": (before or {}).get("walk", {}), "answer": answer or {}, **more}
    return Controller({"kvm_hosts": ["kvm1", "kvm2"]}).run("walk_move", arguments)


def after(legs, **more):
    told = walk(**more)
    for _leg in range(legs):
        told = walk(told, SAID, **more)
    return told


def test_the_first_leg_is_given_out_with_its_host_its_words_and_its_arguments():
    told = walk(settings={"confirm_window": 9, "bandwidth": 3})
    assert (told["labels"], told["host"], told["tasks"]) == (["Begin the move on its source"], "kvm1", "leg.yml")
    assert (told["leg"]["steps"], told["leg"]["token"]) == (["begin"], {"op": "op", "attempt": 0})
    assert told["leg"]["confirm_window"] == 9 and "bandwidth" not in told["leg"]


def test_a_setting_that_no_leg_could_use_is_refused_before_the_first_one():
    told = walk(settings={"bandwidth": -1, "confirm_window": "9", "stop_timeout": -5, "timeout_action": "stop"})
    fields = [told["error"]["field"], *(error["field"] for error in told["error"]["also"])]
    assert (told["error_code"], fields) == ("InvalidInput", ["bandwidth", "stop_timeout", "timeout_action"])


TASKS = Path(__file__).parents[4] / "roles" / "move" / "tasks"


def the_task(file, module):
    """The arguments of the only task of a module, in a file of the role."""
    tasks = yaml.safe_load((TASKS / file).read_text())
    flat = [task for entry in tasks for task in entry.get("block", [entry])]
    return next(task[module] for task in flat if module in task)


def test_the_role_passes_each_argument_that_a_leg_may_need_to_its_host():
    needed = {need for sequence in SEQUENCES.values() for leg in sequence.legs for need in leg.needs}
    passed = the_task("leg.yml", "berth.kvm.migration")
    assert needed - set(passed) == set()
    for name in needed - {"key"}:
        assert passed[name] == "{{ move_walk.leg.%s | default(omit) }}" % name


def test_the_role_gives_the_walker_every_setting_that_is_not_decided_by_the_plan():
    needed = {need for sequence in SEQUENCES.values() for leg in sequence.legs for need in leg.needs}
    decided = {*DECISION, "key", "when_due"} - {"confirm_window"}
    assert set(the_task("walk.yml", "berth.kvm.walk_move")["settings"]) == needed - decided


def test_each_answer_brings_the_leg_after_it_up_to_the_end():
    told = after(5)
    assert told["labels"] == []
    assert (told["leg"], told["failure"], told["says"]) == (None, None, None)


def test_how_long_the_guest_is_away_goes_from_leg_to_leg():
    told = walk(after(3), {**SAID, "took": {"presend": 60.0, "freeze": 3.0, "send": 2.0, "release": 0.5}})
    told = walk(told, {**SAID, "took": {"acquire": 1.0, "start": 1.0}})
    assert told["labels"] == [] and 5.5 <= told["away"] < 60
    assert 5.5 <= show_results.registered(told)["away"] < 60  # what the closing table gets to know


def test_what_the_source_of_a_live_migration_measured_is_told_at_the_end():
    told = walk(after(4), {**SAID, "move": {**SAID["move"], "downtime_ms": 431}})
    assert told["labels"] == [] and told["away"] == 0.431


def test_the_key_is_only_said_to_be_needed_and_never_in_what_is_registered():
    told = after(2, settings={"stop_timeout": 20})
    assert told["needs_key"] and "key" not in told["leg"]
    assert not after(1)["needs_key"]


def test_a_leg_that_failed_is_followed_by_those_that_give_up_and_then_the_failure_is_told():
    told = walk(after(1), {"failed": True, "msg": "InsufficientRoom: it is full"})
    assert (told["leg"]["steps"], told["failure"]) == (["abort", "start"], None)
    for _leg in range(3):
        told = walk(told, SAID)
    assert "it is full" in told["failure"] and told["labels"] == []


SILENT = {"failed": True, "error_code": "HostUnknown", "msg": "HostUnknown: no route"}


def test_a_destination_that_does_not_answer_fails_the_leg_and_the_guest_goes_on_where_it_was():
    assert walk(after(1), SILENT)["leg"]["steps"] == ["abort", "start"]


def test_a_source_that_does_not_answer_is_not_asked_to_end_what_it_may_still_do():
    told = walk(after(3), SILENT)
    assert after(3)["host"] == "kvm1" and (told["labels"], told["failure"]) == ([], "HostUnknown: no route")


def test_a_claim_that_is_judged_after_all_hosts_were_read_is_given_up_where_it_does_not_stand():
    plan = {**PLAN, "look": ["kvm1", "kvm2"]}
    told = after(2, plan=plan)
    assert (told["tasks"], told["host"], told["labels"]) == ("look.yml", "kvm2", ["See whether the claim stands"])
    assert walk(told, {"changed": False, "failed": False}, plan=plan)["leg"]["steps"] == ["receive"]
    assert walk(told, {"failed": True, "msg": "QuotaExceeded"}, plan=plan)["leg"]["steps"] == ["abort", "start"]


def test_who_prepares_stops_after_the_claim_and_the_role_after_it_goes_on_from_there():
    prepared = after(2, only_prepare=True)
    assert (prepared["labels"], prepared["failure"]) == ([], None)
    assert walk(prepared)["leg"]["steps"] == ["receive"]


def test_a_walk_of_another_plan_is_not_gone_on_with():
    """An earlier play of the run has ended what it found, and then planned again."""
    assert walk(after(2), plan={**PLAN, "id": "plan-2"})["leg"]["steps"] == ["begin"]


def test_at_the_end_of_a_resize_it_is_said_where_it_is_and_what_is_next():
    told = after(4)
    resized = {**SAID, "move": {**VIEW, "phase": "resized", "confirm_in": 300}}
    said = walk(told, resized)["says"]
    assert told["move"] is None and walk(told, resized)["move"]["phase"] == "resized"
    assert said == "web-1 is on kvm2 and waits for confirm_resize or revert_resize; confirm_due confirms it in 300 s"
