# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host says of an instance with a number that no instance reaches: it is neither believed nor passed on."""

from __future__ import annotations

import pytest
from fleet_case import WEB
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import (
    keep_one,
    locate,
    notes,
    sides,
    telling,
)
from ansible_collections.berth.kvm.plugins.module_utils.model import counting, state_hints


def says_of_itself(fleet, liar, part, epoch, owner="h9"):
    number = {"after": epoch, "known": {"host": owner, "host_uuid": "id-" + owner, "generation": [epoch, 0]}}
    lie = {"known": None, "planned": [], "after": 0, "gone": None, "left": None, part: number.get(part, [epoch, 0])}
    host = fleet.hosts[liar]
    facts, rescan = host.facts, host.rescan
    host.facts = lambda: {**facts(), "notes": {WEB: lie}}
    host.rescan = lambda *args: {**rescan(*args), "notes": {WEB: lie}}


@pytest.mark.follows("take_out_miscounting")
@pytest.mark.parametrize("lie", ["gone", "left", "after", "known"])
def test_no_new_owner_counts_on_from_a_number_that_no_instance_reaches(fleet, lie):
    """The highest number that a reply may have: the next one is none, and the honest host that has it counts for nothing."""
    says_of_itself(fleet, "h1", lie, 1 << 40)
    if lie == "known":  # of a host that a person has given up
        assert fleet.run(prefer=("h2",), lost=["h9"]) == "EpochImplausible"
    else:
        assert fleet.run(prefer=("h2",)) == "EpochImplausible"
    assert fleet.owners() == [] and fleet.hosts["h2"].record() is None
    assert fleet.hint == state_hints.take_out_miscounting("h1")
    del fleet.inventory["h1"]
    assert fleet.run(prefer=("h2",)) is None and fleet.hosts["h2"].record().generation[0] == 1


def test_what_a_host_miscounts_is_not_spread_and_stops_no_owner_that_answers(fleet):
    assert fleet.run(prefer=("h2", "h3")) is None
    says_of_itself(fleet, "h1", "gone", 1 << 40)
    assert fleet.run() is None and fleet.delete() == ["h2"]
    removed = whereabouts.recall(fleet.hosts["h2"].store, [WEB])[WEB]["gone"]
    assert removed[0] == 1


def test_an_owner_that_miscounts_is_not_told_to_the_others(fleet):
    """They would give the number back in their own replies, and go on from it."""
    assert fleet.run() is None
    home = fleet.hosts["h1"]
    home.store.compare_and_swap(home.record(), home.record().replace(generation=[1 << 40, 0]))
    assert telling.whereabouts(fleet.read())["known"] == {}


@pytest.mark.follows("take_out_miscounting")
@pytest.mark.parametrize(
    "tell", [telling.whereabouts, lambda seen: telling.remembered_by(seen, "h1")], ids=["told", "removed"]
)
def test_a_host_that_miscounts_ends_nothing_that_others_remember(fleet, tell):
    """It was to get the instance once, so its word counts; with that word passed on, a second copy would be made."""
    assert fleet.run(prefer=("h2", "h1", "h3")) is None
    fleet.hosts["h3"].rescan(
        (), {"hosts": {"id-h1": "h1"}, "planned": [{"uuid": WEB, "host_uuid": "id-h1", "run": "r0"}]}
    )
    fleet.silence("h2")
    says_of_itself(fleet, "h1", "gone", 1 << 40)
    fleet.hosts["h3"].rescan((), tell(fleet.read()))
    del fleet.inventory["h1"]
    assert fleet.run(prefer=("h3",), lost=["h1"]) == "InstanceUnknown" and fleet.owners() == ["h2"]


@pytest.mark.parametrize("lie", ["after", "known"])
def test_of_what_a_host_that_is_removed_miscounts_the_others_are_told_nothing(fleet, lie):
    """They would all say it from then on, and nobody could make the instance again."""
    says_of_itself(fleet, "h1", lie, 1 << 40)
    told = telling.remembered_by(fleet.read(), "h1")
    for host in ("h2", "h3"):
        fleet.hosts[host].rescan((), told)
    del fleet.inventory["h1"]
    assert fleet.run(prefer=("h2",), lost=["h1", "h9"]) is None and fleet.owners() == ["h2"]


