# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operation asks the hosts of the instances that it found, in which order, and what it makes of their answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from procedure_case import played

from ansible_collections.berth.kvm.plugins.module_utils.conductor.operations import OPERATIONS
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import move
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.copies import keep_one, recover_record
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.delete import and_forget
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.operate import error_of_answer, operate
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Ask

H1 = "4c4c4544-0042-3510-8052-b4c04f4a3231"
SILENT = {"changed": False, "reason": "UNREACHABLE: no route"}
REFUSED = {"changed": False, "error": {"code": "DiskChainChanged", "message": "a layer", "hint": "Commit it"}}


def task(*hosts, **more):
    return {"uuid": "u-" + hosts[-1] if hosts else "u", "hosts": list(hosts), **more}


def test_all_instances_are_asked_at_once_each_on_its_owner_and_those_on_no_host_are_not():
    tasks = {"web1": task("h1"), "web2": task("h2", "h1"), "web3": task()}
    given = {"web1": {"shutdown_timeout": 5}, "web2": {}, "web3": {}}
    done, (asked,), said = played(operate("stop", tasks, given))
    assert asked == Ask(
        "instance",
        {
            "web1": {"uuid": "u-h1", "state": "stopped", "shutdown_timeout": 5},
            "web2": {"uuid": "u-h1", "state": "stopped"},
        },
        {"web1": "h1", "web2": "h1"},
    )
    assert {name: each.changed for name, each in done.items()} == {"web1": True, "web2": True, "web3": False}
    assert [(each.instance, each.event) for each in said] == [
        (name, {"uuid": "u-h1", "host": "h1", "state": "shutdown"}) for name in ("web1", "web2")
    ]


@pytest.mark.parametrize("operation", ["unlock", "delete"])
def test_what_is_done_on_every_host_goes_on_where_one_refuses_and_its_error_stays(operation):
    done, asked, _said = played(operate(operation, {"web1": task("h2", "h1")}, {}), {("h2", "web1"): REFUSED})
    assert [step.at for step in asked] == [{"web1": "h2"}, {"web1": "h1"}]
    assert done["web1"].changed and [error["code"] for error in done["web1"].errors] == ["DiskChainChanged"]


@pytest.mark.parametrize(
    "answer, code, text",
    [
        (REFUSED, "DiskChainChanged", "a layer"),
        (SILENT, "HostUnknown", "h1 did not answer: no route"),
        ({"changed": False, "reason": "InvalidReply: h1 said 3"}, "InvalidReply", "h1 said 3"),
    ],
)
def test_a_host_that_refuses_or_is_silent_is_the_error_of_its_instance_alone(answer, code, text):
    tasks = {"web1": task("h1"), "web2": task("h2")}
    done, _asked, said = played(operate("start", tasks, {}), {("h1", "web1"): answer})
    assert [(error["code"], error["message"]) for error in done["web1"].errors] == [(code, text)]
    assert done["web2"].changed and [each.instance for each in said] == ["web2"]


def test_an_error_about_libvirt_says_on_which_host_it_is():
    down = {"error": {"code": "LibvirtUnavailable", "message": "libvirt at qemu:///system: refused"}}
    assert error_of_answer("h1", down)["message"] == "libvirt on h1: refused"
    walk = SimpleNamespace(host_of=lambda _leg: "h2", unsure=set(), arguments=lambda *_: {}, taken=True)
    asked = move._asked(walk, SimpleNamespace(side="destination"), SimpleNamespace(settings={}))
    next(asked)
    with pytest.raises(StopIteration) as ended:
        asked.send({"h2": down})
    assert ended.value.value["message"] == "libvirt on h2: refused"


def test_what_was_found_of_an_instance_goes_to_its_host_and_nothing_else_does():
    found = task("h1", after=[3, 4], owner=H1, disks=[{"name": "logs"}], moved_by={"op": "o", "epoch": 3})
    sent = {name: played(operate(name, {"web1": found}, {}))[1][0] for name, row in OPERATIONS.items() if row.state}
    parts = {name: set(step.arguments["web1"]) - {"uuid", "state"} for name, step in sent.items()}
    assert {name: each for name, each in parts.items() if each} == {
        "adopt": {"after"}, "delete": {"after"}, "leave": {"after"}, "recover_record": {"after", "moved_by"},
        "update": {"disks"}, "update_disks": {"disks"},
    }  # fmt: skip
    assert {step.module for step in sent.values()} == {"instance", "instance_backup", "instance_copy"}


@pytest.mark.parametrize(
    "owner, answer, lost, told",
    [
        (H1, {"changed": True}, False, {"gone": {H1: {"u": [1, 7]}}}),
        (H1, REFUSED, False, None),
        (H1, SILENT, False, None),
        (None, {"changed": True}, False, None),
        (H1, None, True, {"gone": {H1: {"u": [1, 7]}}, "after": {"u": 1}}),
    ],
    ids=["deleted", "failed", "its host fell silent", "nobody remembers an owner", "lost with its host"],
)
def test_hosts_are_told_of_what_was_deleted_and_of_nothing_else(owner, answer, lost, told):
    instance = {"uuid": "u", "hosts": [] if lost else ["h1"], "after": [1, 7], "owner": owner, "given_up": lost}
    _done, asked, _said = played(and_forget("delete", {"web1": instance}, {}, ["h1", "h2"]), {("h1", "web1"): answer})
    rescans = [step.arguments for step in asked if step.module == "rescan"]
    assert rescans == ([{"h1": {"told": told}, "h2": {"told": told}}] if told else [])


