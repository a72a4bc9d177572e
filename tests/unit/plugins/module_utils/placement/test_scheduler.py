# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a decision is made of: order, all or nothing, alternates, errors, and what must always hold."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_case import FLAVOR, chosen, host, request

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import HostState
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement import capacity
from ansible_collections.berth.kvm.plugins.module_utils.placement.base import Filter, Verdict
from ansible_collections.berth.kvm.plugins.module_utils.placement.errors import (
    DriverRemoved,
    NoValidHost,
    SchedulerHostFilterNotFound,
    UnknownOption,
    UnsupportedPolicy,
)
from ansible_collections.berth.kvm.plugins.module_utils.placement.options import DEFAULT_FILTERS
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations


def test_the_emptiest_host_wins_by_default():
    hosts = [host("a", memory_mb_used=30000), host("b", memory_mb_used=100)]
    assert chosen(select_destinations(hosts, [request()])) == [["b"]]


def test_without_any_weight_a_multi_create_stacks_on_the_host_chosen_first():
    """Nova's order of equals: the host chosen last comes first."""
    zero = {
        name + "_weight_multiplier": 0
        for name in ("ram", "cpu", "disk", "io_ops", "hypervisor_version", "build_failure", "pci")
    }
    hosts = [host("a"), host("b")]
    assert chosen(select_destinations(hosts, [request(num_instances=3)], zero)) == [["a", "a", "a"]]


def test_a_multi_create_is_all_or_nothing_and_leaves_no_trace():
    """S07"""
    small = [host("a", vcpus=2, cpu_allocation_ratio=1.0)]
    result = select_destinations(small, [request(num_instances=2), request(uuid="vm2")])
    assert chosen(result) == [[], ["a"]]
    assert isinstance(result.requests[0].error, NoValidHost)


def test_requests_of_one_batch_are_all_or_nothing_together():
    """S07"""
    hosts = [host("a", vcpus=4, cpu_allocation_ratio=1.0)]
    big = dict(FLAVOR, vcpus=8)
    batch = [request(uuid="v1", batch_id="b"), request(uuid="v2", batch_id="b", flavor=big), request(uuid="v3")]
    result = select_destinations(hosts, batch)
    assert chosen(result) == [[], [], ["a"]]
    assert "of its batch" in str(result.requests[0].error)
    assert result.host_states[0].num_instances == 1


def test_what_the_caller_gave_is_left_unchanged():
    hosts, requests = [host("a"), host("b")], [request(num_instances=2)]
    before = copy.deepcopy((hosts, requests))
    select_destinations(hosts, requests)
    assert (hosts, requests) == before


def test_alternates_are_as_many_as_attempts_allow_without_the_hosts_of_the_batch():
    """C29"""
    hosts = [host(name) for name in "abcde"]
    result = select_destinations(hosts, [request(num_instances=2)], {"max_attempts": 3})
    used = set(result.requests[0].hosts)
    for selection in result.requests[0].selections:
        assert len(selection.alternates) == 2
        assert not used & {other["host"] for other in selection.alternates}


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("cell, alternates", [("north", ["b"]), ("south", []), (None, [])])
def test_alternates_are_in_the_cell_of_the_host_that_was_chosen(cell, alternates, fast):
    """C29"""
    others = [host("b", cell="north", memory_mb=32768), host("c", memory_mb=16384, cell="west")]
    chosen_host = host("a", **({"cell": cell} if cell else {}))
    (selection,) = select_destinations([chosen_host, *others], [request()], fast=fast).requests[0].selections
    assert selection.host == "a" and [other["host"] for other in selection.alternates] == alternates


def test_no_valid_host_has_the_verdict_of_every_filter_on_every_host():
    hosts = [host("a", memory_mb=1024), host("b", service={"up": False})]
    answer = select_destinations(hosts, [request()]).requests[0]
    assert isinstance(answer.error, NoValidHost) and not dict(answer.explanation["candidates"]["a"])["capacity"].passed
    told = {filter_["filter"]: filter_["verdicts"] for filter_ in answer.explanation["instances"][0]["filters"]}
    assert not told["ComputeFilter"]["b"].passed


def test_the_explanation_of_a_success_tells_raw_normalised_and_multiplied_weights():
    result = select_destinations([host("a"), host("b", memory_mb_used=32768)], [request()], explain=True)
    record = result.requests[0].explanation["instances"][0]
    ram = next(weigher for weigher in record["weighers"] if weigher["weigher"] == "RAMWeigher")
    assert record["host"] == "a" and ram["normalised"]["a"] == 1.0 and ram["raw"]["b"] == 65536 - 32768 - 512
    assert record["order"] == ["a", "b"]


