# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""resources:VGPU in a flavor: which host has it, of which GPU, by Nova's rules for providers of their own."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import HostState
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement import capacity
from ansible_collections.berth.kvm.plugins.module_utils.placement.changes import limits
from ansible_collections.berth.kvm.plugins.module_utils.placement.changes.would_fit import smallest_changes
from ansible_collections.berth.kvm.plugins.module_utils.placement.errors import ClaimFailed
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations
from ansible_collections.berth.kvm.plugins.module_utils.placement.weighers import headroom

SMALL, LARGE = "0000:84:00.0", "0000:85:00.0"


def gpus(used=(1, 0)):
    return [
        {"parent": SMALL, "type": "nvidia-35", "total": 2, "used": used[0]},
        {"parent": LARGE, "type": "nvidia-36", "total": 4, "used": used[1]},
    ]


def host(name="gpu", **more):
    return {"host": name, "vcpus": 8, "memory_mb": 8192, "local_gb": 100, **more}


def asks(*extra_specs, number=1, **asked):
    flavor = {"name": "g", "vcpus": 1, "memory_mb": 64, "root_gb": 1, "extra_specs": dict(extra_specs) or asked}
    return {
        "uuid": "6695eb01-f6a4-8304-79aa-%012d" % number,
        "name": "web-%d" % number,
        "project_id": "default",
        "flavor": flavor,
    }


ONE = ("resources:VGPU", "1")


def given(*specs, hosts=None, fast=True):
    """The vGPUs that each request gets, {GPU: number}, or None."""
    result = select_destinations(hosts or [host("plain"), host(vgpus=gpus())], specs, fast=fast)
    return [vgpus_of(request) for request in result.requests]


def vgpus_of(request):
    if request.error:
        return None
    (selection,) = request.selections
    amounts = selection.allocation["resources"]
    return {name[5:]: amount for name, amount in amounts.items() if name.startswith("VGPU")}


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([ONE], {SMALL: 1}),
        ([("resources:VGPU", "2")], {LARGE: 2}),
        ([("resources:VGPU", "4")], {LARGE: 4}),
        ([("resources:VGPU", "5")], None),
        ([ONE, ("trait:CUSTOM_NVIDIA_36", "required")], {LARGE: 1}),
        ([ONE, ("trait:CUSTOM_NVIDIA_35", "forbidden")], {LARGE: 1}),
        ([ONE, ("trait:CUSTOM_NVIDIA_36", "required"), ("trait:CUSTOM_NVIDIA_35", "forbidden")], {LARGE: 1}),
        ([ONE, ("trait:CUSTOM_NVIDIA_35", "required"), ("trait:CUSTOM_NVIDIA_36", "required")], None),
        ([ONE, ("trait:CUSTOM_FAST", "required")], {SMALL: 1}),
        ([ONE, ("trait:CUSTOM_NVIDIA_37", "required")], None),
        ([("resources1:VGPU", "1"), ("trait1:CUSTOM_NVIDIA_36", "required")], {LARGE: 1}),
        ([("resources1:VGPU", "1"), ("trait1:CUSTOM_FAST", "required")], None),
        ([("resources1:VGPU", "1"), ("trait:CUSTOM_FAST", "required")], {SMALL: 1}),
        ([("resources1:VGPU", "1"), ("trait1:CUSTOM_NVIDIA_35", "forbidden")], {LARGE: 1}),
        ([("trait:CUSTOM_NVIDIA_36", "required")], None),
        ([("resources1:VGPU", "1"), ("resources2:VGPU", "1"), ("group_policy", "none")], None),
    ],
)
def test_vgpus_are_of_one_gpu_that_has_the_room_and_the_traits(asked, found, fast):
    """C19: in Nova a GPU is a provider of its own; its type's trait is its own, not the host's."""
    hosts = [host("plain", traits=["CUSTOM_FAST"]), host(vgpus=gpus(), traits=["CUSTOM_FAST"])]
    assert given(asks(*asked), hosts=hosts, fast=fast) == [found]


@pytest.mark.parametrize("fast", [True, False])
def test_each_request_sees_what_the_ones_before_it_took(fast):
    specs = [asks(ONE, number=number) for number in range(1, 8)]
    assert given(*specs, fast=fast) == [{SMALL: 1}, *[{LARGE: 1}] * 4, None, None]


