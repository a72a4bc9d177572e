# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of create that are killed after any call, or mixed with another controller's, make no second instance (I1)."""

from __future__ import annotations

import itertools
import shutil

import pytest
from fleet_case import SUBSETS, WEB, Fleet, Host

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints


@pytest.mark.parametrize("silent", SUBSETS[:6], ids="+".join)
def test_a_run_killed_after_any_call_and_then_others_with_hosts_silent_make_no_second_one(tmp_path, silent):
    """And once all answer, one run makes it, or finds it, and the next changes nothing."""
    for stop in itertools.count(1):
        fleet = Fleet(tmp_path / str(stop))
        done = list(itertools.islice(fleet.create(), stop))
        fleet.check()
        fleet.silence(*silent)
        for prefer in (("h2", "h3", "h1"), ("h3", "h2", "h1")):
            fleet.run(prefer=prefer)
        fleet.silence()
        for _time in range(2):
            assert fleet.run(prefer=("h3", "h2", "h1")) is None, stop
        assert len(fleet.owners()) == 1
        if len(done) < stop:
            return


def interleavings(left, right):
    """Where the second run goes on for how long before the first does: all ways with two changes."""
    return [(first, second) for first in range(left) for second in range(1, right)]


@pytest.mark.long
@pytest.mark.parametrize("silent", ["h1", "h2", None])
def test_two_controllers_between_any_two_calls_and_a_third_run_with_a_host_silent_make_no_second_one(tmp_path, silent):
    length = len(list(Fleet(tmp_path / "length").create()))
    for first, second in interleavings(length, length):
        fleet = Fleet(tmp_path / ("%d-%d" % (first, second)))
        first_run, other = fleet.create(prefer=("h1", "h2", "h3")), fleet.create(prefer=("h2", "h1", "h3"))
        for run, calls in ((first_run, first), (other, second), (first_run, None), (other, None)):
            for _step in itertools.islice(run, calls):
                fleet.check()
            if calls == second and run is other and silent:
                fleet.silence(silent)
        fleet.run(prefer=("h3", "h2", "h1"))
        fleet.silence()
        fleet.run(prefer=("h3", "h2", "h1"))
        fleet.check()
        shutil.rmtree(tmp_path / ("%d-%d" % (first, second)))


@pytest.mark.follows("create_again")
def test_who_meets_an_instance_that_another_run_has_just_made_finds_it_by_a_create_again(tmp_path):
    met = set()
    for calls in itertools.count(1):
        fleet = Fleet(tmp_path / str(calls))
        late = fleet.create(prefer=("h2", "h1", "h3"))
        begun = list(itertools.islice(late, calls))
        assert fleet.run(prefer=("h1", "h2", "h3")) in (None, "ClaimConflict")
        for _step in late:
            fleet.check()
        met.add(fleet.error)
        if fleet.error == "InstanceExists":
            assert fleet.hint == hints.create_again()
            assert fleet.run() is None and len(fleet.owners()) == 1
        if len(begun) < calls:
            assert "InstanceExists" in met
            return


@pytest.mark.follows("another_run")
def test_a_run_that_gave_way_to_another_says_so_and_the_same_again_makes_one_guest_at_most(tmp_path):
    for calls in itertools.count(1):
        fleet = Fleet(tmp_path / str(calls))
        late, early = fleet.create(prefer=("h2", "h1", "h3")), fleet.create(prefer=("h1", "h2", "h3"))
        list(itertools.islice(late, len(fleet.hosts)))  # it has read the hosts
        begun = list(itertools.islice(early, calls))
        assert len(begun) == calls, "no run gave way"
        for _step in late:
            fleet.check()
        if fleet.error == "ClaimConflict":
            break
    assert fleet.hint == hints.another_run()
    for _step in early:
        fleet.check()
    assert fleet.run() is None and len(fleet.owners()) == 1


@pytest.mark.follows("create_again_when_back")
@pytest.mark.parametrize("built", [True, False], ids=["it had built it", "it had not"])
def test_a_host_that_fell_silent_over_a_build_finishes_it_by_a_create_when_it_is_back(fleet, built, monkeypatch):
    build = Host.build

    def falls_silent(host, token):
        if built:
            build(host, token)
        host.up = False
        raise OSError("UNREACHABLE")

    with monkeypatch.context() as cut:
        cut.setattr(Host, "build", falls_silent)
        assert fleet.run() == "HostUnknown" and fleet.hint == fleet_hints.create_again_when_back("h1")
    assert fleet.run() == "InstanceUnknown", "nobody makes a second one meanwhile"
    fleet.silence()
    assert fleet.run() is None and fleet.owners() == ["h1"]


def test_a_refused_run_leaves_no_trace_in_what_is_known_or_planned(fleet):
    assert fleet.run() is None
    before = [whereabouts.recall(host.store, [WEB]) for host in fleet.hosts.values()]
    fleet.silence("h1")
    assert fleet.run() == "InstanceUnknown"
    assert [whereabouts.recall(host.store, [WEB]) for host in fleet.hosts.values()] == before
    assert all(host.record() is None for host in (fleet.hosts["h2"], fleet.hosts["h3"]))


def test_a_plan_that_came_to_nothing_does_not_hold_up_a_later_run(fleet):
    for host in fleet.hosts.values():
        host.full = True
    assert fleet.run() == "MaxRetriesExceeded"
    for host in fleet.hosts.values():
        host.full = False
    assert all(not whereabouts.recall(host.store, [WEB]) for host in fleet.hosts.values())
    fleet.silence("h1")
    assert fleet.run(prefer=("h2", "h3")) is None


def test_what_was_deleted_is_made_anew_after_its_last_generation(fleet):
    assert fleet.run() is None
    last = fleet.hosts["h1"].record().generation
    fleet.hosts["h1"].delete()
    assert fleet.run(prefer=("h2", "h3", "h1")) is None
    assert fleet.owners() == ["h2"] and fleet.hosts["h2"].record().generation > last
    fleet.silence("h1")
    assert fleet.run() is None and fleet.owners() == ["h2"]
