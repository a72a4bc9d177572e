# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A create names the instances that hosts have and the inventory does not: one that was renamed there runs on, forgotten."""

from __future__ import annotations

import pytest
from held_case import held
from placement_case import VM, controller, facts

from ansible_collections.berth.kvm.plugins.module_utils.conductor import unlisted
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid


def create(capsys, inventory, on_host, selected=None, plan=True, **variables):
    """What a create says of instances that the inventory lacks. ``on_host``: the names of those that h1 has."""
    has = [held(uuid=instance_uuid("default", name), name=name) for name in on_host]
    it = controller(
        {name: VM for name in inventory}, more_facts={"h1": facts("h1", instances=has, num_instances=len(has))}
    )
    args = {"instances": inventory if selected is None else selected, "plan": plan}
    result = it.run("placement", args, {**it.task_vars(), **variables}, check_mode=True)
    assert not result.get("failed"), result
    return [line for line in capsys.readouterr().out.splitlines() if "inventory does not have" in line]


def test_one_that_was_renamed_in_the_inventory_is_named_with_what_to_do_and_no_delete(capsys):
    (line,) = create(capsys, ["www1"], ["web1"])
    assert line == unlisted.line(["web1"]) and "give it its old name back" in line and "delete" not in line


def test_all_of_them_are_in_one_line(capsys):
    (line,) = create(capsys, ["www1"], ["web2", "web1"])
    assert "web1, web2" in line


@pytest.mark.parametrize("limit", ["web1", "new"])
def test_one_that_is_only_not_selected_is_none_of_them(capsys, limit):
    assert create(capsys, ["web1", "web2", "new"], ["web1", "web2"], [limit], ansible_limit=limit) == []
    (line,) = create(capsys, ["web1", "new"], ["web1", "web2"], [limit], ansible_limit=limit)
    assert "web2" in line and "web1" not in line


def test_an_inventory_that_lost_its_last_instance_is_told(capsys):
    assert len(create(capsys, [], ["web1"])) == 1


def test_a_run_about_an_instance_of_no_inventory_tells_no_others(capsys):
    assert create(capsys, ["app"], ["web1"], berth_name="app") == []


def test_a_run_that_only_asks_for_places_says_nothing(capsys):
    assert create(capsys, ["new"], ["web1"], plan=False) == []
