# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation of modules and actions: who they are for, examples that can be copied, and no private names in it."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.utils.plugin_docs import get_docstring

from ansible_collections.berth.kvm.plugins.plugin_utils import acting
from ansible_collections.berth.kvm.plugins.plugin_utils.named_instances import of_volume

ROOT = Path(__file__).resolve().parents[3]
MODULES = sorted((ROOT / "plugins" / "modules").glob("*.py"))
# What the playbooks and roles call in one fixed order, and nobody calls alone.
INTERNAL = {
    "apply_plan",
    "agree_on_members",
    "ask_hosts",
    "backup_store",
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
    "outage_unit",
    "plan_moves",
    "prepare_outage_unit",
    "prepare_registry_member",
    "read_hosts",
    "registry_member",
    "report_failure",
    "report_host",
    "rescan",
    "select_instances",
    "set_up_registry",
    "show_guests",
    "write_report",
}
# Labels of requirements and steps, which only their authors can look up.
LABEL = re.compile(r"\((?:[ABCIRSFVLD]\d{1,2})(?:(?:, |-)[ABCIRSFVLD]\d{1,2})*\)")

PUBLIC = [path for path in MODULES if path.stem not in INTERNAL]
COLLECTION = "ansible_collections.berth.kvm.plugins.modules."
RULES = ("mutually_exclusive", "required_together", "required_one_of", "required_if", "required_by")
KEYS = ("type", "elements", "required", "default", "choices", "aliases")


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


class Called(Exception):
    """main() of a module made its AnsibleModule."""


def examples(path):
    """The arguments of each task of its EXAMPLES that calls it."""
    plays = yaml.safe_load(importlib.import_module(COLLECTION + path.stem).EXAMPLES)
    tasks = [task for play in plays for task in play.get("tasks", [play])]
    own = "berth.kvm." + path.stem
    assert any(own in task for task in tasks), "none is of the module"
    return [task[own] or {} for task in tasks if own in task]


def documented(options):
    """The argument spec that a documentation's options describe."""
    spec = {}
    for name, option in options.items():
        spec[name] = {key: option[key] for key in KEYS if key in option}
        if option.get("suboptions"):
            spec[name]["options"] = documented(option["suboptions"])
    return spec


class Fragments:
    """Our fragments, where no collection is loaded."""

    @staticmethod
    def get(name):
        if name.count(".") > 2:
            return None  # a part of a fragment
        fragment = importlib.import_module(COLLECTION.replace("modules", "doc_fragments") + name.rpartition(".")[2])
        fragment.ModuleDocFragment.ansible_name = name
        return fragment.ModuleDocFragment


def validator(path, monkeypatch, templated):
    """What the module checks its arguments with, but those of ``templated``; of one that runs on the controller, as documented."""
    module = importlib.import_module(COLLECTION + path.stem)
    how = {}
    if hasattr(module, "main"):

        def called(**given):
            how.update(given)
            raise Called

        monkeypatch.setattr(module, "AnsibleModule", called)
        with pytest.raises(Called):
            module.main()
        spec = how["argument_spec"]
    else:
        text = get_docstring(str(path), Fragments, collection_name="berth.kvm", plugin_type="module")[0]
        spec = documented(text["options"])
    spec = {**spec, **dict.fromkeys(templated, {"type": "raw"})}
    return ArgumentSpecValidator(spec, **{rule: how[rule] for rule in RULES if rule in how})


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.stem)
def test_a_module_takes_the_arguments_of_each_of_its_examples(path, monkeypatch):
    for arguments in examples(path):
        arguments = of_volume(arguments) if path.stem == "volume" else arguments  # as its action does
        takes = validator(path, monkeypatch, [name for name, value in arguments.items() if "{{" in str(value)])
        assert takes.validate(arguments).error_messages == [], arguments


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.stem)
def test_no_example_of_a_module_for_everybody_has_a_uuid(path):
    for arguments in examples(path):
        assert not re.search("[0-9a-f]{8}-[0-9a-f]{4}-", str(arguments)), arguments
