# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance that only the command line names: commands about it, and what the command line leaves out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.closing_table import Outcome
from ansible_collections.berth.kvm.plugins.plugin_utils import berth_name

GROUPS = {"all": ["app", "web1", "kvm1"], "ungrouped": [], "berth_requested": ["app"], "web": ["web1"]}


def run(file):
    return {"groups": GROUPS, "hostvars": SimpleNamespace(raw_get=lambda _name: {"inventory_file": file})}


# ansible.builtin.add_host takes a host of the inventory out of the group ungrouped
REQUESTED, OF_INVENTORY = run(None), run("/etc/fleet.yml")


@pytest.mark.parametrize(
    "text, shown",
    [
        ("Run berth.kvm.resize --limit app", "Run berth.kvm.resize -e berth_name=app"),
        ("berth.kvm.create --limit app -e berth_mend=true", "berth.kvm.create -e berth_name=app -e berth_mend=true"),
        ("berth.kvm.show --limit app.", "berth.kvm.show -e berth_name=app."),
        ("berth.kvm.stop --limit app, then", "berth.kvm.stop -e berth_name=app, then"),
        ("berth.kvm.show --limit app,web1", None),
        ("berth.kvm.show --limit app:&web1", None),
        ("berth.kvm.show --limit app.example.org", None),
        ("berth.kvm.show --limit app2", None),
        ("berth.kvm.show --limit app-1", None),
        ("berth.kvm.show --limit web1", None),
        ("--limit 'app*'", None),
    ],
)
def test_commands_select_by_name_what_no_inventory_has(text, shown):
    assert berth_name.selected_by_name(text, REQUESTED) == (shown or text)
    assert berth_name.selected_by_name(text, OF_INVENTORY) == text
    (outcome,) = berth_name.addressed([Outcome("app", "failed", why=text, error=text)], REQUESTED)
    assert (outcome.why, outcome.error) == (shown or text, shown or text)


def test_what_the_command_line_leaves_out_is_not_said():
    said = berth_name.unsaid(REQUESTED, "app", {"berth_key_names": ["me"], "berth_disks": []})
    assert said == ["image", "networks", "metadata", "group"]


def test_an_inventory_says_all_that_its_instances_have():
    assert berth_name.unsaid(OF_INVENTORY, "app", {}) == berth_name.unsaid(REQUESTED, "web1", {}) == []
