# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which moves are refused before a host is asked for anything, and what holds no migration (R06-R17, R22, R23; I11)."""

from __future__ import annotations

import pytest
from plan_moves_case import host_uuid, plan, vm

from ansible_collections.berth.kvm.plugins.module_utils.conductor import outcome_of_move
from ansible_collections.berth.kvm.plugins.plugin_utils.inventory_variables import who_locked


def test_a_resize_is_refused_where_a_quota_depends_on_who_is_selected():
    instances = {"a": vm(), "b": {**vm(), "berth_quotas": {"default": {"cores": 99}}}}
    with pytest.raises(KeyError, match="ansible_facts"):  # there is no plan
        plan(instances=instances)


REFUSED = {
    "no such flavor, R06": (vm("nonsense"), {}, {}, "FlavorNotFound"),
    "no flavor at all, R06": (vm({"vcpus": 1}), {}, {}, "InvalidInput"),
    "a disabled flavor, R09": (vm("gone"), {}, {}, "FlavorNotFound"),
    "another project's flavor, R09": (vm("theirs"), {}, {}, "FlavorNotFound"),
    "locked, R10": (vm(locked="the owner"), {}, {}, "InstanceIsLocked"),
    "a flavor that the image does not fit into, R12": (vm("lean"), {}, {}, "FlavorMemoryTooSmall"),
    "a smaller disk, R13": (vm("less"), {}, {}, "CannotResizeDisk"),
    "extra specs that say nothing, R13": (vm("wrong"), {}, {}, "InvalidInput"),
    "over quota, R08": (vm(), {"berth_quotas": {"default": {"cores": 2}}}, {}, "QuotaExceeded"),
    "no host that is large enough, R22": (vm("huge"), {}, {}, "NoValidHost"),
    "the source is down, R15": (vm(), {}, {"silent": ["h1"]}, "InstanceUnknown"),
    "the target is down, R22": (vm(), {}, {"silent": ["h2"], "args": {"target": "h2"}}, "NoValidHost"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_has_its_code_and_nothing_is_planned(case):
    """R07: a stable code per row; I11."""
    instance, variables, more, code = REFUSED[case]
    found = plan(instances={"a": instance}, variables=variables, **more)
    assert found["errors"]["a"].startswith(code + ":"), found["errors"]
    assert (found["act"], found["settle"]) == ([], [])


@pytest.mark.parametrize("action", ["resize", "cold_migrate", "live_migrate", "confirm", "revert"])
def test_where_an_instance_may_be_is_told_with_what_helps(action):
    said = plan(action, silent=["h1"])["errors"]["a"]
    assert said.startswith("InstanceUnknown:") and "It may be on h1, which does not answer" in said, said


@pytest.mark.parametrize("action", ["resize", "cold_migrate", "live_migrate", "confirm", "revert"])
def test_an_instance_whose_record_is_gone_is_not_said_to_be_on_no_host(action):
    """Its hint would be to create it, which is refused while its domain is there."""
    said = plan(action, stray="a")["errors"]["a"]
    assert said.startswith("DomainWithoutRecord:") and "h1 has the domain" in said, said


def test_one_that_is_refused_does_not_hold_up_the_others():
    """R22, R23."""
    found = plan(instances={"a": vm("huge"), "b": vm()})
    assert (list(found["errors"]), found["act"]) == (["a"], ["b"])


def test_a_quota_says_what_is_used_allowed_and_asked_for():
    """R08, R17: while a resize is unconfirmed the old and the new flavor count. Programs get it as data."""
    found = plan(variables={"berth_quotas": {"default": {"cores": 2}}})
    message = found["errors"]["a"]
    assert "cores" in message and "1 of 2" in message and "2" in message, message
    told = outcome_of_move.outcome("resize", "a", found, {}, False).to_dict()
    assert told["error_code"] == "QuotaExceeded" and "error_details" in told, told
    details = told["error_details"]
    assert (details["limits"], details["used"]["cores"], details["requested"]["cores"]) == ({"cores": 2}, 1, 2), told
    enough = {"cores": 3, "ram": 384, "instances": 1}
    assert plan(variables={"berth_quotas": {"default": enough}})["act"] == ["a"], "it is one instance all the time"


@pytest.mark.parametrize("action", ["cold_migrate", "live_migrate"])
def test_a_quota_does_not_hold_a_migration(action):
    """R17: only what a flavor adds counts, and a host can be drained whatever its guests' projects have used up."""
    assert plan(action, variables={"berth_quotas": {"default": {"cores": 1, "instances": 1}}})["act"] == ["a"]


@pytest.mark.parametrize("action", ["cold_migrate", "live_migrate"])
def test_a_disabled_flavor_does_not_hold_a_migration(action):
    """A07, R09: the instance keeps the flavor that it has."""
    move = plan(action, {"a": vm("gone")})["moves"]["a"]
    assert move["spec"]["flavor"]["name"] == "small"
    assert move["sequence"] == {"cold_migrate": "resize", "live_migrate": "live_migrate"}[action]


def test_a_run_without_a_selection_is_refused():
    """I11: it would move the whole inventory."""
    with pytest.raises(KeyError, match="ansible_facts"):  # there is no plan
        plan(args={"selected": False})


@pytest.mark.parametrize("value", [None, False, "", "false", "False", "no", "0", 0])
def test_what_means_no_does_not_lock(value):
    """R10."""
    assert who_locked({"berth_locked": value}) is None


@pytest.mark.parametrize("value", [True, "true", "yes", "the backup team"])
def test_what_else_locks_and_may_say_who(value):
    assert who_locked({"berth_locked": value}) == value


MOVING = {
    "type": "migration",
    "source": {"uuid": host_uuid("h2"), "name": "h2"},
    "destination": {"uuid": host_uuid("h1"), "name": "h1"},
}


def due(phase="resized", confirm_in=0, **more):
    return plan("confirm_due", views={"a": {"phase": phase, "migration": MOVING, "confirm_in": confirm_in}}, **more)


@pytest.mark.parametrize("phase", ["resized", "confirming"])
def test_a_confirm_that_is_due_and_refused_fails_by_its_code(phase):
    """A timer that ends well and says nothing would leave both copies for ever."""
    found = due(phase, silent=["h2"])
    assert found["errors"]["a"].startswith("HostUnknown:") and not found["act"], found["errors"]


@pytest.mark.parametrize("confirm_in", [None, 60])
def test_a_confirm_that_is_not_due_yet_is_no_failure_whatever_would_refuse_it(confirm_in):
    assert due(confirm_in=confirm_in, silent=["h2"])["errors"] == {}
    assert plan("confirm_due", instances={"a": vm(), "b": vm(locked=True)})["errors"] == {}


def test_a_locked_instance_whose_confirm_is_due_is_left_alone_and_told(capsys):
    """A lock is meant: the timer's run does not fail for it, time and again."""
    found = due(instances={"a": vm(locked=True)})
    assert (found["errors"], found["moves"]) == ({}, {})
    assert "a: due, but not confirmed: InstanceIsLocked: Instance a is locked" in capsys.readouterr().out


@pytest.mark.parametrize("cores, planned", [(3, True), (2, False)])
def test_a_project_at_its_quota_can_resize_down(cores, planned):
    """R17: the flavor asks for more cores and less memory, so only the cores are held to the limit."""
    flavors = {"trim": {"vcpus": 2, "memory_mb": 96, "root_gb": 1}}
    quotas = {"default": {"cores": cores, "ram": 128}}
    found = plan(instances={"a": vm("trim")}, variables={"berth_flavors": flavors, "berth_quotas": quotas})
    assert (found["act"] == ["a"]) is planned and ("a" in found["errors"]) is not planned


def test_a_move_of_an_instance_that_is_locked_on_its_host_is_refused_before_anything():
    """R10: locked from another controller, so the inventory does not say it."""
    found = plan(held_with={"locked": "ada"})
    told = found["errors"].get("a", "")
    assert told.startswith("InstanceIsLocked") and "ada" in told and not found["act"]


@pytest.mark.parametrize("more", [{"extra_specs": {"hw:cpu_sockets": "1"}}, {"vcpus": 2}, {"swap": 512}])
def test_a_flavor_of_the_same_name_that_is_another_now_is_a_resize(more):
    """R09"""
    small = {"vcpus": 1, "memory_mb": 128, "root_gb": 1}
    same = plan(instances={"a": vm("small")}, variables={"berth_flavors": {"small": small}})
    assert (same["act"], same["errors"]) == ([], {})
    assert plan(instances={"a": vm("small")}, variables={"berth_flavors": {"small": {**small, **more}}})["act"] == ["a"]
