# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An operation on existing instances: one process asks the hosts for all, and each instance's task tells its own part."""

from __future__ import annotations

import json
import secrets

import pytest
from controller import Controller

from ansible_collections.berth.kvm.plugins.action import operate_instances
from ansible_collections.berth.kvm.plugins.module_utils.model import hints
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates

NAMES = ("web1", "web2")
FLAVOR = {"berth_flavor": "small"}


class Hosts:
    """What they were asked, and what each says of an instance."""

    def __init__(self, **said):
        self.asked, self.said = [], said

    def run_on(self, names, module, given, task, _at_once, _seconds, at=None):
        at, name = at or {}, module.removeprefix("berth.kvm.")
        self.asked += [(at.get(each, each), name, given[each], task.check_mode) for each in names]
        plain = {"changed": True, "failed": False, "instance": {"uuid": "u", "state": "shutdown"}}
        return {each: self.said.get(each, plain) for each in names}


@pytest.fixture
def operate(monkeypatch):
    """operate(operation, hosts, ...): instance -> the result of its task, of one run that has found all on h1, which the
    inventory has ``closed``."""

    def run(what, hosts=None, variables=None, check_mode=False, may_fail=True, play=None, closed=None, **more):
        monkeypatch.setattr(delegates, "run_on", (hosts or Hosts()).run_on)
        task = {"uuid": "u", "hosts": ["h1"], "after": [1, 7], "owner": "o", "given_up": False}
        task.update(stays="h2", others=["h1"], above=[1, 7], comes_back=False, listed=False)
        located = {
            "operation": what, "names": list(NAMES), "found": list(NAMES), "moving": [], "errors": {}, "skipped": {},
            "left_out": {}, "shown": {name: {"host": "h1"} for name in NAMES}, "instances": dict.fromkeys(NAMES, task), **more,
        }  # fmt: skip
        given = {name: {**FLAVOR, **(variables or {}).get(name, {})} for name in NAMES}
        known = {**given, "h1": closed or {}}
        it = Controller({"kvm_hosts": ["h1"], "vms": list(NAMES)}, known, {"localhost": {"berth_located": located}})
        it.register("localhost", __berth_facts={"answers": {"h1": {}}})
        values, uuid = {**it.task_vars(), **(play or {}), "ansible_play_hosts_all": list(NAMES)}, secrets.token_hex(8)
        values["ansible_play_hosts"] = list(NAMES)
        args = {"operation": what, "may_fail": may_fail}
        return {
            name: it.run(
                "operate_instances", args, {**values, **given[name], "inventory_hostname": name}, check_mode, uuid
            )
            for name in NAMES
        }

    return run


def test_the_first_task_asks_for_all_and_each_tells_its_own_part(operate):
    hosts = Hosts(web2={"changed": False, "instance": {"uuid": "u", "state": "shutdown"}})
    done = operate("stop", hosts)
    assert {name: each["changed"] for name, each in done.items()} == {"web1": True, "web2": False}
    assert ["outcomes" in each for each in done.values()] == [True, False]
    assert [line["state"] for line in done["web1"]["outcomes"]] == ["stopped", "unchanged"]
    assert [(host, module, given["state"]) for host, module, given, _check in hosts.asked] == [
        ("h1", "instance", "stopped")
    ] * 2
    assert [each["instance"] for each in done["web1"]["said"]] == ["web1"]


ERROR = {"code": "GuestCrashed", "message": "it has crashed", "rule": "runs", "hint": "Start it", "retryable": False}


@pytest.mark.parametrize("may_fail", [True, False])
def test_a_failure_is_that_of_its_instance_alone_and_says_what_the_host_said(operate, may_fail):
    text = "GuestCrashed: it has crashed (runs). Start it"
    hosts = Hosts(web1={"failed": True, "msg": text, "error": ERROR, "error_code": "GuestCrashed"})
    done = operate("reboot", hosts, may_fail=may_fail)
    assert (done["web1"].get("failed", False), done["web1"]["msg"]) == (not may_fail, text)
    assert done["web1"]["error"]["code"] == "GuestCrashed"
    assert done["web2"]["changed"] and "error" not in done["web2"]
    assert done["web1"]["ansible_facts"]["berth_results"]["failed"] == {"web1": text}


