# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person approved between place and create is made, and nothing else."""

from __future__ import annotations

import pytest
from placement_case import VM, place

from ansible_collections.berth.kvm.plugins.module_utils.conductor.approval import approval
from ansible_collections.berth.kvm.plugins.module_utils.conductor.plan import CLAIMING
from ansible_collections.berth.kvm.plugins.module_utils.model import input_hints


def approved(result):
    return {"berth_approved": result["approval"]}


def test_the_next_job_of_a_workflow_has_the_approval():
    shown = place({"a": VM})
    assert shown["ansible_stats"]["data"] == approved(shown)


def test_create_makes_what_was_approved_and_tries_no_other_host():
    shown = place({"a": VM})
    assert shown["approval"]["a"]["host"] == shown["selections"]["a"]["host"]
    plan = place({"a": VM}, approved(shown), {"plan": True})["ansible_facts"]["berth_plan"]["instances"]["a"]
    assert plan["host"] == shown["approval"]["a"]["host"] and plan["alternates"] == []


@pytest.mark.follows("approve_again")
def test_create_refuses_what_was_not_approved():
    shown, two = place({"a": VM}), {"a": VM, "b": VM}
    refused = place(two, approved(shown), {"plan": True})
    assert refused["error_code"] == "NotApproved" and "b was not approved" in refused["msg"]
    assert refused["error"]["hint"] == input_hints.approve_again() and "berth_plan" not in refused.get(
        "ansible_facts", {}
    )
    again = place(two)
    assert not place(two, approved(again), {"plan": True}).get("failed")


@pytest.mark.parametrize(
    "change, why",
    [
        (
            {"variables": {"berth_flavors": {"tiny": {"vcpus": 2, "memory_mb": 128, "root_gb": 1}}}},
            "would be made of has changed since",
        ),
        ({"silent": ["h1"], "hosts": ["h2"]}, "would now go to h2, but h1 was approved"),
        ({"instances": {}}, "a is not wanted"),
        ({"variables": {"berth_quotas": {"default": {"instances": 0}}}}, "a cannot be made: "),
    ],
    ids=[
        "the flavor has changed",
        "another host is the best now",
        "the instance left the inventory",
        "its quota is used up",
    ],
)
def test_what_has_changed_since_the_approval_is_refused(change, why):
    shown = place({"a": VM})
    assert shown["approval"]["a"]["host"] == "h1"
    more = {"instances": {"a": VM}, **change}
    variables = {**more.pop("variables", {}), **approved(shown)}
    refused = place(variables=variables, args={"plan": True}, **more)
    assert refused["error_code"] == "NotApproved" and why in refused["msg"]


def test_where_no_host_answers_an_approved_run_makes_nothing():
    refused = place({"a": VM}, approved(place({"a": VM})), {"plan": True}, hosts=[], silent=["h1", "h2"])
    assert refused["error_code"] == "NoHostAnswered" and "berth_plan" not in refused.get("ansible_facts", {})


def test_an_approval_of_nothing_allows_nothing():
    assert place({"a": VM}, {"berth_approved": {}}, {"plan": True})["error_code"] == "NotApproved"


def test_an_approval_of_another_shape_is_refused():
    assert place({"a": VM}, {"berth_approved": {"a": "h1"}}, {"plan": True})["error_code"] == "InvalidInput"


@pytest.mark.parametrize(
    "part, changed",
    [
        ({"group": {"name": "pair", "members": []}}, {"group": {"name": "pair", "members": ["b"]}}),
        ({"batch_id": "r-1"}, {"batch_id": "r-2"}),
        (
            {"networks": [{"pool": ["p"], "address": "192.0.2.7"}]},
            {"networks": [{"pool": ["p"], "address": "192.0.2.8"}]},
        ),
    ],
    ids=["members of the group", "the id of the run", "an address out of a pool"],
)
def test_what_other_runs_change_meanwhile_takes_no_approval_back(part, changed):
    """So a run that made one of two instances can be run again."""
    first, second = ({"a": {"state": CLAIMING, "host": "h1", "spec": spec}} for spec in (part, changed))
    assert approval(first) == approval(second)


def test_a_fixed_address_is_part_of_an_approval():
    first, second = (
        {"a": {"state": CLAIMING, "host": "h1", "spec": {"networks": [{"address": address}]}}}
        for address in ("192.0.2.7", "192.0.2.8")
    )
    assert approval(first) != approval(second)
