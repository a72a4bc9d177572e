# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts a recovery asks to start a guest: the one owner alone, and only where that is known."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import DuplicateInstance, InstanceUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.recovery import to_recover


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
