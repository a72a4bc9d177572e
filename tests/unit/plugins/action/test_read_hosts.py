# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts are asked at the beginning of a run, and what it means that none answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from controller import Controller

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates, fan_out

VARIABLES = {"web-1": {"berth_flavor": "small"}, "db": {"berth_flavor": "small", "berth_project": "shop"}}
FACTS = {"changed": False, "ansible_facts": {"berth_host": {"schema": 1}}}
SILENT = {"unreachable": True, "msg": "no answer within 60 s (berth_host_timeout)"}


@pytest.fixture
def read(monkeypatch):
    """read(names, {host: result of its module}, ...) -> (the action's result, what each host was asked)."""

    def act(names, results, **args):
        asked = {}

        def run_on(hosts, module, arguments, *_limits):
            asked.update(arguments)
            return {host: dict(results[host]) for host in hosts}

        monkeypatch.setattr(delegates, "run_on", run_on)
        known = {name: VARIABLES.get(name, {"berth_project": "no"}) for name in names}
        it = Controller({"kvm_hosts": list(results), "vms": names}, known)
        values = {**it.task_vars(), "inventory_hostname": "localhost", "ansible_forks": 5}
        values["ansible_play_hosts_all"] = ["localhost"]
        return it.run("read_hosts", {"instances": names, "hosts": list(results), **args}, values), asked

    return act


@pytest.mark.parametrize("most, asked", [(None, True), (2, True), (1, False)])
def test_each_instance_is_asked_about_by_its_project_and_name_unless_there_are_too_many(read, most, asked):
    names = ["web-1", "db", "router", "Not_A_Name"]
    _result, given = read(names, {"h1": FACTS}, **({"most": most} if most else {}))
    wanted = [instance_uuid("default", "web-1"), instance_uuid("shop", "db")]
    assert given["h1"]["about"] == (wanted if asked else [])


@pytest.mark.parametrize("lost", [None, "h2"])
def test_where_a_host_is_lost_the_hosts_are_asked_about_all_instances_whatever_is_selected(read, monkeypatch, lost):
    monkeypatch.setitem(VARIABLES, "web-1", {**VARIABLES["web-1"], **({"berth_lost_hosts": lost} if lost else {})})
    _result, given = read(["web-1", "db", "no-instance"], {"h1": FACTS}, instances=["web-1"])
    others = [instance_uuid("shop", "db")] if lost else []
    assert given["h1"]["about"] == [instance_uuid("default", "web-1"), *others]


def test_a_silent_host_is_an_answer_while_another_answers(read):
    result, _asked = read(["web-1"], {"h1": FACTS, "h2": SILENT})
    assert result["answers"]["h2"]["reason"].endswith("no answer within 60 s (berth_host_timeout)")
    assert not result.get("failed")


def test_a_run_fails_where_no_host_answers_and_says_why_for_each(read):
    failure = {"failed": True, "msg": "", "error": {"code": "HostNotPrepared", "message": "no settings", "hint": "Do"}}
    result, _asked = read(["web-1"], {"h1": SILENT, "h2": failure})
    assert result["failed"] and result["error_code"] == "NoHostAnswered"
    assert (
        "h1: UNREACHABLE: no answer within 60 s" in result["msg"]
        and "HostNotPrepared: no settings. Do" in result["msg"]
    )
    assert not read(["web-1"], {"h1": SILENT}, must_answer=False)[0].get("failed")
    result, _asked = read(["web-1"], {"h1": failure, "h2": failure})
    assert result["msg"].count("no settings") == 1 and "h1, h2: HostNotPrepared" in result["msg"]


def asked_again(monkeypatch, said, module="host_facts", **arguments):
    """(the last result, how often the host was asked) where its connection says each of ``said`` in turn."""
    times = []

    def run_on(hosts, *_given):
        times.append(list(hosts))
        return {host: FACTS if host == "good" else {**said[min(len(times), len(said)) - 1]} for host in hosts}

    monkeypatch.setattr(delegates, "run_on", run_on)
    monkeypatch.setattr(fan_out, "PAUSE", 0)
    it = Controller({"kvm_hosts": ["h1", "good"]})
    action = SimpleNamespace(_task=SimpleNamespace(run_once=True))
    results = fan_out.ask(action, it.task_vars(), ["h1", "good"], module, arguments)
    assert results["good"] == FACTS and times[0] == ["h1", "good"] and set(map(tuple, times[1:])) <= {("h1",)}
    return results["h1"], len(times)


BROKE = {"unreachable": True, "msg": "kex_exchange_identification: Connection closed by remote host"}


def test_what_is_only_read_is_asked_again_where_the_connection_broke(monkeypatch):
    """S03"""
    assert asked_again(monkeypatch, [BROKE, FACTS]) == (FACTS, 2)
    assert asked_again(monkeypatch, [BROKE]) == (BROKE, fan_out.TRIES)


@pytest.mark.parametrize("module, more", [("claim", {}), ("rescan", {}), ("volume", {}), ("host_facts", {"fix": True})])
def test_what_writes_is_never_sent_again(module, more, monkeypatch):
    """S03"""
    assert asked_again(monkeypatch, [BROKE, FACTS], module, **more) == (BROKE, 1)


@pytest.mark.parametrize(
    "said",
    [
        SILENT,
        {"unreachable": True, "msg": "ssh: connect to host h1 port 22: No route to host"},
        {"unreachable": True, "msg": "ssh: connect to host h1 port 22: Connection timed out"},
        {"failed": True, "msg": "Connection reset by peer"},
    ],
)
def test_a_host_that_is_down_or_says_no_is_asked_once(said, monkeypatch):
    """S03: it would cost its time again."""
    assert asked_again(monkeypatch, [said, FACTS]) == (said, 1)


def test_an_inventory_without_kvm_hosts_is_told(read):
    result, _asked = read(["web-1"], {})
    assert "the inventory has no KVM host" in result["msg"]
