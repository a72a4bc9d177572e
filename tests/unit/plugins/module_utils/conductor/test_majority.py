# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A name that nobody knows is made only where more than half of the hosts that belong to the fleet answer (I1)."""

from __future__ import annotations

import copy
import itertools
import os

import fleet_case
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import state_directory, whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.state_file import StateDamaged
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.conductor import doctor, errors, majority
from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints

FOUR = ("h1", "h2", "h3", "h4")
HALVES = (("h1", "h2"), ("h3", "h4"))


class Cut:
    """A host as a controller sees it that reaches it or not."""

    def __init__(self, host, up):
        self.host, self.up = host, up

    def __getattr__(self, name):
        return getattr(self.host, name)


@pytest.fixture
def four(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_case, "NAMES", FOUR)
    made = fleet_case.Fleet(tmp_path)
    made.agree()
    return made


def view(fleet, names, first=1):
    """The controller of one part of the network, with all hosts in its inventory."""
    seen = copy.copy(fleet)
    seen.inventory = {name: Cut(host, name in names) for name, host in fleet.inventory.items()}
    seen.runs, seen.error = itertools.count(first), None
    return seen


def play(run):
    for _step in run:
        pass


def test_of_two_halves_of_a_network_neither_makes_a_new_instance(four):
    one, other = (view(four, half, 1 + 1000 * at) for at, half in enumerate(HALVES))
    assert (one.run(prefer=FOUR), other.run(prefer=FOUR[::-1])) == ("NoMajority", "NoMajority")
    assert four.owners() == []


def test_a_network_that_is_divided_at_any_moment_of_two_runs_gives_one_instance_at_most(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_case, "NAMES", FOUR)
    made = set()
    for steps, first in itertools.product(range(0, 24, 2), (0, 1)):
        fleet = fleet_case.Fleet(tmp_path / ("%d-%d" % (steps, first)))
        fleet.agree()
        views = [view(fleet, FOUR, 1 + 1000 * at) for at in (0, 1)]
        runs = [views[0].create(prefer=("h1", "h2")), views[1].create(prefer=("h4", "h3"))]
        for _step in range(steps):  # one call of each in turn, then the network is divided
            runs = [run for run in runs if next(run, runs) is not runs]
        for part, half in zip(views, HALVES):
            for name, host in part.inventory.items():
                host.up = name in half
        for run in runs if first else runs[::-1]:
            play(run)
        assert len(fleet.owners()) <= 1, steps
        made.update(fleet.owners())
    assert made, "before it is divided an instance is made"


def test_the_larger_part_makes_it_and_the_smaller_does_not(four):
    assert view(four, ("h4",)).run(prefer=("h4",)) == "NoMajority"
    assert view(four, ("h1", "h2", "h3"), 50).run(prefer=("h1",)) is None and four.owners() == ["h1"]
    assert view(four, ("h1",), 90).run() is None, "what exists is left as it is, however few answer"


@pytest.mark.follows("gain_majority")
def test_who_says_so_for_this_run_gets_it_and_is_told_before_what_to_look_at(four):
    part = view(four, ("h1", "h2"))
    assert part.run() == "NoMajority" and part.hint == fleet_hints.gain_majority(["h3", "h4"])
    assert part.run(without_majority=True) is None and four.owners() == ["h1"]


def test_a_host_that_is_removed_from_the_fleet_lowers_the_count(four):
    four.silence("h3", "h4")
    assert four.run() == "NoMajority"
    four.remove("h4")
    assert four.run() is None


def test_a_host_given_up_as_lost_for_a_run_counts_on_no_side(four):
    """Else both halves would have a majority by the same word."""
    assert view(four, ("h1", "h2")).run(lost=["h3"], prefer=("h1",)) is None
    assert view(four, ("h4",), 90).run(lost=["h3"], prefer=("h4",)) == "NoMajority"
    assert four.owners() == ["h1"]


def test_without_a_list_and_with_two_hosts_it_is_as_before(tmp_path, monkeypatch):
    older = fleet_case.Fleet(tmp_path / "older")
    older.silence("h2", "h3")
    assert older.run() is None
    monkeypatch.setattr(fleet_case, "NAMES", ("h1", "h2"))
    two = fleet_case.Fleet(tmp_path / "two")
    two.agree()
    two.silence("h2")
    assert two.run(prefer=("h1",)) is None


def test_an_inventory_that_lacks_hosts_does_not_make_a_majority(four):
    for name in ("h3", "h4"):
        del four.inventory[name]
    assert four.run() == "NoMajority" and "h3, h4" in four.hint.replace(" or ", ", ")


