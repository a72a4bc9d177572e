# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls to libvirt that end in time, and errors that say what is wrong."""

from __future__ import annotations

import threading
import time
import types
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection


def test_a_call_that_hangs_ends_at_the_deadline_and_is_named():
    began = time.monotonic()
    with pytest.raises(connection.LibvirtTimeout, match="reading pool x did not end in time") as error:
        connection.Deadline(0.1).call(threading.Event().wait, 10, what="reading pool x")
    assert time.monotonic() - began < 5
    assert error.value.retryable


def test_the_deadline_is_over_all_calls_together(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(connection, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    deadline = connection.Deadline(10)
    deadline.call(now.__setitem__, 0, 9.99)
    with pytest.raises(connection.LibvirtTimeout):
        deadline.call(time.sleep, 5)


def test_a_call_gives_its_result_and_raises_its_own_error():
    deadline = connection.Deadline(10)
    assert deadline.call(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        deadline.call(divmod, 7, 0)


def test_several_calls_are_made_at_a_time_and_their_results_are_in_order():
    together = threading.Barrier(connection.AT_ONCE)

    def call(number):
        together.wait(10)
        return -number

    numbers = list(range(2 * connection.AT_ONCE))
    assert connection.each(call, numbers) == [-number for number in numbers]
    assert connection.each(call, []) == []


def test_of_several_calls_one_that_fails_fails_them_all():
    with pytest.raises(ZeroDivisionError):
        connection.each(lambda number: 1 // number, [*range(1, 20), 0, *range(1, 20)])


def test_without_the_binding_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(connection, "libvirt", None)
    with pytest.raises(connection.LibvirtUnavailable, match="python3-libvirt"):
        connection.connect()


def test_a_libvirt_that_is_not_there_is_a_typed_error_and_prints_nothing(capfd):
    pytest.importorskip("libvirt")
    with pytest.raises(connection.LibvirtUnavailable) as error:
        connection.connect(uri="qemu+unix:///system?socket=/nonexistent/socket")
    assert error.value.retryable
    assert capfd.readouterr().err == ""


def test_a_connection_is_usable():
    pytest.importorskip("libvirt")
    assert connection.connect(uri="test:///default").getType() == "TEST"


def test_libvirts_event_loop_takes_no_time_from_calls_unless_somebody_listens(monkeypatch):
    """A call wakes it each time, so here it always has something to do."""
    turns, three = [], threading.Semaphore(0)
    library = types.SimpleNamespace(
        virEventRegisterDefaultImpl=lambda: None, virEventRunDefaultImpl=lambda: turns.append(1) or three.release()
    )
    monkeypatch.setattr(connection, "_event_loop_runs", False)
    monkeypatch.setattr(connection, "_events_at_once", threading.Event())
    monkeypatch.setattr(connection, "EVENT_PAUSE", 30)
    connection._start_event_loop(library)
    assert three.acquire(timeout=10) and not three.acquire(timeout=0.3), "once, then a pause"
    connection.hear_at_once()
    assert three.acquire(timeout=10) and three.acquire(timeout=10)
    library.virEventRunDefaultImpl = threading.Event().wait  # for ever


def test_who_listens_for_events_of_libvirt_hears_them_at_once():
    below = Path(connection.__file__).parent
    listening = [file for file in below.rglob("*.py") if "domainEventRegisterAny(" in file.read_text(encoding="utf-8")]
    assert listening and all("hear_at_once()" in file.read_text(encoding="utf-8") for file in listening)
