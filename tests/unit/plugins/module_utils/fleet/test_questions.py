# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What moves where, what would be with other hosts, and assertions about where instances are."""

from __future__ import annotations

import dataclasses

import pytest
import yaml
from plans_case import fleet, group, instance

from ansible_collections.berth.kvm.plugins.module_utils.fleet import assertions, questions
from ansible_collections.berth.kvm.plugins.module_utils.fleet.questions import Movable, movability, with_more
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput

RACKS = [
    {"name": "r1", "hosts": ["a", "b"], "metadata": {"rack": "r1"}},
    {"name": "r2", "hosts": ["c"], "metadata": {"rack": "r2"}},
]


def test_no_more_are_counted_of_a_host_than_asked_for():
    found = fleet({"a": 8, "b": 2}, [])
    request = instance("x", "a", 1).request
    assert questions.capacity(found, request, most=4).of_host == {"a": 4, "b": 2}


def test_an_instance_moves_to_the_hosts_that_would_take_it_and_not_to_others_with_the_reason():
    found = fleet({"a": 8, "b": 8, "c": 2}, [instance("x", "a", 4), instance("y", "b", 4, fixed="y is locked")])
    one, other = movability(found, found)
    assert (one.name, one.how, one.to) == ("x", "live", ["b"])
    assert ["c"] in one.reasons.values() and "MEMORY_MB" in "".join(one.reasons)
    assert other == Movable("y", "b", "no", [], {"y is locked": ["a", "c"]})


def test_what_would_not_move_while_it_runs_moves_cold():
    live = fleet({"a": 8, "b": 8}, [instance("x", "a", fixed="it has snapshots")])
    cold = fleet({"a": 8, "b": 8}, [instance("x", "a", how="cold")])
    (found,) = movability(live, cold)
    assert (found.how, found.to) == ("cold", ["b"])


def test_members_of_an_affinity_group_are_movable_where_all_of_them_fit():
    pair = group("pair", "affinity")
    members = [instance("x", "a", 2, group=pair), instance("y", "a", 2, group=pair)]
    found = fleet({"a": 8, "b": 3, "c": 4}, members)
    assert [each.to for each in movability(found, found)] == [["c"], ["c"]]
    held = fleet({"a": 8, "c": 8}, [members[0], dataclasses.replace(members[1], fixed="y is locked")])
    assert [each.how for each in movability(held, held)] == ["no", "no"]


def test_one_more_host_like_another_is_empty_and_in_its_aggregates():
    zone = [{"name": "az", "hosts": ["a"], "metadata": {"availability_zone": "az"}}]
    found = fleet({"a": 4, "b": 4}, [instance("x", "a", 4)], zone, service={"disabled": True, "up": True})
    request = instance("n", "a", 2, availability_zone="az").request
    more = with_more(found, ["a", "a"])
    assert questions.capacity(more, request).count == 4 and questions.capacity(found, request).count == 0
    assert questions.capacity(more, request).count == 4 and sorted(found.documents) == ["a", "b"]


def test_without_a_host_its_instances_take_room_on_the_others_first():
    found = fleet({"a": 4, "b": 6}, [instance("x", "a", 4)])
    request = instance("n", "a", 2).request
    assert (questions.capacity(found, request).count, questions.capacity(found, request, gone=["a"]).count) == (3, 1)
    assert questions.without_place(found, ["a"]) == []
    assert questions.without_place(fleet({"a": 4, "b": 3}, [instance("x", "a", 4)]), ["a"]) == ["x"]


def test_survival_without_a_host_counts_its_instances_among_those_that_need_a_place():
    found = fleet({"a": 4, "b": 4, "c": 4}, [instance(name, name, 2) for name in "abc"])
    assert questions.survive(found, 1).hosts == ()
    assert questions.survive(found, 1, away=["c"]).hosts


def test_no_instance_survives_where_no_host_is_left():
    found = fleet({"a": 4, "b": 4}, [instance("web", "a", 2)])
    assert questions.survive(found, 1, away=["a", "b"]).names == ["web"]
    assert questions.survive(found, 3).names == ["web"]


def held(*entries, instances=None):
    here = instances or [instance("web1", "a"), instance("web2", "c"), instance("db", "b", 2)]
    read = assertions.read([{"name": "it", **each} for each in entries], "file")
    flavors = {"small": instance("n", "a", 2).request}
    return [each.why for each in assertions.check(fleet({"a": 4, "b": 4, "c": 4}, here, RACKS), read, flavors)]


