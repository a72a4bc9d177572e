# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fits on a host: total less reserved times ratio, by the scheduler and by the claim alike."""

from __future__ import annotations

import pytest
from scheduler_case import FLAVOR, host, request

from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import HostState
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement import capacity
from ansible_collections.berth.kvm.plugins.module_utils.placement.errors import ClaimFailed
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations


def test_a_claim_tells_every_shortfall_with_its_numbers():
    """S25"""
    state = HostState.from_document(host("a", vcpus=1, memory_mb=1024, local_gb=5, cpu_allocation_ratio=1.0))
    with pytest.raises(ClaimFailed) as caught:
        capacity.allocate(state, RequestSpec.from_dict(request()))
    assert [shortfall["resource"] for shortfall in caught.value.shortfalls] == ["VCPU", "MEMORY_MB", "DISK_GB"]
    assert caught.value.retryable and "2048" in str(caught.value)


CAPACITY = pytest.mark.parametrize(
    "inventory,fits",
    [
        ({}, True),
        ({"MEMORY_MB": {"step_size": 1024}}, True),
        ({"MEMORY_MB": {"step_size": 1000}}, False),
        ({"MEMORY_MB": {"max_unit": 2047}}, False),
        ({"MEMORY_MB": {"min_unit": 2049}}, False),
        ({"DISK_GB": None}, False),
        ({"VCPU": {"reserved": 15, "allocation_ratio": 1.0}}, False),
        ({"VCPU": {"reserved": 14, "allocation_ratio": 1.0}}, True),
    ],
)


@CAPACITY
def test_capacity_is_used_plus_asked_within_total_less_reserved_times_ratio(inventory, fits):
    """S25"""
    assert bool(select_destinations([host("a", inventory=inventory)], [request()]).requests[0].hosts) is fits


@CAPACITY
def test_a_claim_counts_as_the_scheduler_does(inventory, fits):
    """The claim names each shortfall, the scheduler only asks whether there is one: two forms of one rule (S25)."""
    state, asked = (
        HostState.from_document(host("a", inventory=inventory)),
        {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20},
    )
    assert (capacity.shortfalls(state, asked) == []) is fits
    assert capacity.fits(state, asked) is fits


OVER = {"memory_mb": 8192, "reserved_host_memory_mb": 0, "memory_mb_used": 12288}
HAS = {"uuid": "vm", "role": "OWN", "vcpus": 4, "memory_mb": 4096}


def resized_there(asked_mb=2048, host_has=None, instance=None, **more):
    """The host of a resize that may stay where it is, by the plain and the fast pipeline, and what its claim says."""
    wanted = request(flavor=dict(FLAVOR, memory_mb=asked_mb), **more)
    there = host("a", **(host_has or OVER), instances=[instance or HAS])
    state = HostState.from_document(there)
    try:
        held = bool(capacity.allocate(state, RequestSpec.from_dict(wanted)))
    except ClaimFailed:
        held = False
    return [
        *(
            bool(select_destinations([given], [wanted]).requests[0].hosts)
            for given in (there, HostState.from_document(there))
        ),
        held,
    ]


def test_a_resize_that_lowers_what_a_host_has_too_much_in_use_is_allowed_on_it():
    """S15"""
    assert resized_there() == [True] * 3
    assert resized_there(4096) == [True] * 3, "no more than it has"
    assert resized_there(host_has={**OVER, "vcpus_used": 65}) == [True] * 3, "CPUs and memory"


@pytest.mark.parametrize(
    "case",
    [
        {"asked_mb": 4097},
        {"instance": dict(HAS, uuid="other")},
        {"instance": dict(HAS, role="OUT")},
        {"host_has": {**OVER, "memory_mb_used": 8192}},
        {"host_has": {**OVER, "local_gb_used": 495}},
        {"instance": dict(HAS, vcpus=1), "host_has": {**OVER, "vcpus_used": 65}},
    ],
    ids=["asks for more", "another's", "left", "full but not over", "disk", "more CPUs"],
)
def test_nothing_else_is_allowed_on_a_host_that_is_over_its_limits(case):
    """S15"""
    assert resized_there(**case) == [False] * 3


def test_a_pinned_instance_that_falls_back_to_shared_cpus_is_judged_by_the_same_rule():
    """S15"""
    pinned = {**HAS, "vcpus": 2}
    there = HostState.from_document(host("a", instances=[pinned], vcpus_used=65))
    flavor = dict(FLAVOR, extra_specs={"hw:cpu_policy": "dedicated"})
    asked, found = capacity.amounts_on(there, RequestSpec.from_dict(request(flavor=flavor)))
    assert "VCPU" in asked.amounts and found == []


def test_the_limits_of_a_decision_are_tested_again_by_the_claim():
    """S23"""
    state = HostState.from_document(host("a", memory_mb_used=60000))
    with pytest.raises(ClaimFailed, match="limit"):
        capacity.allocate(state, RequestSpec.from_dict(request()), {"memory_mb": 62000})


