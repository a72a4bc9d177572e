# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a run: what the table shows of what became of each instance, and what the recap counts."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from controller import Controller

from ansible_collections.berth.kvm.plugins.action import report_failure
from ansible_collections.berth.kvm.plugins.module_utils.conductor.closing_table import error_of
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.operate import Done
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import end_of_operation

WEB = instance_uuid("default", "web1")


def located(**more):
    return {
        "names": ["web1", "web2"], "found": ["web1"], "moving": [], "errors": {}, "skipped": {}, "left_out": {},
        "shown": {"web1": {"host": "kvm1", "flavor": "small"}}, **more,
    }  # fmt: skip


@pytest.fixture
def show():
    """show(operation, {instance: Done}, {instance: what became of its move}) -> the end of the run."""

    def act(operation, done, walks=None, check_mode=False, located=None, moves=None):  # pylint: disable=redefined-outer-name
        it = Controller({"kvm_hosts": ["kvm1"], "vms": ["web1", "web2"]})
        task = SimpleNamespace(check_mode=check_mode)
        action = SimpleNamespace(_task=task, own_variables=lambda _task_vars, _names: {})
        walks = walks or {"web1": {"changed": False}}
        return end_of_operation.end(action, it.task_vars(), operation, located or {}, done, moves or {}, walks)

    return act


def states(result):
    return {line["instance"]: line["state"] for line in result["outcomes"]}


def test_every_instance_has_a_line_also_where_nothing_changed(show):
    result = show("start", {"web1": Done()}, located=located())
    assert states(result) == {"web1": "unchanged", "web2": "unchanged"}
    assert not any(result["ansible_facts"]["berth_results"][part] for part in ("failed", "left_out"))


def test_a_guest_that_a_recovery_left_off_is_shown_as_one_that_is_off(show):
    result = show("recover", {"web1": Done(instance={"state": "shutdown"})}, located=located())
    assert "though nobody stopped it" in result["outcomes"][0]["why"]


def test_a_failure_is_kept_for_the_recap_with_the_name_of_the_instance(show):
    why = "InstanceMoving: Instance %s is in task_state resize_prep" % WEB
    result = show("stop", {"web1": Done(errors=[error_of(why)])}, located=located())
    said = "InstanceMoving: Instance web1 is in task_state resize_prep"
    assert result["ansible_facts"]["berth_results"]["failed"] == {"web1": said}


def test_an_instance_that_ansible_has_dropped_is_not_known(show):
    result = show("resize", {}, {"web2": {}}, moves=planned())
    assert "stopped answering" in result["ansible_facts"]["berth_results"]["failed"]["web1"]


def test_the_recap_tells_a_silent_host_from_one_that_failed(show):
    left_out = {"kvm1": "UNREACHABLE: no answer within 60 s", "kvm2": "LibvirtNotFound: no binding"}
    hosts = show("start", {}, located=located(left_out=left_out))["ansible_facts"]["berth_results"]["left_out"]
    assert {host: found["silent"] for host, found in hosts.items()} == {"kvm1": True, "kvm2": False}


def test_the_address_is_the_one_that_the_host_tells_such_as_one_of_a_pool(show):
    told = {"host": "kvm1", "flavor": "small", "networks": [{"address": "192.0.2.7"}, {"address": "2001:db8::7"}]}
    result = show("start", {}, located=located(shown={"web1": told}))
    assert {line["instance"]: line["address"] for line in result["outcomes"]} == {"web1": "192.0.2.7 +1", "web2": ""}


@pytest.mark.parametrize(
    "name, counted",
    [
        ("web1", {"failed": True, "msg": "web1: NoRoom. See the table above", "error_code": "NoRoom"}),
        ("kvm1", {"unreachable": True, "msg": "left out. See the table above"}),
    ],
)
def test_what_failed_is_reported_in_its_own_name(name, counted):
    results = {
        "failed": {"web1": "NoRoom: no"},
        "left_out": {"kvm1": {"reason": "UNREACHABLE", "silent": True}},
    }
    it = Controller({"kvm_hosts": ["kvm1"], "vms": ["web1", "web2"]}, facts={"localhost": {"berth_results": results}})
    done = it.run("report_failure", task_vars={**it.task_vars(), "inventory_hostname": name})
    assert {key: done[key] for key in counted} == counted


@pytest.mark.parametrize("name, told", [("web1", "NoRoom: no"), ("kvm1", "UNREACHABLE")])
def test_where_a_document_for_programs_is_written_it_has_the_whole_reason(monkeypatch, name, told):
    monkeypatch.setattr(report_failure.C, "DEFAULT_STDOUT_CALLBACK", "ansible.posix.json")
    results = {
        "failed": {"web1": "NoRoom: no"},
        "left_out": {"kvm1": {"reason": "UNREACHABLE", "silent": True}},
        "would_change": {},
    }
    it = Controller({"kvm_hosts": ["kvm1"], "vms": ["web1"]}, facts={"localhost": {"berth_results": results}})
    assert it.run("report_failure", task_vars={**it.task_vars(), "inventory_hostname": name})["msg"] == told


