# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A claim that a killed create left on one host goes with the next create, if the instance was made on another one since."""

from __future__ import annotations

import itertools

import pytest
from fleet_case import WEB, Fleet

from ansible_collections.berth.kvm.plugins.module_utils.conductor import plan as rounds
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import embedded


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path)


def leave_claim(fleet, host):
    """A create is killed right after its claim."""
    for _step in fleet.create(prefer=(host,)):
        if fleet.hosts[host].record():
            return


def test_a_claim_that_a_killed_create_left_is_withdrawn_once_the_instance_is_elsewhere(fleet):
    leave_claim(fleet, "h2")
    fleet.silence("h2")
    assert (fleet.run(prefer=("h1", "h3")), fleet.owners()) == (None, ["h1"])
    fleet.silence()
    assert fleet.hosts["h2"].record().role == "CLAIM"
    assert (fleet.run(), fleet.owners()) == (None, ["h1"])
    assert fleet.hosts["h2"].record() is None and fleet.hosts["h1"].record().role == "OWN"
    assert (fleet.run(), fleet.owners()) == (None, ["h1"])


def given_up_and_claimed(fleet):
    """h1 has it, was given up as lost by a create that claimed room on h2, and is back. That create may still run."""
    assert (fleet.run(), fleet.owners()) == (None, ["h1"])
    fleet.silence("h1")
    slow = fleet.create(prefer=("h2", "h3"), lost=["h1"])
    while not fleet.hosts["h2"].record():
        next(slow)
    fleet.silence()
    assert fleet.hosts["h2"].record().generation[0] == fleet.hosts["h1"].record().generation[0]
    return slow


def test_a_claim_that_a_killed_create_left_when_it_had_given_the_owner_up_goes_when_that_owner_is_back(fleet):
    given_up_and_claimed(fleet)
    assert (fleet.run(), fleet.owners()) == (None, ["h1"])
    assert fleet.hosts["h2"].record() is None


def test_a_create_that_had_given_the_owner_up_and_goes_on_after_its_claim_was_withdrawn_builds_nothing(tmp_path):
    for steps in itertools.count():
        fleet = Fleet(tmp_path / str(steps))
        slow = given_up_and_claimed(fleet)
        list(itertools.islice(slow, steps))
        if fleet.hosts["h2"].record().role != "CLAIM":
            assert steps > 1
            return
        assert fleet.run() is None and fleet.hosts["h2"].record() is None, steps
        for _step in slow:
            fleet.check()
        assert fleet.owners() == ["h1"] and fleet.run() is None, steps


def test_the_killed_run_that_goes_on_after_all_builds_nothing(fleet):
    """It was only slow: its claim is gone, and so is its token."""
    slow = fleet.create(prefer=("h2",))
    while not fleet.hosts["h2"].record():
        next(slow)
    fleet.silence("h2")
    assert fleet.run(prefer=("h1", "h3")) is None
    fleet.silence()
    assert fleet.run() is None
    for _step in slow:
        fleet.check()
    assert fleet.owners() == ["h1"] and fleet.hosts["h2"].record() is None


def test_a_create_killed_at_any_call_while_it_withdraws_leaves_it_to_the_next(tmp_path):
    for stop in itertools.count():
        fleet = Fleet(tmp_path / str(stop))
        leave_claim(fleet, "h2")
        fleet.silence("h2")
        fleet.run(prefer=("h1", "h3"))
        fleet.silence()
        done = list(itertools.islice(fleet.create(), stop))
        assert (fleet.run(), fleet.owners(), fleet.hosts["h2"].record()) == (None, ["h1"], None)
        if len(done) < stop:
            return


CLAIM = {"uuid": WEB, "role": "CLAIM", "phase": "claimed", "generation": [1, 1], "token": "t1"}
OWNER = {"uuid": WEB, "role": "OWN", "phase": "active", "generation": [2, 7], "token": "t2"}
FOR_NEXT = {**CLAIM, "generation": [2, 1]}  # made when this owner was known


def withdrawn(claim, owner):
    """What is withdrawn where h1 and h2 say this."""
    instance = {"uuid": WEB, "host": "h1", "state": rounds.ACTIVE, "stale_claims": ["h2"]}
    hosts = {"h1": {"uuid": "id-h1"}, "h2": {"uuid": "id-h2"}}
    plan = rounds.new_plan("r1", {"web1": instance}, hosts, 3)
    assert embedded.hosts_of_stale_claims(plan) == ["h1", "h2"]
    scans = {name: {"instances": [held] if held else []} for name, held in (("h1", owner), ("h2", claim))}
    embedded.withdraw_outdated(plan, scans)
    return plan["withdraw"]


@pytest.mark.parametrize("claim", [CLAIM, FOR_NEXT], ids=["older", "to replace it"])
def test_what_is_withdrawn_is_the_claim_of_that_token(claim):
    assert withdrawn(claim, OWNER) == {"h2": [{"uuid": WEB, "token": "t1"}]}


@pytest.mark.parametrize(
    "claim, owner",
    [
        (None, OWNER),
        (CLAIM, None),
        ({**CLAIM, "phase": "deleting"}, OWNER),
        ({**CLAIM, "role": "IN", "phase": "incoming"}, OWNER),
        ({**CLAIM, "role": "OWN", "phase": "building"}, OWNER),
        (CLAIM, {**OWNER, "role": "OUT", "phase": "keep"}),
        (CLAIM, {**OWNER, "role": "CLAIM", "phase": "claimed"}),
        ({**CLAIM, "generation": [3, 1]}, OWNER),  # claimed after a later owner than this one
    ],
)
def test_nothing_else_is_withdrawn(claim, owner):
    assert withdrawn(claim, owner) == {}


@pytest.mark.parametrize("silent", ["h1", "h2"])
def test_who_did_not_answer_the_second_look_withdraws_nothing(silent):
    instance = {"uuid": WEB, "host": "h1", "state": rounds.ACTIVE, "stale_claims": ["h2"]}
    plan = rounds.new_plan("r1", {"web1": instance}, {"h1": {"uuid": "id-h1"}, "h2": {"uuid": "id-h2"}}, 3)
    scans = {"h1": {"instances": [OWNER]}, "h2": {"instances": [CLAIM]}, silent: {"reason": "UNREACHABLE"}}
    embedded.withdraw_outdated(plan, scans)
    assert plan["withdraw"] == {}