def test_who_was_refused_before_is_asked_nothing(operate):
    hosts = Hosts()
    why = "InstanceMoving: Cannot lock: Instance web1 is in task_state resize_prep"
    done = operate("lock", hosts, errors={"web1": why}, may_fail=False)
    assert (done["web1"]["failed"], done["web1"]["msg"]) == (True, why)
    assert len(hosts.asked) == 1 and done["web2"]["changed"]


def test_a_host_that_falls_silent_says_so_with_what_to_do(operate):
    done = operate("stop", Hosts(web1={"unreachable": True, "msg": "no route"}))
    assert done["web1"]["error"]["code"] == "HostUnknown" and "h1 did not answer: no route" in done["web1"]["msg"]


def test_a_host_that_was_closed_and_falls_silent_is_not_advised_to_be_given_up(operate):
    closed = {"berth_host_disabled": True, "berth_host_disabled_reason": "new disks"}
    done = operate("stop", Hosts(web1={"unreachable": True, "msg": "no route"}), closed=closed)
    assert "h1 did not answer: closed by the inventory (new disks)" in done["web1"]["msg"]
    assert done["web1"]["error"]["hint"] == hints.bring_back(["h1"])


def test_the_diff_and_the_warnings_of_a_host_are_those_of_the_task(operate):
    diff = {"before": "on", "after": "off"}
    said = {"changed": True, "instance": {"uuid": "u"}, "diff": diff, "warnings": ["web1 did not shut down"]}
    done = operate("stop", Hosts(web1=said))
    assert (done["web1"]["diff"], done["web1"]["warnings"]) == ([diff], ["web1 did not shut down"])
    assert "diff" not in done["web2"] and not done["web2"].get("warnings")


@pytest.mark.parametrize(
    "operation, variables, sent",
    [
        ("stop", {"berth_shutdown_timeout": 300}, {"shutdown_timeout": 300}),
        (
            "reboot",
            {"berth_shutdown_timeout": 300, "berth_reboot": "hard"},
            {"shutdown_timeout": 300, "reboot": "hard"},
        ),
        ("lock", {"berth_lock_reason": "why"}, {"reason": "why"}),
        ("snapshot", {"berth_snapshot": "one"}, {"snapshot": "one"}),
        ("delete", {"berth_delete_changed_disks": True}, {"changed_disks": True}),
        ("delete", {"delete_changed_disks": False, "berth_delete_changed_disks": True}, {"changed_disks": False}),
    ],
)
def test_what_the_variables_of_an_instance_say_goes_to_its_host_alone(operate, operation, variables, sent):
    for name, other in (NAMES, reversed(NAMES)):
        hosts = Hosts()
        operate(operation, hosts, {name: variables})
        given = dict(zip(NAMES, (each for _host, module, each, _check in hosts.asked if module == "instance")))
        assert {part: given[name].get(part) for part in sent} == sent
        assert not set(sent) & set(given[other])


CONSOLE = {"lines": ["login: {{ secret }}", "\x1b[2J"], "attach": "virsh console u", "serial": None, "vnc": None,
           "addresses": [{"mac": "m", "address": "192.0.2.7", "source": "agent"}]}  # fmt: skip


def test_a_console_is_shown_as_text_before_the_table_and_is_in_the_result_for_programs(operate, capsys):
    shown = {"changed": False, "instances": [{"uuid": "u", "console": CONSOLE}]}
    hosts = Hosts(web1=shown, web2={"unreachable": True, "msg": "no route"})
    done = operate("console", hosts, {"web1": {"berth_console_lines": 3}})
    assert [(module, given) for _host, module, given, _check in hosts.asked] == [
        ("instance_info", {"uuids": ["u"], "console_lines": lines}) for lines in (3, 50)
    ]
    said = capsys.readouterr().out
    begin = "web1 on h1: attach there with virsh console u; addresses 192.0.2.7 (agent)\n    login: {{ secret }}\n"
    assert said.index(begin) < said.index("INSTANCE") and "\x1b" not in said
    assert not done["web1"]["changed"] and done["web1"]["instance"]["console"] == CONSOLE
    assert done["web2"]["error"]["code"] == "HostUnknown"


@pytest.mark.parametrize("state", ["shutdown", "crashed"])
def test_nobody_is_told_to_attach_to_the_console_of_a_guest_that_is_off(operate, capsys, state):
    off = {"uuid": "u", "state": state, "console": {**CONSOLE, "addresses": []}}
    operate("console", Hosts(web1={"changed": False, "instances": [off]}, web2={"unreachable": True, "msg": "no"}))
    said = capsys.readouterr().out
    assert "web1 on h1 is off\n    login: " in said and "attach" not in said