def planned(kind="resize", **more):
    spec = {"flavor": {"name": "small"}}
    source = {"uuid": WEB, "role": "OWN", "phase": "active", "vm_state": "active", "spec": spec, "migration": None}
    move = {
        "uuid": WEB, "name": "web1", "source": "kvm1", "destination": "kvm2", "sequence": "resize", "kind": kind, "why": None,
        "views": {"source": source, "destination": {"role": None}}, "spec": {"flavor": {"name": "big"}}, **more,
    }  # fmt: skip
    return {"moves": {"web1": move}, "act": ["web1"], "names": ["web1"], "errors": {}, "left_out": {}, "settle": []}


def part_of(operation, moves, check_mode=True):
    it = Controller({"kvm_hosts": ["kvm1"], "vms": ["web1"]})
    walk = {"changed": False}
    outcome = end_of_operation.of_move(it.task_vars(), operation, "web1", moves, walk, check_mode)
    return end_of_operation.part_of_move(operation, outcome, moves, walk, check_mode)


def diff_of(part):
    """The parts that differ: {part: (before, after)}; None where no diff is told."""
    if "diff" not in part:
        return None
    before, after = (json.loads(part["diff"][0][when] or "{}") for when in ("before", "after"))
    return {part: (before[part], after.get(part)) for part in before if before[part] != after.get(part)}


WAITING = {"source": {"role": "OUT"}, "destination": {
    "uuid": WEB, "role": "OWN", "phase": "resized", "vm_state": "resized",
    "spec": {"flavor": {"name": "big", "root_gb": 3}, "disks": [{"name": "db", "size_gb": 2}], "volumes": [
        {"name": "logs", "size_gb": 1, "delete_on_termination": True, "slot": 0},
        {"name": "kept", "size_gb": 1, "delete_on_termination": False, "slot": 1}]},
    "migration": {"vm_state_before": "stopped", "old_spec": {"flavor": {"name": "small"}},
                  "new_spec": {"flavor": {"name": "big"}}},
}}  # fmt: skip


@pytest.mark.parametrize(
    "operation, moves, expected",
    [
        (
            "resize",
            planned(),
            {"host": ("kvm1", "kvm2"), "flavor": ("small", "big"), "vm_state": ("active", "resized")},
        ),
        (
            "cold_migrate",
            planned("migration", spec=None),
            {"host": ("kvm1", "kvm2"), "vm_state": ("active", "resized")},
        ),
        ("live_migrate", planned("live-migration", spec=None), {"host": ("kvm1", "kvm2")}),
        ("migrate", planned("live-migration", spec=None), {"host": ("kvm1", "kvm2")}),
        ("confirm", planned(views=WAITING, spec=None), {"vm_state": ("resized", "stopped")}),
        (
            "revert",
            planned(views=WAITING, spec=None),
            {"host": ("kvm2", "kvm1"), "flavor": ("big", "small"), "vm_state": ("resized", "stopped")},
        ),
        (
            "delete",
            planned(views=WAITING),
            {
                "host": ("kvm2", None),
                "flavor": ("big", None),
                "vm_state": ("resized", None),
                "gives_up": (["root disk 3 GiB", "data disk db 2 GiB", "volume logs 1 GiB"], None),
            },
        ),
    ],
)
def test_check_mode_tells_a_move_as_the_change_that_it_would_be(operation, moves, expected):
    """C05"""
    part = part_of(operation, moves)
    assert (part["changed"], diff_of(part)) == (True, expected)
    assert diff_of(part_of(operation, moves, check_mode=False)) is None, "the legs of a real run tell their own"


def test_what_would_not_change_or_fails_has_no_diff():
    """C05"""
    idle = {**planned(sequence=None, why="has flavor big already"), "act": []}
    failing = {**planned(), "moves": {}, "errors": {"web1": "NoValidHost: none"}}
    for moves in (idle, failing):
        part = part_of("resize", moves)
        assert not part["changed"] and diff_of(part) is None


ATTEMPTS = [
    {"attempt": 1, "host": "kvm2", "code": "ClaimFailed", "cause": "no room for %s" % WEB},
    {"attempt": 2, "host": "kvm3", "code": "HostUnknown", "cause": "it is silent"},
]
TRIED = [
    "web1 was tried on:", "ATTEMPT HOST ERROR CAUSE", "1 kvm2 ClaimFailed no room for web1", "2 kvm3 HostUnknown it is silent",
]  # fmt: skip


@pytest.mark.parametrize("failure", [None, "MaxRetriesExceeded: Exceeded maximum number of retries"])
def test_a_move_that_failed_shows_each_host_that_it_was_tried_on_and_why(show, capsys, failure):
    """C11"""
    result = show("resize", {}, {"web1": {"failure": failure, "attempts": ATTEMPTS}}, moves=planned())
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert all(line in said for line in TRIED) is bool(failure), said
    assert result["outcomes"][0].get("error_code") == (failure and "MaxRetriesExceeded"), result["outcomes"]