@pytest.mark.follows("take_out_miscounting")
def test_the_copy_that_stays_does_not_count_on_from_another_that_miscounts(fleet):
    """Its own host's replies would be refused from then on, with all of its instances."""
    assert fleet.run() is None
    plant(fleet.hosts["h2"].store, fleet.hosts["h1"].record().replace(generation=[1 << 40, 0]))
    with pytest.raises(counting.EpochImplausible, match="h2") as caught:
        keep_one.choose(fleet.read(), "web1", WEB, "h1", True, ())
    assert caught.value.hint == state_hints.take_out_miscounting("h2")
    del fleet.inventory["h2"]
    assert keep_one.choose(fleet.read(), "web1", WEB, "h1", True, ()).others == []


@pytest.mark.parametrize("action", ["start", "delete", "move"])
def test_nothing_is_done_with_an_owner_that_miscounts(fleet, action):
    """Whoever takes the instance over from it would count on from there: its replies would be refused."""
    assert fleet.run() is None
    home, here = fleet.hosts["h1"], {"role": "OWN", "generation": [1 << 40, 0]}
    home.store.compare_and_swap(home.record(), home.record().replace(generation=here["generation"]))
    seen = fleet.read()
    operations = {
        "start": lambda: locate.locate(seen, "web1", WEB),
        "delete": lambda: locate.locate_to_delete(seen, "web1", WEB),
        "move": lambda: sides.check(seen, WEB, "web1", ("h1", here, None, sides.NOTHING)),
    }
    with pytest.raises(counting.EpochImplausible) as caught:
        operations[action]()
    assert caught.value.hint == state_hints.take_out_miscounting("h1")


LAST = counting.MOST - 1  # the highest of which a single number says nothing


@pytest.mark.follows("take_out_miscounting")
@pytest.mark.parametrize("lie", ["gone", "left", "after"])
def test_no_new_owner_counts_on_from_far_beyond_what_all_other_hosts_have_heard_of(fleet, lie):
    """The next owner would be the honest host whose record is refused, for good."""
    says_of_itself(fleet, "h1", lie, LAST)
    assert fleet.run(prefer=("h2",)) == "EpochImplausible"
    assert fleet.hint == state_hints.take_out_miscounting("h1") and fleet.hosts["h2"].record() is None
    del fleet.inventory["h1"]
    assert fleet.run(prefer=("h2",)) is None and fleet.hosts["h2"].record().generation[0] == 1


def test_what_a_single_host_may_say_leaves_the_next_owner_of_use(fleet):
    """The highest number that is believed: what was made after it is used, deleted and made again."""
    says_of_itself(fleet, "h1", "gone", notes.LEAP - 1)
    for _time in range(3):
        assert fleet.run(prefer=("h2", "h3")) is None and fleet.run() is None
        fleet.start()
        assert fleet.delete() == ["h2"]


def test_a_plan_after_far_more_owners_than_can_be_is_counted_like_the_others(fleet):
    """A person gives the planned host up: what may have been made there is not counted on from."""
    lie = {"known": None, "planned": [{"host": "h9", "host_uuid": "id-h9", "run": "r0"}], "gone": None, "left": None}
    fleet.hosts["h1"].facts = lambda facts=fleet.hosts["h1"].facts: {**facts(), "notes": {WEB: {**lie, "after": LAST}}}
    seen = fleet.read()
    assert notes.latest_with_lost(seen.notes_on(WEB), seen.answers(["h9"])) == (1, 0)


