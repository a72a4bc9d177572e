# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""plugin_utils/variables.py knows each variable that a playbook, role or plugin reads: else every run that has it is refused."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.validation import check_type_bool, check_type_float, check_type_int

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.host_settings import HostSettings
from ansible_collections.berth.kvm.plugins.plugin_utils import move_options
from ansible_collections.berth.kvm.plugins.plugin_utils.misplaced import RENAMED, ROLE
from ansible_collections.berth.kvm.plugins.plugin_utils.variables import CHECKED, HOST, KNOWN, Converted, Number

ROOT = Path(__file__).resolve().parents[2]
# Facts that actions keep for one another, groups, and names that stand for others.
NO_VARIABLES = {
    "berth_backup_hosts", "berth_chosen", "berth_host", "berth_host_", "berth_host_x", "berth_in_maintenance", "berth_instances_found",
    "berth_plan_hash", "berth_planned_moves",
    "berth_located", "berth_off_in_maintenance", "berth_moves", "berth_plan",
    "berth_registry_hosts", "berth_requested", "berth_results", "berth_state_error",
    "berth_",
}  # fmt: skip
CONVERT = {"bool": check_type_bool, "float": check_type_float, "int": check_type_int}


def read_in(text):
    return {name for name in re.findall(r"(?<![\w.-])berth_[a-z0-9_]*(?!\w)", text) if name not in NO_VARIABLES}


def test_each_variable_that_the_collection_names_is_known():
    """To add one: give it to RUN, or to HOST, of plugins/plugin_utils/variables.py, unless the catalog's schema has it."""
    unknown = {}
    for folder, kind in (("playbooks", "*.yml"), ("roles", "*.yml"), ("plugins", "*.py"), ("examples", "*.*")):
        for path in (ROOT / folder).rglob(kind):
            names = read_in(path.read_text("utf-8")) - KNOWN
            if names:
                unknown[str(path.relative_to(ROOT))] = sorted(names)
    assert unknown == {}


def test_the_settings_of_a_host_are_those_that_the_host_knows():
    written = {field.name for field in dataclasses.fields(HostSettings)} - {"prepared", "schema", "uuid"}
    assert set(HOST) == {"berth_host_" + name for name in written} | {"berth_host_cell", "berth_host_timeout"}
    options = options_of_role()
    assert set(options) == {*HOST, *ROLE, "berth_registry"} - {"berth_host_cell", "berth_host_timeout"}


def test_the_settings_of_a_host_have_the_types_that_its_role_takes():
    """The role's argument specification is Ansible's; CHECKED says the same before anything is changed."""
    types = {name: option["type"] for name, option in options_of_role().items()}
    checked = {name: check.convert for name, check in CHECKED.items() if isinstance(check, Converted)}
    checked.update({name: check_type_int for name in types if isinstance(CHECKED.get(name), Number)})
    assert {name: check for name, check in checked.items() if name not in RENAMED} == {
        name: CONVERT[kind] for name, kind in types.items() if kind in CONVERT
    }


def test_the_options_of_moves_are_those_that_the_roles_take():
    taken = {
        role: set(options)
        for role in ("cold_migrate", "live_migrate", "prep_resize", "resize", "revert_resize", "confirm_resize")
        if (options := options_of_role(role))
    }
    assert taken == {
        role: {move_options.OPTIONS[name].variable for name in names} for role, names in move_options.OF_ROLES.items()
    }


def options_of_role(role="kvm_host"):
    specs = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text("utf-8"))
    return specs["argument_specs"]["main"].get("options")


@pytest.mark.parametrize(
    "variable, wrong",
    [
        ("berth_migration", "hot"),
        ("berth_goal", "blance"),
        ("berth_max_moves", "0"),
        ("berth_drain_reason", "x" * 201),
        ("berth_reboot", "Hard"),
        ("berth_lock_reason", "x" * 201),
        ("berth_snapshot", "../one"),
        ("berth_since", "lately"),
        ("berth_watch_policy", "reboot"),
    ],
)
def test_an_option_of_a_run_is_checked_before_any_host_is_told_something(variable, wrong):
    with pytest.raises(InvalidInput, match=variable):
        CHECKED[variable].check(wrong, variable)


@pytest.mark.parametrize(
    "variable",
    ["berth_migration", "berth_goal", "berth_max_moves", "berth_drain_reason", "berth_reboot", "berth_since", "berth_bandwidth",
     "berth_shutdown_timeout", "berth_backup_keep", "berth_console_lines"],
)  # fmt: skip
def test_an_empty_answer_of_a_survey_is_the_default(variable):
    CHECKED[variable].check("", variable)