def test_a_host_that_was_away_learns_the_newer_list_from_a_run(four, tmp_path):
    four.silence("h2")
    four.inventory["h5"] = four.hosts["h5"] = fleet_case.Host(tmp_path, "h5")
    four.agree()
    four.silence()
    assert four.run() is None
    assert "id-h5" in four.hosts["h2"].facts()["members"]


def lists(*own):
    """Each host's list: the members that it knows, each as it was when the host was told first."""
    return {"id-" + host: {"id-" + each: {"name": each, "changes": 1} for each in known} for host, known in own}


ALL = [(host, FOUR) for host in FOUR]


def test_a_host_that_is_added_while_too_few_answer_makes_no_majority():
    told = lists(("h3", FOUR), ("h4", FOUR), ("h6", ("h6",)))
    assert majority.is_missing(told, {"id-h3", "id-h4", "id-h6"})
    with pytest.raises(errors.NoMajority):
        majority.check("web", told, {"id-h3", "id-h4", "id-h6"}, lambda host, uuid: False)


def test_one_host_alone_neither_adds_hosts_nor_removes_them():
    added, removed = lists(*ALL), lists(*ALL)
    added["id-h4"].update({"id-x%d" % at: {"name": "x%d" % at, "changes": 9} for at in range(9)})
    removed["id-h4"] = {uuid: {"name": None, "changes": 9} for uuid in removed["id-h4"]}
    assert majority.agreed(added) == majority.agreed(removed) == lists(*ALL)["id-h1"]


def test_a_host_from_an_old_backup_does_not_bring_its_old_list_back():
    told = lists(*((host, FOUR) for host in FOUR[1:]), ("h1", (*FOUR, "h5", "h6", "h7")))
    for host in FOUR[1:]:
        told["id-" + host].update({"id-h%d" % at: {"name": None, "changes": 2} for at in (5, 6, 7)})
    assert sorted(each for each, entry in majority.agreed(told).items() if entry["name"]) == [
        "id-" + host for host in FOUR
    ]
    two = {uuid: told[uuid] for uuid in ("id-h1", "id-h2")}
    assert majority.agreed(two)["id-h5"]["name"] is None


@pytest.mark.parametrize(
    "names, changed",
    [
        ({"id-h4": "h4"}, {}),
        ({"id-h4": "kvm4"}, {"id-h4": {"name": "kvm4", "changes": 2}}),
        ({"new": "h4"}, {"id-h4": {"name": None, "changes": 2}, "new": {"name": "h4", "changes": 1}}),
        ({"id-h5": "h5"}, {"id-h5": {"name": "h5", "changes": 1}}),
    ],
    ids=["as before", "renamed", "reinstalled", "added"],
)
def test_prepare_hosts_changes_what_is_new_and_a_reinstalled_host_takes_its_old_place(names, changed):
    assert majority.joined(lists(*ALL), names) == changed


def test_a_removed_host_that_comes_back_to_the_fleet_is_a_member_again():
    told = lists(*ALL)
    gone = majority.removed(told, "h4")
    for own in told.values():
        own.update(gone)
    assert majority.agreed(told)["id-h4"] == {"name": None, "changes": 2}
    assert majority.joined(told, {"id-h4": "h4"}) == {"id-h4": {"name": "h4", "changes": 3}}


@pytest.mark.follows("join_the_fleet")
def test_the_doctor_names_hosts_that_do_not_count_until_they_were_prepared(tmp_path):
    older = fleet_case.Fleet(tmp_path)

    def found():
        seen = older.read()
        case = doctor.Case(seen, {}, {}, sorted(seen.documents), (1.0, 1.0), {})
        return [(one.code, one.severity, one.todo) for one in doctor.examine(case) if one.code == "MembersUnknown"]

    assert found() == [("MembersUnknown", "warning", fleet_hints.join_the_fleet())]
    older.agree()
    assert found() == []


def test_a_host_takes_in_only_later_changes_of_an_entry(store):
    whereabouts.take_in_members(store, {"a": {"name": "kvm1", "changes": 2}, "b": {"name": "kvm2", "changes": 1}})
    whereabouts.take_in_members(store, {"a": {"name": None, "changes": 1}, "b": {"name": None, "changes": 2}})
    assert whereabouts.read_members(store.state_dir) == {
        "a": {"name": "kvm1", "changes": 2},
        "b": {"name": None, "changes": 2},
    }


def test_a_damaged_list_is_never_taken_for_none(store):
    whereabouts.take_in_members(store, {"a": {"name": "kvm1", "changes": 1}})
    with open(os.path.join(store.state_dir, whereabouts.MEMBERS_FILE), "w") as file:
        file.write('{"a": ["kvm1"]}')
    with pytest.raises(StateDamaged):
        whereabouts.read_members(store.state_dir)


@pytest.fixture
def store(tmp_path):
    made = Store(str(tmp_path / "state"))
    state_directory.establish(made)
    return made
