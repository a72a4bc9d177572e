# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's way to the walker: what the result of a leg becomes, and of which plan a walk is (R22)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from controller import Controller

from ansible_collections.berth.kvm.plugins.module_utils.conductor.sequences import DECISION, SEQUENCES
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, end_of_operation, walking

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


KEY = "0123456789abcdef"


def controller():
    return Controller({"kvm_hosts": ["kvm1", "kvm2"]})


def found(result):
    """How far the move has come, which the result of a task says."""
    return result["ansible_facts"][walking.FACT]


def begun(plan=None, **more):
    return controller().run("walk_move", {"move": plan or PLAN, **more})


def walk(at, answer, plan=None):
    """What follows a leg that failed, or that asked all hosts."""
    return found(controller().run("walk_move", {"move": plan or PLAN, "at": at, "answer": answer}))


@pytest.fixture
def host(monkeypatch):
    """The hosts: what each was asked; ``host.says`` is their next answer."""

    class Host:
        says, asked = SAID, []

        def run_on(self, hosts, module, given, _task, _at_once, _seconds):
            self.asked = [*self.asked, *((name, module, given[name]) for name in hosts)]
            return {name: self.says for name in hosts}

        def leg(self, at, says=None, plan=None):
            self.says = SAID if says is None else says
            return controller().run("run_leg", {"move": plan or PLAN, "at": at, "key": KEY})

        def after(self, legs, plan=None, **more):
            at = found(begun(plan, **more))
            for _leg in range(legs):
                at = found(self.leg(at, plan=plan))
            self.asked = []
            return at

    it = Host()
    monkeypatch.setattr(delegates, "run_on", it.run_on)
    return it


def test_the_first_leg_is_given_out_with_its_words_and_run_on_its_host_with_its_arguments(host):
    at = found(begun(settings={"confirm_window": 9, "bandwidth": 3}))
    assert (at["labels"], at["host"], at["tasks"]) == (["Begin the move on its source"], "kvm1", "leg.yml")
    host.leg(at)
    [(where, module, asked)] = host.asked
    assert (where, module) == ("kvm1", "berth.kvm.migration")
    assert (asked["steps"], asked["token"]) == (["begin"], {"op": "op", "attempt": 0})
    assert asked["confirm_window"] == 9 and "bandwidth" not in asked


def test_a_setting_that_no_leg_could_use_is_refused_before_the_first_one():
    wrong = {"bandwidth": -1, "confirm_window": "9", "stop_timeout": -5, "timeout_action": "stop", "tls": "flase"}
    told = begun(settings=wrong)
    fields = [told["error"]["field"], *(error["field"] for error in told["error"]["also"])]
    assert (told["error_code"], fields) == ("InvalidInput", ["bandwidth", "stop_timeout", "timeout_action", "tls"])


def test_a_survey_without_an_answer_leaves_a_setting_at_its_default():
    at = found(begun(settings={"confirm_window": "", "tls": "", "timeout_action": "", "bandwidth": "7"}))
    assert at["settings"] == {"bandwidth": 7}


TASKS = Path(__file__).parents[4] / "roles" / "move" / "tasks"


def test_the_role_gives_the_walker_every_setting_that_is_not_decided_by_the_plan():
    needed = {need for sequence in SEQUENCES.values() for leg in sequence.legs for need in leg.needs}
    decided = {*DECISION, "key", "when_due"} - {"confirm_window"}
    tasks = yaml.safe_load((TASKS / "main.yml").read_text())
    assert set(tasks[0]["berth.kvm.walk_move"]["settings"]) == needed - decided


def test_roles_of_moves_that_copy_make_the_key_which_some_of_their_legs_need():
    copying = {name for name, sequence in SEQUENCES.items() if any("key" in leg.needs for leg in sequence.legs)}
    assert copying == {"resize", "live_migrate"}  # cold_migrate walks the sequence of a resize
    for role in ("resize", "cold_migrate", "live_migrate"):
        tasks = yaml.safe_load((TASKS.parents[1] / role / "tasks" / "main.yml").read_text())
        assert tasks[0]["ansible.builtin.include_role"]["tasks_from"] == "with_key"


def test_each_answer_brings_the_leg_after_it_up_to_the_end(host):
    at = host.after(5)
    assert (at["labels"], at["tasks"], at["failure"]) == ([], None, None)


def test_how_long_the_guest_is_away_goes_from_leg_to_leg(host):
    took = {"presend": 60.0, "freeze": 3.0, "send": 2.0, "release": 0.5}
    at = found(host.leg(host.after(3), {**SAID, "took": took}))
    at = found(host.leg(at, {**SAID, "took": {"acquire": 1.0, "start": 1.0}}))
    assert at["labels"] == [] and 5.5 <= at["away"] < 60
    assert 5.5 <= end_of_operation.registered(at)["away"] < 60  # what the closing table gets to know


