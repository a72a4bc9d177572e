# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts that Ansible keeps: how old they may be, which of two count, and what the inventory adds to them."""

from __future__ import annotations

import platform
import time

import pytest
from placement_case import VM, controller, facts

from ansible_collections.berth.kvm.plugins.plugin_utils import kept_facts
from ansible_collections.berth.kvm.plugins.plugin_utils.answers_of_hosts import read_reports

CACHING = {"berth_placement": {"driver": "caching"}}
STATE = {"id": "a" * 32, "serial": 4, "fault": None}


def read_at(ago, by=None):
    return {kept_facts.READ: {"at": int(time.time()) - ago, "by": platform.node() if by is None else by}}


def verdicts(stamp, options):
    it = controller(
        {"a": VM}, options, more_facts={"h1": {**facts("h1"), **stamp}, "h2": {**facts("h2"), **read_at(0)}}
    )
    return it.run("placement", {"instances": ["a"]})["verdicts"]


STAMPS = {
    "too old": lambda: read_at(61),
    "of the future": lambda: read_at(-100),
    "another controller's": lambda: read_at(0, by="another"),
    "none": dict,
    "no stamp": lambda: {kept_facts.READ: "x"},
}


@pytest.mark.parametrize("case", STAMPS)
def test_the_caching_driver_takes_no_facts_that_are_too_old_or_of_an_unknown_age(case):
    """S05"""
    stamp = STAMPS[case]()
    assert "only facts of at most 60 s are used" in verdicts(stamp, CACHING)["h1"]
    assert not verdicts(stamp, {"berth_placement": {"driver": "caching", "periodic_task_interval": -1}})
    assert not verdicts(stamp, {}), "the filter driver takes what it is given"


def test_facts_that_are_young_enough_count():
    """S05"""
    assert not verdicts(read_at(30), CACHING)
    assert verdicts(read_at(30), {"berth_placement": {"driver": "caching", "periodic_task_interval": 20}})


def test_the_time_of_facts_is_the_controllers_whatever_the_host_says():
    """S05"""
    told = kept_facts.stamped({"ansible_facts": {**facts("h1"), kept_facts.READ: {"at": 1, "by": "liar"}}})
    assert told["ansible_facts"][kept_facts.READ]["at"] >= time.time() - 5
    assert kept_facts.stamped({"failed": True}) == {"failed": True}


def seen(answered, kept, silent=False, answered_at=None, kept_at=None):
    """The generation that a run goes on with."""
    known = {**facts("h1", **kept), **(read_at(10) if kept_at is None else kept_at)}
    it = controller({"a": VM}, more_facts={"h1": known, "h2": facts("h2")})
    told = {**facts("h1", **answered), **(read_at(20) if answered_at is None else answered_at)}
    answer = {"reason": "UNREACHABLE"} if silent else {"ansible_facts": told}
    it.register("localhost", __berth_facts={"answers": {"h1": answer}})
    fleet = read_reports({**it.task_vars(), "inventory_hostname": "localhost"}, ["h1"])
    return fleet.documents["h1"]["generation"] if fleet.documents else fleet.verdicts["h1"]


def test_an_answer_of_a_lower_generation_than_the_facts_that_were_kept_since_is_ignored():
    """S16"""
    assert seen({"generation": 7, "state": STATE}, {"generation": 9, "state": STATE}) == 9
    assert seen({"generation": 9, "state": STATE}, {"generation": 7, "state": STATE}) == 9


@pytest.mark.parametrize(
    "kept",
    [
        {"state": {**STATE, "id": "b" * 32}},
        {"state": {**STATE, "id": None}},
        {"state": {**STATE, "serial": 3}},
        {"state": STATE, "uuid": "9fb5db77-7c22-5c4e-b82b-47d9c0a32c4e"},
        {"state": STATE, "memory_mb": -1},
        {"state": STATE, "generation": True},
        {},
    ],
    ids=["installed anew", "no id", "counts anew", "another host", "broken", "no number", "no state"],
)
def test_facts_that_do_not_compare_never_replace_an_answer(kept):
    """S16: a host that was installed anew counts from 1 again."""
    assert seen({"generation": 7, "state": STATE}, {"generation": 900, **kept}) == 7


@pytest.mark.parametrize(
    "stamps",
    [{"kept_at": read_at(30)}, {"kept_at": read_at(0, by="another")}, {"kept_at": {}}, {"answered_at": {}}],
    ids=["read before", "another controller's", "of an earlier version", "an answer without a time"],
)
def test_facts_that_were_not_read_since_never_replace_an_answer(stamps):
    """A host that was restored from a backup as a whole counts on from there, and a cache of facts still has what it was."""
    assert seen({"generation": 7, "state": STATE}, {"generation": 9, "state": STATE}, **stamps) == 7


def test_facts_that_were_kept_say_nothing_of_a_host_that_is_silent():
    """S16"""
    assert seen({}, {"generation": 9, "state": STATE}, silent=True) == "UNREACHABLE"


def test_the_cell_of_a_host_is_the_inventorys_word_alone():
    """C02"""
    told = {name: facts(name, cell="liar") for name in ("h1", "h2")}
    it = controller({"a": VM, "h1": {"berth_host_cell": "north"}}, more_facts=told)
    fleet = read_reports({**it.task_vars(), "inventory_hostname": "localhost"}, ["h1", "h2"])
    assert [fleet.documents[name].get("cell") for name in ("h1", "h2")] == ["north", None]
