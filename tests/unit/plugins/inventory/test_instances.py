# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances the inventory plugin lists."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.inventory.instances import instances_of

OWNED = {
    "uuid": "u1",
    "name": "web-1",
    "project_id": "default",
    "role": "OWN",
    "foreign": False,
    "flavor": {"name": "small"},
}


@pytest.mark.parametrize(
    "change, listed",
    [
        pytest.param({}, ["web-1"], id="owned-is-listed"),
        pytest.param({"foreign": True}, [], id="foreign-is-not"),
        pytest.param({"role": "CLAIM"}, [], id="a-claim-is-not"),
        pytest.param({"role": "OUT"}, [], id="the-source-of-a-move-is-not"),
    ],
)
def test_only_what_a_host_owns_is_listed(change, listed):
    assert list(instances_of("kvm1", {"instances": [{**OWNED, **change}]})) == listed


def test_an_instance_carries_its_host_by_inventory_name_and_its_flavor():
    variables = instances_of("kvm1", {"instances": [OWNED]})["web-1"]
    assert (variables["berth_kvm_host"], variables["berth_flavor"]) == ("kvm1", "small")
