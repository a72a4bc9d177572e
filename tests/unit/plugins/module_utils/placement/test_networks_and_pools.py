# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement leaves out the hosts that lack a network or pool that is asked for, and counts disks where they are."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import nics
from ansible_collections.berth.kvm.plugins.module_utils.placement.changes.would_fit import smallest_changes
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations

SIZES = {"vcpus": 16, "memory_mb": 65536, "local_gb": 100}


def pool(storage, gib, promised=0, kind="dir"):
    return {"type": kind, "storage": storage, "capacity_gb": gib, "free_gb": gib, "promised_gb": promised}


def host(name, **more):
    told = {"bridges": ["br0"], "networks": ["lan"], "network_filters": ["clean"], "pool": "berth"}
    return {"host": name, **SIZES, **told, "pools": {"berth": pool("berth", 100), "fast": pool("fast", 9)}, **more}


def request(name="web", root_gb=6, **more):
    flavor = {"name": "m", "vcpus": 1, "memory_mb": 512, "root_gb": root_gb}
    return {"uuid": name, "name": name, "flavor": flavor, "networks": [], "pool": "berth", **more}


def bridge(source, **more):
    return {"type": "bridge", "source": source, **more}


def place(hosts, *requests, fast=True):
    return [request.hosts for request in select_destinations(hosts, list(requests), fast=fast).requests]


def reasons(hosts, wanted):
    """{host: why it is no candidate}"""
    found = select_destinations(hosts, [wanted], explain=True).requests[0].explanation["candidates"]
    return {key: "; ".join(entry.reason for _rule, entry in rules if not entry.passed) for key, rules in found.items()}


LACKING = [
    ({"bridges": []}, {"networks": [bridge("br0")]}, "has no bridge br0"),
    ({"bridges": ["br1"]}, {"networks": [bridge("br0"), bridge("br2")]}, "has no bridge br0, no bridge br2"),
    ({"networks": []}, {"networks": [{"type": "network", "source": "lan"}]}, "has no active libvirt network lan"),
    ({"network_filters": []}, {"networks": [bridge("br0", nwfilter="clean")]}, "has no network filter clean"),
    (
        {"packet_filters": []},
        {"networks": [bridge("br0", security={"rules": None})]},
        "has no " + nics.describe("addresses"),
    ),
    (
        {"packet_filters": ["addresses"]},
        {"networks": [bridge("br0", security={"rules": []})]},
        "has no " + nics.describe("ports"),
    ),
    ({}, {"pool": "nvme"}, "has no active storage pool nvme (active: berth, fast)"),
    (
        {"pools": {"berth": pool("berth", 9), "vg": pool("vg", 9, kind="logical")}},
        {"pool": "vg"},
        "its storage pool vg is no directory but of type logical",
    ),
    (
        {"pools": {"berth": dict(pool("berth", 100), free_mb=15)}, "disk_allocation_ratio": 16.0},
        {},
        "has 15 MiB free in its storage pool berth, an instance needs 16 at once",
    ),
    (
        {"pools": {"berth": pool("berth", 9), "nvme": dict(pool("nvme", 100), free_mb=0)}},
        {"pool": "nvme"},
        "has 0 MiB free in its storage pool nvme, an instance needs 16 at once",
    ),
]


@pytest.mark.parametrize("facts,asked,reason", LACKING)
@pytest.mark.parametrize("fast", [True, False])
def test_a_host_that_lacks_what_is_asked_for_by_name_is_left_out_and_says_why(facts, asked, reason, fast):
    pools = {"berth": pool("berth", 9), "nvme": pool("nvme", 9), "vg": pool("vg", 9)}
    good = host("good", bridges=["br0", "br2"], pools=pools, memory_mb=4096)
    hosts = [host("lacks", **facts), good]
    assert place(hosts, request(**asked), fast=fast) == [["good"]]
    assert reasons(hosts, request(**asked)) == {"lacks": reason, "good": ""}
    assert place(hosts[:1], request(**asked), fast=fast) == [[]]


@pytest.mark.parametrize("facts,asked,_reason", LACKING)
def test_a_host_that_does_not_tell_what_it_has_is_judged_as_before(facts, asked, _reason):
    assert place([{"host": "old", **SIZES}], request(**asked)) == [["old"]]
    assert place([{"host": "old", **SIZES, "pools": {"berth": pool("berth", 100)}}], request(**asked)) == [["old"]]


@pytest.mark.parametrize("fast", [True, False])
def test_disks_in_a_pool_of_its_own_file_system_are_counted_there(fast):
    three = [request("web-%d" % number, pool="fast") for number in range(3)]
    assert place([host("a")], *three, request("big", 100), fast=fast) == [["a"], [], [], ["a"]]


@pytest.mark.parametrize("fast", [True, False])
def test_pools_on_one_file_system_share_it(fast):
    shared = {"berth": pool("berth", 20, 7), "archive": pool("berth", 20, 7)}
    apart = {"berth": pool("berth", 20), "fast": pool("big", 9, 2), "big": pool("big", 9, 2)}
    hosts = [host("a", local_gb=20, local_gb_used=7, pools=shared)]
    assert place(hosts, request("x", pool="archive"), request("y"), request("z", pool="archive"), fast=fast) == [
        ["a"],
        ["a"],
        [],
    ]
    hosts = [host("a", local_gb=20, pools=apart)]
    assert place(hosts, request("x", pool="fast"), request("y", pool="big"), request("z"), fast=fast) == [
        ["a"],
        [],
        ["a"],
    ]


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("kind", ["dir", "fs", "netfs"])
def test_a_pool_that_libvirt_mounts_is_as_good_as_a_directory(kind, fast):
    hosts = [host("a", pools={"berth": pool("berth", 100), "far": pool("far", 9, kind=kind)})]
    assert place(hosts, request("x", pool="far"), request("y", pool="far"), fast=fast) == [["a"], []]


def test_the_ratio_of_the_host_counts_for_every_pool():
    assert place([host("a", disk_allocation_ratio=2.0)], request(root_gb=10, pool="fast")) == [[]]
    wanted = [request("web-%d" % number, pool="fast") for number in range(4)]
    assert place([host("a", disk_allocation_ratio=2.0)], *wanted) == [["a"], ["a"], ["a"], []]


def test_room_that_a_pool_lacks_is_told_by_its_name():
    hosts = [host("a", pools={"berth": pool("berth", 100), "fast": pool("fast", 9, 6)})]
    assert "DISK_GB:fast: needs 6, 3 free of (9 - 0 reserved)" in reasons(hosts, request(pool="fast"))["a"]


def test_what_would_help_names_the_pool():
    hosts = [host("a", pools={"berth": pool("berth", 100), "fast": pool("fast", 9, 6)})]
    changes = smallest_changes(hosts, [request(pool="fast")])
    assert any("3 more GiB of disk in the storage of pool fast" in change.text for change in changes)
