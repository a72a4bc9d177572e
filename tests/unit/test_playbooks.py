# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The header of each playbook says what it does, its variables and an example; docs/playbooks.md is made of them.

docs/playbook_headers.py says how a header is written.
"""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible.cli.playbook import PlaybookCLI

from ansible_collections.berth.kvm.plugins.module_utils.conductor.operations import OPERATIONS
from ansible_collections.berth.kvm.plugins.plugin_utils.inventory_variables import CATALOG, INSTANCE
from ansible_collections.berth.kvm.plugins.plugin_utils.variables import HOST, KNOWN, RUN

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
headers = importlib.import_module("playbook_headers")
reference = importlib.import_module("make_playbooks")
PUBLIC = headers.public()


def role_variables(role):
    specs = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text("utf-8"))
    return set(specs["argument_specs"]["main"]["options"] or {})


OF_ROLES = set().union(*(role_variables(path.name) for path in (ROOT / "roles").iterdir()))
# Groups and marks of instances that playbooks make.
IN_PLAYS = {
    "berth_plan_hash",
    "berth_planned_moves",
    "berth_in_maintenance",
    "berth_off_in_maintenance",
    "berth_present_flavor",
    "berth_registry_hosts",
}
# What the catalog's page and the roles explain, and the group of read_requested.yml.
EXPLAINED_ELSEWHERE = {*CATALOG, *INSTANCE, *HOST, *OF_ROLES, "berth_requested", *IN_PLAYS}
# Not a fact in brackets, nor NAME=VALUE in a text that says what to run.
READ = re.compile(r"(?<![\w.'\[])berth_[a-z0-9_]+(?![\w=])")

KEYWORDS = {"gather_facts": False, "strategy": "ansible.builtin.linear", "timeout": 0, "any_errors_fatal": False}
WITHOUT_PREFIX = {"receipt"}  # of berth.kvm.replay

each_playbook = pytest.mark.parametrize("header", PUBLIC, ids=[header.path.stem for header in PUBLIC])


def explained(header):
    """The variables that the headers of a playbook and of what it imports name."""
    return {name for path in headers.imported(header.path) for name in headers.read_header(path).variables}


def example_arguments(header):
    return [shlex.split(line)[1:] for line in header.examples]


@pytest.mark.long
def test_the_page_is_what_the_headers_say():
    """`make docs` writes it again."""
    assert (ROOT / "docs/playbooks.md").read_text("utf-8") == reference.page()


@each_playbook
def test_a_header_says_what_the_playbook_does_and_how_to_run_it(header):
    assert header.text.endswith("."), "the comment at the head of the file says what it does"
    own = "berth.kvm." + header.path.stem
    assert header.examples, "under 'Example:' a line runs %s" % own
    assert all(line.startswith("ansible-playbook -i fleet.yml %s" % own) for line in header.examples)


@each_playbook
def test_each_variable_that_a_playbook_reads_is_in_its_headers(header):
    read = set(READ.findall(headers.code_of(header.path)))
    assert read - EXPLAINED_ELSEWHERE - explained(header) == set()


@each_playbook
def test_each_variable_that_its_imports_read_is_in_some_header(header):
    """tasks/read.yml reads berth_fix for all, which only the doctor sets."""
    read = {name for path in headers.imported(header.path) for name in READ.findall(headers.code_of(path))}
    assert read - EXPLAINED_ELSEWHERE - set().union(*(explained(other) for other in PUBLIC)) == set()


@each_playbook
def test_no_header_explains_a_variable_that_there_is_not(header):
    assert set(header.variables) - KNOWN - WITHOUT_PREFIX == set()


def test_each_variable_of_a_run_is_in_some_header():
    known = set().union(*(explained(header) for header in PUBLIC))
    assert set(RUN) - known - OF_ROLES == set()


def test_each_variable_is_explained_once():
    every = [*PUBLIC, *reference.shared().values()]
    texts = [name for header in every for name, text in header.variables.items() if text]
    assert sorted(texts) == sorted(set(texts))
    assert {name for header in every for name in header.variables} == set(texts)


@each_playbook
def test_an_example_names_only_variables_that_there_are(header):
    known = KNOWN.union(WITHOUT_PREFIX, *(role_variables(role) for role in headers.roles(header.path)))
    for arguments in example_arguments(header):
        given = {name for text in arguments for name in re.findall(r"^(\w+)=", text)}
        assert given - known == set()


@each_playbook
def test_ansible_takes_the_arguments_of_an_example(header):
    for arguments in example_arguments(header):
        cli = PlaybookCLI(["ansible-playbook", *arguments])
        cli.init_parser()
        assert cli.parser.parse_args(arguments).args == ["berth.kvm." + header.path.stem]


@pytest.mark.parametrize("named", [[], ["-e", "berth_name=web1"]], ids=["of the inventory", "with a name"])
def test_every_playbook_parses(named):
    command = ["ansible-playbook", "-i", "web1,", "--syntax-check", *named]
    command += ["berth.kvm." + header.path.stem for header in PUBLIC]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def tasks_in(part, becomes=False):
    """(task, whether it becomes root) of all tasks in a part of a playbook, or of a role's file."""
    for each in part if isinstance(part, list) else []:
        own = each.get("become", becomes)
        yield each, own
        for inner in ("tasks", "block", "rescue", "always", "pre_tasks", "post_tasks"):
            yield from tasks_in(each.get(inner), own)


