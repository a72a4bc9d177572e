# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run whose move ends between its look and its first step looks again, once: whole playbooks against hosts that reply."""

from __future__ import annotations

import json

import fake_fleet
import good
import pytest
from fake_fleet import play

from ansible_collections.berth.kvm.plugins.module_utils.model import migration

pytestmark = pytest.mark.long

NAME = "resized"


def facts(host, owner=None, flavor="big", last_move="confirmed", kind=migration.RESIZE, phase=None):
    """What a host says of its instances: ``resized`` is in its move, or at rest on ``owner``, which may be no host."""
    said = good.host_facts(host)[1]
    document = said["ansible_facts"]["berth_host"]
    for move in said["moves"]:
        if move["migration"]:
            move["migration"]["type"] = kind
            move["phase"] = phase if phase and host == "h2" else move["phase"]
    if owner:
        mine = [each for each in document["instances"] if each["name"] != NAME]
        moves = [each for each in said["moves"] if each["name"] != NAME]
        if host == owner:
            record = good.record(NAME).replace(generation=[2, 9], spec=good.spec(NAME, flavor))
            moves.append(good.view(record, host, last_move=last_move))
            place = next(each for each in good.document("h2")["instances"] if each["name"] == NAME)
            mine.append({**place, "phase": "active", "vm_state": "active", "task_state": None, "role": "OWN"})
        document.update(instances=mine, num_instances=len(mine))
        said.update(moves=moves)
    return {**said, "notes": {}, "digests": fake_fleet.digests()}


def run(folder, playbook, step, host, always=False, kind=migration.RESIZE, silence=None, phase=None, **after):
    """-> (what the run did, the steps that each host was asked for, in their order). Without a ``step`` the move ends when
    the run has looked for the first time."""

    def describe(tree):
        tree["all"]["children"]["instances"]["hosts"].update({NAME: {"berth_flavor": "big"}})

    def replies(name):
        return {
            **fake_fleet.replies(name),
            "host_facts": facts(name, kind=kind, phase=phase),
            "migration": good.migration_of(name)[1],
        }

    met = {host: {"steps": [step], "always": always}} if step else {name: {"looked": True} for name in good.HOSTS}
    ended = met, lambda name: silence or facts(name, kind=kind, **after)
    done = play(folder, [playbook, "--limit", NAME], None, change=describe, replies=replies, ended=ended)
    asked = {
        name: [said["arguments"]["steps"] for said in map(json.loads, lines) if said["module"] == "migration"]
        for name, lines in done["asked"].items()
    }
    done["said"] = " ".join(done["said"].split())
    return done, asked


def test_a_confirm_that_meets_the_confirmed_end_says_that_it_is_done_already(tmp_path):
    done, asked = run(tmp_path, "confirm_resize", "confirm", "h2", owner="h2")
    assert done["rc"] == 0, done["said"][-3000:]
    assert asked == {"h1": [], "h2": [["confirm"]], "h3": []}
    assert "was confirmed already" in done["said"]


def test_a_revert_that_meets_the_confirmed_end_says_that_nothing_waits_for_a_revert(tmp_path):
    done, asked = run(tmp_path, "revert_resize", "revert", "h2", owner="h2")
    assert done["rc"] == 2 and "has not been resized" in done["said"], done["said"][-3500:]
    assert asked == {"h1": [["see_kept"]], "h2": [["revert", "give_back"]], "h3": []}


def test_a_host_that_always_says_that_the_move_has_ended_is_asked_twice(tmp_path):
    done, asked = run(tmp_path, "confirm_resize", "confirm", "h2", always=True)
    assert done["rc"] == 2 and "MigrationEnded: the move has just ended" in done["said"], done["said"][-3000:]
    assert asked == {"h1": [], "h2": [["confirm"], ["confirm"]], "h3": []}


@pytest.mark.parametrize(("playbook", "kind"), [("live_migrate", migration.LIVE), ("cold_migrate", migration.COLD)])
def test_a_migration_that_meets_its_end_migrates_no_second_time(tmp_path, playbook, kind):
    done, asked = run(tmp_path, playbook, "acquire", "h2", kind=kind, owner="h2", flavor="small")
    assert done["rc"] == 0 and "is on h2 already" in done["said"], done["said"][-3000:]
    assert (asked["h1"], len(asked["h2"]), asked["h3"]) == ([], 1, [])


def test_a_resize_whose_move_was_given_up_meanwhile_begins_another_one(tmp_path):
    done, asked = run(tmp_path, "resize", "acquire", "h2", owner="h1", flavor="small", last_move="given up")
    assert asked["h1"][:1] == [["begin"]] and asked["h2"][0] == ["acquire", "start"], done["said"][-3000:]


def test_a_run_that_cannot_look_again_fails_with_what_it_met(tmp_path):
    done, asked = run(tmp_path, "confirm_resize", "confirm", "h2", silence={"failed": True, "msg": "no libvirt"})
    assert done["rc"] == 2 and done["said"].count("resized: MigrationEnded: the move has just ended") == 1
    assert asked == {"h1": [], "h2": [["confirm"]], "h3": []}


def deletes(done):
    """The hosts on which the instance is deleted as one at rest."""
    asked = {host: map(json.loads, lines) for host, lines in done["asked"].items()}
    return [host for host, all_of in asked.items() for said in all_of if said["module"] == "instance"]


@pytest.mark.parametrize("step", ["erase", None], ids=["at its first step", "after its first look"])
@pytest.mark.parametrize("owner", ["h1", "h2"], ids=["reverted", "confirmed"])
def test_a_delete_that_meets_the_end_of_a_move_deletes_the_instance_where_it_is_now(tmp_path, step, owner):
    done, asked = run(tmp_path, "delete", step, "h2", owner=owner, flavor="small")
    assert done["rc"] == 0 and deletes(done) == [owner], done["said"][-3500:]
    assert [len(asked[host]) for host in good.HOSTS] == [0, 1 if step else 0, 0]


@pytest.mark.parametrize("step", ["erase", None], ids=["at its first step", "after its first look"])
def test_a_delete_that_meets_the_delete_of_another_controller_finds_it_gone(tmp_path, step):
    done, _asked = run(tmp_path, "delete", step, "h2", owner="nowhere")
    assert (done["rc"], deletes(done)) == (0, []) and "is on no host" in done["said"], done["said"][-3500:]


def test_a_delete_that_meets_a_move_again_looks_no_third_time(tmp_path):
    """A host that always says that the move has ended, and shows it as it was."""
    done, asked = run(tmp_path, "delete", "erase", "h2", always=True)
    assert done["rc"] == 2 and deletes(done) == [], done["said"][-3500:]
    assert (asked["h1"], len(asked["h2"]), asked["h3"]) == ([], 2, [])


def test_a_delete_that_cannot_look_again_fails_with_what_it_met(tmp_path):
    done, _asked = run(tmp_path, "delete", "erase", "h2", silence={"failed": True, "msg": "no libvirt"})
    assert done["rc"] == 2 and deletes(done) == []
    assert done["said"].count("resized: MigrationEnded: the move has just ended") == 1


def test_what_an_earlier_run_left_is_ended_first_and_then_done_what_was_asked(tmp_path):
    done, asked = run(tmp_path, "resize", None, "h2", phase="confirming", owner="h2", flavor="small")
    assert done["rc"] == 0, done["said"][-3000:]
    assert (asked["h1"][0], asked["h2"][:3]) == (["purge"], [["confirm"], ["drop_old", "finish"], ["begin"]])
    assert "resized" in done["said"] and "was h2 small" in done["said"]