def test_snapshots_are_listed_before_the_table_and_are_in_the_result_for_programs(operate, capsys):
    one = {
        "name": "one",
        "made_at": "2026-11-28T10:00:00Z",
        "taken": "frozen",
        "memory": False,
        "size_gb": 3,
        "disks": ["root", "data-db"],
    }
    two = {**one, "name": "two", "made_at": None, "taken": None}
    hosts = Hosts(
        web1={"changed": False, "instances": [{"uuid": "u", "snapshots": [one, two]}]},
        web2={"changed": False, "instances": [{"uuid": "u", "snapshots": []}]},
    )
    done = operate("snapshots", hosts)
    assert [given for _host, _module, given, _check in hosts.asked] == [{"uuids": ["u"]}] * 2
    said = capsys.readouterr().out
    assert [line.split() for line in said.splitlines() if "data-db" in line] == [
        ["web1", "one", "2026-11-28T10:00:00Z", "frozen", "no", "3", "GiB", "root,", "data-db"],
        ["web1", "two", "not", "whole", "no", "3", "GiB", "root,", "data-db"],
    ]
    assert not done["web1"]["changed"] and done["web1"]["instance"]["snapshots"] == [one, two]


@pytest.mark.parametrize("operation", ["snapshots", "backups"])
def test_a_listing_passes_over_an_instance_that_is_on_no_host(operate, operation):
    hosts = Hosts(
        web1={"changed": False, "instances": [{"uuid": "u", "snapshots": []}], "instance": {"uuid": "u"}},
    )
    here, nowhere = {"uuid": "u", "hosts": ["h1"]}, {"uuid": "v", "hosts": []}
    done = operate(
        operation, hosts, instances={"web1": here, "web2": nowhere}, shown={"web1": {"host": "h1"}}, found=["web1"]
    )
    assert [given.get("uuid") or given["uuids"][0] for _host, _module, given, _check in hosts.asked] == ["u"]
    assert "error" not in done["web2"] and done["web1"]["ansible_facts"]["berth_results"]["failed"] == {}
    assert [line["why"] for line in done["web1"]["outcomes"]] == ["is shown above", "is on no host"]


def test_a_backup_passes_over_an_instance_that_is_shelved_and_says_so(operate, capsys):
    hosts = Hosts()
    here = {"uuid": "u", "hosts": ["h1"], "shelved": False}
    asleep = {"uuid": "v", "hosts": ["h1"], "shelved": True}
    done = operate(
        "backup", hosts, dict.fromkeys(NAMES, {"berth_backup_to": "/b"}), instances={"web1": here, "web2": asleep}
    )
    assert {given["uuid"] for _host, _module, given, _check in hosts.asked} == {"u"}
    assert "error" not in done["web2"] and not done["web2"].get("changed")
    assert "web2 is shelved: its disks are in a backup already" in capsys.readouterr().out


@pytest.mark.follows("remove_set_aside")
def test_of_two_copies_the_one_that_is_stopped_has_the_time_that_its_variable_says(operate, capsys):
    copy = {"uuid": "u", "paths": ["/p/u-1.5"], "nics": []}
    hosts = Hosts(**dict.fromkeys(NAMES, {"changed": True, "instance_copy": copy}))
    done = operate("keep_one", hosts, {"web1": {"berth_shutdown_timeout": 300}})
    given = [each.get("shutdown_timeout") for host, _m, each, _c in hosts.asked if host == "h1"]
    assert given == [300, None] * 2 and done["web1"]["outcomes"][0]["state"] == "one copy kept"
    said = "web1 stays on h2. The copy on h1 is now in /p/u-1.5 on that host. When nobody needs it any more, "
    assert said + "berth.kvm.remove_set_aside --limit web1 -e berth_set_aside_on=h1" in " ".join(
        capsys.readouterr().out.split()
    )


def test_what_a_play_says_for_its_role_goes_to_the_hosts_of_all_that_do_not_say_it_themselves(operate):
    hosts = Hosts()
    operate("delete", hosts, {"web2": {"delete_changed_disks": False}}, play={"delete_changed_disks": True})
    assert [given.get("changed_disks") for _host, _module, given, _check in hosts.asked[:2]] == [True, False]


