# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts a recovery asks to start a guest: the one owner alone, and only where that is known."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import DuplicateInstance, InstanceUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.outcome_of_operation import outcome
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.copies import recover
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Ask
from ansible_collections.berth.kvm.plugins.module_utils.conductor.start_after_outage import to_recover
from ansible_collections.berth.kvm.plugins.module_utils.model import request_digest, shelves


def record(**more):
    return {
        "uuid": "a", "name": "web1", "role": "OWN", "phase": "active", "vm_state": "active", "task_state": None,
        "power_state": "shutdown", "group": None, "project_id": "default", "foreign": False, **more,
    }  # fmt: skip


def fleet(*silent, **hosts):
    reports = {name: {"document": {"uuid": "id-" + name, "instances": held}} for name, held in hosts.items()}
    return read_fleet({**reports, **{name: {"reason": "UNREACHABLE"} for name in silent}}, dict)


def asked(here):
    return to_recover(here, "web1", "a", [])["hosts"]


@pytest.mark.parametrize("power_state", ["shutdown", "crashed", "nostate"])
def test_the_owner_of_a_guest_that_is_off_is_asked(power_state):
    assert asked(fleet(h1=[], h2=[record(power_state=power_state)])) == ["h2"]


def test_a_claim_that_an_ended_run_left_on_another_host_says_nothing_of_the_owners_guest():
    claim = record(role="CLAIM", phase="claimed", vm_state="building")
    assert asked(fleet(h1=[claim], h2=[record()])) == ["h2"]


@pytest.mark.parametrize(
    "more",
    [
        *({"power_state": state} for state in ("running", "paused", "suspended")),
        {"vm_state": "stopped"},
        {"vm_state": "building", "phase": "building"},
        {"phase": "deleting"},
        {"role": "CLAIM", "phase": "claimed", "vm_state": "building"},
    ],
    ids=str,
)
def test_nobody_is_asked_about_what_runs_was_stopped_or_was_never_made(more):
    assert asked(fleet(h1=[record(**more)])) == []


def test_what_is_in_a_move_is_left_alone_and_no_error():
    here = fleet(h1=[record(phase="resized", vm_state="resized")])
    assert asked(here) == [] and "vm_state resized" in to_recover(here, "web1", "a", [])["skipped"]


def test_a_recovery_that_could_not_look_at_a_host_that_may_have_the_instance_fails_as_a_start_does():
    """With --limit no host is reported, and the run ended as if it had started all."""
    with pytest.raises(InstanceUnknown, match="on no host that answered"):
        asked(fleet("h2", h1=[]))


@pytest.mark.parametrize("state", ["paused", "suspended"])
def test_a_paused_guest_is_left_alone_and_is_not_called_one_that_runs(state):
    here = fleet(h1=[record(power_state=state)])
    assert asked(here) == [] and to_recover(here, "web1", "a", [])["skipped"] == state + "; run berth.kvm.start"


def test_of_two_copies_none_is_started_and_a_person_has_to_look():
    with pytest.raises(DuplicateInstance):
        asked(fleet(h1=[record()], h2=[record(power_state="running")]))


OLD, NEW = record(generation=[1, 4]), record(generation=[2, 3], power_state="running")


def test_a_host_that_is_back_is_asked_to_forget_what_a_later_owner_has_taken_over():
    task = to_recover(fleet(h1=[OLD], h2=[NEW], h3=[]), "web1", "a", [])
    assert task == {
        "hosts": ["h1"], "outdated": ["h1"], "aside": [], "stays": "h2", "owner": "id-h2", "generation": [2, 3], "skipped": None
    }  # fmt: skip


def test_so_it_is_if_an_earlier_run_was_killed_while_it_forgot_it():
    task = to_recover(fleet(h1=[{**OLD, "phase": "setting_aside"}], h2=[NEW]), "web1", "a", [])
    assert task["outdated"] == ["h1"]


@pytest.mark.parametrize(
    "h1, h2",
    [
        (OLD, {**NEW, "generation": [1, 9]}),
        (OLD, {**NEW, "phase": "setting_aside"}),
        ({**OLD, "phase": "building"}, NEW),
    ],
    ids=["no later epoch", "the later is put away itself", "the older is not at rest"],
)
def test_other_doubles_are_left_to_a_person(h1, h2):
    with pytest.raises(DuplicateInstance):
        to_recover(fleet(h1=[h1], h2=[h2]), "web1", "a", [])


