# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The generation grows with each change, failed builds fade; neither asks the wall clock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.host import boot_time
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import counters


@pytest.fixture
def state(tmp_path):
    tmp_path.chmod(0o700)
    return str(tmp_path)


@pytest.fixture
def uptime(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(boot_time, "uptime", lambda: now[0])
    return now


def test_the_generation_grows_when_the_state_is_another(state):
    """S16"""
    assert [counters.generation_of(text, state_dir=state) for text in ("a", "a", "b", "a")] == [1, 1, 2, 3]


def test_without_saving_nothing_is_written(state):
    assert counters.generation_of("a", save=False, state_dir=state) == 1
    assert os.listdir(state) == []


def test_a_look_without_saving_tells_the_generation_that_a_saving_run_would_tell(state):
    counters.generation_of("a", state_dir=state)
    assert [counters.generation_of(text, save=False, state_dir=state) for text in ("a", "b", "a")] == [1, 2, 1]


def test_a_host_without_a_state_directory_has_generation_0(tmp_path):
    assert counters.generation_of("a", state_dir=str(tmp_path / "none")) == 0
    assert counters.count_failed_builds(str(tmp_path / "none")) == 0
    assert not (tmp_path / "none").exists()


def test_runs_at_the_same_time_never_give_one_number_to_two_states(state):
    code = (
        "import sys; sys.path.insert(0, %r)\n"
        "from ansible_collections.berth.kvm.plugins.module_utils.compute.record import counters\n"
        "print(*[counters.generation_of('%%s-%%d' %% (sys.argv[1], n), state_dir=%r) for n in range(20)])"
    ) % (str(Path(counters.__file__).parents[7]), state)
    runs = [subprocess.Popen([sys.executable, "-c", code, name], stdout=subprocess.PIPE) for name in "ab"]
    numbers = [int(word) for run in runs for word in run.communicate()[0].split()]
    assert sorted(numbers) == list(range(1, 41))


def test_failed_builds_halve_with_each_hour(state, uptime):
    """S42"""
    for _each in range(4):
        counters.add_failed_build(state)
    seen = []
    for _hour in range(4):
        seen.append(counters.count_failed_builds(state))
        uptime[0] += counters.HALF_LIFE
    assert seen == [4, 2, 1, 0]


def test_one_failed_build_counts_for_most_of_an_hour(state, uptime):
    counters.add_failed_build(state)
    seen = []
    for part in (0.0, 0.001, 0.9, 1.1):
        before = uptime[0]
        uptime[0] += part * counters.HALF_LIFE
        seen.append(counters.count_failed_builds(state))
        uptime[0] = before
    assert seen == [1, 1, 1, 0]


def test_a_build_that_worked_forgets_the_failed_ones(state, uptime):
    counters.add_failed_build(state)
    counters.forget_failed_builds(state)
    assert counters.count_failed_builds(state) == 0


def test_how_long_ago_a_build_failed_is_told_while_it_counts(state, uptime):
    assert counters.reported_failed_builds(state) == {"failed_builds": 0}
    counters.add_failed_build(state)
    uptime[0] += 60
    counters.add_failed_build(state)
    uptime[0] += 2100.9
    assert counters.reported_failed_builds(state) == {"failed_builds": 1, "failed_build_age_s": 2100}
    uptime[0] += counters.HALF_LIFE * 2
    assert counters.reported_failed_builds(state) == {"failed_builds": 0}


def test_after_a_reboot_the_age_is_the_new_uptime(state, uptime, monkeypatch):
    counters.add_failed_build(state)
    monkeypatch.setattr(boot_time, "boot_id", lambda: "another")
    uptime[0] = 300.0
    assert counters.reported_failed_builds(state) == {"failed_builds": 1, "failed_build_age_s": 300}


def test_after_a_reboot_only_the_new_uptime_counts(state, uptime, monkeypatch):
    counters.add_failed_build(state)
    counters.add_failed_build(state)
    monkeypatch.setattr(boot_time, "boot_id", lambda: "another")
    uptime[0] = float(counters.HALF_LIFE)
    assert counters.count_failed_builds(state) == 1
