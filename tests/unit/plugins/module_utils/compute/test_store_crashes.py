# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of a record that is killed, or fails, at any call of the operating system leaves the old or the new one."""

from __future__ import annotations

import errno
import os

import pytest
from store_case import FORK, UUID, record

from ansible_collections.berth.kvm.plugins.module_utils.compute import durable
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import StateUnsafe
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store

CALLS = ("open", "mkdir", "write", "fsync", "rename", "unlink", "close", "read", "fstat", "listdir", "rmdir", "stat")


class Fault:
    """Counts the calls that the store makes of the operating system; at number ``at`` it strikes."""

    def __init__(self, monkeypatch, at, strike):
        self.count = 0
        self.trace = []
        self.at = at
        self.strike = strike
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrap(name, getattr(os, name)))

    def _wrap(self, name, real):
        def call(*args, **kwargs):
            self.count += 1
            self.trace.append(name)
            if self.count == self.at:
                self.strike()
            return real(*args, **kwargs)

        return call


OLD, NEW = record(), record(role="OWN", generation=[1, 0], phase="building")
CHANGES = [(None, OLD), (OLD, NEW), (OLD, None)]


def _run(state, expected, new):
    Store(state).compare_and_swap(expected, new)


@pytest.mark.parametrize("expected, new", CHANGES, ids=["create", "replace", "remove"])
def test_a_process_killed_at_any_call_leaves_the_old_or_the_new_record(tmp_path, expected, new):
    at, finished = 0, False
    while not finished:
        at += 1
        state = str(tmp_path / str(at))
        if expected:
            _run(state, None, expected)

        def victim(at=at, state=state):
            with pytest.MonkeyPatch.context() as patch:
                fault = Fault(patch, at, lambda: os._exit(9))
                _run(state, expected, new)
                os._exit(0 if fault.count < at else 9)

        process = FORK.Process(target=victim)
        process.start()
        process.join(30)
        finished = process.exitcode == 0
        found = Store(state).read(UUID)
        assert found in (expected, new)
        if found != new:
            Store(state).compare_and_swap(found, new)
        with Store(state).instance_lock(UUID):
            pass
        assert Store(state).read(UUID) == new
        assert new or os.listdir(os.path.join(state, "instances")) == []
    assert at > 15


@pytest.mark.parametrize("expected, new", CHANGES, ids=["create", "replace", "remove"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_an_error_of_any_call_leaves_the_old_or_the_new_record(tmp_path, expected, new, number):
    at, finished = 0, False
    while not finished:
        at += 1
        state = str(tmp_path / str(at))
        if expected:
            _run(state, None, expected)

        def strike():
            raise OSError(number, os.strerror(number))

        with pytest.MonkeyPatch.context() as patch:
            fault = Fault(patch, at, strike)
            try:
                _run(state, expected, new)
            except (OSError, StateUnsafe, durable.StateNotWritten):
                pass
        finished = fault.count < at
        found = Store(state).read(UUID)
        assert found in (expected, new)
        if found != new:
            Store(state).compare_and_swap(found, new)
        assert Store(state).read(UUID) == new


def test_a_record_is_synced_before_its_name_and_its_name_before_the_answer(state):
    """libvirt does not fsync its directories, a power cut lost the file ten times out of ten: this store does."""
    _run(state, None, OLD)
    with pytest.MonkeyPatch.context() as patch:
        fault = Fault(patch, 0, None)
        _run(state, OLD, NEW)
    order = [name for name in fault.trace if name in ("write", "fsync", "rename")]
    assert order == ["write", "fsync", "rename", "fsync"]


def test_the_temporary_file_of_a_crash_is_not_left(state):
    _run(state, None, OLD)
    directory = durable.open_directory(os.path.join(state, "instances", UUID))
    with open(os.path.join(state, "instances", UUID, ".record.json.tmp"), "w", encoding="utf-8") as stream:
        stream.write("half a rec")
    os.close(directory)
    _run(state, OLD, NEW)
    assert sorted(os.listdir(os.path.join(state, "instances", UUID))) == ["lock", "record.json"]
