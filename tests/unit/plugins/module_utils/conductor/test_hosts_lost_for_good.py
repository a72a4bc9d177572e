# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host had that is lost for good is made anew on another one, and owns nothing when that host is back (I1)."""

from __future__ import annotations

import itertools

import pytest
from fleet_case import SUBSETS, WEB, Fleet
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors, gossip, locate, start_after_outage


def test_a_host_that_is_lost_for_good_is_replaced_and_owns_nothing_when_it_is_back(fleet):
    assert fleet.run() is None
    fleet.silence("h1")
    fleet.hosts["h1"].runs = False  # switched off, as the person said
    assert fleet.run() == "InstanceUnknown"
    assert fleet.run(lost=["h1"]) is None and fleet.owners() == ["h2"]
    assert fleet.run() is None, "the hosts remember that it was lost"
    assert fleet.hosts["h2"].record().generation > fleet.hosts["h1"].record().generation
    fleet.silence()
    assert fleet.run() == "DuplicateInstance"
    fleet.silence("h2")
    assert fleet.run() == "RecordOutdated", "the copy that came back is the older one"
    assert fleet.owners() == ["h2"]


@pytest.mark.parametrize("runs_after", [0, 1, 2])
def test_a_run_with_a_lost_host_killed_after_any_call_leaves_its_old_copy_at_rest_while_the_new_owner_is_silent(
    tmp_path, runs_after
):
    made = 0
    for stop in itertools.count(1):
        fleet = Fleet(tmp_path / str(stop))
        assert fleet.run() is None
        fleet.silence("h1")
        fleet.hosts["h1"].runs = False  # switched off, as the person said
        done = list(itertools.islice(fleet.create(prefer=("h2", "h3"), lost=["h1"]), stop))
        for _time in range(runs_after):
            fleet.run(prefer=("h2", "h3"), lost=["h1"])
        if fleet.owners() == ["h2"]:
            made += 1
            fleet.silence("h2")
            with pytest.raises((errors.InstanceUnknown, errors.RecordOutdated)):
                locate.locate(fleet.read(), "web1", WEB)
            with pytest.raises((errors.InstanceUnknown, errors.RecordOutdated)):
                start_after_outage.to_recover(fleet.read(), "web1", WEB, [])
        if len(done) < stop:
            assert made > 1
            return


def test_a_host_that_was_given_up_and_is_back_has_its_instance_when_the_run_that_gave_it_up_made_nothing(tmp_path):
    for stop in itertools.count(1):
        fleet = Fleet(tmp_path / str(stop))
        assert fleet.run() is None
        fleet.silence("h1")
        done = list(itertools.islice(fleet.create(prefer=("h2", "h3"), lost=["h1"]), stop))
        if fleet.hosts["h2"].record() or len(done) < stop:
            return
        fleet.silence()
        assert fleet.run() is None and fleet.owners() == ["h1"], stop


def failed_run_without(fleet, lost):
    """A run with ``lost`` that finds no room; the person was wrong, and what the host has runs on."""
    fleet.silence(lost)
    for host in fleet.hosts.values():
        host.full = True
    assert fleet.run(prefer=("h2", "h3"), lost=[lost]) is not None
    for host in fleet.hosts.values():
        host.full = False


@pytest.mark.parametrize("silent", SUBSETS, ids="+".join)
def test_a_failed_run_that_gave_a_host_up_lets_no_later_run_make_a_second_one(fleet, silent):
    assert fleet.run() is None and fleet.owners() == ["h1"]
    failed_run_without(fleet, "h1")
    fleet.silence(*silent)
    for prefer in (("h2", "h3", "h1"), ("h3", "h2", "h1")):
        fleet.run(prefer=prefer)
    fleet.silence("h1")
    assert fleet.run(prefer=("h2", "h3")) == "InstanceUnknown", "only a person can give it up, once more"
    assert fleet.owners() == ["h1"]
    fleet.silence()
    assert fleet.run() is None and fleet.owners() == ["h1"]


@pytest.mark.parametrize("silent", SUBSETS, ids="+".join)
def test_a_run_that_gave_a_host_up_and_was_killed_before_it_made_anything_lets_no_later_run_make_a_second_one(
    tmp_path, silent
):
    for stop in itertools.count(1):
        fleet = Fleet(tmp_path / str(stop))
        assert fleet.run() is None
        fleet.silence("h1")
        list(itertools.islice(fleet.create(prefer=("h2", "h3"), lost=["h1"]), stop))
        if fleet.hosts["h2"].runs:
            assert stop > 5
            return
        fleet.silence(*silent)
        for prefer in (("h2", "h3", "h1"), ("h3", "h2", "h1")):
            fleet.run(prefer=prefer)
        fleet.silence("h1")
        assert fleet.run(prefer=("h2", "h3")) == "InstanceUnknown" and fleet.owners() == ["h1"]


