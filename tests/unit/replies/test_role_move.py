# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles of moves carry out the procedure: whole playbooks against hosts of which some refuse a step (R22, R27)."""

from __future__ import annotations

import json

import fake_fleet
import good
import pytest
from fake_fleet import ROOT, play

pytestmark = pytest.mark.long

RESIZE = ["resize", "--limit", "at-rest-h1"]


def steps_of(done):
    """Host -> the steps that it was asked for, in their order."""
    return {
        host: [said["arguments"]["steps"] for said in map(json.loads, lines) if said["module"] == "migration"]
        for host, lines in done["asked"].items()
    }


def run(folder, refuse, playbook=RESIZE):  # pylint: disable=dangerous-default-value
    """What the run said, and the steps that each host was asked for, in their order."""
    done = play(folder, playbook, None, refuse)
    return done, steps_of(done)


def test_a_claim_that_is_refused_is_given_up_and_the_next_candidate_takes_the_instance(tmp_path):
    done, asked = run(tmp_path, {"h2": ["claim"]})
    assert done["rc"] == 0, done["said"][-3000:]
    assert asked["h2"] == [["claim"], ["purge"]]
    assert asked["h3"] == [["claim"], ["receive"], ["acquire", "start"]]
    copying = ["presend", "freeze", "send", "release"]
    assert asked["h1"] == [["begin"], ["abort", "start"], ["finish"], ["begin"], copying]
    assert "attempt 2, after TestRefuses on h2" in " ".join(done["said"].split())


def test_when_no_candidate_is_left_the_run_fails_with_the_last_cause(tmp_path):
    done, asked = run(tmp_path, {"h2": ["claim"], "h3": ["claim"]})
    assert done["rc"] == 2
    said = " ".join(done["said"].split())
    assert "Exhausted all hosts available for moving at-rest-h1. Last cause: TestRefuses: h3 refuses" in said
    assert asked["h1"] == 2 * [["begin"], ["abort", "start"], ["finish"]]


def test_what_fails_after_the_claim_is_given_up_by_the_same_run_and_no_other_host_is_tried(tmp_path):
    done, asked = run(tmp_path, {"h2": ["acquire"]})
    assert done["rc"] == 2 and "TestRefuses: h2 refuses" in done["said"]
    assert asked["h2"][-1] == ["purge"] and asked["h1"][-2:] == [["abort", "start"], ["finish"]]
    assert asked["h3"] == []


def test_a_move_that_its_source_refuses_to_begin_is_asked_for_once_and_says_why(tmp_path):
    done, asked = run(tmp_path, {"h1": ["begin"]})
    assert done["rc"] == 2 and "TestRefuses: h1 refuses" in done["said"]
    assert (asked["h1"], asked["h2"], asked["h3"]) == ([["begin"]], [], [])


def test_who_only_prepares_touches_no_guest(tmp_path):
    done, asked = run(tmp_path, {}, ["prep_resize", "--limit", "at-rest-h1"])
    assert done["rc"] == 0, done["said"][-3000:]
    assert (asked["h1"], asked["h2"] + asked["h3"]) == ([["begin"]], [["claim"]])


ALONE = """
- name: A play of somebody's own, with nothing before it
  hosts: at-rest-h1,at-rest-h2
  gather_facts: false
  tasks:
    - name: Do it
      ansible.builtin.import_role:
        name: berth.kvm.{role}
"""
BIG_BOTH = {"at-rest-h1": "big", "at-rest-h2": "big"}


def alone(folder, *roles, refuse=None, options=()):
    """What one play after the other did, each with one role over two instances."""
    (folder / "site.yml").write_text("---" + "".join(ALONE.format(role=role) for role in roles))

    def two_that_grow(tree):
        for name, flavor in BIG_BOTH.items():
            tree["all"]["children"]["instances"]["hosts"][name] = {"berth_flavor": flavor}

    done = play(folder, ["site.yml", *options], None, refuse, change=two_that_grow)
    return done, steps_of(done)


COPIES = ["presend", "freeze", "send", "release"]


def test_role_resize_stands_alone_and_reads_and_plans_once_for_all(tmp_path):
    done, asked = alone(tmp_path, "resize")
    assert done["rc"] == 0, done["said"][-3000:]
    assert [["begin"], COPIES] == [steps for steps in asked["h1"] if steps[0] in ("begin", "presend")]
    assert [["begin"], COPIES] == [steps for steps in asked["h2"] if steps[0] in ("begin", "presend")]
    read = [json.loads(line)["module"] for line in done["asked"]["h3"]].count("host_facts")
    assert read == 1
    assert "at-rest-h1: Begin the move on its source" in done["said"]
    assert "changed: [at-rest-h1" in done["said"] and "changed: [at-rest-h2" in done["said"]


def test_of_a_role_alone_the_instance_that_failed_fails_by_itself_and_the_others_go_on(tmp_path):
    done, asked = alone(tmp_path, "resize", refuse={"h1": ["begin"]})
    assert done["rc"] == 2 and "fatal: [at-rest-h1" in done["said"] and "TestRefuses: h1 refuses" in done["said"]
    assert "changed: [at-rest-h2" in done["said"] and COPIES in asked["h2"]


def test_a_host_of_the_play_that_is_no_instance_is_skipped(tmp_path):
    def with_another(tree):
        tree["all"]["children"]["others"] = {"hosts": {"other": {}}}

    site = ALONE.format(role="confirm_resize").replace("at-rest-h1,at-rest-h2", "at-rest-h3,other")
    (tmp_path / "site.yml").write_text("---" + site)
    done = play(tmp_path, ["site.yml"], change=with_another)
    assert done["rc"] == 2 and "skipping: [other]" in done["said"] and "fatal: [at-rest-h3" in done["said"]


