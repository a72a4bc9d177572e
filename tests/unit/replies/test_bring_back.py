# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole playbook keep_one when the host of the copy that had stayed is lost: what each host is asked, in which order."""

from __future__ import annotations

import json

import fake_fleet
import good
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import copy_hints

NAME = "at-rest-h1"


def h3_is_down(tree):
    fake_fleet.down(tree, "h3")


def replies(has_record, nics=()):
    def made(host):
        found = fake_fleet.replies(host)
        for instance in found["host_facts"]["ansible_facts"]["berth_host"]["instances"]:
            if instance["name"] == NAME:
                uuid, instance["phase"] = instance["uuid"], "setting_aside"
                found["instance_copy"] = {"changed": True, "instance_copy": {"uuid": uuid, "paths": [], "nics": nics}}
                if not has_record:
                    found["host_facts"]["ansible_facts"]["berth_host"].update(instances=[], num_instances=0)
        return found

    return made


@pytest.mark.parametrize(
    "has_record, states",
    [(True, ["brought_back"]), (False, ["listed", "recorded", "listed", "brought_back"])],
    ids=["half", "set aside"],
)
def test_the_hosts_are_told_before_the_copy_comes_back_and_nothing_is_stopped_or_set_aside(
    tmp_path, has_record, states
):
    command = ["keep_one", "--limit", NAME, "-e", "berth_keep_on=h1", "-e", "berth_lost_hosts=h3"]
    done = fake_fleet.play(tmp_path, command, change=h3_is_down, replies=replies(has_record))
    asked = {host: [json.loads(line) for line in lines] for host, lines in done["asked"].items()}
    copies = [each["arguments"]["state"] for each in asked["h1"] if each["module"] == "instance_copy"]
    assert copies == states, done["said"][-3000:]
    if has_record:
        modules = [each["module"] for each in asked["h1"]]
        assert modules.index("rescan") < modules.index("instance_copy")
        assert [each["arguments"]["told"]["after"] for each in asked["h2"] if each["module"] == "rescan"]
    assert done["rc"] == 0 or "h3" in done["said"]
    assert "one copy kept" in done["said"], done["said"][-3000:]


def test_a_host_where_nothing_was_set_aside_is_asked_once_and_the_run_says_so_to_the_end(tmp_path):
    def made(host):
        found = replies(has_record=False)(host)
        why = "Instance could not be found: no copy of it was set aside on h1"
        found["instance_copy"] = {"failed": True, "msg": "InstanceNotFound: " + why}
        return found

    command = ["keep_one", "--limit", NAME, "-e", "berth_keep_on=h1", "-e", "berth_lost_hosts=h3"]
    done = fake_fleet.play(tmp_path, command, change=h3_is_down, replies=made)
    asked = [json.loads(line) for line in done["asked"]["h1"]]
    states = [each["arguments"]["state"] for each in asked if each["module"] == "instance_copy"]
    assert [state for state in states if state != "listed"] == ["recorded"], done["said"][-3000:]
    assert done["rc"] and "no copy of it was set aside on h1" in done["said"].split("WHY")[-1], done["said"][-3000:]


@pytest.mark.follows("one_keeps_the_address")
def test_nothing_is_written_of_a_copy_whose_address_another_has_by_now(tmp_path):
    """Its record, in the phase setting_aside, would else stay until the other is gone."""
    at_h2 = fake_fleet.replies("h2")["host_facts"]["ansible_facts"]["berth_host"]["instances"]
    taken = next(entry for each in at_h2 if each["name"] != NAME for entry in each.get("nics") or ())
    command = ["keep_one", "--limit", NAME, "-e", "berth_keep_on=h1", "-e", "berth_lost_hosts=h3"]
    done = fake_fleet.play(tmp_path, command, change=h3_is_down, replies=replies(False, [taken]))
    asked = [json.loads(line) for line in done["asked"]["h1"]]
    states = [each["arguments"]["state"] for each in asked if each["module"] == "instance_copy"]
    assert states == ["listed"], done["said"][-3000:]
    assert "AddressTaken" in done["said"] and copy_hints.one_keeps_the_address(NAME) in " ".join(done["said"].split())


