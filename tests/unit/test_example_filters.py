# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
import sys
from pathlib import Path

import ansible_collections
import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import HostState
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement.explain import document, rejections
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples" / "filters" / "ansible_collections"
GUIDE = (REPOSITORY / "docs" / "how-to-write-a-filter.md").read_text("utf-8")
IMPORTS = "from ansible_collections.berth.kvm.plugins.module_utils.placement.base import PASS, Filter, fail\n\n\n"
# The host of the teaching example that DumpFilter comes from: its numbers are known.
TAUGHT = {
    "host": "UbuntuStack",
    "node": "ubuntustack",
    "vcpus": 2,
    "vcpus_used": 2,
    "memory_mb": 3934,
    "memory_mb_used": 128,
    "local_gb": 18,
    "local_gb_used": 2,
    "disk_available_least": 7,
    "cpu_allocation_ratio": 16.0,
    "ram_allocation_ratio": 1.5,
    "hypervisor_version": 2005000,
    "instances": [{"uuid": "a"}, {"uuid": "b"}],
}
REQUEST = {"uuid": "u", "name": "test1", "flavor": {"name": "m1.nano", "vcpus": 1, "memory_mb": 64, "root_gb": 1}}


@pytest.fixture(autouse=True)
def example_collection(monkeypatch):
    """The example collection beside ours, as ANSIBLE_COLLECTIONS_PATH would put it."""
    monkeypatch.setattr(ansible_collections, "__path__", [*ansible_collections.__path__, str(EXAMPLES)])
    yield
    for name in [module for module in sys.modules if module.startswith("ansible_collections.example")]:
        del sys.modules[name]


def place(hosts, **options):
    return select_destinations(hosts, [REQUEST], options, explain=True).requests[0]


def test_dump_filter_shows_the_numbers_of_the_host_that_it_was_taught_on():
    """S43, S14: free disk is 1024 x min(16, 7), free memory 3934 - 512 - 2 x 64"""
    answer = place([TAUGHT], enabled_filters=["example.cloud.dump"])
    verdict = document(answer)["instances"][0]["filters"][0]["verdicts"]["UbuntuStack|ubuntustack"]
    numbers = verdict["numbers"]
    assert verdict["reason"] == "(UbuntuStack, ubuntustack) ram: 3294MB disk: 7168MB io_ops: 0 instances: 2"
    assert (numbers["free_ram_mb"], numbers["free_disk_mb"], numbers["disk_mb_used"]) == (3294, 7168, 2048)
    assert (numbers["limits"], numbers["request"]["memory_mb"]) == ({}, 64)


def test_the_filter_to_copy_refuses_with_its_numbers():
    answer = place([TAUGHT], enabled_filters=["example.cloud.template"], free_memory_left_mb=4000)
    assert rejections(document(answer)) == {
        "UbuntuStack|ubuntustack": ("FreeMemoryLeftFilter", "would keep 3230 MiB free, 4000 are wanted")
    }


def test_the_filter_to_copy_passes_by_default():
    assert place([TAUGHT], enabled_filters=["example.cloud.template"]).hosts == ["UbuntuStack|ubuntustack"]


def test_the_weigher_to_copy_works_beside_novas():
    hosts = [dict(TAUGHT, host="a", node="a", num_instances=5), dict(TAUGHT, host="b", node="b", num_instances=1)]
    answer = place(hosts, weight_classes=["all_weighers", "example.cloud.quiet"], quiet_host_weight_multiplier=10.0)
    assert answer.hosts == ["b"]


def test_the_test_that_the_guide_shows_holds():
    from ansible_collections.example.cloud.plugins.module_utils.placement.filters.template import FreeMemoryLeftFilter

    host = HostState.from_document({"host": "k1", "memory_mb": 4096, "reserved_host_memory_mb": 0})
    verdict = FreeMemoryLeftFilter({"free_memory_left_mb": 2048}).check(
        host, RequestSpec({"flavor": {"vcpus": 1, "memory_mb": 3072}})
    )
    assert not verdict.passed and verdict.numbers["left_mb"] == 1024


def test_the_options_that_are_not_declared_work_as_the_guide_shows(tmp_path, monkeypatch):
    part = GUIDE.split("## Options that are not declared")[1].split("\n## ")[0]
    blocks = dict(re.findall(r"```(yaml|python)\n(.*?)```", part, re.DOTALL))
    file = tmp_path / "guide/cloud/plugins/module_utils/placement/filters/few.py"
    file.parent.mkdir(parents=True)
    file.write_text(IMPORTS + blocks["python"])
    monkeypatch.setattr(ansible_collections, "__path__", [*ansible_collections.__path__, str(tmp_path)])
    options = yaml.safe_load(blocks["yaml"])["berth_placement"]
    two, one = (dict(TAUGHT, num_instances=number, instances=[]) for number in (2, 1))
    assert [bool(place([host], **options).hosts) for host in (two, one)] == [False, True]
    assert place([two], **{**options, "plugin_options": {}}).hosts
