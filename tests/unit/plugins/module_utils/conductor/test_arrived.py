# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The destination of a move that lost its record gets one, if the source has let go for it and nobody had it later."""

from __future__ import annotations

import os

import pytest
from fleet_case import WEB, record_lost
from records import OP

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints, state_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.migration import RESIZE, new_migration

UUID = "%s2222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"


@pytest.fixture
def moved(fleet):
    """h1 let go of the instance for h2, which runs it and has lost its record."""

    def move(destination="h2", generation=(2, 0)):
        for number, name in enumerate(("h1", "h2", "h3"), 1):
            fleet.hosts[name].uuid = UUID % number
        assert fleet.run(prefer=("h2", "h1", "h3")) is None
        record = fleet.hosts["h2"].record()
        record_lost(fleet, "h2")
        there = {"uuid": fleet.hosts[destination].uuid, "name": destination}
        migration = new_migration(OP, RESIZE, {"uuid": UUID % 1, "name": "h1"}, there, record, record.spec, 0)
        left = record.replace(role="OUT", phase="keep", op=OP, generation=list(generation), migration=migration)
        fleet.hosts["h1"].store.restore(left)
        return fleet

    return move


def test_the_record_comes_back_on_the_destination_above_what_the_source_has_reached(moved):
    fleet = moved()
    assert fleet.recover_record() == ["h2"]
    assert fleet.owners() == ["h2"] and fleet.hosts["h2"].record().generation == [3, 0]
    with pytest.raises(errors.InstanceMoving, match="has ended, but h1 still holds a part") as told:
        fleet.recover_record()
    assert told.value.hint == hints.confirm_or_revert_left("web1", "h1")


@pytest.mark.follows("restore_backup_of_record")
def test_a_guest_where_the_source_did_not_send_it_gets_none(moved):
    with pytest.raises(errors.InstanceMoving) as told:
        moved(destination="h3").recover_record()
    assert told.value.hint == state_hints.restore_backup_of_record(WEB)


@pytest.mark.follows("restore_backup_of_record")
def test_a_source_whose_guest_runs_has_not_let_go_whatever_its_record_says(moved):
    """Its state directory may be from a backup, and the instance came back since: a confirm would remove the guest that runs."""
    fleet = moved()
    fleet.hosts["h1"].runs = True
    with pytest.raises(errors.InstanceMoving, match="h2 has its guest and no record") as told:
        fleet.recover_record()
    assert told.value.hint == state_hints.restore_backup_of_record(WEB)


@pytest.mark.follows("restore_damaged_record")
def test_a_destination_that_comes_back_whole_from_a_backup_goes_on_with_what_its_guest_has(moved):
    """Neither a confirm nor a revert takes its record, as others have seen a later one there, also while the source has its part."""
    fleet = moved()
    here, there = fleet.hosts["h1"].record(), fleet.hosts["h2"].store
    there.restore(here.replace(role="OWN", phase="resized", vm_state="resized", generation=[2, 1]))
    whereabouts.remember(fleet.hosts["h3"].store, {"hosts": {UUID % 2: "h2"}, "known": {UUID % 2: {WEB: [2, 2]}}})
    with pytest.raises(
        errors.InstanceMoving, match="on h2 is moving at generation 2.1, but another host reports 2.2"
    ) as told:
        fleet.recover_record()
    assert told.value.hint == state_hints.restore_damaged_record(WEB, "h2")
    os.remove(os.path.join(there.state_dir, "instances", WEB, "record.json"))
    assert fleet.recover_record() == ["h2"] and there.read(WEB).generation == [3, 0]
    with pytest.raises(errors.InstanceMoving, match="has ended, but h1 still holds a part"):
        fleet.recover_record()


def test_nobody_may_have_had_it_later(moved):
    fleet = moved()
    later = {"hosts": {UUID % 9: "h9"}, "known": {UUID % 9: {WEB: [3, 0]}}}
    whereabouts.remember(fleet.hosts["h3"].store, later)
    with pytest.raises(errors.RecordOutdated, match="3.0 was seen on h9"):
        fleet.recover_record()


@pytest.mark.follows("continue_with_older")
@pytest.mark.parametrize("generation", [(2, 0), (1000, 0)])
def test_no_count_of_the_source_passes_an_owner_that_answers_without_a_record(moved, generation):
    """The source may lie, and what the instance wrote last be in the pool of that owner."""
    fleet = moved(generation=generation)
    whereabouts.remember(fleet.hosts["h3"].store, {"hosts": {UUID % 3: "h3"}, "known": {UUID % 3: {WEB: [3, 0]}}})
    with pytest.raises(
        errors.RecordMissing, match="h3 held web1, but has a record neither.* by the notes of h3"
    ) as told:
        fleet.recover_record()
    assert told.value.hint == fleet_hints.continue_with_older("web1", WEB, "h3", "h2")
    assert fleet.recover_record(on="h2") == ["h2"]


@pytest.mark.parametrize("let_go", ["left", "gone"])
def test_an_owner_that_says_itself_that_it_let_go_is_none(moved, let_go):
    fleet = moved()
    whereabouts.remember(fleet.hosts["h1"].store, {"hosts": {UUID % 3: "h3"}, "known": {UUID % 3: {WEB: [1, 9]}}})
    if let_go == "gone":
        whereabouts.removed(fleet.hosts["h3"].store, WEB, [1, 9])
    else:
        record = fleet.hosts["h1"].record().replace(generation=[1, 9])
        whereabouts.handed_over(fleet.hosts["h3"].store, record, {"uuid": UUID % 1, "name": "h1"})
    assert fleet.recover_record() == ["h2"]


def test_all_hosts_have_to_answer(moved):
    fleet = moved()
    fleet.silence("h3")
    with pytest.raises(errors.InstanceUnknown):
        fleet.recover_record()
