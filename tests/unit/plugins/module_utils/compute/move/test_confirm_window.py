# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The window of a confirm runs on the destination alone, by the time since its boot (R05)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "protocol"))

import memory  # noqa: E402
import memory_controller  # noqa: E402
import memory_names  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import summary  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import boot_time
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.moving_host import MovingHost  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import common, table  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import MigrationNotReady  # noqa: E402

S, D = memory_names.S, memory_names.D
HOUR = 3600


class Clocks:
    """What each host's clocks show: the wall's, which anybody may set, and the time since its boot."""

    def __init__(self, monkeypatch, wall):
        self.wall, self.boot, self.uptime = wall, {S: "s1", D: "d1"}, {S: 50, D: 7000}
        monkeypatch.setattr(memory.Host, "now", lambda host: self.wall[host.name])
        monkeypatch.setattr(
            memory.Host,
            "since_boot",
            lambda host: {"boot_id": self.boot[host.name], "uptime": self.uptime[host.name]},
        )

    def go_on(self, seconds):
        for name in (S, D):
            self.wall[name] += seconds
            self.uptime[name] += seconds


@pytest.fixture(params=["resize", "here"])
def resized(request, monkeypatch):
    """resized(D's wall clock against S's, window) -> (clocks, world, the owner's name)."""

    def make(ahead=0, window=HOUR):
        clocks = Clocks(monkeypatch, {S: 10**9, D: 10**9 + ahead})
        world = memory.World(kind=request.param)
        controller = memory_controller.Controller("resize", "op0")
        controller.options = {"confirm_window": window}
        while controller.state == "run":
            controller.advance(world)
        return clocks, world, S if request.param == "here" else D

    return make


def left(world, owner):
    return common.view(world.host(owner), memory_names.UUID)["confirm_in"]


@pytest.mark.parametrize("ahead", [-2 * HOUR, 0, 2 * HOUR])
def test_a_clock_two_hours_off_makes_no_window_shorter_or_longer(ahead, resized):
    clocks, world, owner = resized(ahead)
    assert left(world, owner) == HOUR
    clocks.go_on(HOUR - 1)
    assert left(world, owner) == 1
    clocks.go_on(1)
    assert left(world, owner) == 0


@pytest.mark.parametrize("step", [-2 * HOUR, 2 * HOUR])
def test_a_step_of_the_clock_in_the_window_changes_nothing(step, resized):
    clocks, world, owner = resized()
    clocks.go_on(HOUR // 2)
    for name in (S, D):
        clocks.wall[name] += step
    assert left(world, owner) == HOUR // 2


def test_after_a_reboot_the_window_begins_anew(resized):
    clocks, world, owner = resized()
    clocks.go_on(HOUR - 1)
    clocks.boot[owner], clocks.uptime[owner] = "another boot", 10
    assert left(world, owner) == HOUR - 10
    clocks.uptime[owner] = HOUR
    assert left(world, owner) == 0


def test_a_reboot_of_the_source_changes_nothing(resized):
    clocks, world, owner = resized()
    clocks.go_on(10)
    other = D if owner == S else S
    clocks.boot[other], clocks.uptime[other] = "another boot", 0
    assert left(world, owner) == HOUR - 10


def test_without_a_window_it_never_confirms_by_itself(resized):
    clocks, world, owner = resized(window=0)
    clocks.go_on(10**9)
    assert left(world, owner) is None


def test_a_record_that_does_not_say_since_when_it_waits_is_never_due(resized):
    """One of an older version, whose deadline was another clock's."""
    _clocks, world, owner = resized()
    del world.records[owner]["migration"]["waits_since"]
    world.records[owner]["migration"]["confirm_by"] = 1
    assert left(world, owner) is None


def test_the_host_looks_again_before_it_confirms_what_is_due(resized):
    """It may have been rebooted since it was asked."""
    clocks, world, owner = resized()
    record = world.records[owner]
    token, peer = {"op": record["op"], "attempt": record["migration"]["attempt"]}, {"role": None}
    with pytest.raises(MigrationNotReady, match="has not passed on"):
        table.run(world.host(owner), memory_names.UUID, "confirm", token, peer, when_due=True)
    assert world.records[owner] == record
    clocks.go_on(HOUR)
    table.run(world.host(owner), memory_names.UUID, "confirm", token, peer, when_due=True)
    assert world.records[owner]["phase"] == "confirming"


def test_a_person_confirms_whenever_he_likes(resized):
    _clocks, world, _owner = resized()
    controller = memory_controller.Controller("confirm", "op1")
    while controller.state == "run":
        controller.advance(world)
    assert controller.changed


def test_a_real_host_counts_by_the_time_since_its_boot(monkeypatch):
    monkeypatch.setattr(boot_time, "boot_id", lambda: "this boot")
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    seen = MovingHost.since_boot(None)
    assert seen["boot_id"] == "this boot" and before <= seen["uptime"] <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_people_see_the_time_by_the_clock_of_the_host_that_counts(monkeypatch):
    monkeypatch.setattr(boot_time, "now", lambda: {"boot_id": "b", "uptime": 100.0})
    monkeypatch.setattr(time, "time", lambda: 86400.0)
    side = {"uuid": "u", "name": "kvm1"}
    migration = {"type": "resize", "status": "finished", "source": side, "destination": side, "confirm_window": 60}
    since = {"boot_id": "b", "uptime": 70.0}
    assert summary._migration(dict(migration, waits_since=since))["confirm_by"] == 86400 + 30
    assert summary._migration(dict(migration, waits_since=None))["confirm_by"] is None
