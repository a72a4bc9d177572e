# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By which uuids the hosts are asked about the instances of a run."""

from __future__ import annotations

import pytest
from controller import Controller

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

VARIABLES = {"web-1": {"berth_flavor": "small"}, "db": {"berth_flavor": "small", "berth_project": "shop"}}


@pytest.mark.parametrize("most, asked", [(None, True), (2, True), (1, False)])
def test_each_instance_is_named_by_its_project_and_name_unless_there_are_too_many(most, asked):
    names = ["web-1", "db", "router", "Not_A_Name"]
    controller = Controller({"vms": names}, {**VARIABLES, "Not_A_Name": {"berth_project": "no"}})
    found = controller.run("name_instances", {"instances": names, **({"most": most} if most else {})})
    wanted = [instance_uuid("default", "web-1"), instance_uuid("shop", "db")]
    assert found["ansible_facts"]["berth_about"] == (wanted if asked else [])


def test_a_name_that_is_none_is_left_to_whoever_works_on_it():
    controller = Controller({"vms": ["Not_A_Name"]}, {"Not_A_Name": {"berth_flavor": "small"}})
    assert controller.run("name_instances", {"instances": ["Not_A_Name"]})["ansible_facts"]["berth_about"] == []
