# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operation needs to know of an instance beside its host."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.what_to_operate import FIND, Said, where


def fleet(generation, vm_state):
    """One host, that has web1."""
    record = {"uuid": "u", "name": "web1", "role": "OWN", "phase": "active", "project_id": "default", "foreign": False,
              "generation": generation, "vm_state": vm_state, "power_state": "shutdown"}  # fmt: skip
    return read_fleet({"h1": {"document": {"uuid": "id-h1", "instances": [record]}}}, dict)


@pytest.mark.parametrize("state, shelved", [("stopped", False), ("shelved_offloaded", True)])
def test_a_backup_knows_whether_the_disks_of_the_instance_are_in_one_already(state, shelved):
    found = where("backup", fleet([1, 0], state), "web1", "u", Said("run"))
    assert (found["hosts"], found["shelved"]) == (["h1"], shelved)


def test_a_delete_removes_all_up_to_the_record_of_which_nobody_else_has_heard():
    """As of a run that was killed after the build. Whoever read the host then still shows that record."""
    assert where("delete", fleet([2, 5], "stopped"), "web1", "u", Said("run"))["after"] == [2, 5]


def test_a_revert_after_which_the_guest_may_run_is_refused_where_a_start_is():
    """A snapshot may have the memory of the guest."""
    assert FIND["revert_snapshot"] is FIND["start"]
