# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a host says, the terminal gets printable text on as many lines as we meant."""

from __future__ import annotations

import pytest
from ansible.utils.display import Display

from ansible_collections.berth.kvm.plugins.filter.fleet_table import fleet_table
from ansible_collections.berth.kvm.plugins.filter.placement_table import placement_table
from ansible_collections.berth.kvm.plugins.module_utils.conductor import report_creation
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
    screen.say(
        *report_creation.creation({"instances": {"a": {**failed, "uuid": "u-1"}}, "hosts": {"h9": {"reason": HOSTILE}}})
    )
    assert is_harmless(shown[0][1])


def test_the_error_of_a_task_is_harmless_text(monkeypatch):
    class Failing(ControllerAction):
        def __init__(self):
            self._task = None

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
