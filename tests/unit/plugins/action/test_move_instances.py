# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move in one task: what each leg is asked with, and what the task says of it (R22)."""

from __future__ import annotations

import secrets
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from controller import Controller

from ansible_collections.berth.kvm.plugins.action import move_instances
from ansible_collections.berth.kvm.plugins.module_utils.conductor.sequences import DECISION, SEQUENCES
from ansible_collections.berth.kvm.plugins.module_utils.model import hints
from ansible_collections.berth.kvm.plugins.plugin_utils import (
    acting,
    delegates,
    move_options,
    moving_instances,
    shared_task,
)
from ansible_collections.berth.kvm.plugins.plugin_utils.controller import outcomes_reported
from ansible_collections.berth.kvm.plugins.plugin_utils.moving_instances import Asked

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
PLAN = {
    "id": "plan-1", "uuid": UUID, "name": "web-1", "kind": "resize", "sequence": "resize", "source": "kvm1",
    "destination": "kvm2", "token": {"op": None, "attempt": 0}, "settles": False, "why": None, "place": True,
    "views": {"source": {"role": "OWN"}, "destination": {"role": None}}, "look": [], "spec": {"flavor": {"name": "big"}},
    "candidates": [{"op": "op", "host": "kvm2", "destination": {"uuid": "u2", "name": "kvm2"}, "limits": {}}],
    "source_host": {"uuid": "u1", "name": "kvm1"},
}  # fmt: skip
MOVES = {
    "id": "p1", "action": "resize", "run": acting.RUN, "names": ["web-1"], "moves": {"web-1": PLAN}, "act": ["web-1"], "settle": [],
    "errors": {}, "left_out": {},
}  # fmt: skip
VIEW = {"uuid": UUID, "role": "OWN", "phase": "resizing", "confirm_in": None}
SAID = {"changed": True, "failed": False, "move": VIEW, "token": {"op": "op", "attempt": 1}}
ROLES = Path(__file__).parents[4] / "roles"


@pytest.fixture
def host(monkeypatch):
    """The hosts: what each was asked; ``host.says``: step -> an answer that is another than SAID."""

    class Host:
        says, scans, asked, closed = {}, {}, [], {}

        def run_on(self, hosts, module, given, _task, _at_once, _seconds):
            if module == "berth.kvm.rescan":
                return {name: self.scans[name] for name in hosts}
            self.asked = [*self.asked, *((name, module, given[name]) for name in hosts)]
            return {name: self.says.get(given[name]["steps"][0], SAID) for name in hosts}

        def run(self, moves=None, variables=None, name="web-1", play=("web-1", "web-2"), **args):
            it = Controller(
                {"kvm_hosts": ["kvm1", "kvm2"], "vms": ["web-1", "web-2"]},
                {name: variables or {}, "kvm2": self.closed},
                facts={"localhost": {"berth_moves": moves or MOVES}},
            )
            given = {"operation": "resize", "hosts": ["kvm1", "kvm2"], "may_fail": True, **args}
            return it.run(
                "move_instances",
                given,
                {**it.task_vars(), "ansible_play_hosts": list(play), "inventory_hostname": name, **(variables or {})},
            )

        def steps(self):
            return [(name, given["steps"][0]) for name, _module, given in self.asked]

    it = Host()
    monkeypatch.setattr(delegates, "run_on", it.run_on)
    return it


def test_the_legs_run_on_their_hosts_with_what_they_need(host, capsys):
    done = host.run(variables={"berth_confirm_window": 9, "berth_bandwidth": 3})
    assert done["changed"] and not done["failure"] and done["outcomes"][0]["state"] == "resized"
    assert host.steps() == [
        ("kvm1", "begin"), ("kvm2", "claim"), ("kvm2", "receive"), ("kvm1", "presend"), ("kvm2", "acquire")
    ]  # fmt: skip
    first, third = host.asked[0][2], host.asked[2][2]
    assert host.asked[0][1] == "berth.kvm.migration"
    assert (first["confirm_window"], third["stop_timeout"] if "stop_timeout" in third else None) == (9, None)
    assert "bandwidth" not in first and host.asked[3][2]["bandwidth"] == 3
    assert [leg["label"] for leg in done["legs"]][0] == "Begin the move on its source"
    assert "web-1: Claim room on the destination" in capsys.readouterr().out


def test_a_setting_that_no_leg_could_use_is_refused_before_the_first_one(host):
    wrong = {"bandwidth": -1, "confirm_window": "9", "shutdown_timeout": -5, "migration_timeout_action": "stop"}
    told = host.run(variables={"berth_" + name: value for name, value in wrong.items()})
    fields = [told["error"]["field"], *(error["field"] for error in told["error"]["also"])]
    names = ["berth_bandwidth", "berth_shutdown_timeout", "berth_migration_timeout_action"]
    assert (told["error_code"], fields) == ("InvalidInput", names)
    assert host.asked == []


def test_a_survey_without_an_answer_leaves_a_setting_at_its_default(host):
    host.run(variables={"berth_confirm_window": "", "berth_bandwidth": "7", "berth_shutdown_timeout": ""})
    assert "confirm_window" not in host.asked[0][2] and host.asked[3][2]["bandwidth"] == 7


