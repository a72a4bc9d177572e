# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers create one instance at once, where a host answers one of them and not the other: a route, a firewall or a
host key. Both reach a third host; what it does between its lock, its reads and its writes is mixed too."""

from __future__ import annotations

import itertools
import os
import random

import fibers
import pytest
from fleet_case import NAMES, WEB, Fleet

from ansible_collections.berth.kvm.plugins.module_utils.compute import lock
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import HostBusy
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store

# name -> the hosts that do not answer the first controller, and the second one
CASES = {
    "both reach all": ((), ()),
    "h2 is silent for one": (("h2",), ()),
    "h1 is silent for the other": ((), ("h1",)),
    "h2 is silent for one, h1 for the other": (("h2",), ("h1",)),
    "a host that nobody chose is silent for one": (("h3",), ()),
}
SCHEDULES = 40


class Reached:
    """A host as one controller reaches it."""

    def __init__(self, host, answers):
        self._host, self._answers = host, answers

    def __getattr__(self, name):
        return self._answers and self._host.up if name == "up" else getattr(self._host, name)


def controller(fleet, silent, first_run):
    """The same hosts, of which those do not answer."""
    other = object.__new__(Fleet)
    other.hosts, other.error, other.runs = fleet.hosts, None, itertools.count(first_run)
    other.inventory = {name: Reached(host, name not in silent) for name, host in fleet.hosts.items()}
    return other


def race(top, case, dice):
    """Mix the two runs; the hosts on which the guest runs then."""
    fleet = Fleet(top)
    runs = [
        fibers.Fiber(controller(fleet, silent, 1 + 1000 * number).create(prefer=NAMES[number:] + NAMES[:number]))
        for number, silent in enumerate(CASES[case])
    ]
    for run in mixed(runs, dice):
        run.advance()
    return fleet.owners()


def mixed(runs, dice):
    """Who goes on next: one for some stops, then the other."""
    while left := [run for run in runs if not run.is_over]:
        run = dice.choice(left)
        for _stop in range(dice.choice((1, 3, 10, 30))):
            if not run.is_over:
                yield run


def races(tmp_path, case):
    """The owners of each race that ended with several."""
    ended = [race(tmp_path / str(seed), case, random.Random(seed)) for seed in range(SCHEDULES)]
    return [owners for owners in ended if len(owners) > 1]


@pytest.fixture(autouse=True)
def runs_stop_within_hosts(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _fd: None)
    fibers.let_stop(monkeypatch)


@pytest.mark.parametrize("case", CASES)
def test_of_two_controllers_that_do_not_reach_the_same_hosts_at_most_one_makes_the_instance(tmp_path, case):
    assert races(tmp_path, case) == []


def test_without_the_hosts_lock_both_make_it(tmp_path, monkeypatch):
    """So these races meet the moment between what a host reads and what it writes."""
    fibers.exchange_unlocked(monkeypatch)
    assert races(tmp_path, "h2 is silent for one, h1 for the other")


def test_a_host_whose_lock_is_held_has_failed_after_a_while_and_changed_nothing(tmp_path, monkeypatch):
    fleet = Fleet(tmp_path / "fleet")
    holder, waits = (Store(fleet.hosts["h3"].store.state_dir), fleet.hosts["h3"])
    monkeypatch.setattr(lock.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(lock.time, "monotonic", itertools.count(step=10).__next__)
    told = {"planned": [{"uuid": WEB, "host_uuid": "id-h1", "run": "r1"}]}
    with holder.host_lock(), pytest.raises(HostBusy):
        waits.rescan((), told)
    assert waits.rescan((WEB,), told)["notes"] == {}