NO_AMOUNTS = {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}
EMPTY_GROUPS = pytest.mark.parametrize(
    ("specs", "why"),
    [
        ({"trait1:CUSTOM_FAST": "required"}, "in resources1:"),
        ({"trait1:CUSTOM_SLOW": "forbidden"}, "in resources1:"),
        ({"trait1:CUSTOM_FAST": "required", "resources1:CUSTOM_GOLD": "0"}, "in resources1:"),
        ({"trait_A:CUSTOM_FAST": "required", "resources1:CUSTOM_GOLD": "1", "group_policy": "none"}, "in resources_A:"),
        ({"trait:CUSTOM_FAST": "required", **NO_AMOUNTS}, "in resources:"),
        (NO_AMOUNTS, "every amount"),
    ],
)


def asking(specs):
    return request(flavor=dict(FLAVOR, extra_specs=specs))


@pytest.mark.parametrize("fast", [True, False])
@EMPTY_GROUPS
def test_a_group_of_traits_without_an_amount_fits_nowhere(specs, why, fast):
    """Placement answers such a query with an error, and Nova then with no valid host (S25)."""
    hosts = [host("a", traits=["CUSTOM_FAST"], inventory={"CUSTOM_GOLD": {"total": 4}})]
    (result,) = select_destinations(hosts, [asking(specs)], fast=fast).requests
    assert result.hosts == []
    assert why in dict(result.explanation["candidates"]["a"])["capacity"].reason


IN_NUMBERED = {**NO_AMOUNTS, "resources1:VCPU": "1", "resources1:MEMORY_MB": "512"}
ZONE = {"name": "z", "hosts": ["a"], "metadata": {"availability_zone": "az1"}}
ISOLATED = {"name": "i", "hosts": ["b"], "metadata": {"trait:CUSTOM_FAST": "required"}}
PROJECT = {"name": "p", "hosts": ["a"], "metadata": {"filter_tenant_id": "p1"}}


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    "bound, options, aggregate",
    [
        ({"availability_zone": "az1"}, {}, ZONE),
        ({"requested_destination": {"host": "a"}}, {}, ZONE),
        ({"force_hosts": ["a"]}, {}, ZONE),
        ({}, {"enable_isolated_aggregate_filtering": True}, ISOLATED),
        ({"project_id": "p1"}, {"limit_tenants_to_placement_aggregate": True}, PROJECT),
    ],
    ids=["zone", "target", "forced host", "isolated aggregate", "aggregate of the project"],
)
def test_what_has_amounts_in_numbered_groups_alone_fits_nowhere_once_it_is_bound_to_hosts(
    bound, options, aggregate, fast
):
    """Nova puts zones, aggregates and targets into the group without a number, and Placement refuses one without amounts."""

    def answer(specs, **more):
        asked = {**asking(specs), **more}
        return select_destinations([host("a")], [asked], options, [aggregate], fast=fast).requests[0]

    refused = answer(IN_NUMBERED, **bound)
    assert refused.hosts == []
    assert "numbered groups alone" in dict(refused.explanation["candidates"]["a"])["capacity"].reason
    assert answer({**IN_NUMBERED, "resources:VCPU": "1"}, **bound).hosts == ["a"]
    if bound:
        assert answer(IN_NUMBERED).hosts == ["a"]


@EMPTY_GROUPS
def test_the_claim_refuses_a_group_of_traits_without_an_amount_too(specs, why):
    state = HostState.from_document(host("a", traits=["CUSTOM_FAST"], inventory={"CUSTOM_GOLD": {"total": 4}}))
    with pytest.raises(ClaimFailed, match=why):
        capacity.allocate(state, RequestSpec.from_dict(asking(specs)))


def test_a_group_of_traits_with_an_amount_is_of_the_host_that_has_both():
    gold = {"inventory": {"CUSTOM_GOLD": {"total": 4}}}
    hosts = [host("a", **gold), host("b", traits=["CUSTOM_FAST"]), host("c", traits=["CUSTOM_FAST"], **gold)]
    asked = asking({"resources1:CUSTOM_GOLD": "1", "trait1:CUSTOM_FAST": "required"})
    assert select_destinations(hosts, [asked]).requests[0].hosts == ["c"]


def test_a_forbidden_trait_that_no_host_has_forbids_nothing():
    """In Nova a trait that Placement does not know ends the request."""
    asked = asking({"trait:HW_NO_SUCH_TRAIT": "forbidden"})
    assert select_destinations([host("a")], [asked]).requests[0].hosts == ["a"]


@pytest.mark.parametrize("ratio", [1.0, 4.0, 16.0])
def test_pinned_cpus_are_never_overcommitted_whatever_the_ratio(ratio):
    """S24"""
    pinned = dict(FLAVOR, extra_specs={"hw:cpu_policy": "dedicated"})
    cells = {"cells": [{
        "id": 0, "cpuset": [], "pcpuset": [0, 1, 2, 3], "memory_mb": 65536, "siblings": [], "pinned_cpus": [],
        "mempages": [{"size_kb": 4, "total": 16777216, "used": 0, "reserved": 0}],
    }]}  # fmt: skip
    it = host("a", vcpus=0, pcpus=4, cpu_allocation_ratio=ratio, numa_topology=cells)
    asked = [request(uuid="v%d" % number, flavor=pinned) for number in range(3)]
    hosts = [answer.hosts for answer in select_destinations([it], asked).requests]
    assert hosts == [["a"], ["a"], []], "two CPUs each, of four"
    assert HostState.from_document(it).inventories["PCPU"]["allocation_ratio"] == 1.0