@pytest.mark.parametrize(
    "prepares, variables, window",
    [
        (False, {"resize_confirm_window": 9}, 9),
        (False, {"resize_confirm_window": 9, "berth_confirm_window": 5}, 9),
        (False, {"cold_migrate_confirm_window": 9, "berth_confirm_window": 5}, 5),
        (False, {"prep_resize_confirm_window": 9}, None),
        (True, {"prep_resize_confirm_window": 9, "resize_confirm_window": 7}, 9),
        (True, {"resize_confirm_window": 7}, 7),
    ],
)
def test_the_name_that_an_option_had_for_this_role_before_1_0_counts_still(host, prepares, variables, window):
    host.run(variables=variables, only_prepare=prepares)
    assert host.asked[0][2].get("confirm_window") == window


def test_what_ends_an_earlier_move_knows_how_long_a_guest_has_to_shut_down(host):
    """Also where the role that was run has no such option."""
    host.run(variables={"berth_shutdown_timeout": 33})
    assert host.asked[2][2]["stop_timeout"] == 33


def test_the_key_is_another_one_for_each_transfer_goes_only_to_the_legs_that_need_it_and_is_in_no_result(host):
    results = [host.run(), host.run()]
    keys = [given.get("key") for _name, _module, given in host.asked]
    assert [bool(key) for key in keys] == 2 * [False, False, True, True, False]
    assert keys[2] == keys[3] != keys[7] and len(keys[2]) == 64
    assert not any(key in str(result) for result in results for key in keys if key)


def test_each_setting_that_a_leg_needs_has_a_variable_or_is_made_by_the_run():
    needed = {need for sequence in SEQUENCES.values() for leg in sequence.legs for need in leg.needs}
    decided = {*DECISION, "key", "when_due"} - {"confirm_window"}
    assert set(move_options.OPTIONS) | set(moving_instances.CONSENT) == needed - decided


@pytest.mark.parametrize(
    "role", ["prep_resize", "resize", "cold_migrate", "live_migrate", "confirm_resize", "revert_resize"]
)
def test_a_role_of_a_move_is_one_task(role):
    assert len(yaml.safe_load((ROLES / role / "tasks" / "main.yml").read_text())) == 1


def test_a_claim_that_is_refused_is_given_up_and_the_playbook_hears_why(host):
    host.says = {"claim": {"failed": True, "msg": "InsufficientRoom: it is full", "error": {
        "code": "InsufficientRoom", "message": "it is full", "retryable": True}}}  # fmt: skip
    done = host.run()
    assert host.steps() == [
        ("kvm1", "begin"), ("kvm2", "claim"), ("kvm1", "abort"), ("kvm2", "purge"), ("kvm1", "finish")
    ]  # fmt: skip
    assert not done.get("failed") and done["failure"] == "InsufficientRoom: it is full" and done["move"] is None
    assert [each["host"] for each in done["attempts"]] == ["kvm2"]


SILENT = {"unreachable": True, "msg": "no route"}


def test_a_destination_that_does_not_answer_fails_the_leg_and_the_guest_goes_on_where_it_was(host):
    host.says = {"claim": SILENT}
    done = host.run()
    assert done["failure"].startswith("HostUnknown: kvm2 did not answer: no route")
    assert host.steps()[2:] == [("kvm1", "abort"), ("kvm2", "purge"), ("kvm1", "finish")]


def test_a_destination_that_was_closed_meanwhile_is_not_advised_to_be_given_up(host):
    host.says, host.closed = {"claim": SILENT}, {"berth_host_disabled": True}
    assert host.run()[
        "failure"
    ] == "HostUnknown: kvm2 did not answer: closed by the inventory; no route. " + hints.bring_back(["kvm2"])


def record(uuid, role, vcpus):
    return {"uuid": uuid, "role": role, "project_id": "p", "group": None, "vcpus": vcpus, "pcpus": 0, "memory_mb": 128}


@pytest.mark.parametrize("others, well", [([], True), ([record("other", "CLAIM", 1)], False)])
def test_a_claim_that_all_hosts_together_take_over_the_quota_is_given_up(host, others, well):
    """I7"""
    spec = {"uuid": UUID, "name": "a", "project_id": "p", "flavor": {"vcpus": 2, "memory_mb": 256}, "group": None}
    views = {
        "source": {"role": "OWN", "spec": {"flavor": {"vcpus": 1, "memory_mb": 128}}},
        "destination": {"role": None},
    }
    plan = {**PLAN, "look": ["kvm1", "kvm2"], "spec": spec, "views": views}
    scans = {"kvm1": [record(UUID, "OWN", 1), *others], "kvm2": [record(UUID, "IN", 2)]}
    host.scans = {name: {"changed": False, "instances": held} for name, held in scans.items()}
    done = host.run({**MOVES, "moves": {"web-1": plan}}, variables={"berth_quotas": {"p": {"cores": 3}}})
    assert (done["failure"] is None) is well, done["failure"]
    if not well:
        assert done["failure"].startswith("QuotaExceeded: ") and ("kvm1", "abort") in host.steps()


