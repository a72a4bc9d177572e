# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of modules and actions: who they are for, and no private names in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.berth.kvm.plugins.plugin_utils import acting

ROOT = Path(__file__).resolve().parents[3]
MODULES = sorted((ROOT / "plugins" / "modules").glob("*.py"))
# What the playbooks and roles call in one fixed order, and nobody calls alone.
INTERNAL = {
    "apply_plan",
    "agree_on_members",
    "ask_hosts",
    "build_instances",
    "check_variables",
    "doctor",
    "fence_host",
    "reboot_hosts",
    "watch_fleet",
    "claim",
    "create_instances",
    "group_members",
    "host_maintenance",
    "host_task",
    "locate_instances",
    "maintain_host",
    "migration",
    "move_instances",
    "operate_instances",
    "plan_moves",
    "read_hosts",
    "report_failure",
    "report_host",
    "rescan",
    "select_instances",
    "show_guests",
    "write_report",
}
# Labels of requirements and steps, which only their authors can look up.
LABEL = re.compile(r"\((?:[ABCIRSFVLD]\d{1,2})(?:(?:, |-)[ABCIRSFVLD]\d{1,2})*\)")


def documentation(path):
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "DOCUMENTATION":
            return yaml.safe_load(node.value.value)
    raise AssertionError("%s has no documentation" % path.name)


@pytest.mark.parametrize("path", MODULES, ids=[path.stem for path in MODULES])
def test_a_step_of_the_playbooks_says_internal_first(path):
    text = documentation(path)["short_description"]
    assert text.startswith("Internal: ") == (path.stem in INTERNAL), text


@pytest.mark.parametrize("option", ["instances", "hosts"])
def test_options_that_actions_share_are_written_once(option):
    """They are in the fragment ``controller``; an action that lists hosts to ask means something else."""
    own = {path.stem for path in MODULES if option in documentation(path).get("options", {})}
    assert (
        own
        <= {"instances": {"placement", "group_members", "show_events"}, "hosts": {"ask_hosts", "create_instances"}}[
            option
        ]
    )


def test_no_page_and_no_source_names_a_label():
    texts = [*(ROOT / "plugins").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "playbooks").rglob("*.yml")]
    found = [
        "%s: %s" % (path.relative_to(ROOT), label) for path in texts for label in LABEL.findall(path.read_text("utf-8"))
    ]
    assert found == []


def test_every_module_that_notes_who_acts_is_told():
    asks = {path.stem for path in MODULES if '"by": {"type": "dict"}' in path.read_text("utf-8")}
    assert asks == set(acting.NOTING)
