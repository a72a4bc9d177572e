# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a line below the reasons of all hosts tells people to do where none has what is asked for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.placing import Decision
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints

POOL = {"type": "dir", "storage": "berth", "capacity_gb": 9, "free_gb": 9, "promised_gb": 0, "free_mb": 9000}
HOST = {
    "host": "h1", "vcpus": 4, "memory_mb": 8192, "local_gb": 9, "bridges": ["br0"], "pool": "berth", "pools": {"berth": POOL},
}  # fmt: skip
REQUEST = {
    "uuid": "web", "name": "web", "flavor": {"name": "m", "vcpus": 1, "memory_mb": 512, "root_gb": 1}, "pool": "berth",
    "networks": [{"type": "bridge", "source": "br0"}],
}  # fmt: skip


def advice(host, request):
    fleet = SimpleNamespace(documents={"h1": {**HOST, **host}})
    decision = Decision(fleet, {}, [], 0)
    decision.run([{**REQUEST, **request}], True)
    return decision.advice()


@pytest.mark.parametrize(
    "rule, host, request_of",
    [
        ("networks", {}, {"networks": [{"type": "bridge", "source": "br7"}]}),
        ("pool", {}, {"pool": "fast"}),
        ("free_bytes", {"pools": {"berth": {**POOL, "free_mb": 0}}}, {}),
    ],
)
def test_what_no_host_has_is_told_with_what_to_do(rule, host, request_of):
    assert advice(host, request_of) == ["web: " + fleet_hints.GIVE_HOSTS[rule]]


def test_of_what_a_host_has_nothing_is_said():
    assert advice({}, {}) == []