def test_all_unknown_filters_are_named_at_once_with_what_was_meant():
    """S34"""
    with pytest.raises(SchedulerHostFilterNotFound) as caught:
        select_destinations([host("a")], [request()], {"enabled_filters": ["ComputFilter", "ImagePropertyFilter"]})
    assert caught.value.details["names"] == ["ComputFilter", "ImagePropertyFilter"]
    assert "ComputeFilter" in caught.value.hint and "ImagePropertiesFilter" in caught.value.hint


def test_unknown_options_are_refused_with_what_was_meant():
    with pytest.raises(UnknownOption, match="ram_weight_multiplier"):
        select_destinations([host("a")], [request()], {"ram_weigth_multiplier": 1})


@pytest.mark.parametrize("name", ["TrustedFilter"])
def test_a_filter_that_cannot_work_here_says_why(name):
    with pytest.raises(Exception, match="attestation"):
        select_destinations([host("a")], [request()], {"enabled_filters": [name]})


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
def test_a_policy_that_nothing_enforces_is_refused(policy):
    """C13"""
    with pytest.raises(UnsupportedPolicy):
        group = {"uuid": "g", "name": "g", "policy": policy, "members": []}
        select_destinations([host("a")], [request(group=group)], {"enabled_filters": ["ComputeFilter"]})


class Grumpy(Filter):
    """Raises on one host."""

    def check(self, host_state, spec):
        if host_state.host == "a":
            raise KeyError("no such key")
        return Verdict(True)


def test_a_plugin_that_raises_is_a_verdict_that_names_class_and_host():
    options = {"enabled_filters": ["ComputeFilter", "Grumpy"]}
    result = select_destinations([host("a"), host("b")], [request()], options, plugins=[Grumpy], explain=True)
    told = {
        filter_["filter"]: filter_["verdicts"] for filter_ in result.requests[0].explanation["instances"][0]["filters"]
    }
    assert result.requests[0].hosts == ["b"]
    assert "Grumpy" in told["Grumpy"]["a"].reason and "on a" in told["Grumpy"]["a"].reason


FULL, BUSY, FREE, DOWN = (
    host("a", memory_mb_used=32768),
    host("b", num_io_ops=9),
    host("c"),
    host("d", service={"up": False}),
)


@pytest.mark.parametrize(
    ("driver", "expected"),
    [("filter", {"c"}), ("filter_scheduler", {"c"}), ("fake", {"a"}), ("chance", {"a", "b", "c"})],
)
def test_every_driver_chooses_in_its_own_way(driver, expected):
    """S04, S06: filter the best that passes all filters, fake the first that is up, chance any that is up."""
    options = {"driver": driver, "enabled_filters": ["ComputeFilter", "IoOpsFilter"]}
    for hosts in ([FULL, BUSY, FREE, DOWN], [DOWN, FULL, FREE, BUSY]):
        found = (select_destinations(hosts, [request()], options, seed=seed) for seed in range(60))
        assert {one.requests[0].hosts[0] for one in found} == expected


@pytest.mark.parametrize("given", ["caching", "caching_scheduler"])
def test_the_caching_driver_is_refused_with_the_reason(given):
    """S05, S16: it would do what filter does."""
    with pytest.raises(DriverRemoved, match="berth_placement.driver") as caught:
        select_destinations([host("a")], [request()], {"driver": given})
    assert "every run reads them afresh" in caught.value.hint


def test_the_interval_of_the_caching_driver_in_a_nova_conf_has_no_effect():
    """S05"""
    assert chosen(select_destinations([host("a")], [request()], {"periodic_task_interval": 20})) == [["a"]]


def test_fake_takes_the_first_whatever_lots_the_options_ask_for():
    """S06"""
    options = {"driver": "fake", "host_subset_size": 3, "shuffle_best_same_weighed_hosts": True}
    found = {
        select_destinations([FULL, FREE], [request()], options, seed=seed).requests[0].hosts[0] for seed in range(20)
    }
    assert found == {"a"}


@pytest.mark.long
def test_chance_draws_each_host_equally_often():
    """S06: 4000 draws among four, within 5 standard deviations, which are 27 draws."""
    hosts = [host(name, memory_mb_used=used) for name, used in (("a", 0), ("b", 9000), ("c", 18000), ("d", 27000))]
    draws = [select_destinations(hosts, [request()], {"driver": "chance"}, seed=seed) for seed in range(4000)]
    counts = Counter(one.requests[0].hosts[0] for one in draws)
    assert sorted(counts) == list("abcd") and all(abs(count - 1000) < 5 * 27.4 for count in counts.values()), counts