def test_what_the_source_of_a_live_migration_measured_is_told_at_the_end(host):
    at = found(host.leg(host.after(4), {**SAID, "move": {**SAID["move"], "downtime_ms": 431}}))
    assert at["labels"] == [] and at["away"] == 0.431


def test_the_key_goes_only_to_the_legs_that_need_it_and_is_never_in_a_result(host):
    for legs, needs in ((1, False), (2, True), (3, True)):
        at = host.after(legs)
        result = host.leg(at)
        assert (host.asked[-1][2].get("key") == KEY) == needs
        assert KEY not in str(result)


def test_the_failure_of_a_leg_names_the_instance_by_its_name(host):
    at = host.after(0)
    said = "InstanceInvalidState: Cannot 'resize' instance %s while it is in task_state resize_prep" % PLAN["uuid"]
    result = host.leg(at, {"failed": True, "msg": said})
    assert result["msg"] == said.replace(PLAN["uuid"], PLAN["name"])


def test_a_leg_that_failed_says_only_why_and_is_followed_by_those_that_give_up_and_then_by_the_failure(host):
    before, failed = host.after(1), {"failed": True, "msg": "InsufficientRoom: it is full"}
    assert host.leg(before, failed) == {"changed": False, **failed}  # and the fact stays as it was
    at = walk(before, failed)
    assert (at["labels"], at["failure"]) == (["Give the move up on the source and let the guest continue there"], None)
    host.asked = []
    for _leg in range(3):
        at = found(host.leg(at))
    assert host.asked[0][2]["steps"] == ["abort", "start"]
    assert "it is full" in at["failure"] and at["tasks"] == "failed.yml"


SILENT = {"unreachable": True, "msg": "no route"}


def test_a_destination_that_does_not_answer_fails_the_leg_and_the_guest_goes_on_where_it_was(host):
    at = host.after(1)
    failed = host.leg(at, SILENT)
    assert failed["failed"] and "kvm2 did not answer: no route" in failed["msg"]
    assert walk(at, failed)["labels"] == ["Give the move up on the source and let the guest continue there"]


def test_a_source_that_does_not_answer_is_not_asked_to_end_what_it_may_still_do(host):
    before = host.after(3)
    at = walk(before, host.leg(before, SILENT))
    assert before["host"] == "kvm1" and at["tasks"] == "failed.yml"
    assert at["failure"].startswith("HostUnknown: kvm1 did not answer: no route")


def test_a_claim_that_is_judged_after_all_hosts_were_read_is_given_up_where_it_does_not_stand(host):
    plan = {**PLAN, "look": ["kvm1", "kvm2"]}
    at = host.after(2, plan)
    assert (at["tasks"], at["host"], at["labels"]) == ("look.yml", "kvm2", ["See whether the claim stands"])
    scans = {"answers": {"kvm1": {"instances": []}, "kvm2": {"instances": []}}}
    assert walk(at, scans, plan)["labels"] == ["Open empty disks on the destination"]
    given_up = walk(at, {"answers": {"kvm1": {"instances": []}}}, plan)
    assert given_up["labels"] == ["Give the move up on the source and let the guest continue there"]


def test_who_prepares_stops_after_the_claim_and_the_role_after_it_goes_on_from_there(host):
    prepared = host.after(2, only_prepare=True)
    assert (prepared["labels"], prepared["failure"]) == ([], None)
    assert found(begun(at=prepared))["labels"] == ["Open empty disks on the destination"]


def test_a_walk_of_another_plan_is_not_gone_on_with(host):
    """An earlier play of the run has ended what it found, and then planned again; or facts are kept between runs."""
    at = host.after(2)
    assert found(begun({**PLAN, "id": "plan-2"}, at=at))["labels"] == ["Begin the move on its source"]
    assert walking.of_plan({"ansible_facts": {walking.FACT: at}}, PLAN) == at
    assert walking.of_plan({"ansible_facts": {walking.FACT: at}}, {**PLAN, "id": "plan-2"}) == {}


def test_what_the_hosts_have_after_the_last_leg_is_known_to_the_closing_table(host):
    at = host.after(4)
    resized = {**SAID, "move": {**VIEW, "phase": "resized", "confirm_in": 300}}
    assert at["move"] is None and found(host.leg(at, resized))["move"]["phase"] == "resized"


def test_each_leg_has_a_number_of_its_own_also_after_a_failure(host):
    at = host.after(2)
    assert (at["number"], walk(at, {"failed": True, "msg": "full"})["number"]) == (3, 4)
