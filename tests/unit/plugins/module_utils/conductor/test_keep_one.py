# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several hosts own one instance, and a person has said which copy stays."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.conductor import gossip, keep_one
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import (
    DuplicateRuns,
    HostNotLost,
    InstanceMoving,
    InstanceUnknown,
)
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.notes import check_owner
from ansible_collections.berth.kvm.plugins.module_utils.model import copy_hints, state_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput

WEB = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"


def fleet(verdicts=None, **copies):
    """A fleet of h1 ...: what each has of the instance, {generation, ...}."""
    documents = {}
    for number, (host, changes) in enumerate(copies.items()):
        copy = {
            "uuid": WEB,
            "role": "OWN",
            "phase": "active",
            "vm_state": "active",
            "power_state": "shutdown",
            **changes,
        }
        documents[host] = {"uuid": "host-%d" % number, "instances": [copy]}
    return Fleet(documents, verdicts or {})


def choose(copies, stays="h1", confirmed=False, verdicts=None, lost=()):
    return keep_one.choose(fleet(verdicts, **copies), "web1", WEB, stays, confirmed, lost)


def test_the_copy_that_stays_passes_the_highest_of_all_others():
    """Whatever the others wrote, each of them is behind it from then on."""
    choice = choose({"h1": {"generation": [1, 9]}, "h2": {"generation": [2, 1]}, "h3": {"generation": [4, 0]}})
    assert (choice.stays, choice.others, choice.above) == ("h1", ["h2", "h3"], [4, 0])


def test_of_copies_that_run_none_is_set_aside_before_a_person_has_looked():
    copies = {
        host: {"generation": [1, 1], "power_state": power} for host, power in (("h1", "running"), ("h2", "paused"))
    }
    with pytest.raises(DuplicateRuns, match="h1 and on h2"):
        choose(copies)
    assert choose(copies, confirmed=True).others == ["h2"]


def test_one_that_runs_and_one_that_is_off_need_no_second_word():
    assert choose({"h1": {"generation": [1, 1], "power_state": "running"}, "h2": {"generation": [1, 1]}}).others == [
        "h2"
    ]


def test_a_host_that_does_not_own_it_is_not_where_it_stays():
    copies = {"h1": {"generation": [1, 1], "role": "OUT", "phase": "keep"}, "h2": {"generation": [2, 1]}}
    with pytest.raises(InvalidInput, match="h2"):
        choose(copies)


def test_what_is_no_owner_is_not_set_aside():
    copies = {"h1": {"generation": [1, 1]}, "h2": {"generation": [0, 1], "role": "CLAIM", "phase": "claimed"}}
    assert choose(copies) == keep_one.Choice("h1", [], [])


@pytest.mark.parametrize("reason", ["UNREACHABLE: no answer", "LibvirtUnavailable: libvirtd is off"])
def test_while_a_host_is_silent_nobody_says_that_there_is_one_copy(reason):
    copies, verdicts = {"h1": {"generation": [1, 1]}}, {"h2": reason}
    with pytest.raises(InstanceUnknown, match="another copy may be on h2"):
        choose(copies, verdicts=verdicts)
    assert choose(copies, verdicts=verdicts, lost=["h2"]).others == []
    copies["h3"] = {"generation": [2, 1]}
    assert choose(copies, verdicts=verdicts).others == ["h3"]  # that one is set aside all the same


@pytest.mark.parametrize("moving", ["h1", "h2"])
def test_a_copy_on_the_move_is_not_chosen_from(moving):
    copies = {host: {"generation": [1, 1]} for host in ("h1", "h2")}
    copies[moving].update(phase="resized")
    with pytest.raises(InstanceMoving, match=moving):
        choose(copies)


@pytest.mark.follows("keep_what_moves")
@pytest.mark.parametrize("phase", ["resizing", "resized"])
def test_the_later_copy_stays_though_it_is_in_a_move_and_is_set_aside_by_nobody(phase):
    """An older copy came back with a backup: without a way to put that away the move could never end."""
    copies = {"h1": {"generation": [1, 5]}, "h2": {"generation": [2, 2], "phase": phase}}
    with pytest.raises(InstanceMoving) as refused:
        choose(copies)
    assert refused.value.hint == copy_hints.keep_what_moves("web1", "h2")
    assert choose(copies, "h2") == keep_one.Choice("h2", ["h1"], [1, 5])


@pytest.mark.follows("forget_old_move")
def test_a_copy_in_a_move_that_is_not_the_later_one_is_not_kept_and_goes_as_the_hint_says():
    """Its host was given up as lost, and is back. Neither a confirm nor a revert takes a move of which another owns the instance."""
    copies = {"h1": {"generation": [3, 1]}, "h2": {"generation": [2, 2], "phase": "resized"}}
    for stays in copies:
        with pytest.raises(InstanceMoving) as refused:
            choose(copies, stays)
        assert refused.value.hint == state_hints.forget_old_move(WEB, "h2", "h1")
    del copies["h2"]
    assert choose(copies).others == []