@pytest.mark.parametrize(
    ("options", "among"),
    [
        ({"driver": "chance"}, 4),
        ({"host_subset_size": 3}, 3),
        ({"host_subset_size": 9}, 4),
        ({"shuffle_best_same_weighed_hosts": True}, 2),
        ({"shuffle_best_same_weighed_hosts": True, "host_subset_size": 3}, 3),
        ({"driver": "fake", "host_subset_size": 3}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("fast", [True, False])
def test_the_explanation_says_among_how_many_hosts_lots_were_drawn(options, among, fast):
    """S09"""
    hosts = [host("a"), host("b"), host("c", memory_mb_used=9000), host("d", memory_mb_used=9000)]
    result = select_destinations(hosts, [request()], options, explain=True, fast=fast)
    assert result.requests[0].explanation["instances"][0].get("drawn_among") == among


def test_options_that_are_no_mapping_are_refused_by_their_name():
    with pytest.raises(InvalidInput) as caught:
        select_destinations([host("a")], [request()], {"metrics": 5})
    assert caught.value.field == "berth_placement.metrics"


def test_a_request_document_is_given_back_with_unknown_fields_and_hints_as_lists():
    """A26"""
    document = request(scheduler_hints={"same_host": "x"}, unknown={"a": 1})
    again = RequestSpec.from_dict(document).to_dict()
    assert again["unknown"] == {"a": 1} and again["scheduler_hints"] == {"same_host": ["x"]} and again["schema"] == 1


def test_a_host_state_is_one_line_for_people():
    """S44"""
    assert (
        repr(HostState.from_document(host("a", num_io_ops=3)))
        == "(a, a) ram: 65024MB disk: 512000MB io_ops: 3 instances: 0"
    )


# -- what must always hold
HOSTS = st.lists(
    st.builds(
        lambda vcpus, gib, used, io, failed, cells, members: {
            "vcpus": vcpus,
            "memory_mb": gib * 1024,
            "local_gb": gib * 8,
            "vcpus_used": int(vcpus * used),
            "memory_mb_used": int(gib * 1024 * used),
            "num_io_ops": io,
            "failed_builds": failed,
            "cpu_allocation_ratio": 1.5,
            "reserved_host_memory_mb": 0,
            "local_gb_used": 0,
            "num_instances": members,
            "hypervisor_version": 8000000 + cells,
            "cell": "c%d" % cells,
        },
        st.sampled_from([4, 8, 16]),
        st.sampled_from([4, 8, 32]),
        st.sampled_from([0, 0, 0.25, 0.5, 1]),
        st.integers(0, 8),
        st.sampled_from([0, 0, 1]),
        st.sampled_from([0, 0, 0, 1]),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=90,
)
POLICIES = ["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity", None, None]
REQUESTS = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 4]),
        st.sampled_from([512, 2048]),
        st.integers(1, 5),
        st.sampled_from(range(len(POLICIES))),
    ),
    min_size=1,
    max_size=8,
)
OPTIONS = st.fixed_dictionaries(
    {
        "ram_weight_multiplier": st.sampled_from([1.0, -1.0, 0.0, 0.3]),
        "num_instances_weight_multiplier": st.sampled_from([0.0, -0.5]),
        "hypervisor_version_weight_multiplier": st.sampled_from([1.0, 0.0]),
        "max_attempts": st.sampled_from([1, 3]),
        "enabled_filters": st.sampled_from(
            [list(DEFAULT_FILTERS), [*DEFAULT_FILTERS, "IoOpsFilter", "NumInstancesFilter", "RamFilter"]]
        ),
    }
)


def build(hosts, requests):
    documents = [dict(host, host="h%03d" % number) for number, host in enumerate(hosts)]
    specs = []
    for number, (vcpus, memory, count, policy) in enumerate(requests):
        group = (
            {"uuid": "g%d" % policy, "name": "g", "policy": POLICIES[policy], "members": []}
            if POLICIES[policy]
            else None
        )
        flavor = {"name": "f", "vcpus": vcpus, "memory_mb": memory, "root_gb": 1}
        uuids = ["vm-%d-%d" % (number, each) for each in range(count)]
        specs.append({"flavor": flavor, "num_instances": count, "instance_uuids": uuids, "group": group})
    return documents, specs