def test_a_source_that_falls_silent_is_not_asked_to_end_what_it_may_still_do(host):
    host.says = {"presend": SILENT}
    done = host.run()
    assert host.steps()[-1] == ("kvm1", "presend")
    assert done["failure"].startswith("HostUnknown: kvm1 did not answer: no route")


def test_a_source_whose_reply_is_wrong_is_there_and_gives_up(host):
    wrong = {"code": "InvalidReply", "message": "kvm1 sent a wrong reply", "retryable": False}
    host.says = {"presend": {"failed": True, "msg": "InvalidReply", "error_code": "InvalidReply", "error": wrong}}
    assert "InvalidReply: kvm1 sent a wrong reply" in host.run()["failure"]
    assert ("kvm1", "abort") in host.steps()


def test_a_plan_that_was_carried_out_is_not_carried_out_again(host):
    def planned(operation, name, facts):
        it = Controller({"vms": ["web-1"]}, facts={"localhost": facts})
        return move_instances._of_playbook(Asked(operation, None, it.task_vars()), name)

    assert planned("resize", "web-1", {"berth_moves": MOVES})["id"] == "p1"
    assert planned("resize", "localhost", {"berth_moves": MOVES}) is None
    assert planned("confirm", "web-1", {"berth_moves": MOVES}) is None
    assert planned("resize", "web-1", {"berth_moves": MOVES, **host.run()["ansible_facts"]}) is None


OTHER = {**PLAN, "uuid": "1b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "name": "web-2"}


@pytest.fixture
def both():
    """A plan of two instances, which no other test has carried out."""
    moves = {"web-1": PLAN, "web-2": OTHER}
    return {**MOVES, "id": secrets.token_hex(16), "names": list(moves), "moves": moves, "act": list(moves)}


def test_the_last_of_those_that_were_planned_together_ends_the_run_for_all(host, both, capsys):
    host.says = {"presend": {"failed": True, "msg": "Cut: off", "error": {"code": "Cut", "message": "off"}}}
    first = host.run(both)
    assert "outcomes" not in first and first["error"]["code"] == "Cut" and "INSTANCE" not in capsys.readouterr().out
    host.says = {}
    last = host.run(both, name="web-2")
    assert {line["instance"]: line["state"] for line in last["outcomes"]} == {"web-1": "failed", "web-2": "resized"}
    assert list(last["ansible_facts"]["berth_results"]["failed"]) == ["web-1"]
    assert "web-1: Cut: off" in capsys.readouterr().out


def test_the_report_is_not_finished_while_others_of_the_task_are_at_work(host):
    play = SimpleNamespace(_uuid=secrets.token_hex(8))
    task = SimpleNamespace(_task=SimpleNamespace(_uuid=secrets.token_hex(8), get_play=lambda: play))
    shared_task.noted(task, {"web-2": None})
    ended = host.run()
    assert outcomes_reported(task, ended) is None
    shared_task.noted(task, {"web-2": {"instance": "web-2"}})
    told = outcomes_reported(task, ended)["outcomes"]
    assert [each["instance"] for each in told] == ["web-2", "web-1"]


def test_the_report_has_what_earlier_tasks_and_batches_of_the_play_did(host):
    play = SimpleNamespace(_uuid=secrets.token_hex(8))
    first, second = (
        SimpleNamespace(_task=SimpleNamespace(_uuid=secrets.token_hex(8), get_play=lambda: play)) for _each in "ab"
    )
    shared_task.noted(first, {"web-2": {"instance": "web-2"}, "web-1": {"instance": "web-1", "state": "migrated"}})
    shared_task.noted(first, {"web-3": None})  # its process ended: that is no business of the next task
    told = outcomes_reported(second, host.run())["outcomes"]
    assert [each["instance"] for each in told] == ["web-1", "web-2"] and "flavor" in told[0]


def test_who_left_the_play_is_not_waited_for_and_its_result_is_not_known(host, both):
    last = host.run(both, play=["web-2"], name="web-2")
    assert "outcomes" in last
    told = {line["instance"]: line.get("error_code") for line in last["outcomes"]}
    assert told == {"web-1": "HostUnknown", "web-2": None}


def test_a_wrong_setting_of_one_instance_is_told_in_the_table_of_all(host, both):
    host.run(both, variables={"berth_bandwidth": -1})
    last = host.run(both, name="web-2")
    assert {line["instance"]: line.get("error_code") for line in last["outcomes"]} == {
        "web-1": "InvalidInput",
        "web-2": None,
    }


def test_a_warning_of_a_host_reaches_people(host, monkeypatch):
    heard = []
    monkeypatch.setattr(
        "ansible.utils.display.Display.warning", lambda _self, text, *_args, **_more: heard.append(text)
    )
    host.says = {"begin": {**SAID, "warnings": ["the clock of kvm1 is behind"]}}
    host.run()
    assert "the clock of kvm1 is behind" in str(heard)