def asking():
    """The actions that ask several hosts something."""
    paths = (ROOT / "plugins" / "action").glob("*.py")
    asks = re.compile(r"\b(ask|carry_out|tell_owners)\(|reading import read|\bPlaceInstances\b")
    return {path.stem for path in paths if asks.search(path.read_text("utf-8"))}


def test_a_task_that_asks_hosts_asks_as_root():
    """The user of the login could not read what they remember, nor tell them anything: their refusals are silent."""
    files = {*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/tasks/*.yml")}
    files.remove(ROOT / "playbooks/tasks/show_places.yml")  # a placement without a plan tells nobody anything
    found = [
        (task["name"], becomes)
        for path in files
        for task, becomes in tasks_in(yaml.safe_load(path.read_text("utf-8")))
        if {"berth.kvm." + action for action in asking()} & set(task)
    ]
    assert len(found) > 10 and [name for name, becomes in found if not becomes] == []


@pytest.mark.parametrize(
    "path", [*ROOT.glob("playbooks/*.yml"), *ROOT.glob("playbooks/internal/*.yml")], ids=lambda path: path.stem
)
def test_no_setting_of_ansible_changes_how_a_play_runs(path):
    """A task_timeout would break off a copy of disks, free or host_pinned mix the instances of a step, and with
    any_errors_fatal the failure of one instance would stop all others in the middle of their moves. But where a member of the
    registry fails, the others are left alone."""
    for play in yaml.safe_load(path.read_text("utf-8")):
        if "hosts" in play:
            members = play["hosts"] == "berth_registry_hosts"
            assert {**KEYWORDS, "any_errors_fatal": members}.items() <= play.items(), play["name"]


def test_a_header_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "wrong.yml"
    path.write_text("---\n#\n#\n#\n# Does something.\n# Variables:\n# berth_x: not indented\n- hosts: all\n")
    with pytest.raises(SystemExit, match=r"wrong\.yml: not a variable with its meaning: berth_x"):
        headers.read_header(path)


def first_tasks(path):
    """The first task of the playbook, or those of each that it may import first."""
    for play in yaml.safe_load(path.read_text("utf-8")):
        if "ansible.builtin.import_playbook" in play:
            for name in re.findall(r"[\w/]+\.yml", play["ansible.builtin.import_playbook"]):
                there = [folder / name for folder in (path.parent, path.parent / "internal")]
                yield from first_tasks([each for each in there if each.exists()][0])
            return
        if "ansible.builtin.add_host" not in play["tasks"][0]:
            yield play["tasks"][0]
            return


@each_playbook
def test_a_run_with_a_tag_that_no_task_has_is_told(header):
    """The first task says it: see plugins/plugin_utils/tags.py."""
    found = list(first_tasks(header.path))
    assert found and all(task.get("tags") == ["always"] for task in found)


MOVES = {"resize", "prep_resize", "cold_migrate", "live_migrate", "confirm_resize", "revert_resize"}
NEED_A_SELECTION = MOVES | {name for name, operation in OPERATIONS.items() if operation.selected}
SELECTIONS = {"berth_instances", "berth_where", "berth_all", "berth_delete_all"}


@pytest.mark.parametrize("folder", ["extensions", "examples"])
def test_a_scenario_says_which_instances_an_operation_that_needs_a_selection_is_about(folder):
    lacking = []
    for path in sorted((ROOT / folder).rglob("*.yml")):
        plays = yaml.safe_load(path.read_text("utf-8"))
        for play in plays if isinstance(plays, list) else ():
            name = str(play.get("ansible.builtin.import_playbook", "")) if isinstance(play, dict) else ""
            if name.removeprefix("berth.kvm.") in NEED_A_SELECTION and not SELECTIONS & set(play.get("vars") or ()):
                lacking.append("%s: %s" % (path.relative_to(ROOT), name))
    assert lacking == []