def test_role_prep_resize_alone_claims_room_and_touches_no_guest(tmp_path):
    done, asked = alone(tmp_path, "prep_resize")
    assert done["rc"] == 0, done["said"][-3000:]
    assert {steps[0] for each in asked.values() for steps in each} == {"begin", "claim"}


def test_a_role_alone_says_in_check_mode_what_would_change(tmp_path):
    done, _asked = alone(tmp_path, "resize", options=["--check", "--diff"])
    assert done["rc"] == 0, done["said"][-3000:]
    assert "would be resized" in done["said"] and '+ "flavor": "big"' in done["said"]
    assert "changed: [at-rest-h1" in done["said"]


@pytest.mark.parametrize("forks", [1, 5], ids=["one after the other", "together"])
def test_a_role_alone_ends_the_report_with_all_its_instances(tmp_path, forks):
    file = tmp_path / "report.json"
    options = ["-e", "berth_report=%s" % file, "--forks", str(forks)]
    done, _asked = alone(tmp_path, "resize", refuse={"h1": ["begin"]}, options=options)
    report = json.loads(file.read_text())
    assert report["finished"], done["said"][-3000:]
    told = {each["instance"]: each["state"] for each in report["outcomes"]}
    assert told == {"at-rest-h1": "failed", "at-rest-h2": "resized"}
    assert done["said"].count("\nINSTANCE") == (2 if forks == 1 else 1)


def delete_resized(folder, playbook):
    """``resized`` waits for its confirmation."""

    def describe(tree):
        tree["all"]["children"]["instances"]["hosts"]["resized"] = {"berth_flavor": "big"}

    def answers(host):
        facts = {**good.host_facts(host)[1], "notes": {}, "digests": fake_fleet.digests()}
        return {**fake_fleet.replies(host), "host_facts": facts, "migration": good.migration_of(host)[1]}

    return play(folder, playbook, change=describe, replies=answers)


def test_role_delete_alone_deletes_one_in_a_move_on_both_hosts_and_one_at_rest(tmp_path):
    site = ALONE.format(role="delete").replace("at-rest-h1,at-rest-h2", "at-rest-h1,resized")
    (tmp_path / "site.yml").write_text("---" + site)
    done = delete_resized(tmp_path, ["site.yml"])
    asked = steps_of(done)
    assert done["rc"] == 0 and done["said"].count("\nINSTANCE") == 1, done["said"][-3000:]
    assert "changed: [at-rest-h1" in done["said"] and "changed: [resized" in done["said"]
    assert all("erase" in str(asked[host]) or "purge" in str(asked[host]) for host in ("h1", "h2")), asked


def test_a_delete_in_check_mode_tells_one_in_a_move_as_one_change(tmp_path):
    done = delete_resized(tmp_path, ["delete", "--limit", "resized", "--check", "--diff"])
    assert done["rc"] == 0 and "would be deleted" in done["said"], done["said"][-3000:]
    assert "changed=1 " in done["said"].split("PLAY RECAP")[1] and done["said"].count("--- before: resized") == 1


def test_a_playbook_in_check_mode_tells_each_move_as_one_change(tmp_path):
    done = play(tmp_path, ["cold_migrate", "--limit", "at-rest-h1", "--check", "--diff"])
    assert done["rc"] == 0 and "would be migrated" in done["said"], done["said"][-3000:]
    assert "changed=1 " in done["said"].split("PLAY RECAP")[1] and done["said"].count("--- before: at-rest-h1") == 1


def test_nobody_sees_the_key_of_a_transfer(tmp_path):
    done, _asked = alone(tmp_path, "resize", options=["-vvv"])
    keys = {
        json.loads(line)["arguments"]["key"]
        for lines in done["asked"].values()
        for line in lines
        if "key" in json.loads(line).get("arguments", {})
    }
    assert keys and all(len(key) == 64 and key not in done["said"] for key in keys if key)


# ---- what the kill sweep and the integration tests do in a leg


CALLBACKS = ROOT / "tests" / "faults" / "callbacks"


def struck(folder, shot):
    """A resize with harm in it -> (what it did, the steps that each host was asked for, the legs that were written down)."""
    legs = folder / "legs"
    environment = {
        "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS), "ANSIBLE_CALLBACKS_ENABLED": "berth_fault",
        "BERTH_FAULT": json.dumps({"delay_ms": 0, **shot}), "BERTH_FAULT_LEGS": str(legs),
    }  # fmt: skip
    done = play(folder, RESIZE, None, {}, more_environment=environment)
    written = [json.loads(line) for line in legs.read_text().splitlines()] if legs.exists() else []
    return done, steps_of(done), written


def test_harm_before_a_leg_is_done_before_its_host_is_asked(tmp_path):
    copy = "cp %s %s" % (tmp_path / "h2" / "asked.jsonl", tmp_path / "then")
    done, asked, legs = struck(tmp_path, {"leg": 2, "command": copy})
    then = [json.loads(line)["module"] for line in (tmp_path / "then").read_text().splitlines()]
    assert done["rc"] == 0 and asked["h2"][0] == ["claim"]
    assert "migration" not in then, "the claim was there before the harm"
    assert [(leg["number"], leg["label"]) for leg in legs][:2] == [
        (1, "Begin the move on its source"), (2, "Claim room on the destination")
    ]  # fmt: skip


def test_a_controller_that_is_killed_before_a_leg_asks_nobody_for_it(tmp_path):
    done, asked, _legs = struck(tmp_path, {"leg": "Claim room", "command": None})
    assert done["rc"] == -9
    assert (asked["h1"], asked["h2"]) == ([["begin"]], [])
