# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances that are there are looked at by one run on each host; only what is not as it is wanted takes a run of its own."""

from __future__ import annotations

import pytest
from controller import Controller

from ansible_collections.berth.kvm.plugins.plugin_utils import delegates

NAMES = ("web-1", "web-2", "db-1")
HOST_OF = {"web-1": "kvm1", "web-2": "kvm1", "db-1": "kvm2"}


def existing(name, **more):
    return {
        "uuid": "uuid-of-" + name, "name": name, "project": "p", "spec": {"name": name}, "host": HOST_OF[name], "alternates": [],
        "attempts": [], "error": None, "existing": True, "state": "existing", **more,
    }  # fmt: skip


def unchanged(name):
    return {"uuid": "uuid-of-" + name, "unchanged": True, "instance": {"uuid": "uuid-of-" + name, "state": "running"}}


@pytest.fixture
def asked():
    return []


def run(monkeypatch, asked, said, check_mode=False, **more):
    """The plan after the claims where hosts look and say ``said``; ``more``: instance -> what else the plan has of it."""
    instances = {name: existing(name, **more.get(name.replace("-", ""), {})) for name in NAMES}
    plan = {
        "run": "r", "round": 1, "max_attempts": 3, "told": {}, "withdraw": {}, "build": list(NAMES), "claims": {}, "planned": [],
        "ended": [], "uuids": {"kvm1": "h1", "kvm2": "h2"}, "reachable": ["kvm1", "kvm2"], "rescan": {"about": [], "told": {}},
        "hosts": {"kvm1": {"uuid": "h1"}, "kvm2": {"uuid": "h2"}}, "instances": instances,
    }  # fmt: skip

    def run_on(hosts, module, given, *_more):
        asked.append((module, given))
        return {host: said[host] for host in hosts}

    monkeypatch.setattr(delegates, "run_on", run_on)
    groups = {"kvm_hosts": ["kvm1", "kvm2"], "instances": list(NAMES)}
    controller = Controller(groups, facts={"localhost": {"berth_plan": plan}})
    done = controller.run("claim_room", check_mode=check_mode)
    assert not done.get("failed"), done
    return done["ansible_facts"]["berth_plan"], done


def test_each_host_is_asked_once_and_what_is_unchanged_is_built_no_more(monkeypatch, asked):
    said = {"kvm1": {"instances": [unchanged("web-1"), unchanged("web-2")]}, "kvm2": {"instances": [unchanged("db-1")]}}
    plan, _done = run(monkeypatch, asked, said)
    ((module, given),) = asked
    assert module == "berth.kvm.unchanged_instances"
    assert [each["uuid"] for each in given["kvm1"]["wanted"]] == ["uuid-of-web-1", "uuid-of-web-2"]
    assert plan["build"] == []
    for name in NAMES:
        found = plan["instances"][name]
        assert (found["state"], found["changed"], found["result"]["uuid"]) == ("active", False, "uuid-of-" + name)


@pytest.mark.parametrize(
    "answer",
    [
        {"unreachable": True, "msg": "no route"},
        {"failed": True, "msg": "x", "error": {"code": "LibvirtTimeout", "message": "x", "retryable": False}},
        {"instances": []},
        {"instances": [{"uuid": "uuid-of-db-1", "unchanged": False, "instance": None}]},
    ],
)
def test_what_its_host_does_not_say_to_be_unchanged_takes_a_run_of_its_own(monkeypatch, asked, answer):
    plan, _done = run(
        monkeypatch, asked, {"kvm1": {"instances": [unchanged("web-1"), unchanged("web-2")]}, "kvm2": answer}
    )
    assert plan["build"] == ["db-1"] and plan["instances"]["db-1"]["state"] == "existing"


def test_the_power_that_the_inventory_wants_is_asked_for_but_of_what_is_locked(monkeypatch, asked):
    said = {"kvm1": {"instances": []}, "kvm2": {"instances": []}}
    more = {"web1": {"berth_state": "stopped"}, "web2": {"berth_state": "active", "locked": "ann"}}
    run(monkeypatch, asked, said, **more)
    ((_module, given),) = asked
    # the module refuses a null, so what is left open is left out
    assert [each.get("power_state", "open") for each in given["kvm1"]["wanted"]] == ["shutdown", "open"]
    assert set(given["kvm2"]["wanted"][0]) == {"uuid", "spec"}


def test_a_host_is_asked_whether_there_is_something_to_mend(monkeypatch, asked):
    run(monkeypatch, asked, {"kvm1": {"instances": []}, "kvm2": {"instances": []}}, web1={"mend": True})
    ((_module, given),) = asked
    assert [each.get("mend", False) for host in given.values() for each in host["wanted"]] == [True, False, False]


def test_what_a_host_says_of_another_hosts_instance_decides_nothing(monkeypatch, asked):
    said = {"kvm1": {"instances": [unchanged(name) for name in NAMES]}, "kvm2": {"instances": []}}
    plan, _done = run(monkeypatch, asked, said)
    assert plan["build"] == ["db-1"]


def test_check_mode_looks_as_well(monkeypatch, asked):
    said = {"kvm1": {"instances": [unchanged("web-1"), unchanged("web-2")]}, "kvm2": {"instances": []}}
    plan, _done = run(monkeypatch, asked, said, check_mode=True)
    assert plan["build"] == ["db-1"]


def test_what_is_still_to_be_built_is_not_looked_at(monkeypatch, asked):
    said = {"kvm2": {"instances": [unchanged("db-1")]}}
    more = {"web1": {"state": "building", "token": "t"}, "web2": {"state": "planned"}}
    plan, _done = run(monkeypatch, asked, said, **more)
    assert [set(given) for _module, given in asked] == [{"kvm2"}] and plan["build"] == ["web-1", "web-2"]


def test_what_a_host_warns_of_is_shown(monkeypatch, asked):
    said = {"kvm1": {"instances": []}, "kvm2": {"instances": [], "warnings": ["instance db-1 has flavor small"]}}
    _plan, done = run(monkeypatch, asked, said)
    assert done["warnings"] == ["instance db-1 has flavor small"]