WEB = "starts_with(name, 'web')"


@pytest.mark.parametrize(
    "entry",
    [
        {"instances": WEB, "spread": "rack"},
        {"instances": WEB, "spread": "host"},
        {"instances": "name=='db'", "host": "aggregates[?metadata.rack=='r1']"},
        {"survive": 1},
        {"room": {"small": 3}},
        {"query": "length(instances[?host=='a']) == `1`"},
    ],
)
def test_an_assertion_that_holds_says_nothing(entry):
    assert held(entry) == [""]


@pytest.mark.parametrize(
    "entry, said",
    [
        ({"instances": "name!='web2'", "spread": "rack"}, "r1 has db, web1; at most 1 of each rack is even"),
        ({"instances": WEB, "spread": "shelf"}, "which has no shelf"),
        ({"instances": WEB, "host": "host=='a'"}, "web2 is on c"),
        ({"instances": "name=='gone'", "host": "host=='a'"}, "selects no instance"),
        ({"room": {"small": 9}}, "3 more of small fit, not 9"),
        ({"query": "length(hosts) > `3`"}, "is not so"),
    ],
)
def test_an_assertion_that_does_not_hold_says_why(entry, said):
    assert said in held(entry)[0]


@pytest.mark.parametrize("wrong", [{"survive": 9}, {"room": {"large": 1}}])
def test_each_assertion_that_cannot_be_meant_is_told(wrong):
    """Those of one shape in the file, then, if that is right, those that the fleet does not know."""
    with pytest.raises(InvalidInput) as told:
        held(wrong, {"survive": 1}, {**wrong, "name": "other"})
    assert len([told.value, *told.value.also]) == 2


def test_each_key_of_an_assertion_is_text_in_yaml():
    """on and off would be truth values."""
    assert all(yaml.safe_load("%s: x" % key) == {key: "x"} for key in assertions.KEYS)


def test_hosts_that_may_not_fail_are_named():
    full = [instance("x", "a", 4), instance("y", "b", 4), instance("z", "c", 1)]
    assert held({"survive": 1}, instances=full)[0].startswith("without a no place was found for x")


@pytest.mark.parametrize(
    "entry, field",
    [
        ({}, "it"),
        ({"instances": WEB}, "it"),
        ({"survive": 1, "room": {"small": 1}}, "it"),
        ({"survive": 9}, r"\[0\].survive"),
        ({"instances": WEB, "hst": "host=='a'"}, r"\[0\].hst"),
        ({"query": "instancs[0].name"}, r"\[0\].query"),
        ({"room": {"large": 1}}, "it"),
        ({"room": {}}, r"\[0\].room"),
        ({"room": {"small": 0}}, r"\[0\].room.small"),
    ],
)
def test_an_assertion_that_cannot_be_meant_is_refused_and_names_it(entry, field):
    with pytest.raises(InvalidInput, match="berth_assertions.*: %s" % field):
        held(entry)


def test_all_faults_of_a_file_of_assertions_are_told_together():
    wrong = [
        {"name": "a", "instance": "name=='x'", "spread": "rack"},
        {"survive": "one"},
        {"name": "q", "query": "length(instances"},
        {"name": "s", "instances": "nam=='x'", "host": "free=='x'"},
    ]
    with pytest.raises(InvalidInput) as refused:
        assertions.read(wrong, "f.yml")
    told = str(refused.value)
    for part in ("[0].instance: 'instance'", "[1].name", "[2].query", "[3].instances", "[3].host"):
        assert "berth_assertions f.yml: " + part in told, told
    assert "Did you mean instances?" in told and "Did you mean name?" in told


def test_all_faults_of_one_assertion_are_told_together():
    with pytest.raises(InvalidInput) as refused:
        assertions.read([{"name": 7, "survive": "one", "query": "hosts[?"}], "f.yml")
    for part in ("[0].name: 7", "[0].survive: 'one'", "[0].query"):
        assert "berth_assertions f.yml: " + part in str(refused.value), refused.value


def test_a_wrong_query_is_told_with_the_file_whatever_its_path_has():
    with pytest.raises(InvalidInput) as raised:
        assertions.read([{"name": "web", "query": "hosts[?"}], "50%/fleet.yml")
    assert "50%/fleet.yml" in raised.value.field and raised.value.field.endswith(".query")