@settings(max_examples=40, deadline=None)
@given(HOSTS, REQUESTS, OPTIONS)
def test_no_host_is_ever_filled_over_its_capacity_and_alternates_are_feasible(hosts, requests, options):
    documents, specs = build(hosts, requests)
    result = select_destinations(documents, specs, options)
    for before, state in zip(documents, result.host_states):
        for name, inventory in state.inventories.items():
            limit = (inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"]
            grown = state.used.get(name, 0) > HostState.from_document(before).used.get(name, 0)
            assert not grown or state.used[name] <= limit
    last = result.requests[-1]
    by_name = {state.host: state for state in result.host_states}
    for selection in last.selections:
        for other in selection.alternates:
            assert capacity.fits(by_name[other["host"]], other["allocation"]["resources"])


@settings(max_examples=25, deadline=None)
@given(HOSTS, REQUESTS, st.integers(0, 5))
def test_the_same_seed_gives_the_same_decision(hosts, requests, seed):
    """S08 S09"""
    documents, specs = build(hosts, requests)
    options = {"host_subset_size": 3, "shuffle_best_same_weighed_hosts": True}
    assert chosen(select_destinations(documents, specs, options, seed=seed)) == chosen(
        select_destinations(documents, specs, options, seed=seed)
    )


@settings(max_examples=25, deadline=None)
@given(HOSTS, st.randoms(use_true_random=False))
def test_the_order_of_hosts_matters_only_between_equals(hosts, rng):
    documents, specs = build(hosts, [(1, 512, 1, 5)])
    mixed = list(documents)
    rng.shuffle(mixed)
    weights = []
    for entry in (documents, mixed):
        answer = select_destinations(entry, specs, explain=True).requests[0]
        weights.append(answer.explanation["instances"][0]["weights"].get(answer.hosts[0]) if answer.hosts else None)
    assert weights[0] == weights[1]


def test_two_pools_of_like_devices_are_used_one_after_the_other():
    """A17, S18: devices of a pool that is used up are taken from the next one, never from below zero."""
    pools = [{"vendor_id": "10de", "product_id": "1db4", "numa_node": None, "count": n} for n in (1, 2)]
    flavor = dict(FLAVOR, extra_specs={"pci_passthrough:alias": "gpu:2"})
    options = {
        "pci_alias": [{"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}],
        "enabled_filters": ["PciPassthroughFilter"],
    }
    result = select_destinations(
        [host("a", pci_pools=pools)], [request(uuid=uuid, flavor=flavor) for uuid in ("vm1", "vm2")], options
    )
    assert chosen(result) == [["a"], []]


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    "named, hosts",
    [
        ({"ignore_hosts": ["KVM1"]}, ["kvm2"]),
        ({"requested_destination": {"host": "kvm2"}}, ["kvm2"]),
        ({"requested_destination": {"host": "kvm3"}}, []),
        ({"force_hosts": ["kvm3"]}, ["kvm3"]),
    ],
)
def test_hosts_that_a_request_names_are_left_out_asked_for_or_forced(named, hosts, fast):
    """S26, S27, S28: kvm1 is the best, kvm3 is not up, which only a forced host is not asked about."""
    fleet = [host("kvm1"), host("kvm2", memory_mb_used=100), host("kvm3", service={"forced_down": True})]
    assert chosen(select_destinations(fleet, [request(**named)], fast=fast)) == [hosts]


def test_filters_are_asked_in_the_order_of_the_list():
    """S33"""
    names = ["NumInstancesFilter", "ComputeFilter", "IoOpsFilter", "AllHostsFilter"]
    for order in (names, names[::-1]):
        answer = select_destinations([host("a"), host("b")], [request()], {"enabled_filters": order}, explain=True)
        asked = answer.requests[0].explanation["instances"][0]["filters"]
        assert [step["filter"] for step in asked] == order


ALL = "nova.scheduler.filters.all_filters"


@pytest.mark.parametrize(
    "available, refused",
    [
        ([ALL], None),
        ("all_filters", None),
        (["nova.scheduler.filters.compute_filter.ComputeFilter", "IoOpsFilter"], None),
        (["IoOpsFilter"], ("enabled_filters", ["ComputeFilter"])),
        ([], ("enabled_filters", ["ComputeFilter", "IoOpsFilter"])),
        ([ALL, "nonsense", "no.such.thing"], ("available_filters", ["nonsense", "no.such.thing"])),
    ],
)
def test_what_is_enabled_is_among_the_available_filters_and_those_are_filters(available, refused):
    """S33"""
    options = {"enabled_filters": ["ComputeFilter", "IoOpsFilter"], "available_filters": available}
    if not refused:
        assert chosen(select_destinations([host("a")], [request()], options)) == [["a"]]
        return
    with pytest.raises(SchedulerHostFilterNotFound) as caught:
        select_destinations([host("a")], [request()], options)
    assert (caught.value.field, caught.value.details["names"]) == refused
