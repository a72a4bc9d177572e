# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The builds of one host in one run: each fares as in a run of its own."""

from __future__ import annotations

import os

import pytest
from instance_case import Case

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import build_many, power
from ansible_collections.berth.kvm.plugins.module_utils.compute.host.host import Host
from ansible_collections.berth.kvm.plugins.plugin_utils import host_limits

NAMES = ("web1", "web2", "web3")


@pytest.fixture
def cases(prepared, wanted, monkeypatch):
    monkeypatch.setattr(Host, "here", classmethod(lambda _cls, _action: prepared))
    made = [Case(prepared, wanted(name)) for name in NAMES]
    for case in made:
        case.claim()
    return made


@pytest.fixture
def in_turn(monkeypatch):
    """What the fake libvirt is told in another process is not told here."""
    monkeypatch.setattr(
        build_many, "run_side_by_side", lambda work, items, _at_once, _seconds: [work(item) for item in items]
    )


def asked(case, **more):
    own = {"uuid": case.uuid, "spec": case.spec, "seed": case.seed, "token": "t1", "timeout": 1, "state": "present"}
    return {**own, "power_state": None, "mend": False, "shutdown_timeout": 1, **more}


def test_all_are_built_and_run_and_the_next_run_changes_nothing(cases, in_turn):
    found = build_many.build([asked(case) for case in cases], dry=False)
    assert [each["uuid"] for each in found] == [case.uuid for case in cases]
    for case, each in zip(cases, found):
        assert each["reply"]["changed"] is True and each["reply"]["instance"]["state"] == "running"
        assert case.state() == ("active", None, "running", True)
    again = build_many.build([asked(case) for case in cases], dry=False)
    assert [each["reply"]["changed"] for each in again] == [False] * 3


def test_one_that_fails_leaves_the_others_built(cases, in_turn):
    first, second, third = (asked(case) for case in cases)
    found = build_many.build([first, {**second, "token": "of another run"}, third], dry=False)
    assert [each["reply"].get("changed") for each in found] == [True, None, True]
    failed = found[1]["reply"]
    assert failed["failed"] and failed["error_code"] == "ClaimRevoked" and not failed["retryable"]
    assert cases[1].record.role == "CLAIM"


def test_what_breaks_in_one_is_said_of_that_one(cases, in_turn, monkeypatch):
    bring = power.outcome_of

    def broken(instance, *given):
        if instance.uuid == cases[0].uuid:
            raise ZeroDivisionError("of nothing")
        return bring(instance, *given)

    monkeypatch.setattr(power, "outcome_of", broken)
    found = build_many.build([asked(case) for case in cases], dry=False)
    assert found[0]["reply"] == {"failed": True, "msg": "ZeroDivisionError: of nothing"}
    assert [case.record.role for case in cases] == ["CLAIM", "OWN", "OWN"]


def test_one_that_is_to_stay_off_is_not_started(cases, in_turn):
    build_many.build([asked(cases[0], power_state="shutdown"), asked(cases[1])], dry=False)
    assert [case.state()[3] for case in cases[:2]] == [False, True]


def test_check_mode_changes_nothing(cases, in_turn):
    found = build_many.build([asked(case) for case in cases], dry=True)
    assert [each["reply"]["changed"] for each in found] == [True] * 3
    assert [case.record.role for case in cases] == ["CLAIM"] * 3


def test_each_is_built_in_a_process_of_its_own_and_one_that_is_killed_says_nothing(cases, monkeypatch):
    build = build_many._build

    def killed(wanted, dry):
        if wanted["uuid"] == cases[1].uuid:
            os.kill(os.getpid(), 9)
        return build(wanted, dry)

    monkeypatch.setattr(build_many, "_build", killed)
    found = build_many.build([asked(case) for case in cases], dry=False)
    assert [bool(each["reply"].get("failed")) for each in found] == [False, True, False]
    assert found[1]["reply"] == build_many.ENDED
    assert [case.record.role for case in cases] == ["OWN", "CLAIM", "OWN"]


def test_one_that_hangs_ends_while_the_controller_still_waits_for_the_others():
    assert build_many.LIMIT < host_limits.WORK["build_instances"]
