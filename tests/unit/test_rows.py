# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests/rows.yml says of each row is there: files, names in them, tests, pages, their headings and what they say."""

from __future__ import annotations

import ast
import functools
import re
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/unit/docs"))

from test_claims_have_tests import anchor, anchors  # noqa: E402

FAMILIES = {"C": 32, "S": 46, "A": 29, "R": 30, "L": 5}
IDS = {"%s%02d" % (letter, number) for letter, last in FAMILIES.items() for number in range(1, last + 1)}
LISTS = ("code", "tests")
KEYS = {"what", *LISTS, "page", "says", "lacks"}
ROWS = yaml.safe_load((ROOT / "tests/rows.yml").read_text("utf-8"))


@functools.lru_cache(maxsize=None)
def names_in(path):
    """The functions and classes of a Python file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, kinds)}


def is_there(entry):
    """Whether a file is there and, where ``entry`` is FILE::NAME, defines the name."""
    file, has_name, name = entry.partition("::")
    path = ROOT / file
    return path.is_file() and (not has_name or (path.suffix == ".py" and name in names_in(path)))


def is_test(entry):
    return is_there(entry) and entry.startswith("tests/") and "::test_" in entry


def is_page(entry):
    file, has_anchor, anchor = entry.partition("#")
    path = ROOT / file
    is_one = file.startswith("docs/") and path.suffix == ".md" and path.is_file()
    return is_one and (not has_anchor or anchor in anchors(path))


def told(entry):
    """The text of a page, or of one of its sections, with those below it."""
    file, _has_anchor, wanted = entry.partition("#")
    lines = (ROOT / file).read_text("utf-8").splitlines(keepends=True)
    titles = [re.match(r"(#+) (.*)", line) for line in lines]
    first = next((at for at, title in enumerate(titles) if title and anchor(title[2]) == wanted), 0)
    below = len(titles[first][1]) if wanted else 0
    after = (at for at in range(first + 1, len(lines)) if titles[at] and len(titles[at][1]) <= below)
    return "".join(lines[first : next(after, None)])


def faults(rows):
    """What is wrong with the rows, each as a line that begins with the id."""
    found = ["%s: is missing" % id_ for id_ in sorted(IDS - set(rows))]
    for id_, row in rows.items():
        said = [] if id_ in IDS else ["there is no such row"]
        said += ["%s is no key" % key for key in sorted(set(row) - KEYS)]
        said += ["%s is empty" % key for key in sorted(row) if not row[key]]
        said += ["%s is missing" % key for key in (*LISTS, "page", "says") if key not in row and not row.get("lacks")]
        said += ["what is missing"] if "what" not in row else []
        said += ["%s is not there" % entry for entry in row.get("code", ()) if not is_there(entry)]
        said += ["%s is no test" % entry for entry in row.get("tests", ()) if not is_test(entry)]
        said += ["%s is no page" % row["page"]] if row.get("page") and not is_page(row["page"]) else []
        if is_page(row.get("page", "")) and row.get("says", "").lower() not in told(row["page"]).lower():
            said.append("%s does not say %s" % (row["page"], row["says"]))
        found += ["%s: %s" % (id_, what) for what in said]
    return found


def test_all_that_a_row_names_is_there_and_no_row_is_missing():
    assert faults(ROWS) == []


@pytest.mark.parametrize(
    "change, fault",
    [
        ({"code": ["plugins/modules/nothing.py"]}, "C01: plugins/modules/nothing.py is not there"),
        ({"code": ["plugins/modules/claim.py::nothing"]}, "C01: plugins/modules/claim.py::nothing is not there"),
        ({"tests": ["tests/unit/test_rows.py"]}, "C01: tests/unit/test_rows.py is no test"),
        ({"tests": ["tests/unit/test_rows.py::test_no"]}, "C01: tests/unit/test_rows.py::test_no is no test"),
        ({"page": "docs/nothing.md"}, "C01: docs/nothing.md is no page"),
        ({"page": "docs/errors.md#nothing"}, "C01: docs/errors.md#nothing is no page"),
        ({"says": "no such word"}, "C01: %s does not say no such word" % ROWS["C01"]["page"]),
        ({"page": "docs/awx.md#the-surveys", "says": "workflow"}, "C01: docs/awx.md#the-surveys does not say workflow"),
        ({"lacks": ""}, "C01: lacks is empty"),
        ({"lack": "much"}, "C01: lack is no key"),
    ],
)
def test_what_is_not_there_is_told_with_its_row(change, fault):
    assert faults({**ROWS, "C01": {**ROWS["C01"], **change}}) == [fault]


@pytest.mark.parametrize("key", [*LISTS, "page", "says"])
def test_only_a_row_that_says_what_it_lacks_may_leave_something_out(key):
    row = {name: value for name, value in ROWS["C03"].items() if name not in (key, "lacks")}
    assert faults({**ROWS, "C03": row}) == ["C03: %s is missing" % key]
    assert faults({**ROWS, "C03": {**row, "lacks": "much"}}) == []


def test_a_row_that_is_missing_or_unknown_is_told():
    rows = {**ROWS, "R31": ROWS["R30"]}
    del rows["A29"]
    assert faults(rows) == ["A29: is missing", "R31: there is no such row"]
