# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a host says, the terminal gets printable text on as many lines as we meant."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from ansible.utils.display import Display

from ansible_collections.berth.kvm.plugins.filter.fleet_table import fleet_table
from ansible_collections.berth.kvm.plugins.filter.placement_table import placement_table
from ansible_collections.berth.kvm.plugins.module_utils.conductor import closing_table, outcome_of_create
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.placement.explain import decision_text
from ansible_collections.berth.kvm.plugins.module_utils.placement.text import table
from ansible_collections.berth.kvm.plugins.plugin_utils import screen
from ansible_collections.berth.kvm.plugins.plugin_utils.controller import ControllerAction

HOSTILE = "\x1b]0;t\x07\x1b[2Ja\rb\nroot# \u202ec\x9b1m\u2028d"


@pytest.fixture
def shown(monkeypatch):
    """What reached Ansible's display: [(kind, text)]."""
    seen = []
    for kind in ("display", "warning"):
        monkeypatch.setattr(Display, kind, lambda _self, text, *_args, _kind=kind, **_more: seen.append((_kind, text)))
    return seen


PRINTS = """
from ansible_collections.berth.kvm.plugins.module_utils.conductor.closing_table import Outcome, closing
from ansible_collections.berth.kvm.plugins.plugin_utils.screen import say
rows = [Outcome("web1", "active"), Outcome("web2", "unchanged"), Outcome("web3", "failed", error="BuildFailed: x")]
say("", *closing(rows, {"kvm9": "UNREACHABLE: no route"}), "")
"""
TABLE = [
    "", "INSTANCE  STATE      HOST  FLAVOR  ADDRESS  WHY", "web1      active     -     -       -",
    "web2      unchanged  -     -       -", "web3      failed     -     -       -", "", "web3: BuildFailed: x", "",
    "host kvm9 left out: UNREACHABLE: no route", "",
]  # fmt: skip
COLOURS = {2: "0;33", 3: "0;32", 4: "0;31", 6: "0;31", 8: "1;31"}


def printed(**environment):
    """(stdout, stderr) of a program that shows a table."""
    own = {name: value for name, value in os.environ.items() if "COLOR" not in name}
    own.update(environment, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run([sys.executable, "-c", PRINTS], env=own, capture_output=True, check=True, text=True)
    return done.stdout, done.stderr


def test_where_colours_are_wanted_each_row_has_that_of_what_became_of_it():
    coloured = ["\x1b[%sm%s\x1b[0m" % (COLOURS[at], line) if at in COLOURS else line for at, line in enumerate(TABLE)]
    assert printed(ANSIBLE_FORCE_COLOR="1") == ("\n".join(coloured), "")


def test_where_no_colours_are_wanted_the_text_is_plain():
    assert printed() == ("\n".join(TABLE), "")


def test_beside_a_document_for_programs_the_text_is_plain():
    out, err = printed(ANSIBLE_FORCE_COLOR="1", ANSIBLE_STDOUT_CALLBACK="ansible.posix.json")
    assert (out, err) == ("", "\n".join(TABLE))


class Terminal:
    """What a terminal shows that knows the sequences of the callback dense: save, restore and clear the line."""

    def __init__(self):
        self.lines, self.at, self.saved = [""], (0, 0), (0, 0)

    def write(self, text):
        for part in re.findall(r"\x1b\[2?[suK]|.|\n", text):
            row, column = self.at
            if part == "\x1b[s":
                self.saved = self.at
            elif part == "\x1b[u":
                self.at = self.saved
            elif part == "\x1b[2K":
                self.lines[row] = ""
            elif part == "\n":
                self.at = (row + 1, 0)
                self.lines += [""] * (row + 2 - len(self.lines))
            else:
                line = self.lines[row].ljust(column)
                self.lines[row], self.at = line[:column] + part + line[column + 1 :], (row, column + 1)


def test_the_callback_dense_writes_below_the_table(tmp_path):
    """It writes each task where it saved the cursor last, over what others wrote since."""
    terminal, log = Terminal(), tmp_path / "log"
    terminal.write("\x1b[s\x1b[u\x1b[2Ktask 9.")
    terminal.write(printed(ANSIBLE_STDOUT_CALLBACK="community.general.dense", ANSIBLE_LOG_PATH=str(log))[0])
    for task in ("task 9: localhost", "task 10. localhost"):
        terminal.write("\x1b[u\x1b[2K" + task)
    assert [line for line in terminal.lines if line] == ["task 9.", *filter(None, TABLE), "task 10. localhost"]
    assert "web1      active" in log.read_text("utf-8") and "\x1b" not in log.read_text("utf-8")


def test_a_log_has_no_colours(tmp_path):
    log = tmp_path / "log"
    printed(ANSIBLE_FORCE_COLOR="1", ANSIBLE_LOG_PATH=str(log))
    assert "web3: BuildFailed: x" in log.read_text("utf-8") and "\x1b" not in log.read_text("utf-8")


def test_what_was_shown_is_plain_text_for_the_result_of_the_task(shown):
    assert {
        type(line) for line in screen.say(*closing_table.closing([closing_table.Outcome("web1", "failed")], {}))
    } == {str}


def is_harmless(text):
    return all(line.isprintable() for line in text.split("\n"))


def test_a_line_stays_one_line_and_a_warning_too(shown):
    assert screen.say("a", HOSTILE)[0] == "a"
    screen.warn("Host h1 is left out: " + HOSTILE)
    assert [kind for kind, _text in shown] == ["display", "warning"]
    assert all(is_harmless(text) for _kind, text in shown)
    assert [text.count("\n") for _kind, text in shown] == [1, 0]


REPORTS = {
    "table": lambda: "\n".join(table(("A", "B"), [(HOSTILE, HOSTILE)])),
    "fleet": lambda: fleet_table([], {HOSTILE: HOSTILE}),
    "placement": lambda: placement_table({"selections": {}, "failures": {HOSTILE: {"code": "X", "message": HOSTILE}}}),
    "decision": lambda: decision_text(
        {"name": "a", "error": {"message": HOSTILE}, "candidates": {HOSTILE: []}, "instances": []}
    ),
}


@pytest.mark.parametrize("name", REPORTS)
def test_every_table_shows_a_hosts_words_as_harmless_text(name):
    assert is_harmless(REPORTS[name]())


def test_the_report_of_a_creation_shows_a_hosts_words_as_harmless_text(shown):
    failed = {
        "state": "failed",
        "host": "h1",
        "spec": {},
        "attempts": [{"attempt": 1, "host": "h1", "code": HOSTILE, "cause": HOSTILE}],
        "error": {"code": "X", "message": HOSTILE},
    }
    plan = {"instances": {"a": {**failed, "uuid": "u-1"}}, "hosts": {"h9": {"reason": HOSTILE}}}
    screen.say(*outcome_of_create.creation(plan, outcome_of_create.outcomes(plan)))
    assert is_harmless(shown[0][1])


def test_the_error_of_a_task_is_harmless_text(monkeypatch):
    class Failing(ControllerAction):
        def __init__(self):
            self._task = SimpleNamespace(run_once=False, tags=[])

        def validate_argument_spec(self, argument_spec):
            return None, {}

        def act(self, args, task_vars):
            raise BerthError("the host said " + HOSTILE, hint=HOSTILE, uuid=[HOSTILE])

    monkeypatch.setattr(ControllerAction.__mro__[1], "run", lambda self, tmp, task_vars: {})
    result = Failing().run()
    assert result["failed"] and is_harmless(result["msg"])
    assert all(
        is_harmless(text) for text in (result["error"]["message"], result["error"]["hint"], *result["error"]["uuid"])
    )
