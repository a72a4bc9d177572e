# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host is told what it does not remember, and remembers the same afterwards as if it had been told everything."""

from __future__ import annotations

import copy
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ansible_collections.berth.kvm.plugins.module_utils.compute.record.whereabouts import Notes
from ansible_collections.berth.kvm.plugins.module_utils.conductor import gossip
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.gossip import Gossip

HOSTS = ["host-%d" % number for number in range(4)]
# Several in one part, others in parts of their own.
INSTANCES = ["aa-1", "aa-2", "aa-3", "bb-1", "cc-1"]
GENERATIONS = some.tuples(some.integers(1, 2), some.integers(0, 2))
OWNERS = some.dictionaries(some.sampled_from(INSTANCES), some.tuples(some.sampled_from(HOSTS), GENERATIONS))
NAMES = some.fixed_dictionaries({host: some.sampled_from([host + "-name", host + "-renamed"]) for host in HOSTS})
PLANS = some.lists(
    some.fixed_dictionaries(
        {
            "uuid": some.sampled_from(INSTANCES),
            "host_uuid": some.sampled_from(HOSTS),
            "run": some.sampled_from(["r-1", "r-2"]),
        }
    ),
    max_size=2,
)


@some.composite
def tellings(draw):
    names = draw(NAMES)
    told = {"hosts": names, "known": {}, "gone": {}, "planned": draw(PLANS), "ended": draw(PLANS)}
    told["planned"] = [plan for plan in told["planned"] if plan["host_uuid"] in names]
    for instance, (host, generation) in draw(OWNERS).items():
        if host in names:
            told["known"].setdefault(host, {})[instance] = list(generation)
    for instance, (host, generation) in draw(OWNERS).items():
        told["gone"].setdefault(host, {})[instance] = list(generation)
    return told


def after(notes, told):
    notes = copy.deepcopy(notes)
    notes.take_in(told)
    return notes.to_dict()


@pytest.mark.parametrize("most", [gossip.MOST_PARTS, 1], ids=["parts", "all where many differ"])
def test_a_host_remembers_the_same_whether_it_is_told_everything_or_what_it_does_not_remember(monkeypatch, most):
    monkeypatch.setattr(gossip, "MOST_PARTS", most)

    # The host was told something, was silent for a while or not, and hears the last of it.
    @settings(max_examples=100, deadline=None)
    @given(some.lists(tellings(), max_size=3), tellings())
    def same(before, told):
        notes = Notes()
        for earlier in before:
            notes.take_in(earlier)
        notes = Notes.from_dict(notes.to_dict())  # as the next run reads them
        digests = notes.digests()
        assert after(notes, Gossip(told).to(digests)) == after(notes, told)
        # the same again is told to the host in the fewest words, and changes nothing
        notes.take_in(told)
        notes = Notes.from_dict(notes.to_dict())
        assert after(notes, Gossip(told).to(notes.digests())) == after(notes, told)

    same()


def fleet_told(hosts=30, instances=20):
    owners = {"host-%d" % host: {str(uuid.uuid4()): [1, 4] for _each in range(instances)} for host in range(hosts)}
    return {"hosts": {host: host + "-name" for host in owners}, "known": owners, "gone": {}}


def renamed(told):
    told["hosts"]["host-1"] = "another-name"


def written_again(told):
    next(iter(told["known"]["host-1"].values()))[1] += 1


def made_anew(told):
    next(iter(told["known"]["host-1"].values()))[0] += 1


def moved(told):
    instance = next(iter(told["known"]["host-1"]))
    told["known"]["host-2"][instance] = [2, 0]
    del told["known"]["host-1"][instance]


def moved_back_to_where_it_was_at_the_same_generation(told):
    instance = next(iter(told["known"]["host-1"]))
    told["known"]["host-2"][instance] = told["known"]["host-1"].pop(instance)


def created(told):
    told["known"]["host-1"][str(uuid.uuid4())] = [1, 0]


def deleted(told):
    told["gone"]["host-1"] = {told["known"]["host-1"].popitem()[0]: [1, 5]}


CHANGES = (renamed, written_again, made_anew, moved, moved_back_to_where_it_was_at_the_same_generation)


@pytest.mark.parametrize("change", [*CHANGES, created, deleted], ids=lambda change: change.__name__)
def test_each_change_since_the_host_was_told_reaches_it(change):
    told, notes = fleet_told(hosts=3, instances=5), Notes()
    notes.take_in(told)
    told = copy.deepcopy(told)
    change(told)
    expected = after(notes, told)
    assert after(notes, Gossip(told).to(notes.digests())) == expected
    changes_the_notes = change is not moved_back_to_where_it_was_at_the_same_generation
    assert (expected != notes.to_dict()) == changes_the_notes


def test_a_host_that_remembers_everything_is_told_of_the_plans_alone():
    told, notes = fleet_told(), Notes()
    notes.take_in(told)
    planned = [{"uuid": "dd", "host_uuid": "host-3", "run": "r-1"}]
    own = Gossip({**told, "planned": planned}).to(notes.digests())
    assert own == {"hosts": {"host-3": "host-3-name"}, "known": {}, "gone": {}, "planned": planned}


def test_of_one_change_a_host_is_told_a_small_part():
    told, notes = fleet_told(hosts=300), Notes()
    notes.take_in(told)
    host, owned = next(iter(told["known"].items()))
    changed = next(iter(owned))
    owned[changed] = [2, 0]
    own = Gossip(told).to(notes.digests())["known"]
    assert own[host][changed] == [2, 0]
    assert sum(map(len, own.values())) < 6000 / 256 * 3


def test_a_host_that_says_no_digests_is_told_everything():
    told = fleet_told()
    assert Gossip(told).to(None) == told


def test_what_failed_on_the_host_is_told_again():
    """It is in error there no more when somebody has it."""
    told, notes = fleet_told(), Notes()
    notes.take_in(told)
    failed = next(iter(told["known"]["host-0"]))
    own = Gossip(told).to(notes.digests(but=[failed]))
    assert failed in own["known"]["host-0"]


def test_hosts_are_told_who_owns_what_and_no_claims():
    parts = {"foreign": False, "phase": "active", "group": None, "project_id": "default"}
    held = [
        {"uuid": "a", "name": "a", "role": "OWN", "generation": [1, 7], **parts},
        {"uuid": "b", "name": "b", "role": "CLAIM", **parts},
    ]
    fleet = read_fleet({"h1": {"document": {"uuid": "id-h1", "instances": held}}}, dict)
    told = gossip.whereabouts(fleet)
    assert told == {"hosts": {"id-h1": "h1"}, "known": {"id-h1": {"a": [1, 7]}}, "gone": {}, "members": {}}
