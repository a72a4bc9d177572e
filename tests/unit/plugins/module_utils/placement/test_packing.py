# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import HostState
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement.packing import (
    HostCapacity,
    Packing,
    Size,
    counted_mix,
    further_resources,
    most_spanning,
    read_mix,
    take_cells,
    tally,
)
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations
from ansible_collections.berth.kvm.plugins.module_utils.placement.weighers.headroom import HeadroomWeigher, capacity_of

OPTIONS = {"weight_classes": ["HeadroomWeigher"]}


def host(name, vcpus_used=0, memory_mb_used=0, **more):
    document = {"host": name, "vcpus": 8, "cpu_allocation_ratio": 1.0, "memory_mb": 8192, "local_gb": 100}
    document.update(vcpus_used=vcpus_used, memory_mb_used=memory_mb_used, reserved_host_memory_mb=0, **more)
    return document


def request(vcpus, memory_mb):
    return {"uuid": "u", "name": "i", "flavor": {"name": "f", "vcpus": vcpus, "memory_mb": memory_mb, "root_gb": 1}}


def chosen(hosts, spec, mix):
    options = dict(OPTIONS, headroom_flavor_mix=mix)
    return select_destinations(hosts, [spec], options).requests[0].hosts


def test_the_room_for_a_large_instance_is_kept():
    """A small instance goes where no large one would fit anyway."""
    mix = [{"vcpus": 8, "memory_mb": 8192}, {"vcpus": 1, "memory_mb": 1024}]
    assert chosen([host("empty"), host("begun", 2, 2048)], request(1, 1024), mix) == ["begun"]


def test_an_instance_goes_where_it_restores_the_balance():
    mix = [{"vcpus": 2, "memory_mb": 2048}]
    lopsided = host("much-memory-left", vcpus_used=4, memory_mb_used=0)
    even = host("even", vcpus_used=2, memory_mb_used=2048)
    assert chosen([even, lopsided], request(1, 4096), mix) == ["much-memory-left"]


def test_between_equals_the_fuller_host_is_taken():
    mix = [{"vcpus": 8, "memory_mb": 8192}]
    assert chosen([host("a", 1, 1024), host("b", 3, 3072)], request(1, 1024), mix) == ["b"]


def test_without_a_mix_the_instances_that_run_are_the_mix():
    document = host(
        "a", instances=[{"uuid": "1", "vcpus": 2, "memory_mb": 512}, {"uuid": "2", "vcpus": 2, "memory_mb": 512}]
    )
    document["instances"].append(
        {"uuid": "3", "vcpus": 4, "memory_mb": 64, "flavor": {"extra_specs": {"hw:numa_nodes": "2"}}}
    )
    mix = counted_mix(tally([HostState.from_document(document)]), Counter())
    assert mix.sizes == [Size((2, 512, 0), 0, 2), Size((4, 64, 0), 2, 1)]


def test_a_run_that_asks_for_a_large_instance_keeps_room_for_it_from_the_start():
    """Alone, the small one goes to the fuller host, the only one where the large one fits."""
    fuller, small_host = host("fuller", 4, 4096), host("small", vcpus=2, memory_mb=2048)
    small, large = request(1, 1024), request(4, 4096)
    assert select_destinations([fuller, small_host], [small], OPTIONS).requests[0].hosts == ["fuller"]
    together = select_destinations([fuller, small_host], [small, large], OPTIONS).requests
    assert [entry.hosts for entry in together] == [["small"], ["fuller"]]


def test_the_default_weighers_do_not_include_it():
    hosts = [host("empty"), host("begun", 2, 2048)]
    assert select_destinations(hosts, [request(1, 1024)]).requests[0].hosts == ["empty"]


def test_raw_weights_do_not_depend_on_the_other_hosts():
    """S39: the same host weighs the same in every company, given a mix."""
    weigher = HeadroomWeigher(
        {"headroom_weight_multiplier": 1.0, "headroom_flavor_mix": [{"vcpus": 2, "memory_mb": 512}]}
    )
    states = [HostState.from_document(host("h%d" % used, used, 512 * used)) for used in range(4)]
    spec = RequestSpec(request(1, 1024))
    assert weigher.weigh(states, spec) == [weigher.raw(state, spec) for state in states]


def test_what_is_placed_in_a_run_counts_for_the_next_instance():
    """Both hosts have room for one large instance and a small one; the second small one must not take a large one's."""
    mix = [{"vcpus": 4, "memory_mb": 4096}]
    spec = {**request(2, 2048), "num_instances": 2, "instance_uuids": ["1", "2"]}
    assert chosen([host("a", 2, 2048), host("b", 2, 2048)], spec, mix) == ["a", "b"]


