# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NUMA cells of the host and what instances and foreign domains take of them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import numa

TOPOLOGY = ElementTree.parse(Path(__file__).parent / "data" / "capabilities.xml").getroot().find("host/topology")
ALL = frozenset(range(8))


@pytest.mark.parametrize(
    ("dedicated", "shared", "expected"),
    [
        (set(), set(), (ALL, set())),
        ({2, 3}, set(), (set(), {2, 3})),
        (set(), {0, 1}, ({0, 1}, set())),
        ({2, 3}, {0, 1}, ({0, 1}, {2, 3})),
        ({2, 99}, {0, 98}, ({0}, {2})),
    ],
)
def test_cpus_are_shared_or_dedicated_as_nova_has_it_and_only_if_online(dedicated, shared, expected):
    """S24: pinned CPUs are never overcommitted."""
    assert numa.cpu_pools(ALL, frozenset(dedicated), frozenset(shared)) == expected


def read(shared=ALL, dedicated=frozenset()):
    return numa.read_topology(TOPOLOGY, frozenset(shared), frozenset(dedicated))


def test_cells_have_cpus_siblings_sockets_pages_and_distances():
    topology, distances = read({0, 1, 4, 5}, {2, 3, 6})
    document = numa.to_document(topology, distances)
    assert document["cells"][1] == {
        "id": 1,
        "cpuset": [4, 5],
        "pcpuset": [6],
        "memory_mb": 8192,
        "cpu_usage": 0,
        "memory_usage": 0,
        "pinned_cpus": [],
        "siblings": [[4, 5], [6]],
        "socket": 1,
        "mempages": [
            {"size_kb": 4, "total": 1835008, "used": 0, "reserved": 0},
            {"size_kb": 2048, "total": 512, "used": 0, "reserved": 0},
            {"size_kb": 1048576, "total": 0, "used": 0, "reserved": 0},
        ],
        "network_metadata": None,
        "distances": {"0": 21, "1": 10},
    }


def test_a_host_without_cells_has_no_topology():
    assert numa.read_topology(None, ALL, frozenset()) == (None, {})
    assert numa.to_document(None, {}) is None


def record(uuid, cell, pins, pagesize=None):
    cells = [
        {
            "id": cell,
            "cpuset": [],
            "pcpuset": list(range(len(pins))),
            "memory_mb": 64,
            "pagesize": pagesize,
            "cpu_policy": "dedicated",
            "cpu_pinning": {str(vcpu): pcpu for vcpu, pcpu in enumerate(pins)},
        }
    ]
    # a record comes from JSON
    return SimpleNamespace(uuid=uuid, resources=json.loads(json.dumps({"numa_topology": {"cells": cells}})))


def test_records_take_cpus_memory_and_huge_pages():
    topology, _distances = read((), {0, 1, 2, 3, 4, 5})
    cells = numa.add_records(topology, [record("a", 0, [2, 3], 2048)], []).cells
    assert cells[0].pinned_cpus == {2, 3}
    assert cells[0].memory_usage == 64
    assert [pages.used for pages in cells[0].mempages] == [0, 32, 0]
    assert cells[1].memory_usage == 0


def test_two_records_with_one_cpu_are_a_warning_and_the_cpu_is_taken():
    """The host must answer, and must not give the CPU away a third time."""
    topology, _distances = read((), ALL)
    warnings = []
    cells = numa.add_records(topology, [record("a", 0, [2]), record("b", 0, [2, 3])], warnings).cells
    assert cells[0].pinned_cpus == {2, 3}
    assert len(warnings) == 1 and "instance b" in warnings[0]


def foreign(pins=(), huge_page_kb=None, nodes=()):
    return SimpleNamespace(
        pinned_cpus=frozenset(pins), huge_page_kb=huge_page_kb, memory_nodes=frozenset(nodes), memory_mb=64
    )


def test_a_foreign_domain_pins_dedicated_cpus_only():
    topology, _distances = read({0, 1}, {2, 3})
    assert numa.add_foreign(topology, foreign({1, 2})).cells[0].pinned_cpus == {2}


@pytest.mark.parametrize(("nodes", "used"), [({1}, [0, 32]), ((), [16, 16])])
def test_a_foreign_domain_takes_huge_pages_where_it_says_or_evenly(nodes, used):
    topology, _distances = read()
    cells = numa.add_foreign(topology, foreign(huge_page_kb=0, nodes=nodes)).cells
    assert [cell.mempages[1].used for cell in cells] == used