def drive(procedure, *answers):
    """What it asks, and what it returns."""
    asks, left, answer = [], list(answers), None
    while True:
        try:
            step = procedure.send(answer)
        except StopIteration as ended:
            return asks, ended.value
        if isinstance(step, Ask):
            asks.append((step.module, step.arguments, dict(step.at or {})))
            answer = left.pop(0)
        else:
            answer = None


TASK = {"web1": {"uuid": "a", **to_recover(fleet(h1=[OLD], h2=[NEW]), "web1", "a", [])}}
KNOWN = {"hosts": {"id-h2": "h2"}, "known": {"id-h2": {"a": [2, 3]}}}
FORGETS = ("instance_copy", {"web1": {"uuid": "a", "state": "forgotten", "new_owner": "id-h2"}}, {"web1": "h1"})


def test_it_hears_who_has_it_before_it_forgets_it():
    """While that host is silent a year later, it would take nobody for the owner, and the instance be made anew."""
    gone = {"web1": {"changed": True, "instance_copy": {"uuid": "a", "paths": [], "state": "forgotten"}}}
    asks, done = drive(recover(TASK, {"web1": {}}, False), {"h1": {}}, gone)
    assert asks == [("rescan", {"h1": {"told": KNOWN}}, {}), FORGETS]
    assert done["web1"].changed and not done["web1"].errors
    line = outcome("recover", "web1", {"shown": {"web1": {"host": "h2"}}, "errors": {}}, done["web1"], False)
    assert (line.state, line.host) == ("outdated copy removed", "h2")


def restored(of):
    return {**NEW, "request_digests": request_digest.digests({shelves.EVACUATED: of})}


def test_a_copy_in_whose_place_a_backup_was_restored_is_set_aside():
    """Nothing of it is removed: what was written last may be in it."""
    task = {"web1": {"uuid": "a", **to_recover(fleet(h1=[OLD], h2=[restored("id-h1")]), "web1", "a", [])}}
    put = {"web1": {"changed": True, "instance_copy": {"uuid": "a", "paths": ["/p/a-1.5"], "state": "set_aside"}}}
    asks, done = drive(recover(task, {"web1": {}}, False), {"h1": {}}, put)
    assert asks[-1] == ("instance_copy", {"web1": {"uuid": "a", "state": "set_aside"}}, {"web1": "h1"})
    assert "forgotten" not in str(asks) and done["web1"].set_aside == {"h1": ["/p/a-1.5"]}
    line = outcome("recover", "web1", {"shown": {"web1": {"host": "h2"}}, "errors": {}}, done["web1"], False)
    assert line.state == "outdated copy set aside"


@pytest.mark.parametrize(
    "h1, h2",
    [
        (OLD, restored("id-h3")),
        (OLD, NEW),
        ({**OLD, "power_state": "running"}, restored("id-h1")),
        (OLD, {**restored("id-h1"), "vm_state": "shelved_offloaded"}),
    ],
    ids=["it was restored for another host", "it was not restored", "its guest runs", "it is not restored yet"],
)
def test_no_other_copy_is_set_aside_by_itself(h1, h2):
    assert to_recover(fleet(h1=[h1], h2=[h2]), "web1", "a", [])["aside"] == []


def test_one_that_does_not_hear_it_forgets_nothing():
    asks, done = drive(recover(TASK, {"web1": {}}, False), {"h1": {"reason": "UNREACHABLE: gone again"}})
    assert len(asks) == 1 and not done["web1"].changed and done["web1"].errors


def test_in_check_mode_it_is_told_nothing():
    asks, _done = drive(recover(TASK, {"web1": {}}, True), {"web1": {"changed": True, "instance_copy": {"uuid": "a"}}})
    assert asks == [FORGETS]


def test_what_it_keeps_is_told_with_the_reason_and_the_others_are_started():
    refused = {"web1": {"error": {"code": "CopyNotOutdated", "message": "the copy was kept"}}}
    tasks = {**TASK, "web2": {"uuid": "b", "hosts": ["h2"], "skipped": None}}
    started = {"web2": {"changed": True, "instance": {"uuid": "b"}}}
    asks, done = drive(recover(tasks, {"web1": {}, "web2": {}}, False), {"h1": {}}, refused, started)
    assert done["web1"].errors == [refused["web1"]["error"]] and done["web2"].changed
    assert asks[-1][:2] == ("instance", {"web2": {"uuid": "b", "state": "recovered"}})