def test_room_for_a_size_counts_by_its_cube():
    small, large = Packing([Size((1, 1)), Size((8, 8))]).parts
    assert large.worth == pytest.approx(512 * small.worth)


def imbalance(packing, free, capacity):
    return packing._imbalance(packing._units(capacity), free, (), 0)


def test_growing_an_imbalance_costs_and_shrinking_it_pays():
    packing = Packing([Size((1, 1024))])
    much_memory, many_cpus = HostCapacity((2, 4096), (8, 8192)), HostCapacity((4, 2048), (8, 8192))
    assert packing.cost(much_memory, (1, 512)) > packing.cost(many_cpus, (1, 512)) + 1


def test_an_imbalance_is_measured_by_the_mean_request_and_by_the_shape_of_the_host():
    """By the mean request the whole second host is uneven, and the third is even; by its shape it is the other way."""
    packing = Packing([Size((1, 1))])
    assert imbalance(packing, (4, 4), (4, 4)) == 0
    assert imbalance(packing, (4, 8), (4, 8)) == 8 - 4
    assert imbalance(packing, (4, 4), (4, 8)) == (1 - 0.5) * 4


def test_the_shape_of_a_host_counts_less_where_devices_limit_what_it_holds():
    packing = Packing([Size((1, 1, 1))])
    assert imbalance(packing, (4, 4, 2), (4, 8, 2)) == (1 - 0.5) * 2
    assert imbalance(packing, (4, 4, 0), (4, 8, 0)) == 0
    assert imbalance(packing, (4, 4, -1), (4, 8, -1)) == 0


@pytest.mark.parametrize("fleet, share", [((10, 20), 1), ((10, 40), 1 / 16), ((40, 20), 1 / 256), ((0, 20), 0)])
def test_an_imbalance_counts_less_if_the_hosts_together_have_more_of_one_than_instances_need(fleet, share):
    """Instances with 2 units of memory for each vCPU: of what the fleet has too much of, some is left in any case."""
    mix = [Size((1, 2))]
    whole = imbalance(Packing(mix), (4, 4), (4, 4))
    assert whole > 0
    assert imbalance(Packing(mix, fleet=fleet), (4, 4), (4, 4)) == pytest.approx(whole * share, abs=1e-6)


def test_the_fleet_is_all_hosts_that_were_weighed_each_counted_once():
    weigher = HeadroomWeigher(
        {"headroom_weight_multiplier": 1.0, "headroom_flavor_mix": [{"vcpus": 2, "memory_mb": 512}]}
    )
    spec = RequestSpec(request(1, 1024))
    for states in ([host("a")], [host("a"), host("b", 2, 1024, uuid="b")], [host("b", uuid="b")]):
        weigher.weigh([HostState.from_document(document) for document in states], spec)
    assert weigher._fleet == (16, 16384)
    assert weigher._packing.balance == Packing([Size((2, 512))], fleet=(16, 16384)).balance


def test_the_disk_counts_by_what_the_pool_really_has():
    """S14"""
    state = HostState.from_document(host("a", disk_available_least=7))
    assert capacity_of(state).free[2] == 7


@pytest.mark.parametrize(
    "item",
    [
        "m1",
        {"vcpu": 1},
        {"vcpus": -1},
        {"vcpus": "2"},
        {"disk_gb": 1},
        {"vcpus": 1, "share": 0},
        {"vcpus": 1, "resources": ["gpu"]},
        {"vcpus": 1, "resources": {"gpu": -1}},
        {"vcpus": float("nan")},
    ],
    ids=str,
)
def test_a_bad_mix_is_refused_by_the_place_in_the_option(item):
    with pytest.raises(InvalidInput) as caught:
        read_mix([{"vcpus": 1}, item])
    assert caught.value.field.startswith("berth_placement.headroom_flavor_mix[1]")


@pytest.mark.parametrize(
    ("counts", "span", "fit"),
    [
        ([3, 2], 1, 5),
        ([3, 2], 2, 2),
        ([3, 3, 3], 2, 4),
        ([9, 1, 1], 2, 2),
        ([5, 0, 0], 2, 0),
        ([2, 2, 2, 2], 3, 2),
        ([4], 2, 0),
    ],
)
def test_requests_over_several_cells_take_different_ones(counts, span, fit):
    assert most_spanning(counts, span) == fit


