# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that select an instance that no inventory has."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.unlisted import selection
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid


@pytest.mark.parametrize(
    "project, taken, options",
    [
        (None, [], "-e berth_name=a"),
        ("default", ["b"], "-e berth_name=a"),
        ("lab", [], "-e berth_name=a -e berth_project=lab"),
        ("default", ["a"], "-e berth_name=a -e berth_project=default"),  # the inventory's is of another project
        ("x; reboot", [], ""),  # what no project can be called selects nothing
    ],
)
def test_an_instance_of_no_inventory_is_selected_by_name_and_project(project, taken, options):
    place = {"name": "a", "project_id": project, "adopted": None}
    assert selection(instance_uuid(project or "default", "a"), place, taken) == options


def test_one_whose_host_says_another_name_than_that_of_its_uuid_is_selected_by_none():
    assert selection(instance_uuid("default", "a"), {"name": "b", "project_id": "default", "adopted": None}, []) == ""