def test_a_run_over_other_instances_that_gave_a_host_up_lets_no_later_run_make_this_one_anew(fleet):
    assert fleet.run() is None
    fleet.silence("h1")
    told = gossip.whereabouts(fleet.read())
    for name in ("h2", "h3"):
        fleet.hosts[name].rescan((), told)
    assert fleet.run(prefer=("h2", "h3")) == "InstanceUnknown" and fleet.owners() == ["h1"]


def test_what_was_made_on_a_lost_host_that_nobody_heard_of_is_old_when_that_host_is_back(tmp_path):
    """The run that made it there was killed before it told so: the others know its plan alone."""
    for stop in itertools.count(1):
        fleet = Fleet(tmp_path / str(stop))
        done = list(itertools.islice(fleet.create(), stop))
        home = fleet.hosts["h1"]
        if home.record() and home.record().role == "OWN":
            for _write in range(5):
                home.store.compare_and_swap(home.record(), home.record().next())
            fleet.silence("h1")
            home.runs = False  # switched off, as the person said
            assert fleet.run(prefer=("h2", "h3"), lost=["h1"]) is None and fleet.owners() == ["h2"], stop
            assert fleet.hosts["h2"].record().generation[0] > home.record().generation[0], stop
            fleet.silence("h2")
            assert fleet.run() == "RecordOutdated" and fleet.owners() == ["h2"], stop
        if len(done) < stop:
            return


def test_once_it_is_made_elsewhere_nobody_asks_for_the_lost_host_any_more(fleet):
    """Neither its record there nor a plan to make it there stands in the way after a delete."""
    list(itertools.islice(fleet.create(), 7))
    assert not fleet.hosts["h1"].record() or fleet.hosts["h1"].record().role == "CLAIM"
    fleet.silence("h1")
    assert fleet.run(prefer=("h2", "h3")) == "InstanceUnknown", "it may have been made there"
    assert fleet.run(prefer=("h2", "h3"), lost=["h1"]) is None and fleet.owners() == ["h2"]
    assert fleet.delete() == ["h2"]
    assert fleet.run(prefer=("h3", "h2")) is None and fleet.owners() == ["h3"]


def test_what_was_taken_back_from_a_lost_host_does_not_run_there_when_that_host_is_back_and_this_one_silent(fleet):
    """h1 kept its copy of a move, and was away when the move was confirmed without it: h2 has its own copy at rest."""
    assert fleet.run() is None
    kept = fleet.hosts["h1"].record().replace(role="OUT", phase="keep", op="ab" * 16, generation=[2, 0])
    plant(fleet.hosts["h1"].store, kept)
    fleet.hosts["h1"].runs = False
    fleet.hosts["h2"].store.restore(kept.replace(role="OWN", phase="active", op=None, generation=[2, 5]))
    fleet.silence("h1")
    assert fleet.run() is None and fleet.owners() == ["h2"]
    fleet.silence("h2")
    fleet.hosts["h2"].runs = False  # switched off, as the person said
    seen = fleet.read()
    move = {"sequence": "reclaim_alone", "uuid": WEB, "source": "h1", "views": {"source": {"generation": [2, 0]}}}
    told = gossip.will_take_back(seen, move, "revert")
    for name in seen.documents:
        fleet.hosts[name].rescan((), told)
    plant(fleet.hosts["h1"].store, kept.replace(role="OWN", phase="active", op=None, generation=[3, 1]))
    fleet.hosts["h1"].runs = True
    fleet.silence("h1")
    assert fleet.run(prefer=("h3", "h2")) == "InstanceUnknown" and fleet.owners() == ["h1"]
    fleet.silence()
    assert fleet.run() == "DuplicateInstance" and fleet.owners() == ["h1"]


def test_what_hosts_are_told_of_several_instances_is_one_request_and_none_is_left_out():
    first, second = (
        {"hosts": {host: host}, "planned": [{"uuid": uuid, "host_uuid": host, "run": "r"}], "after": {uuid: epoch}}
        for host, uuid, epoch in (("H1", "a", 2), ("H2", "b", 3))
    )
    assert gossip.together([first, second]) == {
        "hosts": {"H1": "H1", "H2": "H2"},
        "planned": [*first["planned"], *second["planned"]],
        "after": {"a": 2, "b": 3},
    }
