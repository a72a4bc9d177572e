# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role move walks what the walker gives out: whole playbooks against hosts of which some refuse a step (R22, R27)."""

from __future__ import annotations

import json

from fake_fleet import play

RESIZE = ["resize", "--limit", "at-rest-h1"]


def run(folder, refuse, playbook=RESIZE):  # pylint: disable=dangerous-default-value
    """What the run said, and the steps that each host was asked for, in their order."""
    done = play(folder, playbook, None, refuse)
    asked = {
        host: [
            said["arguments"]["steps"] for said in map(json.loads, lines) if said["module"] == "migration"
        ]
        for host, lines in done["asked"].items()
    }  # fmt: skip
    return done, asked


def test_a_claim_that_is_refused_is_given_up_and_the_next_candidate_takes_the_instance(tmp_path):
    done, asked = run(tmp_path, {"h2": ["claim"]})
    assert done["rc"] == 0, done["said"][-3000:]
    assert asked["h2"] == [["claim"], ["purge"]]
    assert asked["h3"] == [["claim"], ["receive"], ["acquire", "start"]]
    copying = ["presend", "freeze", "send", "release"]
    assert asked["h1"] == [["begin"], ["abort", "start"], ["finish"], ["begin"], copying]
    assert "rescued=1" in done["said"]


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