def test_a_pinned_request_takes_the_cell_it_fits_with_least_left_over():
    assert take_cells(((8, 8), (4, 4)), (4, 4, 99), 1) == ((8, 8), (0, 0))
    assert take_cells(((8, 8), (4, 4)), (6, 6), 1) == ((2, 2), (4, 4))
    assert take_cells(((8, 8), (4, 4)), (4, 4), 2) == ((6, 6), (2, 2))


def test_room_is_counted_cell_by_cell_for_pinned_sizes():
    pinned, loose = Packing([Size((4, 4), 1)]), Packing([Size((4, 4), 0)])
    assert pinned.room((6, 6), ((3, 3), (3, 3))) == 0
    assert int(loose.room((6, 6), ((3, 3), (3, 3)))) == 1


def test_what_fits_in_pieces_counts_half_for_sizes_that_are_not_pinned():
    """Of memory there is room for one and a half."""
    assert Packing([Size((4, 4))]).room((8, 6)) == pytest.approx(1 + 1.5 / 2)
    assert Packing([Size((4, 4))]).room((3, 1)) == pytest.approx(0.25 / 2)
    assert Packing([Size((4, 4))]).room((-1, 4)) == 0
    assert Packing([Size((4, 4), 1)]).room((8, 6), ((8, 6),)) == 1


amounts = st.tuples(st.integers(1, 16), st.integers(64, 8192))


@given(st.lists(amounts, min_size=1, max_size=5), amounts, amounts)
def test_a_placement_never_makes_room(mix, free, asked):
    packing = Packing([Size(size) for size in mix])
    after = tuple(f - a for f, a in zip(free, asked))
    assert packing.room(after) <= packing.room(free)


@given(st.lists(amounts, min_size=1, max_size=5), amounts, amounts)
def test_the_cost_is_the_same_whenever_it_is_asked(mix, free, asked):
    sizes = [Size(size) for size in mix]
    warm, capacity = Packing(sizes), HostCapacity(free, free)
    assert warm.cost(capacity, asked) == warm.cost(capacity, asked) == Packing(sizes).cost(capacity, asked)


def gpu_host(name, gpus, vcpus_used=0, **more):
    inventory = {"CUSTOM_GPU": {"total": gpus}} if gpus else {}
    return host(name, vcpus_used, vcpus_used * 1024, inventory=inventory, **more)


def gpu_request(gpus):
    return {**request(1, 1024), "flavor": {"name": "g", "vcpus": 1, "memory_mb": 1024, "extra_specs": gpus}}


def test_an_instance_without_a_device_leaves_the_hosts_that_have_some_to_those_that_ask():
    """By CPUs there is room for it beside the device; best fit alone would take the fuller host."""
    hosts = [gpu_host("devices", 1, vcpus_used=4), gpu_host("none", 0, vcpus_used=2)]
    devices = gpu_request({"resources:CUSTOM_GPU": "1"})
    answers = select_destinations(hosts, [request(1, 1024), devices], OPTIONS).requests
    assert [answer.hosts for answer in answers] == [["none"], ["devices"]]


def test_where_nobody_asks_for_a_device_the_hosts_that_have_some_are_hosts_as_others():
    hosts = [gpu_host("devices", 4, vcpus_used=4), gpu_host("none", 0, vcpus_used=2)]
    assert select_destinations(hosts, [request(1, 1024)], OPTIONS).requests[0].hosts == ["devices"]


