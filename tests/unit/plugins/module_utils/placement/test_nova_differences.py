# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of docs/nova-differences.md, against what Nova decided when they were recorded (S02, S45)."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations

TESTS = Path(__file__).resolve().parents[4]
_spec = importlib.util.spec_from_file_location("parity_answer_of_differences", TESTS / "parity" / "answer.py")
answer = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(answer)

ROWS = json.loads((TESTS / "vectors" / "differences.json").read_text(encoding="utf-8"))
VIOMMU = (("h0", []), ("h1", ["COMPUTE_VIOMMU_MODEL_VIRTIO"]))
PAGE = (TESTS.parent / "docs" / "nova-differences.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_a_row_of_the_page_holds(row):
    here = answer.answer(row["scenario"])
    assert here == row["here"]
    assert (here == row["nova"]) == (row["kind"] == "same")


def test_the_page_names_every_recorded_row_and_only_tests_that_exist():
    shown = {name for line in PAGE.splitlines() if line.startswith("|") for name in _shown_by(line)}
    tests = {name for name in shown if name.startswith("test_")}
    assert shown - tests == {row["name"] for row in ROWS}
    sources = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in sorted(tests) if "def %s(" % name not in sources] == []


def _shown_by(line):
    """The names in the last column."""
    return [entry or other for entry, other in re.findall(r"`([a-z-]+)`|(test_\w+)", line.split("|")[-2])]


def test_by_default_every_host_of_a_large_fleet_is_weighed():
    hosts = [{"host": "h%d" % number, "vcpus": 4, "memory_mb": 4096, "local_gb": 50} for number in range(1001)]
    hosts[-1]["memory_mb"] = 8192
    small = {"flavor": {"vcpus": 1, "memory_mb": 512}}
    assert select_destinations(hosts, [small]).requests[0].hosts == ["h1000"]
    limited = select_destinations(hosts, [small], {"max_placement_results": 1000})
    assert limited.requests[0].hosts == ["h0"]


def test_a_viommu_model_is_asked_of_hosts_without_the_prefilter_too():
    hosts = [{"host": name, "vcpus": 4, "memory_mb": 4096, "local_gb": 50, "traits": traits} for name, traits in VIOMMU]
    wanted = {"flavor": {"vcpus": 1, "memory_mb": 512, "extra_specs": {"hw:viommu_model": "virtio"}}}
    assert select_destinations(hosts, [wanted]).requests[0].hosts == ["h1"]