def test_no_instance_gets_more_than_libvirt_and_drivers_take():
    hosts = [host(vgpus=[{"parent": SMALL, "type": "nvidia-35", "total": 32, "used": 0}])]
    assert given(asks(("resources:VGPU", "16")), hosts=hosts) == [{SMALL: 16}]
    assert given(asks(("resources:VGPU", "17")), hosts=hosts) == [None]


def test_an_instance_without_vgpus_is_placed_as_on_a_host_without_gpus():
    with_gpus, without = (
        select_destinations([host(**more)], [asks()], explain=True) for more in ({"vgpus": gpus()}, {})
    )
    assert with_gpus.requests[0].selections[0].allocation == without.requests[0].selections[0].allocation
    assert "vgpus" not in capacity.allocate(HostState(host(vgpus=gpus())), RequestSpec.from_dict(asks()))


def test_a_class_that_the_controller_was_told_of_is_placed_as_before():
    """Documents in Nova's form have VGPU in their own inventory."""
    hosts = [host(inventory={"VGPU": {"total": 1}})]
    (result,) = select_destinations(hosts, [asks(ONE)]).requests
    assert result.selections[0].allocation["resources"]["VGPU"] == 1


def allocate(*extra_specs, **gpu):
    return capacity.allocate(HostState(host(**gpu)), RequestSpec.from_dict(asks(*extra_specs)))


def test_the_claim_binds_gpu_type_and_a_uuid_that_is_always_the_same():
    """C19"""
    bound = allocate(("resources:VGPU", "2"), vgpus=gpus())["vgpus"]
    assert [(each["parent"], each["type"]) for each in bound] == [(LARGE, "nvidia-36")] * 2
    assert [each["uuid"] for each in bound] == [
        "37217709-f0e8-5f0d-b306-acfb548d599e",
        "db031b81-078d-52b4-8efa-dc6d2893842d",
    ]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("resources:VGPU", "3"), "VGPU:0000:85:00.0: needs 3, 2 free of (4 - 0 reserved) x 1, 2 used"),
        (("resources:VGPU", "17"), "VGPU:0000:85:00.0: needs 17, 2 free of (4 - 0 reserved) x 1, 2 used"),
    ],
)
def test_what_is_missing_is_said_of_the_gpu_with_most_room(asked, reason):
    with pytest.raises(ClaimFailed) as refused:
        allocate(asked, vgpus=gpus((2, 2)))
    assert [shortfall["reason"] for shortfall in refused.value.shortfalls] == [reason]


def test_a_host_without_gpus_refuses_the_claim():
    with pytest.raises(ClaimFailed, match="has no VGPU"):
        allocate(ONE)


def test_a_person_is_told_how_many_vgpus_of_which_gpu_are_missing():
    assert limits._unit("VGPU:" + LARGE) == "vGPUs of the GPU " + LARGE


@pytest.mark.parametrize(
    ("asked", "gpu", "told"),
    [
        (2, {"total": 2, "used": 1}, ["on gpu: 1 more vGPUs of the GPU %s (1 free, 2 needed)" % SMALL]),
        (3, {"total": 2, "used": 0}, ["on gpu: 3 vGPUs of the GPU %s in all instead of 2" % SMALL]),
        (16, {"total": 2, "used": 0}, ["on gpu: 16 vGPUs of the GPU %s in all instead of 2" % SMALL]),
        (17, {"total": 2, "used": 0}, []),
        (17, {"total": 32, "used": 0}, []),
    ],
)
def test_a_larger_gpu_is_proposed_only_where_an_instance_may_have_so_many(asked, gpu, told):
    hosts = [host(vgpus=[{"parent": SMALL, "type": "nvidia-35", **gpu}])]
    changes = smallest_changes(hosts, [asks(("resources:VGPU", str(asked)))])
    assert [change.text for change in changes] == told


@pytest.mark.parametrize("unit", [{"max_unit": 4}, {"min_unit": 9}])
def test_no_host_is_proposed_to_grow_where_the_amount_of_one_instance_is_bounded(unit):
    hosts = [host(inventory={"CUSTOM_X": {"total": 16, **unit}})]
    assert smallest_changes(hosts, [asks(("resources:CUSTOM_X", "8"))]) == []


def test_dense_packing_counts_the_vgpus_of_all_gpus():
    capacity_ = headroom.capacity_of(HostState(host(vgpus=gpus())), ("VGPU",))
    assert (capacity_.free[3], capacity_.capacity[3]) == (5, 6)
