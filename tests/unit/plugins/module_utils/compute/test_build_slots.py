# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""max_concurrent_builds: who comes late waits."""

from __future__ import annotations

import os
import threading
import time

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostBusy
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import build as build_slots


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setattr(build_slots, "POLL", 0.001)
    os.mkdir(tmp_path / "berth", 0o700)
    return str(tmp_path / "berth")


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_than_the_limit_build_at_a_time_and_all_get_their_turn(state, limit):
    guard, now, most, done = threading.Lock(), [0], [0], []

    def build(number):
        with build_slots.build_slot(state, limit, timeout=30):
            with guard:
                now[0] += 1
                most[0] = max(most[0], now[0])
            time.sleep(0.02)
            with guard:
                now[0] -= 1
                done.append(number)

    threads = [threading.Thread(target=build, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most[0], sorted(done)) == (limit, list(range(8)))


def test_a_slot_that_never_comes_free_is_an_error_that_another_host_may_cure(state):
    with (
        build_slots.build_slot(state, 1),
        pytest.raises(HostBusy) as raised,
        build_slots.build_slot(state, 1, timeout=0),
    ):
        pass
    assert raised.value.retryable and "process %d" % os.getpid() in str(raised.value)


def test_a_build_that_fails_gives_its_slot_back(state):
    with pytest.raises(KeyError), build_slots.build_slot(state, 1):
        raise KeyError("disk")
    with build_slots.build_slot(state, 1, timeout=0):
        pass
