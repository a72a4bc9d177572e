# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only a silent host knows its members of an affinity group, and which addresses its instances have."""

from __future__ import annotations

import itertools

import pytest
from runs_of_create import HOSTS, Host, a_plan, instance, steps

from ansible_collections.berth.kvm.plugins.module_utils.conductor import addressing, groups
from ansible_collections.berth.kvm.plugins.module_utils.conductor import plan as rounds
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.model import nics
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

SILENT = {"h2": "UNREACHABLE: no route to host"}
GROUP = {"name": "g", "uuid": "g-uuid", "policy": "affinity"}
UUID = instance_uuid("p", "a")
NIC = {"type": "bridge", "source": "br0", "mac": None, "address": None}


def fleet_with(*held):
    return Fleet({"h1": {"uuid": "h1", "instances": list(held)}}, dict(SILENT))


def member(role="OWN", **more):
    return {"uuid": "u-b", "role": role, "group": "g", "project_id": "p", **more}


def to_place(**spec):
    vm = instance("a")
    vm["uuid"] = vm["spec"]["uuid"] = UUID
    vm["spec"].update(spec)
    del vm["state"]
    return {"a": vm}


def run(vm, silent="h2", before_the_claim=True):
    """A create, whose host h2 falls silent before its claims or after them."""
    hosts = {name: Host(name) for name in HOSTS}
    hosts[silent].up = not before_the_claim
    for _step in steps(a_plan(vm), hosts, map("t{:04d}".format, itertools.count())):
        hosts[silent].up = False
    assert vm["state"] == rounds.ACTIVE or not hosts["h1"].records, "no claim is left"
    return vm


def code_of(vm):
    return (vm.get("error") or {}).get("code")


@pytest.mark.parametrize("seen", [(), (member("CLAIM"),)], ids=["no member", "only a claim"])
def test_nobody_joins_an_affinity_group_whose_members_may_be_on_a_silent_host(seen):
    found = to_place(group=dict(GROUP))
    groups.refuse_unseen(found, fleet_with(*seen), SILENT)
    error = found["a"]["error"]
    assert error["code"] == "GroupMembersUnknown" and "server group g" in error["message"]
    assert "Bring h2 back and run again" in error["hint"]


@pytest.mark.parametrize("policy, seen", [("affinity", (member(),)), ("soft-affinity", ()), ("anti-affinity", ())])
def test_a_group_of_which_a_member_is_seen_or_whose_policy_no_silent_host_can_break_is_joined(policy, seen):
    found = to_place(group={**GROUP, "policy": policy})
    groups.refuse_unseen(found, fleet_with(*seen), SILENT)
    assert "state" not in found["a"]
    groups.refuse_unseen(found, fleet_with(), {})
    assert "state" not in found["a"], "no host is silent"


def test_what_exists_is_left_in_its_group_whoever_is_silent():
    found = to_place(group=dict(GROUP))
    found["a"].update(state=rounds.EXISTING, existing=True)
    groups.refuse_unseen(found, fleet_with(), SILENT)
    assert found["a"]["state"] == rounds.EXISTING


@pytest.mark.parametrize("before", [True, False], ids=["before the claim", "after the claim"])
def test_a_host_that_falls_silent_during_the_run_holds_up_the_group_and_the_claim_is_withdrawn(before):
    assert code_of(run(instance("a", group=dict(GROUP)), before_the_claim=before)) == "GroupMembersUnknown"


@pytest.mark.parametrize(
    "more, told",
    [
        ({"address": "192.0.2.9/24"}, "address 192.0.2.9 on bridge br0"),
        ({"mac": "02:00:00:00:00:01"}, "MAC address 02:00:00:00:00:01"),
    ],
    ids=["address", "MAC address"],
)
def test_no_address_of_the_inventory_is_used_that_an_instance_on_a_silent_host_may_have(more, told):
    found = to_place(networks=[{**NIC, **more}])
    addressing.give(found, {}, SILENT)
    error = found["a"]["error"]
    assert error["code"] == "AddressesUnknown" and told in error["message"] and "h2" in error["message"]
    assert "Bring h2 back and run again" in error["hint"]
    found = to_place(networks=[{**NIC, **more}])
    addressing.give(found, {}, {})
    assert "state" not in found["a"], "no host is silent"


def test_a_mac_address_made_from_the_instances_own_uuid_is_nobody_elses():
    found = to_place(networks=[{**NIC, "mac": nics.own_mac(UUID, 0)}])
    addressing.give(found, {}, SILENT)
    assert "state" not in found["a"]


@pytest.mark.parametrize("before", [True, False], ids=["before the claim", "after the claim"])
def test_a_host_that_falls_silent_during_the_run_holds_up_a_fixed_address(before):
    vm = instance("a")
    vm["spec"]["networks"] = [{**NIC, "address": "192.0.2.9/24"}]
    assert code_of(run(vm, before_the_claim=before)) == "AddressesUnknown"
