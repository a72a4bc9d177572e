# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each host builds all of its new instances in one run; each instance is told what the host said of it."""

from __future__ import annotations

import json

import pytest
from ansible.template import trust_as_template
from controller import Controller
from placement_case import CATALOG, VM

from ansible_collections.berth.kvm.plugins.action import build_instance
from ansible_collections.berth.kvm.plugins.plugin_utils import delegates

HOST_OF = {"web-1": "kvm1", "web-2": "kvm1", "db-1": "kvm2"}
SECRET = "#cloud-config\npassword: wholly-secret\n"


@pytest.fixture
def asked():
    return []


def plan(**more):
    """``more``: instance without its hyphen -> what else the plan has of it."""
    instances = {
        name: {
            "uuid": "uuid-of-" + name, "name": name, "project": "p", "host": host, "alternates": [], "attempts": [],
            "state": "building", "token": "token-of-" + name, "error": None,
            "spec": {"uuid": "uuid-of-" + name, "name": name, "image": {"name": "guest"}, "networks": []},
            **more.get(name.replace("-", ""), {}),
        }
        for name, host in HOST_OF.items()
    }  # fmt: skip
    return {"build": list(instances), "instances": instances, "round": 1, "claims": {}}


def controller(planned, variables=None):
    groups = {"kvm_hosts": ["kvm1", "kvm2"], "instances": list(HOST_OF)}
    given = {"all": CATALOG, **{name: {**VM, "berth_user_data": SECRET} for name in HOST_OF}, **(variables or {})}
    return Controller(groups, given, {"localhost": {"berth_plan": planned}})


def run(monkeypatch, asked, said, planned=None, variables=None, check_mode=False):
    def run_on(hosts, module, given, _task, _at_once, seconds):
        asked.append((module, given, seconds))
        return {host: said[host] for host in hosts}

    monkeypatch.setattr(delegates, "run_on", run_on)
    done = controller(planned or plan(), variables).run("build_on_hosts", check_mode=check_mode)
    assert not done.get("failed"), done
    return done


def built(name, **more):
    return {"uuid": "uuid-of-" + name, "reply": {"changed": True, "instance": {"uuid": "uuid-of-" + name}, **more}}


ALL = {
    "kvm1": {"changed": True, "builds": [built("web-1"), built("web-2")]},
    "kvm2": {"changed": True, "builds": [built("db-1")]},
}


def test_each_host_is_asked_once_for_all_of_its_new_instances(monkeypatch, asked):
    done = run(monkeypatch, asked, ALL)
    ((module, given, seconds),) = asked
    assert module == "berth.kvm.build_instances"
    assert [build["uuid"] for build in given["kvm1"]["builds"]] == ["uuid-of-web-1", "uuid-of-web-2"]
    assert [build["token"] for build in given["kvm2"]["builds"]] == ["token-of-db-1"]
    assert given["kvm1"]["builds"][0]["seed"]["user_data"] == SECRET
    assert min(seconds.values()) > 3600  # an image may be large
    assert {token: answer["instance"]["uuid"] for token, answer in done["answers"].items()} == {
        "token-of-" + name: "uuid-of-" + name for name in HOST_OF
    }


def test_it_says_which_instances_have_something_to_be_built_also_in_check_mode(monkeypatch, asked):
    """The tasks of all others are skipped by that."""
    planned = {**plan(db1={"state": "existing"}), "build": ["web-2", "db-1"]}
    for check_mode in (False, True):
        assert run(monkeypatch, asked, ALL, planned, check_mode=check_mode)["build"] == ["web-2", "db-1"]


def test_the_time_that_a_guest_has_to_shut_down_goes_to_its_host(monkeypatch, asked):
    run(monkeypatch, asked, ALL, variables={"db-1": {**VM, "berth_shutdown_timeout": 300}})
    ((_module, given, _seconds),) = asked
    builds = [build for arguments in given.values() for build in arguments["builds"]]
    assert {build["uuid"]: build.get("shutdown_timeout") for build in builds} == {
        "uuid-of-web-1": None, "uuid-of-web-2": None, "uuid-of-db-1": 300,
    }  # fmt: skip


def test_no_secret_and_no_change_is_in_the_tasks_own_result(monkeypatch, asked):
    """Each instance's own task counts what was changed about it."""
    done = run(monkeypatch, asked, ALL)
    assert "wholly-secret" not in json.dumps(done) and done["changed"] is False


def test_a_host_that_falls_silent_leaves_each_of_its_builds_unknown_and_no_others(monkeypatch, asked):
    done = run(monkeypatch, asked, {**ALL, "kvm1": {"unreachable": True, "msg": "no route"}})
    assert [("reason" in done["answers"]["token-of-" + name]) for name in HOST_OF] == [True, True, False]


