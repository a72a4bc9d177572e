# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each command in a page, hint or message can be run: Ansible takes it, the playbook exists and reads the variables of -e."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from ansible.cli.playbook import PlaybookCLI

from ansible_collections.berth.kvm.plugins.plugin_utils.inventory_variables import CATALOG, INSTANCE
from ansible_collections.berth.kvm.plugins.plugin_utils.variables import HOST

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "docs"))
headers = importlib.import_module("playbook_headers")
PUBLIC = {header.path.stem: header for header in headers.public()}
FOLDERS = ("docs", "roles", "playbooks", "plugins", "examples", "lab", "extensions")
KINDS = (".md", ".yml", ".py", ".json", ".service", ".j2")
# What older versions had, and what users mistype.
OTHERS = ("CHANGELOG.md", "situations.md")

NAMED = re.compile(r"berth\.kvm\.([a-z_]+)")
OPTION = r"""--?[\w-]+(?:[ =](?:'[^']*'|"[^"]*"|[^\s'"]+))?"""
COMMAND = re.compile(r"(?<![\w.-])(?:berth\.kvm\.)?(%s)((?:\s+%s)+)" % ("|".join(PUBLIC), OPTION))
VARIABLE = re.compile(r"""-e ['"]?([a-z_]+)=""")
# A line of a block of code; the rest is comment, or the prompt's other commands.
LINE = re.compile(r"^(?: {4}|)(ansible-playbook [^`\n]+)$", re.MULTILINE)


def texts():
    """(file, text); of Python, each string as it is after its parts were joined."""
    for path in sorted([*ROOT.glob("*.md"), *(file for name in FOLDERS for file in (ROOT / name).rglob("*"))]):
        if path.suffix in KINDS and path.name not in OTHERS:
            text = path.read_text("utf-8")
            for part in strings(text) if path.suffix == ".py" else [text]:
                yield str(path.relative_to(ROOT)), part


def strings(text):
    constants = (one.value for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Constant))
    return [one for one in constants if isinstance(one, str)]


TEXTS = list(texts())


@functools.lru_cache(maxsize=None)
def known(playbook):
    """The variables that a playbook reads, with those of its roles, of its instances and of its hosts."""
    paths = headers.imported(PUBLIC[playbook].path)
    found = {name for path in paths for name in headers.read_header(path).variables}
    for role in {role for path in paths for role in headers.roles(path)}:
        specs = yaml.safe_load((ROOT / "roles" / role / "meta/argument_specs.yml").read_text("utf-8"))
        found |= set(specs["argument_specs"]["main"].get("options") or {})
    return found.union(CATALOG, INSTANCE, HOST)


def test_each_playbook_module_role_or_plugin_that_a_text_names_exists():
    kinds = ("modules", "filter", "callback", "inventory", "doc_fragments")
    plugins = {path.stem for kind in kinds for path in (ROOT / "plugins" / kind).glob("*.py")}
    there = {*PUBLIC, *plugins, *(path.name for path in (ROOT / "roles").iterdir()), "plugins"}
    assert {(path, name) for path, text in TEXTS for name in NAMED.findall(text) if name not in there} == set()


def test_each_variable_that_a_text_gives_a_playbook_is_one_that_it_reads():
    given = [(path, *found) for path, text in TEXTS for found in COMMAND.findall(text)]
    named = [(path, name, variable) for path, name, options in given for variable in VARIABLE.findall(options)]
    assert len(named) > 100
    assert {one for one in named if one[2] not in known(one[1])} == set()


def test_each_variable_that_a_text_gives_on_its_own_is_one_that_some_playbook_reads():
    every = set().union(*map(known, PUBLIC), {"name"})  # name: how to quote a value
    found = {(path, name) for path, text in TEXTS for name in VARIABLE.findall(text) if "awx" not in path}
    assert {one for one in found if one[1] not in every} == set()


@pytest.mark.parametrize(
    "line", sorted({line for path, text in TEXTS for line in LINE.findall(text) if path.endswith(".md")})
)
def test_ansible_takes_the_options_of_a_command_on_a_page(line):
    cli = PlaybookCLI(words := shlex.split(line.replace("$fleet", "-i fleet.yml"), comments=True))
    cli.init_parser()
    assert len(cli.parser.parse_args(words[1:]).args) == 1
