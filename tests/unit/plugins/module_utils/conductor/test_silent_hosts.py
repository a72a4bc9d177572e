# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create over hosts that are silent, gone from the inventory, renamed, named twice, copied or without their records makes no
second instance (I1); with its record intact and no later note a silent host stops nobody."""

from __future__ import annotations

import pytest
from fleet_case import HAPPENINGS, NAMES, SUBSETS, WEB, copied, record_and_domain_lost, renamed, unmounted

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import errors, locate, start_after_outage
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints, hints


def test_a_host_whose_libvirt_hangs_is_not_given_up_and_no_second_one_is_made(fleet):
    assert fleet.run() is None
    home = fleet.hosts["h1"]
    home.hung = True
    assert fleet.run() == "InstanceUnknown"
    assert fleet.hint == hints.restart_hung_libvirt(), "its guest runs on: nobody is told to give the host up"
    for lost in (["h1"], ["id-h1"]):
        assert fleet.run(prefer=("h2", "h3"), lost=lost) == "HostNotLost", "by its name and by its uuid"
    home.hung = False
    assert fleet.run() is None
    assert fleet.owners() == ["h1"]


@pytest.mark.parametrize("lost", ["h1", "id-h1"])
def test_a_host_whose_records_are_not_trusted_is_not_given_up_by_its_name_nor_by_its_uuid(fleet, lost):
    assert fleet.run() is None
    unmounted(fleet, "h1")
    fleet.hosts["h1"].domain = False
    assert fleet.run(prefer=("h2", "h3"), lost=[lost]) == "HostNotLost" and fleet.owners() == ["h1"]


@pytest.mark.parametrize("lost", [["h1"], ["id-h1"], ["h1", "h2", "h3"]], ids=",".join)
def test_a_host_that_answers_is_not_given_up_whatever_a_person_says(fleet, lost):
    """Its record or its guest is gone, or its state directory came from a backup: others know better."""
    assert fleet.run() is None
    whereabouts.remember(fleet.hosts["h2"].store, {"hosts": {"id-h1": "h1"}, "known": {"id-h1": {WEB: [1, 9]}}})
    fleet.hosts["h1"].runs = False
    assert (fleet.run(lost=lost), fleet.owners()) == ("RecordOutdated", [])
    record_and_domain_lost(fleet, "h1")
    assert (fleet.run(prefer=("h2", "h3"), lost=lost), fleet.owners()) == ("RecordMissing", [])


def test_what_was_never_made_is_made_while_the_libvirt_of_another_host_hangs(fleet):
    fleet.hosts["h3"].hung = True
    assert fleet.run() is None


@pytest.mark.parametrize("silent", SUBSETS, ids="+".join)
@pytest.mark.parametrize("home", NAMES)
def test_create_run_three_times_makes_no_second_one_whoever_is_silent(fleet, home, silent):
    assert fleet.run(prefer=[home] + [name for name in NAMES if name != home]) is None
    fleet.silence(*silent)
    errors = [fleet.run() for _time in range(3)]
    if home not in silent:
        assert errors == [None] * 3, "an intact record, no later note: a silent host stops nobody"
    elif len(silent) < 3:
        assert errors == ["InstanceUnknown"] * 3
    fleet.silence()
    assert fleet.run() is None
    assert fleet.owners() == [home]


@pytest.mark.parametrize("happens", HAPPENINGS, ids=lambda claim: claim.__name__)
@pytest.mark.parametrize("silent", [(), ("h2",), ("h3",)], ids=["all answer", "h2 silent", "h3 silent"])
def test_create_makes_no_second_one_whatever_became_of_its_host(fleet, happens, silent):
    assert fleet.run() is None
    happens(fleet, "h1")
    for name in silent:
        fleet.hosts[name].up = False
    for _time in range(3):
        assert fleet.run() == HAPPENINGS[happens]
        assert fleet.owners() == ["h1"]


@pytest.mark.follows("renamed_or_copied")
@pytest.mark.parametrize("it_is", ["a copy", "that host under another name"])
def test_a_host_that_answers_in_place_of_a_silent_one_has_its_instances_when_a_person_says_that_it_is_that_one(
    fleet, it_is
):
    assert fleet.run() is None
    copied(fleet, "h1")
    for lost in ((), ("h1",)):
        assert fleet.run(lost=lost) == "InstanceUnknown" and fleet.hint == fleet_hints.renamed_or_copied("copy", "h1")
    assert fleet.read().verdicts["copy"].endswith(fleet.hint)
    with pytest.raises(errors.InstanceUnknown):
        start_after_outage.to_recover(fleet.read(), "web1", WEB, [])
    if it_is == "a copy":
        fleet.hosts["h1"].up = True
        assert fleet.run() == "InstanceUnknown", "both answer: nobody knows which is right"
        del fleet.inventory["copy"]
    else:
        fleet.hosts["h1"].runs = False
        del fleet.inventory["h1"]
    assert (fleet.run(), fleet.owners()) == (None, ["h1" if it_is == "a copy" else "copy"])


def test_a_host_that_answers_under_another_name_is_not_lost_by_its_old_one(fleet):
    """The other controller calls it so, or it was renamed, and that name is another machine's now."""
    assert fleet.run() is None
    renamed(fleet, "h1")
    record_and_domain_lost(fleet, "h1")
    assert fleet.run(lost=["h1"]) == "RecordMissing"
    assert fleet.run(lost=["h1"]) == "RecordMissing", "the others still know it"


def test_what_is_known_to_be_on_a_silent_host_alone_is_not_deleted(fleet):
    for _run in range(2):  # the second tells all hosts of the owner
        assert fleet.run() is None
    fleet.silence("h1")
    with pytest.raises(errors.InstanceUnknown, match="h1"):
        fleet.delete()


def test_a_foreign_domain_with_the_uuid_is_left_to_whoever_has_it_also_where_no_record_counts(fleet):
    unmounted(fleet, "h2")
    seen = fleet.read()
    foreign = {"host": "h2", "name": "win", "managed": False, "power_state": "running"}
    assert locate.stray_hint(seen, "web1", WEB, foreign) == hints.another_name()
    managed = {**foreign, "managed": True}
    assert "state directory of h2" in locate.stray_hint(seen, "web1", WEB, managed)
