# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of situations, situations.yml: each row that has a command is played, each other one names a test that there is.

The hosts h1, h2 and h3 only reply; at-rest-h1 to at-rest-h3 run there, new-1 is to be made.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from fake_fleet import ROOT, play

sys.path.insert(0, str(ROOT / "docs"))

import make_situations  # noqa: E402

TABLE = yaml.safe_load((Path(__file__).parent / "situations.yml").read_text("utf-8"))
PLAYED = [row for row in TABLE if "run" in row]
KEYS = {"did", "site", "run", "set", "environment", "rc", "says", "never", "json", "said", "verdict", "test"}
# a row with ``json`` is played with a callback for programs: its stdout must be one document
JSON_CALLBACK = {
    "ANSIBLE_STDOUT_CALLBACK": "json",
    "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parent / "callback"),
}
# what nobody is to see, whatever happens
NEVER = ("Traceback", "MODULE FAILURE", "Unexpected failure", "VARIABLE IS NOT DEFINED", "KeyError", "<uuid>")


def changed(changes):
    """A function that puts ``changes``, a mapping from dotted path to value, into an inventory; no value takes away."""

    def change(tree):
        for path, value in changes.items():
            *parents, last = path.split("/")
            part = tree["all"]
            for parent in parents:
                part = part["children"][parent] if parent in part.get("children", {}) else part.setdefault(parent, {})
            place = part["children"] if last in part.get("children", {}) else part
            if value is None:
                del place[last]
            else:
                place[last] = value

    return change


@pytest.mark.parametrize("row", PLAYED, ids=[row["did"].replace(" ", "-") for row in PLAYED])
def test_a_situation(row, tmp_path):
    if "site" in row:
        (tmp_path / "site.yml").write_text(yaml.safe_dump(row["site"]))
    environment = {**(JSON_CALLBACK if row.get("json") else {}), **row.get("environment", {})}
    done = play(tmp_path, shlex.split(row["run"]), change=changed(row.get("set", {})), more_environment=environment)
    said = " ".join(done["said"].split())
    assert done["rc"] == row["rc"], done["said"][-4000:]
    for text in row.get("says", ()):
        assert text in said, done["said"][-4000:]
    for text in (*NEVER, *row.get("never", ())):
        assert text not in said, done["said"][-4000:]
    if row.get("json"):
        assert json.loads(done["stdout"])["stats"]


def test_every_row_says_what_was_done_and_said_and_how_it_was_judged():
    for row in TABLE:
        assert not set(row) - KEYS, row
        assert row["verdict"] in ("fine", "fixed", "left"), row
        assert ("run" in row and row.get("says") and isinstance(row["rc"], int)) or (row.get("said") and row["test"]), (
            row
        )
    assert len({row["did"] for row in TABLE}) == len(TABLE)


def test_the_test_that_a_row_names_is_there():
    for row in TABLE:
        if "test" in row:
            path, _colons, name = row["test"].partition("::")
            assert re.search(r"^def %s\(" % name, (ROOT / "tests" / path).read_text("utf-8"), re.MULTILINE), row["test"]


def test_the_page_is_the_table():
    assert (ROOT / "docs" / "situations.md").read_text("utf-8") == make_situations.text()