def two_copies(host):
    """h2 has a copy of what h1 has."""
    found = fake_fleet.replies(host)
    document = found["host_facts"]["ansible_facts"]["berth_host"]
    if host in ("h1", "h2"):
        original = fake_fleet.replies("h1")["host_facts"]["ansible_facts"]["berth_host"]["instances"]
        copy = {**next(each for each in original if each["name"] == NAME), "power_state": "shutdown"}
        document["instances"] = [each for each in document["instances"] if each["name"] != NAME] + [copy]
        document["num_instances"] = len(document["instances"])
        found["instance_copy"] = {"changed": True, "instance_copy": {"uuid": copy["uuid"], "paths": ["/p"], "nics": []}}
    return found


@pytest.mark.parametrize("check", [(), ("--check",)], ids=["run", "check mode"])
def test_all_hosts_are_told_which_copy_stays_before_the_other_is_stopped_and_nobody_in_check_mode(tmp_path, check):
    """Nobody else may know of it when the other is gone."""
    command = ["keep_one", "--limit", NAME, "-e", "berth_keep_on=h1", *check]
    done = fake_fleet.play(tmp_path, command, replies=two_copies)
    asked = {host: [json.loads(line) for line in lines] for host, lines in done["asked"].items()}
    modules = {host: [each["module"] for each in all_asked] for host, all_asked in asked.items()}
    assert "instance_copy" in modules["h2"], done["said"][-3000:]
    told = [each["arguments"]["told"] for each in asked["h3"] if each["module"] == "rescan"]
    if check:
        assert "rescan" not in {module for of_host in modules.values() for module in of_host}
        return
    assert [list(each["hosts"].values()) for each in told] == [["h1"]]
    assert [plan["host_uuid"] for plan in told[0]["planned"]] == list(told[0]["hosts"])
    for host in ("h1", "h2"):
        assert modules[host].index("rescan") < modules[host].index("instance_copy"), modules


def test_no_copy_is_stopped_or_set_aside_unless_every_host_has_taken_which_one_stays(tmp_path):
    """The host that does not know it could take the other one, once its host is back, for the owner."""

    def made(host):
        return {**two_copies(host), **({"rescan": fake_fleet.refusal(host)} if host == "h3" else {})}

    done = fake_fleet.play(tmp_path, ["keep_one", "--limit", NAME, "-e", "berth_keep_on=h1"], replies=made)
    asked = [json.loads(line)["module"] for lines in done["asked"].values() for line in lines]
    assert "rescan" in asked and "instance_copy" not in asked, done["said"][-3000:]
    assert done["rc"] and "h3 did not accept" in " ".join(done["said"].split())


@pytest.mark.parametrize("refuses", [False, True], ids=["all take it", "one does not"])
def test_no_record_becomes_the_latest_before_every_host_has_taken_that(tmp_path, refuses):
    """The host that does not know it would take the lost host, once that is back, for the owner."""

    def made(host):
        found = fake_fleet.replies(host)
        uuid = next(each["uuid"] for each in fake_fleet.at_rest_on("h1") if each["name"] == NAME)
        lost = {"host": "h3", "host_uuid": good.UUIDS["h3"], "generation": [7, 1]}
        note = {"known": lost, "planned": [], "after": 0, "gone": None, "left": None}
        found["host_facts"] = {**found["host_facts"], "notes": {uuid: note}}
        if refuses and host == "h2":
            found["rescan"] = fake_fleet.refusal(host)
        return found

    command = ["recover_record", "--limit", NAME, "-e", "berth_lost_hosts=h3"]
    done = fake_fleet.play(tmp_path, command, change=h3_is_down, replies=made)
    asked = {host: [json.loads(line) for line in lines] for host, lines in done["asked"].items()}
    assert [each["arguments"]["told"]["after"] for each in asked["h2"] if each["module"] == "rescan"], done["said"]
    assert [each["module"] for each in asked["h1"]].count("instance") == (0 if refuses else 1), done["said"][-3000:]
    assert not refuses or (done["rc"] and "h2 did not accept" in " ".join(done["said"].split())), done["said"][-3000:]
