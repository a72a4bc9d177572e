# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data disks take room: in placement, in its filters, and in the claim, which has the same arithmetic (C24)."""

from __future__ import annotations

import pytest
from sample_catalog import variables

from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import HostState
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement import capacity, registry
from ansible_collections.berth.kvm.plugins.module_utils.placement.fast.kind import kind_key
from ansible_collections.berth.kvm.plugins.module_utils.placement.filtering import judge
from ansible_collections.berth.kvm.plugins.module_utils.placement.options import read_options
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request
from ansible_collections.berth.kvm.plugins.module_utils.placement.requested import requested

HOST = {"host": "h1", "vcpus": 8, "memory_mb": 8192, "local_gb": 100, "local_gb_used": 20}


def request(size_gb, **flavor):
    sizes = {"name": "m1", "vcpus": 1, "memory_mb": 512, "root_gb": 10, "ephemeral_gb": 2, "swap": 1500}
    return RequestSpec(
        {"uuid": "new", "flavor": {**sizes, **flavor}, "disks": [{"name": "logs", "size_gb": size_gb, "bus": "virtio"}]}
    )


@pytest.mark.parametrize(
    "specs, amount", [({}, 10 + 2 + 2 + 30), ({"resources:DISK_GB": "5"}, 35), ({"resources:DISK_GB": "0"}, 30)]
)
def test_data_disks_are_asked_of_the_host_beside_what_the_flavor_asks(specs, amount):
    assert requested(request(30, extra_specs=specs)).amounts["DISK_GB"] == amount


def test_the_allocation_of_the_claim_has_them():
    asked = requested(request(30))
    assert capacity.allocation_of(asked.amounts)["disk_gb"] == 44


@pytest.mark.parametrize("name", ["DiskFilter", "ExactDiskFilter"])
def test_the_filters_of_disks_count_them(name):
    state = HostState.from_document(HOST)
    filter_ = registry.find_filters([name])[0](read_options({}))
    verdict = judge(filter_, state, request(70))
    assert not verdict.passed and verdict.numbers["asked"] == (10 + 2 + 70) * 1024 + 1500


def test_requests_that_differ_in_their_data_disks_are_not_judged_alike():
    class Hosts:
        of_instance = ()

    assert kind_key(request(30), Hosts) != kind_key(request(31), Hosts)


@pytest.mark.parametrize(
    "properties, bus",
    [({}, "virtio"), ({"hw_disk_bus": "scsi"}, "scsi"), ({"hw_disk_bus": "ide", "hw_machine_type": "pc"}, "sata")],
)
def test_a_data_disk_has_the_bus_of_the_image_or_its_own(properties, bus):
    given = variables()
    given["berth_images"]["debian-12"]["properties"] = properties
    wanted = {"logs": {"size_gb": 1}, "db": {"size_gb": 2, "bus": "sata"}}
    instance = {"inventory_hostname": "web-1", "berth_flavor": "m1.tiny", "berth_image": "debian-12"}
    spec, _seed = build_request({**instance, "berth_disks": wanted}, Catalog.from_variables(given))
    assert spec["disks"] == [
        {"name": "logs", "size_gb": 1, "bus": bus},
        {"name": "db", "size_gb": 2, "bus": "sata"},
    ]
