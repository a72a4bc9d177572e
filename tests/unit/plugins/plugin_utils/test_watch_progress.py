# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at the host while a module runs there: it may fail, and hangs on to nothing."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.action import migration


class Action:
    def __init__(self, answer):
        self._connection = SimpleNamespace(become=None)
        self.answer = answer

    def _low_level_execute_command(self, command):
        return self.answer(self, command)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(migration, "FIRST", 0.001)


def test_what_the_command_prints_is_seen_more_than_once_while_the_block_runs():
    seen, enough = [], threading.Event()

    def see(text):
        seen.append(text)
        if len(seen) == 2:
            enough.set()

    with migration.watching(Action(lambda action, command: {"rc": 0, "stdout": command}), "cat x", see):
        assert enough.wait(5)
    assert seen[:2] == ["cat x", "cat x"]


@pytest.mark.parametrize("failure", [OSError("cut"), {"rc": 1, "stdout": "no file"}])
def test_a_look_that_fails_shows_nothing_and_does_not_end_the_looking(failure):
    seen, tried = [], threading.Semaphore(0)

    def answer(action, command):
        tried.release()
        if isinstance(failure, Exception):
            raise failure
        return failure

    with migration.watching(Action(answer), "cat x", seen.append):
        assert tried.acquire(timeout=5) and tried.acquire(timeout=5)
    assert seen == []


def test_a_look_that_hangs_does_not_hold_up_the_end_and_is_not_shown_later():
    seen, hanging, go_on = [], threading.Event(), threading.Event()

    def answer(action, command):
        hanging.set()
        go_on.wait(5)
        return {"rc": 0, "stdout": "late"}

    with migration.watching(Action(answer), "cat x", seen.append):
        assert hanging.wait(5)
    go_on.set()
    assert seen == []


def test_the_looks_have_a_connection_of_their_own():
    action, used = Action(None), []
    action._connection.become = SimpleNamespace(success=None)
    looked = threading.Event()

    def answer(onlooker, command):
        used.append(onlooker._connection)
        looked.set()
        return {"rc": 0, "stdout": ""}

    action.answer = answer
    with migration.watching(action, "cat x", lambda text: None):
        assert looked.wait(5)
    assert used[0] is not action._connection and used[0].become is not action._connection.become


def test_an_error_of_the_block_comes_through():
    with pytest.raises(KeyError), migration.watching(Action(lambda action, command: {"rc": 1}), "cat x", print):
        raise KeyError("module")
