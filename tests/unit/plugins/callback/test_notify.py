# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One event for each transition, for those who ask for it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.callback import notify as notify_module
from ansible_collections.berth.kvm.plugins.callback.notify import CallbackModule
from ansible_collections.berth.kvm.plugins.plugin_utils import acting

ACTIVE = {"uuid": "u-1", "role": "OWN", "phase": "active", "vm_state": "active", "task_state": None, "state": "running"}


@pytest.fixture
def notify(tmp_path):
    """notify(action, result, ...): the events in the file after it."""
    callback, path = CallbackModule(), tmp_path / "events"
    callback._plugin_options = {"path": str(path)}

    def act(action, result, check_mode=False, name="web1", on="kvm1"):
        task = SimpleNamespace(action=action, check_mode=check_mode, delegate_to=on)
        host = SimpleNamespace(get_name=lambda: name)
        callback.v2_runner_on_ok(SimpleNamespace(task=task, host=host, result=result))
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

    act.callback, act.path = callback, path
    return act


def test_each_transition_is_one_event_with_who_and_run(notify):
    notify("berth.kvm.instance", {"changed": True, "instance": ACTIVE})
    notify("berth.kvm.instance", {"changed": True, "instance": dict(ACTIVE, vm_state="stopped", state="shutdown")})
    again = notify(
        "berth.kvm.instance", {"changed": True, "instance": dict(ACTIVE, vm_state="stopped", state="shutdown")}
    )
    assert [event["vm_state"] for event in again] == ["active", "stopped"]
    assert {(event["event"], event["instance"], event["who"], event["run"]) for event in again} == {
        ("instance.update", "web1", acting.WHO, acting.RUN)
    }
    assert notify.path.stat().st_mode & 0o777 == 0o600


def test_an_instance_is_told_with_the_host_that_was_asked(notify):
    notify("berth.kvm.instance", {"changed": True, "instance": ACTIVE}, on="kvm2")
    gone = [
        {"changed": True, "item": host, "instance": {"uuid": "u-1", "state": "absent"}} for host in ("kvm2", "kvm3")
    ]
    found = notify("berth.kvm.instance", {"changed": True, "results": gone}, on="kvm3")
    assert [(event["state"], event["host"]) for event in found] == [
        ("running", "kvm2"), ("absent", "kvm2"), ("absent", "kvm3")]  # fmt: skip


def test_the_legs_of_a_move_are_told_of_the_host_that_they_ran_on(notify):
    said = [
        {"at": "2026-01-01T12:00:00Z", "instance": "web1", "uuid": "u-1", "host": host, "phase": phase}
        for phase, host in (("resizing", "kvm1"), ("incoming", "kvm2"), ("frozen", "kvm1"))
    ]
    found = notify("berth.kvm.move_instances", {"changed": True, "said": said})
    assert [(event["phase"], event["host"]) for event in found] == [
        ("resizing", "kvm1"), ("incoming", "kvm2"), ("frozen", "kvm1"),
    ]  # fmt: skip


def test_what_a_create_says_of_its_claims_and_builds_is_told_with_its_own_time_before_the_end(notify):
    at = "2026-01-01T12:00:00Z"
    said = [
        {"at": at, "instance": "web1", "uuid": "u-1", "host": "kvm1", "state": "building", "attempt": 1},
        {"at": at, "instance": "web1", "uuid": "u-1", "host": "kvm1", "state": "running"},
    ]
    outcomes = [{"instance": "web1", "state": "active"}]
    found = notify(
        "berth.kvm.create_instances", {"changed": True, "instance": ACTIVE, "said": said, "outcomes": outcomes}
    )
    told = [
        (event["event"], event["instance"], event["state"], event.get("host"), event.get("attempt")) for event in found
    ]
    assert told == [
        ("instance.update", "web1", "building", "kvm1", 1),
        ("instance.update", "web1", "running", "kvm1", None),
        ("instance.end", "web1", "active", None, None),
    ]
    assert [event["at"] for event in found[:2]] == [at, at]


def test_of_two_copies_it_is_told_which_stays_and_where_the_other_is_set_aside_and_removed(notify):
    def copy(state, host):
        return {"changed": True, "instance_copy": {"uuid": "u-1", "paths": [], "state": state, "host": {"name": host}}}

    notify("berth.kvm.instance_copy", copy("kept", "kvm1"))
    notify("berth.kvm.instance_copy", {"changed": True, "results": [copy("set_aside", "kvm2")]})
    found = notify("berth.kvm.instance_copy", copy("removed", "kvm2"))
    told = [(event["event"], event["instance"], event["state"], event["host"]) for event in found]
    assert told == [("instance.update", "web1", *each) for each in (
        ("kept", "kvm1"), ("set_aside", "kvm2"), ("removed", "kvm2"))]  # fmt: skip


def test_a_volume_that_is_deleted_is_told(notify):
    done = {"changed": True, "volume": "db", "project": "default", "host": "kvm1"}
    assert notify("berth.kvm.delete_volume", {**done, "changed": False}) == []
    (event,) = notify("berth.kvm.delete_volume", done, name="localhost")
    assert {key: event[key] for key in ("event", "volume", "project", "host")} == {
        "event": "volume.delete", "volume": "db", "project": "default", "host": "kvm1"}  # fmt: skip


def test_what_became_of_an_instance_in_the_end_is_told_with_its_error(notify):
    failed = {"instance": "web1", "state": "failed", "error_code": "NoValidHost", "error": "NoValidHost: no"}
    found = notify("berth.kvm.operate_instances", {"outcomes": [failed, {"instance": "db", "state": "unchanged"}]})
    assert [(event["event"], event["instance"], event["error_code"]) for event in found] == [
        ("instance.end", "web1", "NoValidHost")
    ]


@pytest.mark.parametrize(
    "action, result, check_mode",
    [
        ("berth.kvm.instance", {"changed": False, "instance": ACTIVE}, False),
        ("berth.kvm.instance", {"changed": True, "instance": ACTIVE}, True),
        ("other.kvm.instance", {"changed": True, "instance": ACTIVE}, False),
        ("berth.kvm.instance", {"changed": False, "error": {"code": "X"}}, False),
    ],
)
def test_what_changes_nothing_is_no_event(notify, action, result, check_mode):
    assert notify(action, result, check_mode) == []


def test_of_a_loop_over_hosts_each_is_told(notify):
    items = [{"changed": True, "instance": dict(ACTIVE, state=state)} for state in ("running", "absent")]
    assert len(notify("berth.kvm.instance", {"changed": True, "results": items})) == 2
    task, host = (
        SimpleNamespace(action="berth.kvm.instance", check_mode=False, delegate_to=None),
        SimpleNamespace(get_name=lambda: "db"),
    )
    result = {"failed": True, "results": [items[0], {"failed": True, "msg": "X: why"}]}
    notify.callback.v2_runner_on_failed(SimpleNamespace(task=task, host=host, result=result), ignore_errors=False)
    assert len(notify("berth.kvm.ask_hosts", {})) == 3


def test_a_file_that_cannot_be_written_ends_no_run(notify, monkeypatch):
    warned = []
    monkeypatch.setattr(notify_module, "warn", warned.append)
    notify.callback._plugin_options = {"path": "/nowhere/events"}
    notify("berth.kvm.instance", {"changed": True, "instance": ACTIVE})
    assert len(warned) == 1 and "/nowhere/events" in warned[0]