def test_pci_devices_count_as_a_resource_of_the_hosts():
    pools = [{"vendor_id": "10de", "product_id": "1db4", "numa_node": None, "count": 1}]
    hosts = [host("devices", 4, 4096, pci_pools=pools), host("none", 2, 2048)]
    alias = {"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}
    devices = gpu_request({"pci_passthrough:alias": "gpu:1"})
    answers = select_destinations(hosts, [request(1, 1024), devices], {**OPTIONS, "pci_alias": [alias]}).requests
    assert [answer.hosts for answer in answers] == [["none"], ["devices"]]


def test_devices_of_a_host_are_the_free_ones_of_those_that_the_alias_means():
    devices = [{"address": "a", "vendor_id": "10de", "product_id": "1db4", "used_by": "other"}]
    devices.append({"address": "b", "vendor_id": "10de", "product_id": "1db4", "used_by": None})
    pools = [{"vendor_id": "10de", "product_id": "1db4", "numa_node": None, "count": 1}]
    state = HostState.from_document(host("h", pci_pools=pools, pci_devices=devices))
    aliases = {
        "gpu": ("legacy", [{"vendor_id": "10de", "product_id": "1db4"}]),
        "nic": ("legacy", [{"vendor_id": "1"}]),
    }
    capacity = capacity_of(state, ("CUSTOM_GPU", "pci:gpu", "pci:nic", "pci:unknown"), aliases)
    assert capacity.free[3:] == (0, 1, 0, 0)
    assert capacity.capacity[3:] == (0, 2, 0, 0)


def test_sizes_that_the_mix_does_not_know_are_kept_room_for_by_best_fit():
    """By the mix nothing is lost on the empty host: two typical instances fit there before and after."""
    mix = [Size((3, 3072))]
    empty, begun = HostCapacity((8, 8192), (8, 8192)), HostCapacity((3, 3072), (8, 8192))
    by_mix, by_best_fit = Packing(mix, 0.0), Packing(mix, 1.0)
    assert by_mix.cost(empty, (1, 1024)) < by_mix.cost(begun, (1, 1024))
    assert by_best_fit.cost(empty, (1, 1024)) > by_best_fit.cost(begun, (1, 1024))


def test_instances_that_are_alone_of_their_size_tell_how_much_is_unseen():
    common, rare, asked = ((1, 1024, 0), ()), ((2, 512, 0), ()), ((4, 64, 0), ())
    assert counted_mix(Counter({common: 3, rare: 1}), Counter()).unseen == 0.25
    assert counted_mix(Counter({common: 3, rare: 1}), Counter({rare: 1})).unseen == 0
    assert counted_mix(Counter(), Counter({asked: 1})).unseen == 0


@pytest.mark.parametrize(("shares", "unseen"), [((3, 1), 0.25), ((1, 1), 0), ((0.7, 0.3), 0), ((70, 30), 0)])
def test_shares_that_are_counts_tell_how_much_is_unseen(shares, unseen):
    assert read_mix([{"vcpus": at + 1, "share": share} for at, share in enumerate(shares)]).unseen == unseen


def test_a_given_mix_may_ask_for_further_resources():
    mix = read_mix([{"vcpus": 1, "resources": {"pci:gpu": 2}}, {"vcpus": 2, "resources": {"CUSTOM_X": 1}}])
    assert mix.names == ("CUSTOM_X", "pci:gpu")
    assert [size.amounts for size in mix.sizes] == [(1, 0, 0, 0, 2), (2, 0, 0, 1, 0)]


@pytest.mark.parametrize(
    ("extra_specs", "asked"),
    [
        ({"resources:CUSTOM_GPU": "2", "resources:VCPU": "4", "resources1:CUSTOM_GPU": "1"}, {"CUSTOM_GPU": 3}),
        ({"pci_passthrough:alias": "gpu:1, nic:2"}, {"pci:gpu": 1, "pci:nic": 2}),
        ({"pci_passthrough:alias": "gpu", "resources:CUSTOM_X": "many", "hw:numa_nodes": "2"}, {}),
        ({"resources:CUSTOM_X": "\u00b2", "pci_passthrough:alias": "gpu:" + 5000 * "9"}, {}),
        ({"resources:CUSTOM_X": "0", "pci_passthrough:alias": None}, {}),
    ],
)
def test_further_resources_are_read_from_extra_specs(extra_specs, asked):
    assert further_resources(extra_specs) == asked


def test_a_pinned_request_is_balanced_in_the_cell_that_it_takes():
    """Of the host as a whole nothing drifts; the cell that is taken ends with memory and without CPUs."""
    packing = Packing([Size((2, 2), 1)])
    even = HostCapacity((8, 8), (8, 8), ((4, 4), (4, 4)))
    assert packing._imbalance((1, 1), (6, 8), ((2, 4), (4, 4)), 1) == 1
    assert packing._imbalance((1, 1), (6, 8), ((4, 3), (2, 5)), 1) == 2
    assert packing.cost(even, (2, 1), 1) > packing.cost(even, (2, 2), 1)


def test_a_request_without_a_device_pays_for_what_it_takes_from_the_devices_that_are_free():
    """Room and best fit alone would take the fuller host, whose last free device would have fewer CPUs beside it."""
    packing = Packing([Size((1, 1, 0)), Size((1, 1, 1))])
    devices, none = HostCapacity((4, 4, 1), (8, 8, 10)), HostCapacity((6, 6, 0), (8, 8, 0))
    assert packing.cost(devices, (1, 1, 0)) > packing.cost(none, (1, 1, 0))
