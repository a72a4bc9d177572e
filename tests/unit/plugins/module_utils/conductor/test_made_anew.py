# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance that was deleted, forgotten and made anew is the later one, though a host that had it before comes back as a
whole from a backup."""

from __future__ import annotations

import os
import shutil

import pytest
from fleet_case import WEB, Host

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import gossip


def written_often(host):
    """As by resizes: the record of this owner counts further than that of the next one."""
    for _time in range(8):
        record = host.record()
        host.store.compare_and_swap(record, record.next(phase=record.phase))


def copied(host):
    """A backup of the whole machine: of the state directory, and of its identity outside."""
    shutil.copytree(host.store.state_dir, host.store.state_dir + ".backup")
    shutil.copy(host.store.identity_copy, host.store.identity_copy + ".backup")


def restored(host):
    shutil.rmtree(host.store.state_dir)
    shutil.move(host.store.state_dir + ".backup", host.store.state_dir)
    shutil.move(host.store.identity_copy + ".backup", host.store.identity_copy)


def tell_all(fleet):
    """As every run does: who heard that the instance is gone forgets its owner."""
    told = gossip.whereabouts(fleet.read())
    for host in fleet.hosts.values():
        host.rescan((), told)


def test_a_whole_machine_from_before_the_delete_starts_nothing_while_the_new_owner_is_silent(fleet):
    assert fleet.run(prefer=("h1",)) is None
    written_often(fleet.hosts["h1"])
    copied(fleet.hosts["h1"])
    assert fleet.delete() == ["h1"]
    tell_all(fleet)
    fleet.silence("h1")
    assert fleet.run(prefer=("h2",)) is None
    restored(fleet.hosts["h1"])
    fleet.hosts["h1"].up = True
    fleet.silence("h2")
    assert fleet.run() == "RecordOutdated"
    assert fleet.hosts["h1"].record() and not fleet.hosts["h1"].runs


def known_and_gone(store, uuid, epoch):
    whereabouts.remember(store, {"hosts": {"id-h2": "h2"}, "known": {"id-h2": {uuid: [epoch, 5]}}})
    whereabouts.remember(store, {"gone": {"id-h2": {uuid: [epoch, 9]}}})


def noted(store, uuid=WEB):
    return whereabouts.recall(store, [uuid]).get(uuid)


def test_of_an_instance_that_its_owner_removed_a_host_remembers_how_far_it_had_counted(fleet):
    store = fleet.hosts["h1"].store
    known_and_gone(store, WEB, 7)
    assert noted(store) == {"known": None, "planned": [], "after": 7, "gone": None, "left": None}
    assert whereabouts.epoch(store, WEB) == 7 and whereabouts.heard_of(store) == [WEB]


def test_a_later_owner_takes_its_place_and_an_earlier_one_does_not(fleet):
    store = fleet.hosts["h1"].store
    known_and_gone(store, WEB, 7)
    whereabouts.remember(store, {"known": {"id-h2": {WEB: [7, 5]}}})
    assert noted(store)["after"] == 7
    whereabouts.remember(store, {"known": {"id-h2": {WEB: [8, 0]}}})
    assert noted(store)["after"] == 0 and noted(store)["known"]["generation"] == [8, 0]


def many_are_deleted(fleet, monkeypatch):
    """More than hosts remember one by one: of WEB, and of what is removed here, nothing is left."""
    monkeypatch.setattr(whereabouts, "GONE_LIMIT", 2)
    for host in fleet.hosts.values():
        for number, uuid in enumerate("abc", 1):
            known_and_gone(host.store, uuid, number)
            whereabouts.removed(host.store, uuid, (number, 1))
        assert WEB not in whereabouts.heard_of(host.store)


@pytest.mark.parametrize("new", ["h2", "h4"])
def test_a_whole_machine_from_before_many_deletes_starts_nothing_while_the_new_owner_is_silent(fleet, monkeypatch, new):
    """Also if the new owner joined the fleet since, and never heard of the instance."""
    assert fleet.run(prefer=("h1",)) is None
    written_often(fleet.hosts["h1"])
    copied(fleet.hosts["h1"])
    assert fleet.delete() == ["h1"]
    tell_all(fleet)
    many_are_deleted(fleet, monkeypatch)
    top = os.path.dirname(fleet.hosts["h1"].store.state_dir)
    fleet.inventory["h4"] = fleet.hosts["h4"] = Host(top, "h4")
    fleet.silence("h1")
    assert fleet.run(prefer=(new,)) is None
    restored(fleet.hosts["h1"])
    fleet.silence(new)
    assert fleet.run() == "RecordOutdated"
    assert fleet.hosts["h1"].record() and not fleet.hosts["h1"].runs


def test_the_highest_epoch_that_fell_out_is_where_an_instance_begins_of_which_nothing_is_known(fleet, monkeypatch):
    monkeypatch.setattr(whereabouts, "GONE_LIMIT", 1)
    store = fleet.hosts["h1"].store
    for uuid, epoch in (("a", 3), ("b", 9), ("c", 4), ("d", 5)):
        whereabouts.removed(store, uuid, (epoch, 7))
    whereabouts.remember(store, {"known": {"id-h2": {"e": [2, 1]}}})
    assert [whereabouts.epoch(store, uuid) for uuid in ("new", "a", "b", "d", "e")] == [9, 9, 9, 5, 2]
    assert noted(store, "new") == {"known": None, "planned": [], "after": 9, "gone": None, "left": None}
    assert noted(store, "e")["after"] == 0 and whereabouts.heard_of(store) == ["d", "e"]


def test_it_remembers_no_more_of_them_than_of_those_that_it_removed_itself(fleet, monkeypatch):
    monkeypatch.setattr(whereabouts, "GONE_LIMIT", 2)
    store = fleet.hosts["h1"].store
    for number, uuid in enumerate("abc", 1):
        known_and_gone(store, uuid, number)
    assert whereabouts.heard_of(store) == ["b", "c"]


def test_what_a_host_that_leaves_passes_on_of_it_is_not_kept_twice(fleet):
    """The notes of all hosts that leave would fill the file."""
    store = fleet.hosts["h1"].store
    known_and_gone(store, WEB, 7)
    before = noted(store)
    assert not whereabouts.remember(store, {"after": {WEB: 7}}) and noted(store) == before
    assert whereabouts.remember(store, {"after": {WEB: 8}}) and noted(store)["after"] == 8


def test_the_doctor_hears_what_a_host_deleted_last_though_nobody_else_had_it(fleet, monkeypatch):
    """A host that was down then still knows it here: without that word, the record would seem to be lost."""
    monkeypatch.setattr(whereabouts, "JUST_GONE", 1)
    store = fleet.hosts["h1"].store
    for uuid in ("before", WEB):
        whereabouts.removed(store, uuid, (1, 9))
    assert {uuid: note["gone"] for uuid, note in whereabouts.recall_all(store).items()} == {WEB: [1, 9]}
