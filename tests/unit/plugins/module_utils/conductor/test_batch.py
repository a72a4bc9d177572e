# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A batch is all or nothing after its claims too, until something of it was built (A02)."""

from __future__ import annotations

import itertools

import pytest
from runs_of_create import HOSTS, Host, a_plan, instance, steps

from ansible_collections.berth.kvm.plugins.module_utils.conductor import plan as rounds
from ansible_collections.berth.kvm.plugins.module_utils.conductor.commit import commit
from ansible_collections.berth.kvm.plugins.module_utils.conductor.quotas import QuotaExceeded
from ansible_collections.berth.kvm.plugins.module_utils.model import input_hints


def batch(least, *instances, **more):
    return {**a_plan(*(instances or (instance("a"), instance("b"), instance("c"))), **more), "least": least}


def fleet(**capacity):
    return {name: Host(name, capacity.get(name, 9)) for name in HOSTS}


def run_all(plan, hosts):
    for _step in steps(plan, hosts, map("t{:04d}".format, itertools.count())):
        held = {uuid for host in hosts.values() for uuid, record in host.records.items() if record["role"] == "OWN"}
        yield held


def ended(plan, hosts):
    *_steps, _held = run_all(plan, hosts)
    return {name: each["state"] for name, each in plan["instances"].items()}


def records(hosts):
    return sorted(uuid for host in hosts.values() for uuid in host.records)


@pytest.mark.follows("accept_fewer")
def test_where_one_claim_cannot_be_had_none_is_built_and_all_claims_are_withdrawn():
    hosts, plan = fleet(h1=2, h2=0, h3=0), batch(3)
    assert all(not held for held in run_all(plan, hosts)), "nothing was built on the way"
    assert {each["state"] for each in plan["instances"].values()} == {"failed"} and records(hosts) == []
    codes = sorted(each["error"]["code"] for each in plan["instances"].values())
    assert codes == ["BatchWithdrawn", "BatchWithdrawn", "MaxRetriesExceeded"]
    told = plan["instances"]["a"]["error"]
    assert (
        "a is one of 3 that were asked for together, of which at least 3 have to be made. c could not be had"
        in told["message"]
    )
    assert told["hint"] == input_hints.accept_fewer()
    assert ended(batch(2), hosts) == {"a": "active", "b": "active", "c": "failed"}


def test_no_one_is_built_before_the_last_one_has_its_claim():
    hosts, plan = fleet(h1=2), batch(3)
    built = [len(held) for held in run_all(plan, hosts)]
    first = built.index(1)
    assert len(hosts["h2"].records) == 1 and built[:first] == [0] * first
    assert {each["state"] for each in plan["instances"].values()} == {"active"}
    hosts, plan = fleet(h1=2), batch(3)
    for held in run_all(plan, hosts):
        assert not held or len(records(hosts)) == 3


def test_instances_that_are_no_batch_stand_alone():
    hosts, plan = fleet(h1=2, h2=0, h3=0), batch(0)
    assert ended(plan, hosts) == {"a": "active", "b": "active", "c": "failed"}


def test_after_a_build_that_fails_the_others_stay():
    """As Nova does."""
    hosts, plan = fleet(), batch(3)
    build = hosts["h1"].build
    refused = {"error": {"code": "ImageInvalid", "message": "no image", "retryable": False}}
    hosts["h1"].build = lambda uuid, token: refused if uuid == "u-b" else build(uuid, token)
    assert ended(plan, hosts) == {"a": "active", "b": "failed", "c": "active"}


@pytest.mark.parametrize("least, built", [(2, []), (1, ["a"])])
def test_a_quota_that_another_run_took_since_gives_up_the_batch(least, built):
    plan = batch(least, instance("a"), instance("b"))
    rounds.prepare_round(plan, map("t{:04d}".format, itertools.count()).__next__)
    host = Host("h1")
    claims = {"h1": host.claim(plan["claims"]["h1"])}

    def over_quota(instances, _scans):
        return {"u-b": QuotaExceeded("too many")} if "u-b" in [each["uuid"] for each in instances] else {}

    commit(plan, claims, {"h1": host.rescan(), "h2": Host("h2").rescan(), "h3": Host("h3").rescan()}, (), over_quota)
    assert plan["build"] == built and plan["claims"] == {}
    withdrawn = sorted(entry["uuid"] for entry in plan["withdraw"]["h1"])
    assert withdrawn == sorted({"u-a", "u-b"} - {"u-" + name for name in built})


def test_what_exists_already_counts_and_goes_on():
    there = instance("a", existing=True, token=None)
    there["state"] = rounds.EXISTING
    hosts = fleet(h1=2)
    hosts["h1"].records["u-a"] = {"uuid": "u-a", "role": "OWN", "token": None, "group": None, "project_id": "p"}
    plan = batch(3, there, instance("b"), instance("c"))
    assert ended(plan, hosts) == {"a": "active", "b": "active", "c": "active"}
