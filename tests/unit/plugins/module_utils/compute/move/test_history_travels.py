# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of an instance comes along where it moves, and what comes with it decides nothing."""

from __future__ import annotations

import memory_names as memory
import pytest
from memory_names import D, S
from move_side import ATTEMPT, DECIDED, OP

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import startable
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import common
from ansible_collections.berth.kvm.plugins.module_utils.conductor import show_instance
from ansible_collections.berth.kvm.plugins.module_utils.model import travelled_history
from ansible_collections.berth.kvm.plugins.module_utils.model.record import HISTORY_LIMIT, Record

MADE = {"event": "build", "at": "2026-11-01T00:00:00Z", "who": "ann@ctl", "run": "r-1"}


def events(record):
    return [(event.get("on"), event["event"]) for event in record.history]


def test_after_a_confirmed_move_the_destination_knows_who_made_it(fleet):
    before = [event for _on, event in events(fleet.held(S))]
    assert "build" in before
    fleet.went("resize")
    fleet.went("confirm")
    after = events(fleet.held(D))
    assert [event for on, event in after if on == S][: len(before)] == before
    assert "confirmed" in [event for on, event in after if on is None]


def test_after_a_revert_the_source_knows_what_was_done_on_the_destination_and_each_event_once(fleet):
    fleet.went("resize")
    there = fleet.held(D)
    fleet.host(D).store.compare_and_swap(there, there.noted("reboot", "2026-11-02T00:00:00Z").next(token="another"))
    fleet.went("revert")
    after = events(fleet.held(S))
    assert (D, "reboot") in after and (D, "given back") in after
    assert len([event for _on, event in after if event == "build"]) == 1 and (None, "build") in after


def record(*history):
    return Record(
        uuid=memory.UUID, name="web1", project_id="default", role="OWN", generation=[1, 1], token="t", phase="active",
        spec={}, resources={}, history=list(history),
    )  # fmt: skip


def test_over_several_moves_each_event_says_where_it_was():
    second = travelled_history.told(record(), [MADE], "kvm1").noted("start", "2")
    third = travelled_history.told(record(), second.history, "kvm2")
    assert events(third) == [("kvm1", "build"), ("kvm2", "start")]
    back = travelled_history.told(record(MADE), third.history, "kvm3")
    assert events(back) == [(None, "build"), ("kvm2", "start")], "its own event it knows already"


@pytest.mark.parametrize(
    "told, taken",
    [
        (None, []),
        ("a text", []),
        (7, []),
        ([None, 7, "text", [], {}, {"event": "x"}, {"at": "y"}, {"event": 1, "at": "y"}], []),
        ([{"event": "{{ 7 }}", "at": "y\x1b[2J"}], [{"event": "? 7 }}", "at": "y?[2J", "on": "kvm1"}]),
        (
            [{"event": "x", "at": "y", "deep": [[[["z"]]]], "n": 10**400, "ok": True, "none": None}],
            [{"event": "x", "at": "y", "deep": "[[[['z']]]]", "ok": True, "none": None, "on": "kvm1"}],
        ),
    ],
)
def test_of_what_the_source_tells_only_flat_and_harmless_events_are_taken(told, taken):
    found = travelled_history.told(record(), told, "kvm1").history
    assert [{name: value for name, value in event.items() if name != "n"} for event in found] == [
        {**event, "event": event["event"].replace("? 7 }}", found[0]["event"]), "at": found[0]["at"]} for event in taken
    ]
    assert not any("{{" in str(event) or "\x1b" in str(event) or len(str(event)) > 2000 for event in found)


def test_a_history_is_bounded_and_who_made_the_instance_stays():
    many = [{"event": "start", "at": str(number)} for number in range(5 * HISTORY_LIMIT)]
    found = travelled_history.told(record(), [MADE, *many[: HISTORY_LIMIT - 1]], "kvm1")
    for number in range(3 * HISTORY_LIMIT):
        found = found.noted("stop", str(number))
    assert len(found.history) == HISTORY_LIMIT and found.history[0] == {**MADE, "on": "kvm1"}
    assert len(travelled_history.told(record(), many, "kvm1").history) == HISTORY_LIMIT


def test_no_event_that_came_along_says_how_a_move_ended_or_from_whom_disks_were_taken():
    lies = [{"event": "confirmed", "at": "1"}, {"event": startable.TAKE_OVER, "at": "2", "source": "kvm9"}]
    taken = travelled_history.told(record(), lies, "kvm1").replace(task_state="spawning")
    assert common.last_move(taken) is None and startable._taken_from(taken) == []
    own = record(*lies).replace(task_state="spawning")
    assert common.last_move(own) == "confirmed" and startable._taken_from(own) == ["kvm9"]


def test_the_name_of_the_host_is_the_one_that_was_decided_and_not_the_sources_word(source, destination):
    source.holds(("OWN", "resizing"))
    said = source.said(history=[{**MADE, "on": "kvm1"}, {"event": "start", "at": "2"}])
    said["migration"]["attempt"] = ATTEMPT
    destination.step("claim", dict(said, host=dict(said["host"], name="another")), **DECIDED)
    assert [event.get("on") for event in destination.store.read(said["uuid"]).history][:2] == ["kvm1", "kvm1"]
    assert destination.store.read(said["uuid"]).op == OP


def test_what_both_hosts_of_a_move_tell_is_shown_once_with_the_host_where_it_was():
    here = {"role": "OUT", "history": [MADE]}
    there = {"role": "OWN", "history": [{**MADE, "on": "kvm1"}, {"event": "acquired", "at": "2026-11-03T00:00:00Z"}]}
    rows = show_instance.history([("kvm1", here), ("kvm2", there)])
    assert [row[1:4] for row in rows] == [("build", "kvm1", "ann@ctl"), ("acquired", "kvm2", "-")]
