# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.berth.kvm.plugins.filter import explain, fleet_table, host_line, placement_table
from ansible_collections.berth.kvm.plugins.module_utils.placement import receipt
from ansible_collections.berth.kvm.plugins.module_utils.placement.explain import documents
from ansible_collections.berth.kvm.plugins.module_utils.placement.scheduler import select_destinations

HOSTS = [
    {"host": "k1", "memory_mb": 4096, "vcpus": 4, "local_gb": 9},
    {"host": "k2", "memory_mb": 600, "vcpus": 4, "local_gb": 9},
]
REQUEST = {"uuid": "u", "name": "web", "flavor": {"name": "m", "vcpus": 1, "memory_mb": 512, "root_gb": 1}}


def filter_of(module):
    ((name, function),) = module.FilterModule().filters().items()
    assert module.__name__.endswith("." + name)
    return function


@pytest.fixture
def paper():
    result = select_destinations(HOSTS, [REQUEST], explain=True)
    return json.loads(json.dumps(receipt.make(HOSTS, [REQUEST], {}, result)))


def test_a_receipt_is_explained(paper):
    text = filter_of(explain)(paper)
    assert text.startswith("web: k1, the best of 1 of 2 hosts") and "k2" in text
    assert filter_of(explain)(next(documents(paper["matrix"]))) == text


@pytest.mark.parametrize("value", [{}, {"matrix": None}, {"matrix": [1]}, "text", {"name": "x"}], ids=str)
def test_what_is_no_explanation_is_refused(value):
    with pytest.raises(AnsibleFilterError):
        filter_of(explain)(value)


def test_the_fleet_may_be_a_list_or_a_mapping():
    text = filter_of(fleet_table)(HOSTS, {"k9": "UNREACHABLE"})
    assert "k9" in text and "UNREACHABLE" in text
    assert filter_of(fleet_table)({host["host"]: host for host in HOSTS}, {"k9": "UNREACHABLE"}) == text


def test_what_is_no_host_is_refused():
    for render in (filter_of(host_line), lambda value: filter_of(fleet_table)([value])):
        with pytest.raises(AnsibleFilterError):
            render({"hots": "k1"})


def test_a_host_on_one_line():
    """S44"""
    assert filter_of(host_line)(HOSTS[0]) == "(k1, k1) ram: 3584MB disk: 9216MB io_ops: 0 instances: 0"


def test_every_instance_of_a_placement_has_a_line():
    allocation = {"vcpus": 1, "pcpus": 2, "memory_mb": 512, "disk_gb": 4}
    text = filter_of(placement_table)(
        {
            "selections": {"web": {"host": "k1", "allocation": allocation, "alternates": [{"host": "k2"}]}},
            "existing": {"db": "k2"},
            "failures": {"big": {"code": "NoValidHost", "message": "none left"}},
        }
    )
    assert text.splitlines() == [
        "INSTANCE  HOST  VCPUS  MEMORY MiB  DISK GiB  ALTERNATES OR REASON",
        "big       -                                  NoValidHost: none left",
        "db        k2                                 exists already",
        "web       k1    3      512         4         k2",
    ]


def test_what_is_no_placement_is_refused():
    with pytest.raises(AnsibleFilterError):
        filter_of(placement_table)({"failed": True})
