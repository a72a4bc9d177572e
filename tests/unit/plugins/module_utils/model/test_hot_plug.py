# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ceilings a flavor can have, and from which flavor to which a guest goes without a restart."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import adopted, hot_plug
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.guest_settings import GuestSettings

BOTH = {"berth:max_vcpus": "8", "berth:max_memory_mb": "4096"}


def flavor(vcpus=2, memory_mb=1024, specs=None, **disks):
    sizes = {"name": "m1", "vcpus": vcpus, "memory_mb": memory_mb, "root_gb": 10, "ephemeral_gb": 0, "swap": 0}
    return {**sizes, **disks, "extra_specs": BOTH if specs is None else specs}


def check(given, properties=()):
    for one in hot_plug.checks(given, GuestSettings(given["extra_specs"], dict(properties)), "f"):
        one()


@pytest.mark.parametrize("specs", [{}, BOTH, {"berth:max_vcpus": "2"}, {"berth:max_memory_mb": "1024"}], ids=str)
def test_a_ceiling_is_at_least_what_the_flavor_has(specs):
    check(flavor(specs=specs))


@pytest.mark.parametrize(
    "specs, rule",
    [
        ({"berth:max_vcpus": "1"}, "a whole number from 2"),
        ({"berth:max_vcpus": "256"}, "to 255"),
        ({"berth:max_vcpus": "many"}, "a whole number from 2"),
        ({"berth:max_memory_mb": "896"}, "a whole number from 1024"),
        ({"berth:max_memory_mb": "1100"}, "multiples of 128"),
        ({**BOTH, "hw:cpu_policy": "dedicated"}, "no berth:max_vcpus, or without these"),
        ({**BOTH, "hw:mem_page_size": "2048"}, "no berth:max_vcpus, or without these"),
        ({"berth:max_memory_mb": "4096", "hw:numa_nodes": "1"}, "no berth:max_memory_mb"),
        ({"berth:max_vcpus": "8", "hw:cpu_cores": "2"}, "no berth:max_vcpus"),
        ({"berth:max_memory_mb": "4096", "hw:mem_encryption": "true"}, "no berth:max_memory_mb"),
    ],
    ids=str,
)
def test_a_ceiling_that_no_guest_could_have_is_refused_with_the_rule(specs, rule):
    with pytest.raises(InvalidInput) as refused:
        check(flavor(specs=specs))
    assert rule in refused.value.rule and refused.value.field in {"f." + name for name in hot_plug.SIZES}


def test_memory_in_other_sizes_than_blocks_has_no_ceiling():
    with pytest.raises(InvalidInput, match="multiples of 128"):
        check(flavor(memory_mb=100, specs={"berth:max_memory_mb": "1024"}))


def test_what_the_image_asks_for_is_in_the_way_as_well():
    with pytest.raises(InvalidInput, match="hw:numa_nodes"):
        check(flavor(), {"hw_numa_nodes": "2"})


def test_a_topology_is_not_in_the_way_of_memory():
    check(flavor(specs={"berth:max_memory_mb": "4096", "hw:cpu_cores": "2"}))


def needed(old, new, **part):
    return hot_plug.restart_needed({"flavor": old, **part}, {"flavor": new})


@pytest.mark.parametrize(
    "new",
    [
        flavor(4, 2048),
        flavor(4),
        flavor(2, 4096),
        flavor(4, specs={**BOTH, "quota:cpu_shares": "200"}),
        flavor(2, 1024, specs={**BOTH, "quota:cpu_shares": "200"}),
    ],
    ids=["both", "CPUs", "memory", "limits beside", "limits alone"],
)
def test_a_running_guest_gets_what_is_below_its_ceilings_and_other_limits(new):
    assert needed(flavor(), new) is None


@pytest.mark.parametrize(
    "old, new, why",
    [
        (flavor(), flavor(4, specs={**BOTH, "berth:max_vcpus": "16"}), "other ceilings"),
        (flavor(specs={}), flavor(4), "other ceilings"),
        (flavor(4), flavor(2), "its vcpus shrink"),
        (flavor(2, 2048), flavor(2, 1024), "its memory_mb shrink"),
        (flavor(), flavor(4, root_gb=20), "its disks change"),
        (flavor(), flavor(4, specs={**BOTH, "hw:disk_bus": "scsi"}), "differ in hw:disk_bus"),
        (flavor(specs={"berth:max_vcpus": "8"}), flavor(4, 2048, {"berth:max_vcpus": "8"}), "no berth:max_memory_mb"),
        (flavor(memory_mb=65536), flavor(memory_mb=65536 + 1024), "no multiple of 2048"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_restart_is_needed_for_the_rest_and_it_is_said_why(old, new, why):
    assert why in str(needed(old, new))


def test_an_adopted_guest_has_no_ceilings():
    assert needed(flavor(), flavor(4), **{adopted.KEY: {"definition": "<domain/>"}}) == "it was adopted"


def test_nothing_is_said_of_flavors_without_ceilings():
    assert needed(flavor(specs={}), flavor(4, specs={})) == ""