def test_what_is_on_no_host_and_was_not_given_up_is_not_forgotten():
    instance = {"uuid": "u", "hosts": [], "after": [1, 7], "owner": H1, "given_up": False}
    assert played(and_forget("delete", {"web1": instance}, {}, ["h1"]))[1] == []


TOLD = {"told": {"after": {"u": 2}}, "hosts": ["h1", "h2"], "unprepared": ["h9"]}


def copies(*others, comes_back=False, listed=False, **more):
    """A choice of the copy on h1."""
    choice = {"stays": "h1", "others": list(others), "above": [2, 0], "comes_back": comes_back, "listed": listed}
    return {"uuid": "u", "hosts": list(others), **choice, **({} if listed else {"to_tell": TOLD}), **more}


def steps_of(asked):
    """(what, host, state or None, whether only checked) of each call."""
    return [
        (step.module, step.host_of(name), given.get("state"), step.check) if isinstance(step, Ask) else "look"
        for step in asked
        for name, given in (step.arguments.items() if isinstance(step, Ask) else [(None, {})])
    ]


def test_of_two_copies_the_other_is_stopped_before_the_one_that_stays_counts_and_that_is_looked_at_first():
    """If the one that stays cannot be kept, nothing is stopped; if the other's host is silent then, nothing counts more."""
    done, asked, _said = played(keep_one({"web1": copies("h2")}, {"web1": {"shutdown_timeout": 5}}, dry=False))
    assert steps_of(asked) == [
        ("rescan", "h1", None, False),
        ("rescan", "h2", None, False),
        ("instance_copy", "h1", "kept", True),
        ("instance_copy", "h2", "stopped", False),
        ("instance_copy", "h1", "kept", False),
        ("instance_copy", "h2", "set_aside", False),
    ]
    given = [step.arguments["web1"] for step in asked[1:]]
    assert [("above" in each, each.get("shutdown_timeout")) for each in given] == [
        (True, None),
        (False, 5),
        (True, None),
        (False, 5),
    ]
    assert done["web1"].changed and not done["web1"].errors


@pytest.mark.parametrize("host, state, last", [("h1", "kept", 3), ("h2", "stopped", 4), ("h2", "set_aside", 6)])
def test_what_fails_for_two_copies_ends_there_for_that_instance_alone(host, state, last):
    tasks, said = {"web1": copies("h2"), "web2": copies("h3")}, {(host, "web1", state): REFUSED}
    done, asked, _said = played(keep_one(tasks, {}, dry=False), said)
    assert [error["code"] for error in done["web1"].errors] == ["DiskChainChanged"] and not done["web2"].errors
    assert sum("web1" in step.arguments for step in asked if step.module == "instance_copy") == last - 2
    assert sum("web2" in step.arguments for step in asked if step.module == "instance_copy") == 4


def test_nobody_is_told_in_check_mode_and_the_steps_are_the_same():
    _done, asked, _said = played(keep_one({"web1": copies("h2")}, {}, dry=True))
    assert [state for _module, _host, state, _check in steps_of(asked)] == ["kept", "stopped", "kept", "set_aside"]


def test_a_copy_that_was_set_aside_gets_its_record_then_all_are_looked_at_again_then_it_comes_back():
    again = {"web1": copies(comes_back=True)}
    _done, asked, _said = played(keep_one({"web1": copies(comes_back=True, listed=True)}, {}, False), again=again)
    assert steps_of(asked) == [
        ("instance_copy", "h1", "recorded", False),
        "look",
        ("rescan", "h1", None, False),
        ("rescan", "h2", None, False),
        ("instance_copy", "h1", "brought_back", False),
    ]


def test_a_copy_that_the_second_look_refuses_does_not_come_back():
    _done, asked, _said = played(keep_one({"web1": copies(comes_back=True, listed=True)}, {}, False), again={})
    assert steps_of(asked) == [("instance_copy", "h1", "recorded", False), "look"]


@pytest.mark.parametrize("host, goes_on", [("h2", False), ("h9", True)])
def test_no_record_becomes_the_latest_unless_all_hosts_but_those_that_are_not_prepared_took_that(host, goes_on):
    told = {**TOLD, "hosts": ["h1", "h2", "h9"]}
    for procedure in (
        recover_record({"web1": task("h1", to_tell=told)}, {}, dry=False),
        keep_one({"web1": {**copies("h2"), "to_tell": told}}, {}, dry=False),
    ):
        done, asked, _said = played(procedure, {(host, host): SILENT})
        assert [error["code"] for error in done["web1"].errors] == ([] if goes_on else ["HostUnknown"])
        assert goes_on or "%s did not accept" % host in done["web1"].errors[0]["message"]
        assert any(step.module != "rescan" for step in asked) == goes_on


@pytest.mark.parametrize("operation, part", [("delete", "instance"), ("remove_set_aside", "instance_copy")])
def test_what_each_host_gives_up_is_kept(operation, part):
    said = {(host, "web1"): {"changed": True, part: {"gives_up": ["disk of " + host]}} for host in ("h1", "h2")}
    tasks = {"web1": task("h2", "h1", owner=H1, after=[1, 1], given_up=False)}
    run = and_forget("delete", tasks, {}, ["h1"]) if operation == "delete" else operate(operation, tasks, {})
    done, _asked, _told = played(run, said)
    assert done["web1"].gives_up == (["disk of h2", "disk of h1"] if operation == "delete" else ["disk of h1"])
