# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's quota:* are limits of CPUs, of the guest's own disks and of NICs, in libvirt's units; what limits nothing is not written."""

from __future__ import annotations

import pytest
from guest_features_case import PINNED, refusals, rendered, request

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import live_differences

FIELD = "berth_flavors.m1.extra_specs."
NOTHING = ("cputune", "devices/disk/iotune", "devices/interface/bandwidth")


def of(specs, **instance):
    return rendered(request(extra_specs=specs, **instance)[0])


@pytest.mark.parametrize(
    "name, value",
    [
        ("quota:cpu_shares", "10001"),
        ("quota:cpu_shares", "-1"),
        ("quota:cpu_period", "999"),
        ("quota:cpu_period", "1000001"),
        ("quota:cpu_quota", "999"),
        ("quota:cpu_quota", "half"),
        ("quota:disk_total_iops_sec", "1000000000000001"),
        ("quota:disk_read_bytes_sec", "1.5"),
        ("quota:vif_inbound_average", "4294967296"),
        ("quota:vif_outbound_average", "10M"),
        ("quota:vif_outbound_average", ""),
        ("quota:vif_outbound_average", "\u0661"),
    ],
)
def test_a_limit_that_libvirt_would_not_take_is_refused_before_anything_is_claimed(name, value):
    (error,) = refusals(extra_specs={name: value})
    assert (error.code, error.field, error.value) == ("InvalidInput", FIELD + name, repr(value))
    assert "0" in error.rule and "none" in error.rule


def test_all_faults_of_limits_are_told_at_once():
    errors = refusals(extra_specs={"quota:cpu_shares": "x", "quota:vif_inbound_peak": "y"})
    assert [error.field for error in errors] == [FIELD + "quota:cpu_shares", FIELD + "quota:vif_inbound_peak"]


@pytest.mark.parametrize("unit", ["bytes", "iops"])
@pytest.mark.parametrize("part", ["read", "write"])
def test_a_total_beside_a_part_of_it_is_refused(unit, part):
    given = {"quota:disk_total_%s_sec" % unit: "5", "quota:disk_%s_%s_sec" % (part, unit): "5"}
    (error,) = refusals(extra_specs=given)
    assert error.field == FIELD + "quota:disk_total_%s_sec" % unit
    other = {"bytes": "iops", "iops": "bytes"}[unit]
    request(extra_specs={"quota:disk_total_%s_sec" % unit: "5", "quota:disk_%s_%s_sec" % (part, other): "5"})
    request(extra_specs={**given, "quota:disk_total_%s_sec" % unit: "0"})


@pytest.mark.parametrize("way", ["inbound", "outbound"])
@pytest.mark.parametrize("part", ["peak", "burst"])
def test_a_peak_or_a_burst_without_an_average_is_refused_since_it_limits_nothing(way, part):
    (error,) = refusals(extra_specs={"quota:vif_%s_%s" % (way, part): "5"})
    assert error.field == FIELD + "quota:vif_%s_%s" % (way, part)
    assert error.rule == "quota:vif_%s_average beside it" % way


@pytest.mark.parametrize(
    "specs",
    [
        {},
        {"quota:cpu_shares": "0", "quota:cpu_period": "0", "quota:cpu_quota": "-1"},
        {"quota:cpu_shares": "100", "quota:cpu_period": "100000", "quota:cpu_quota": "0"},
        {"quota:disk_total_bytes_sec": "0", "quota:vif_inbound_average": "0"},
    ],
    ids=str,
)
def test_what_limits_nothing_is_not_written_and_not_missed(specs):
    root = of(specs)
    assert not [path for path in NOTHING if root.find(path) is not None]
    found = live_differences.parts(root)
    assert not [part for part in found if part.startswith("limits") and found[part]]


def test_disks_of_the_guests_own_are_limited_and_neither_its_volumes_nor_its_seed():
    root = of({"quota:disk_total_iops_sec": "500"}, berth_disks=[{"name": "logs", "size_gb": 1}])
    limited = {disk.find("target").get("dev"): disk.findtext("iotune/total_iops_sec") for disk in root.iter("disk")}
    assert limited == {"vda": "500", "vdb": None, "vde": "500"}


def test_limits_and_pinned_cpus_share_one_element():
    cells = {
        "numa_topology": {
            "cells": [{"id": 0, "cpuset": [], "pcpuset": [0, 1], "memory_mb": 2048, "cpu_pinning": {"0": 4, "1": 5}}]
        }
    }
    root = rendered(request(extra_specs={**PINNED, "quota:cpu_shares": "200"})[0], cells)
    (tune,) = root.findall("cputune")
    assert tune.findtext("shares") == "200" and len(tune.findall("vcpupin")) == 2


LIVE = {
    "quota:cpu_shares": "200",
    "quota:disk_read_iops_sec": "100",
    "quota:vif_inbound_average": "1000",
    "quota:vif_inbound_peak": "2000",
}


def test_limits_are_compared_with_those_that_the_guest_has():
    spec = request(extra_specs=LIVE)[0]
    mac = spec["networks"][0]["mac"]
    found = live_differences.parts(rendered(spec))
    assert {part: found[part] for part in found if part.startswith("limits")} == {
        "limits of CPUs": "shares 200",
        "limits of disks": "read_iops_sec 100",
        "limits of network interface %s" % mac: "inbound average 1000, peak 2000",
    }


def test_a_disk_with_other_limits_than_the_rest_is_seen():
    root = of({"quota:disk_read_iops_sec": "100"}, berth_disks=[{"name": "logs", "size_gb": 1}])
    disk = root.find("devices/disk/serial/..")
    disk.remove(disk.find("iotune"))
    assert live_differences.parts(root)["limits of disks"] == "none; read_iops_sec 100"


def test_limits_that_libvirt_shows_for_none_are_none():
    root = of({})
    spec = request(extra_specs=LIVE)[0]
    tune = rendered(spec).find("cputune")
    for name, number in (("shares", "100"), ("period", "100000"), ("quota", "-1")):
        for each in tune.findall(name):
            tune.remove(each)
        tune.makeelement(name, {})
        part = tune.makeelement(name, {})
        part.text = number
        tune.append(part)
    root.append(tune)
    assert live_differences.parts(root)["limits of CPUs"] == ""