def test_what_the_host_says_nothing_of_may_have_been_built(monkeypatch, asked):
    done = run(monkeypatch, asked, {**ALL, "kvm1": {"changed": True, "builds": [built("web-2")]}})
    assert "reason" in done["answers"]["token-of-web-1"] and "instance" in done["answers"]["token-of-web-2"]


def test_one_that_failed_says_why_and_the_others_are_built(monkeypatch, asked):
    error = {"code": "BuildFailed", "message": "x", "retryable": True}
    failed = {"uuid": "uuid-of-web-1", "reply": {"failed": True, "changed": False, "msg": "x", "error": error}}
    done = run(monkeypatch, asked, {**ALL, "kvm1": {"changed": True, "builds": [failed, built("web-2")]}})
    assert done["answers"]["token-of-web-1"]["error"] == error
    assert "instance" in done["answers"]["token-of-web-2"]


SENT = {"name": "sent", "upload": "/x"}
ON_VOLUME = {"name": "tools", "size_gb": 2, "image": SENT}


@pytest.mark.parametrize(
    "own",
    [
        {"state": "existing"},
        {"take_over": "u"},
        {"spec": {"image": SENT, "flavor": {"root_gb": 1}, "networks": []}},
        {"spec": {"image": {"name": "guest"}, "networks": [], "volumes": [ON_VOLUME]}},
    ],
)
def test_what_takes_a_run_of_its_own_is_left_to_that(monkeypatch, asked, own):
    run(monkeypatch, asked, ALL, plan(web1=own))
    ((_module, given, _seconds),) = asked
    assert [build["uuid"] for build in given["kvm1"]["builds"]] == ["uuid-of-web-2"]


UNDEFINED = trust_as_template("{{ nowhere_defined }}")


@pytest.mark.parametrize(
    "wrong",
    [{"berth_mend": "now"}, *({"create_timeout": value} for value in ("soon", "", [60], {}, UNDEFINED))],
    ids=repr,
)
def test_what_cannot_be_asked_for_is_left_to_its_own_run_which_says_why(monkeypatch, asked, wrong):
    """The host's module would refuse the builds of all others with it."""
    run(monkeypatch, asked, ALL, variables={"web-1": {**VM, **wrong}})
    ((_module, given, _seconds),) = asked
    assert [build["uuid"] for build in given["kvm1"]["builds"]] == ["uuid-of-web-2"]


def test_each_build_waits_as_long_for_another_run_as_its_instance_says(monkeypatch, asked):
    run(monkeypatch, asked, ALL, variables={"web-1": {**VM, "create_timeout": "20"}})
    ((_module, given, _seconds),) = asked
    assert [build["timeout"] for build in given["kvm1"]["builds"]] == [20, 600]


def test_check_mode_asks_no_host(monkeypatch, asked):
    done = run(monkeypatch, asked, ALL, check_mode=True)
    assert not any(given for _module, given, _seconds in asked) and done["answers"] == {}


def of_instance(monkeypatch, token, check_mode=False):
    """What build_instance says for web-1, and whether it had the host build."""
    runs = []
    monkeypatch.setattr(build_instance, "ask_module", lambda *_: runs.append(1) or {"changed": True, "instance": {}})
    it = controller(plan())
    it.register("web-1", __berth_built={"answers": {"token-of-web-1": {"changed": True, "instance": {"uuid": "u"}}}})
    task_vars = {**it.task_vars(), "inventory_hostname": "web-1"}
    args = {"spec": {"uuid": "u", "image": {}, "networks": []}, "token": token}
    return it.run("build_instance", args, task_vars), bool(runs)


def test_what_was_built_already_is_told_and_not_built_again(monkeypatch):
    said, ran = of_instance(monkeypatch, "token-of-web-1")
    assert said["instance"] == {"uuid": "u"} and not ran


@pytest.mark.parametrize(
    "answer, said",
    [
        ({"changed": False, "error": {"code": "ClaimRevoked", "message": "no claim"}}, "ClaimRevoked: no claim"),
        ({"changed": False, "reason": "UNREACHABLE: no route"}, "UNREACHABLE: no route"),
    ],
)
def test_a_build_that_failed_fails_its_task_unless_the_playbook_looks_at_it(monkeypatch, answer, said):
    """Who used the role create alone was told ok, and had no instance."""
    monkeypatch.setattr(build_instance.builds, "built_already", lambda *_: answer)
    it = controller(plan())
    args = {"spec": {"uuid": "u", "image": {}, "networks": []}, "token": "t"}
    alone = it.run("build_instance", args)
    assert alone["failed"] and said in alone["msg"]
    assert it.run("build_instance", {**args, "may_fail": True}) == answer


def test_an_answer_to_an_earlier_claim_is_none_to_this_one(monkeypatch):
    _said, ran = of_instance(monkeypatch, "token of the next round")
    assert ran
