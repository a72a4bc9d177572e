# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls to libvirt that end in time, and errors that say what is wrong."""

from __future__ import annotations

import threading
import time
import types

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