@pytest.mark.follows("take_out_miscounting")
@pytest.mark.parametrize("lost", [(), ("h9",)], ids=["", "lost"])
def test_a_plan_that_only_a_host_remembers_that_miscounts_leads_to_that_host(fleet, lost):
    """recover_record would be of no use: however far it counts, that plan would come after it."""
    assert fleet.run(prefer=("h2",)) is None
    plan = {"host": "h9", "host_uuid": "id-h9", "run": "r0"}
    lie = {"known": None, "planned": [plan], "after": LAST, "gone": None, "left": None}
    fleet.hosts["h1"].facts = lambda *_about, facts=fleet.hosts["h1"].facts: {**facts(), "notes": {WEB: lie}}
    with pytest.raises(counting.EpochImplausible) as caught:
        locate.locate_to_run(fleet.read(), "web1", WEB, lost)
    assert caught.value.hint == state_hints.take_out_miscounting("h1")
    del fleet.inventory["h1"]
    assert locate.locate_to_run(fleet.read(), "web1", WEB) == ["h2"]


@pytest.mark.parametrize("epoch", [counting.MOST >> 1, LAST])
def test_an_owner_far_beyond_what_all_others_have_heard_of_is_not_told_to_them(fleet, epoch):
    """They would all say it, and whoever gets the instance after that host is lost would count on from there."""
    assert fleet.run() is None
    home = fleet.hosts["h1"]
    home.store.compare_and_swap(home.record(), home.record().replace(generation=[epoch, 0]))
    assert telling.whereabouts(fleet.read())["known"] == {}
    with pytest.raises(counting.EpochImplausible, match="h1"):
        plant(fleet.hosts["h2"].store, home.record().replace(generation=[1, 0]))
        keep_one.choose(fleet.read(), "web1", WEB, "h2", True, ())


def test_what_a_builder_counts_that_was_not_asked_to_is_not_told(fleet):
    fleet.hosts["h1"].build = lambda _token: {"changed": True, "instance": {"generation": [LAST, 0]}}
    assert fleet.run() is None
    known = [whereabouts.recall(fleet.hosts[host].store, [WEB]).get(WEB, {}).get("known") for host in ("h2", "h3")]
    assert known == [None, None]


@pytest.mark.follows("take_out_miscounting")
@pytest.mark.parametrize("owner", ["h2", "h9"])
@pytest.mark.parametrize("epoch", [notes.LEAP + 9, LAST])
def test_an_owner_that_one_host_alone_remembers_far_too_late_leads_to_that_host(fleet, owner, epoch):
    """recover_record would be of no use: it does not count on from there, so it finds nothing that is to come back."""
    assert fleet.run(prefer=("h2",)) is None
    says_of_itself(fleet, "h1", "known", epoch, owner)
    lost = ["h9"] if owner == "h9" else []
    with pytest.raises(counting.EpochImplausible) as caught:
        locate.locate_to_run(fleet.read(), "web1", WEB, lost)
    assert caught.value.hint == state_hints.take_out_miscounting("h1")
    assert locate.locate_to_take_back(fleet.read(), "web1", WEB, lost) == []
    del fleet.inventory["h1"]
    assert locate.locate_to_run(fleet.read(), "web1", WEB) == ["h2"]


@pytest.mark.follows("take_out_miscounting")
def test_no_claim_far_beyond_what_all_hosts_have_heard_of_is_taken(fleet):
    """If the build fails there, another host would count on from it."""
    h1, token = fleet.hosts["h1"], "r0-0001"
    assert h1.claim_one({"token": token, "after": [0, 0]})["claimed"]
    plant(h1.store, h1.record().replace(generation=[LAST, 1]))
    assert fleet.run(prefer=("h2",)) == "EpochImplausible" and fleet.hosts["h2"].record() is None
    del fleet.inventory["h1"]
    assert fleet.run(prefer=("h2",)) is None and fleet.owners() == ["h2"]


def test_what_was_made_after_the_highest_number_that_is_believed_is_told_to_a_host_that_joins(fleet):
    """The host that had said it is gone, and nobody else has heard of any of it. Else that one makes a second copy."""
    newcomer = fleet.inventory.pop("h3")
    says_of_itself(fleet, "h1", "after", notes.LEAP - 1)
    assert fleet.run(prefer=("h2",)) is None
    del fleet.inventory["h1"]
    fleet.inventory["h3"] = newcomer
    assert fleet.run() is None
    fleet.silence("h2")
    assert fleet.run(prefer=("h3",)) == "InstanceUnknown" and fleet.owners() == ["h2"]
