# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host had that is lost for good is made anew on another one, and owns nothing when that host is back (I1)."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from fleet_case import WEB, Fleet

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors, locate, recovery


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
            with contextlib.suppress(errors.RecordOutdated):
                assert recovery.to_recover(fleet.read(), "web1", WEB, [])["hosts"] == [], stop
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


def test_what_a_lost_host_had_is_made_anew_after_its_epoch_also_when_another_run_gave_the_host_up(fleet):
    """A run over other instances has all hosts forget what the lost one owned."""
    assert fleet.run() is None
    home = fleet.hosts["h1"]
    home.store.compare_and_swap(home.record(), home.record().next())
    fleet.silence("h1")
    home.runs = False  # switched off, as the person said
    for name in ("h2", "h3"):
        fleet.hosts[name].rescan((), {"lost": ["id-h1"]})
    assert fleet.run(prefer=("h2", "h3")) is None and fleet.owners() == ["h2"]
    assert fleet.hosts["h2"].record().generation > home.record().generation
    assert all(note["after"] == 0 for note in whereabouts.recall(fleet.hosts["h3"].store, [WEB]).values())
    fleet.silence("h2")
    assert fleet.run() == "RecordOutdated" and fleet.owners() == ["h2"]
