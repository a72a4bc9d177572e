# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was done in the fleet since a time, by whom, also to what is gone."""

from __future__ import annotations

import datetime

import pytest
from test_show_volume import controller

from ansible_collections.berth.kvm.plugins.action import show_events
from ansible_collections.berth.kvm.plugins.module_utils.conductor import fleet_events
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

NOW = datetime.datetime(2026, 11, 28, 8, 30, tzinfo=datetime.timezone.utc).timestamp()
WEB, OLD = instance_uuid("default", "web1"), instance_uuid("default", "old")
HOUR, DAY = 3600, 86400


def event(name, at, who="ann@ctl", **more):
    return {"event": name, "at": at, "who": who, "run": "r-1", **more}


def kept(uuid, name, *history, faults=()):
    return {"uuid": uuid, "name": name, "history": list(history), "faults": list(faults)}


TOLD = {
    "h1": [kept(OLD, "old", event("delete", "2026-11-27T09:00:00Z", "bob@ctl"))],
    "h2": [kept(WEB, "web1", event("build", "2026-11-27T08:00:00Z", on="h1"), event("stop", "2026-11-27T10:00:00Z"),
                faults=[{"code": "BuildFailed", "message": "no", "at": "2026-11-27T07:00:00Z"}])],
}  # fmt: skip


@pytest.fixture
def show(monkeypatch, capsys):
    """show(arguments, silent): (the events, what it said line by line, what hosts were asked)."""

    def act(args=None, silent=()):
        asked = {}

        def ask(_action, _task_vars, hosts, module, arguments):
            asked.update({host: (module, arguments) for host in hosts})
            return {
                host: {"unreachable": True, "msg": "gone"} if host in silent else {"histories": TOLD[host]}
                for host in hosts
            }

        monkeypatch.setattr(show_events, "ask", ask)
        monkeypatch.setattr(show_events.time, "time", lambda: NOW)
        result = controller(h1=([], []), h2=([], [])).run("show_events", args or {})
        return result, [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()], asked

    return act


def test_all_that_was_done_is_shown_in_the_order_of_time_with_who_did_it_where(show):
    result, said, asked = show({"since": "yesterday"})
    seconds = DAY + 8 * HOUR + 30 * 60
    assert asked == {host: ("instance_info", {"events_seconds": seconds, "uuids": []}) for host in ("h1", "h2")}
    assert [line for line in said if line[:1] in "A2" and line] == [
        "AT INSTANCE EVENT HOST BY RUN RESULT",
        "2026-11-27T07:00:00Z web1 failed h2 - - BuildFailed: no",
        "2026-11-27T08:00:00Z web1 build h1 ann@ctl r-1 done",
        "2026-11-27T09:00:00Z old delete h1 bob@ctl r-1 done",
        "2026-11-27T10:00:00Z web1 stop h2 ann@ctl r-1 done",
    ]
    assert [(one["instance"], one["event"]) for one in result["events"]][2] == ("old", "delete") and not result[
        "changed"
    ]


def test_a_limit_selects_instances(show):
    result, _said, asked = show({"instances": ["web1"]})
    assert {one["instance"] for one in result["events"]} == {"web1"}
    assert asked["h1"][1] == {"events_seconds": DAY, "uuids": [WEB]}


def test_a_host_that_does_not_tell_is_named(show):
    _result, said, _asked = show(silent=["h1"])
    assert any(line.startswith("host h1 left out:") for line in said) and not any("delete" in line for line in said)


@pytest.mark.parametrize(
    "since, seconds",
    [
        ("90m", 90 * 60), ("2h", 2 * HOUR), (" 3d ", 3 * DAY), ("today", 8.5 * HOUR), ("yesterday", 32.5 * HOUR),
        ("2026-11-28", 8.5 * HOUR), ("2026-11-28T08:00", HOUR / 2), ("2026-11-28T08:00:30Z", HOUR / 2 - 30),
    ],
)  # fmt: skip
def test_a_time_is_said_in_words_that_people_use(since, seconds):
    assert fleet_events.seconds_since(since, NOW) == seconds


@pytest.mark.parametrize(
    "since",
    [
        "",
        "2",
        "h",
        "-2h",
        "2w",
        "last week",
        "2026-11-29",
        "2026-13-01",
        "1700-01-01",
        "9999999h",
        "٢h",
        None,
        7,
        ["2h"],
    ],
)
def test_what_is_no_time_is_refused_with_what_can_be_said(since):
    with pytest.raises(InvalidInput, match="berth_since"):
        fleet_events.seconds_since(since, NOW)