# ---- the host of the copy that had stayed is lost --------------------------------------------------------------------

ASIDE = {"generation": [1, 7], "phase": "setting_aside"}
SILENT = {"h2": "UNREACHABLE: no answer"}


def known_on(there, generation):
    """What h1 remembers: h2 was the owner at this generation."""
    known = {"host": "h2", "host_uuid": "host-h2", "generation": generation}
    there.notes["host-0"] = {WEB: {"known": known, "planned": [], "after": 0, "gone": None, "left": None}}
    return there


@pytest.mark.parametrize("heard", [None, [2, 0], [5, 3]])
def test_what_was_set_aside_for_a_copy_on_a_lost_host_comes_back_above_that_copy(heard):
    there = fleet(SILENT, h1=ASIDE)
    there = known_on(there, heard) if heard else there
    choice = keep_one.choose(there, "web1", WEB, "h1", False, ["h2"])
    assert (choice.comes_back, choice.others, choice.above) == (True, [], [max(2, (heard or [0])[0]), 0])


@pytest.mark.parametrize("heard", [None, [2, 0]])
def test_it_does_not_come_back_unless_a_person_gives_up_every_host_that_may_have_the_other(heard):
    there = fleet({**SILENT, "h3": "UNREACHABLE: no answer"}, h1=ASIDE)
    there = known_on(there, heard) if heard else there
    for lost in (["h2"], ["h3"]):
        with pytest.raises(InstanceUnknown):
            keep_one.choose(there, "web1", WEB, "h1", False, lost)
    assert not keep_one.choose(fleet({}, h1=ASIDE), "web1", WEB, "h1", False, []).comes_back


def test_it_does_not_come_back_beside_a_host_that_answers():
    with pytest.raises(HostNotLost):
        choose({"h1": ASIDE, "h2": {"generation": [0, 1], "role": "CLAIM", "phase": "claimed"}}, lost=["h2"])
    with pytest.raises(InstanceMoving, match="setting_aside"):
        choose({"h1": ASIDE, "h2": {"generation": [2, 0]}}, lost=["h2"])
    with pytest.raises(InstanceMoving):
        choose(
            {"h1": ASIDE, "h3": {"generation": [0, 1], "role": "CLAIM", "phase": "claimed"}},
            verdicts=SILENT,
            lost=["h2"],
        )
    with pytest.raises(InvalidInput, match="berth_lost_hosts"):
        choose({"h1": ASIDE}, lost=["nobody-knows-it"])


def test_one_that_has_no_record_is_looked_for_among_what_was_set_aside():
    there = fleet(SILENT, h1={**ASIDE, "uuid": "another"})
    choice = keep_one.choose(there, "web1", WEB, "h1", False, ["h2"])
    assert (choice.comes_back, choice.listed) == (True, True)


def test_one_that_only_counts_less_comes_back_and_the_one_that_counts_is_left_alone():
    there = known_on(fleet(SILENT, h1={"generation": [1, 7]}), [2, 0])
    assert keep_one.choose(there, "web1", WEB, "h1", False, ["h2"]).comes_back
    there = known_on(fleet(SILENT, h1={"generation": [3, 0]}), [2, 0])
    assert not keep_one.choose(there, "web1", WEB, "h1", False, ["h2"]).comes_back


def test_a_lost_host_that_is_back_does_nothing_while_the_copy_that_came_back_is_silent():
    """All hosts that answered know the plan from before it came back."""
    told = gossip.will_own(fleet(SILENT, h1=ASIDE), WEB, "h1", 2, "run")
    notes = whereabouts.Notes()
    notes.take_in(told)
    assert (notes.planned, notes.after) == ({WEB: {("host-0", "run")}}, {WEB: 2})
    note = {"known": None, "planned": [{"host": "h1", "host_uuid": "host-0", "run": "run"}], "after": 2}
    back = Fleet({"h2": {"uuid": "host-h2", "instances": []}}, {"h1": SILENT["h2"]}, {"host-h2": {WEB: note}})
    with pytest.raises(InstanceUnknown, match="made it anew on h1"):
        check_owner("web1", "h2", (2, 4), back.notes_on(WEB), back.answers())


@pytest.mark.follows("keep_the_other")
@pytest.mark.parametrize("phase", ["setting_aside", "deleting"])
@pytest.mark.parametrize("lost", [(), ("h2",)], ids=["", "its host was lost and is back"])
def test_a_copy_that_a_killed_run_was_putting_away_cannot_stay_and_the_hint_ends_that_run(phase, lost):
    copies = {"h1": {"generation": [1, 9], "phase": phase}, "h2": {"generation": [2, 0]}}
    with pytest.raises(InstanceMoving, match="web1 on h1 is in %s" % phase) as refused:
        choose(copies, stays="h1", lost=lost)
    assert refused.value.hint == copy_hints.keep_the_other("web1", "h1", ["h2"])
    choice = choose(copies, stays="h2", lost=lost)
    assert (choice.stays, choice.others, choice.above) == ("h2", ["h1"], [1, 9])