def test_check_mode_asks_in_check_mode_and_says_what_would_be_done(operate):
    hosts = Hosts()
    done = operate("stop", hosts, check_mode=True)
    assert {check for _host, _module, _given, check in hosts.asked} == {True}
    assert {line["state"] for line in done["web1"]["outcomes"]} == {"would be stopped"}


def test_what_another_operation_of_this_run_found_is_not_what_this_one_is_about(operate, monkeypatch):
    monkeypatch.setattr(
        operate_instances, "read", lambda _action, about, _vars: looked.append(about["instances"]) or {}
    )
    looked, hosts = [], Hosts()
    operate("delete", hosts, operation="stop")
    assert looked == [["web1"], ["web2"]] and not [each for each in hosts.asked if each[1] == "instance"]


def test_what_was_carried_out_is_carried_out_by_no_later_task(operate):
    located = operate("stop")["web1"]["ansible_facts"]["berth_located"]
    assert not located["names"] and not located["instances"] and json.dumps(located)


def test_a_shelve_asks_for_a_backup_of_whole_disks_where_the_inventory_says_and_then_for_the_disks_of_that_one(operate):
    backup = {"id": "20260102T030405Z", "kind": "full", "previous": None, "bytes": 1, "of": "web1", "frozen": False, "files": [],
              "why": [], "faults": []}  # fmt: skip
    told = {"changed": True, "instance": {"uuid": "u", "state": "shutdown", "backups": [backup], "generation": [1, 9]}}
    hosts = Hosts(web1=told, web2={"changed": False, "instance": {**told["instance"], "shelved": {}}})
    done = operate("shelve", hosts, {"web1": {"berth_backup_to": "/b"}})
    of_web1 = [
        given for _host, _module, given, _check in hosts.asked if given.get("to") == "/b" or given.get("shelve_to")
    ]
    assert [given["state"] for given in of_web1] == ["listed", "made", "shelved"] and of_web1[1]["full"]
    assert of_web1[2]["shelve_to"] == {"backup": backup["id"], "to": "/b", "host": None, "generation": [1, 9]}
    assert [line["state"] for line in done["web1"]["outcomes"]] == ["shelved", "unchanged"]


def test_an_unshelve_restores_from_where_the_host_says_that_the_disks_are(operate):
    shelved = {"backup": "20260102T030405Z", "to": "/b", "host": None}
    now = {"uuid": "u", "name": "web1", "state": "shutdown", "task_state": "unshelving", "shelved": shelved}
    hosts = Hosts(web1={"changed": True, "instance": now})
    operate("unshelve", hosts)
    asked = [given for _host, _module, given, _check in hosts.asked]
    (restore,) = [given for given in asked if given["state"] == "restored"]
    assert (restore["to"], restore["backup"], restore["discards"]) == ("/b", "20260102T030405Z", "web1")
    assert [given["state"] for given in asked] == ["unshelved", "unshelved", "restored", "started"]


FULL = {"code": "ClaimFailed", "message": "no room", "retryable": True}


@pytest.mark.parametrize("retryable", [True, False])
def test_an_unshelve_that_its_own_host_cannot_do_asks_placement_for_another_and_else_says_both_reasons(
    operate, monkeypatch, retryable
):
    asked = []

    def read_and_plan(_action, about, names):
        asked.append((about.operation, names))
        return {"moves": {}, "errors": {"web1": "NoValidHost: none has room"}}

    monkeypatch.setattr(operate_instances.ActionModule, "read_and_plan", read_and_plan)
    hosts = Hosts(
        web1={"changed": False, "error": {**FULL, "retryable": retryable}},
        web2={"changed": False, "instance": {"uuid": "u"}},
    )
    done = operate("unshelve", hosts)
    assert asked == ([("cold_migrate", ["web1"])] if retryable else [])
    assert done["web1"]["msg"] == "ClaimFailed: no room" + ("; NoValidHost: none has room" if retryable else "")
    assert not done["web2"].get("error")


def test_a_move_to_unshelve_that_was_cut_off_is_planned_again_and_is_no_end_of_its_own(operate, monkeypatch):
    monkeypatch.setattr(
        operate_instances.ActionModule,
        "read_and_plan",
        lambda *_given: {"moves": {}, "errors": {"web1": "HostUnknown: h2 is silent"}},
    )
    done = operate("unshelve", Hosts(), moving=["web1"], instances={"web2": {"uuid": "u", "hosts": ["h1"]}})
    assert "HostUnknown: h2 is silent" in done["web1"]["msg"] and len(done["web1"]["outcomes"]) == 2
