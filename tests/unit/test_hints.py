# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every hint is an instruction: made in one place, and followed word for word by a test.

A test that follows a hint is marked ``@pytest.mark.follows("name of the function")``, of a hints module in
plugins/module_utils/model: it brings about the state in which the hint is printed, checks that it is printed, does what it
says and looks at the result.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOMES = sorted((ROOT / "plugins/module_utils/model").glob("*hints.py"))
MODEL = "ansible_collections.berth.kvm.plugins.module_utils.model."
EACH = [
    (name, hint)
    for home in (importlib.import_module(MODEL + path.stem) for path in HOMES)
    for name, hint in inspect.getmembers(home, inspect.isfunction)
    # A private function is a part of several hints, none by itself.
    if hint.__module__ == home.__name__ and not name.startswith("_")
]
ALL = dict(EACH)
# A sentence, not a format such as "%s: %s".
SENTENCE = re.compile(r"[A-Za-z]{2,} [A-Za-z]{2,}")
INSTRUCTION = re.compile(
    r"\brun (again|berth\.kvm|the same|it again|(the playbook )?"
    r"(create|delete|start|stop|resize|confirm_resize|revert_resize|prepare_hosts)\b)|-e berth_",
    re.IGNORECASE,
)


def sources():
    for path in sorted((ROOT / "plugins").rglob("*.py")):
        if path not in HOMES:
            yield path.relative_to(ROOT / "plugins").as_posix(), ast.parse(path.read_text("utf-8"))


def docstrings(tree):
    """The constants that are documentation: docstrings, and the blocks that ansible-doc reads."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add(first.value)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id in ("DOCUMENTATION", "EXAMPLES", "RETURN"):
                found.add(node.value)
    return found


def texts(node, but=()):
    return [
        part
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part not in but
    ]


def own_sentences(name, tree):
    """Instructions that a file makes itself: in what it gives as a hint, and in any other text."""
    documentation = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "hint":
                    yield from (text for text in texts(keyword.value) if SENTENCE.search(text.value))
    yield from (text for text in texts(tree, documentation) if INSTRUCTION.search(text.value))


def test_every_hint_is_made_in_one_place():
    found = {
        "%s:%d: %s" % (name, sentence.lineno, sentence.value)
        for name, tree in sources()
        for sentence in own_sentences(name, tree)
    }
    assert not found, "write these in plugins/module_utils/model/hints.py"


def test_no_two_hints_have_one_name():
    """A test that follows one of them would stand for both."""
    assert len(ALL) == len(EACH)


def names():
    return sorted(ALL)


def test_every_hint_is_printed_somewhere():
    called = {
        node.attr
        for _name, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in {path.stem for path in HOMES}
    }
    assert set(names()) <= called, "no code gives these: remove them"


def followed():
    """Names of hints -> the tests that are marked as following them."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for mark in getattr(node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.follows":
                    for argument in mark.args:
                        found.setdefault(ast.literal_eval(argument), []).append("%s::%s" % (path.name, node.name))
    return found


FOLLOWED = followed()


@pytest.mark.parametrize("name", names())
def test_every_hint_is_followed_by_a_test(name):
    assert name in FOLLOWED, "no test is marked with pytest.mark.follows(%r)" % name


def test_only_hints_that_exist_are_followed():
    assert set(FOLLOWED) <= set(names())


@pytest.mark.parametrize("name", names())
def test_a_hint_says_in_which_state_it_is_printed(name):
    assert (ALL[name].__doc__ or "").strip().endswith(".")


SAMPLES = {
    "str": "<%s>",
    "Optional[str]": "<%s>",
    "Sequence[str]": ["<host>"],
    "bool": True,
    "int": 1,
    "berth_state": "active",
}


@pytest.mark.parametrize("name", names())
def test_a_limit_is_a_name_of_the_inventory_and_no_uuid(name):
    """With a uuid, Ansible finds nobody."""
    parameters = inspect.signature(ALL[name]).parameters.values()
    samples = [SAMPLES.get(part.name, SAMPLES[part.annotation]) for part in parameters]
    text = ALL[name](*(each % part.name if "%s" in str(each) else each for each, part in zip(samples, parameters)))
    assert not re.search(r"--limit <\w*uuid>", text), text
