# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""C02, C14: a request that failed without a host is not lost: show and the inventory find it until a success or a delete."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from ansible.playbook.task import Task
from ansible.utils.display import Display
from controller import Controller
from placement_case import VM, controller, facts, place

from ansible_collections.berth.kvm.plugins.module_utils.conductor.dynamic_inventory import NotListed, failed
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.plugin_utils import (
    acting,
    delegates,
    end_of_operation,
    remembered_failures,
    whose_fleet,
)

WEB = instance_uuid("default", "web1")
HUGE = {**VM, "berth_flavor": "huge"}
HOSTS = ("h1", "h2")
ACTION = SimpleNamespace(_task=SimpleNamespace(check_mode=False), own_variables=lambda _task_vars, _names: {})
BUILT = {"changed": True, "instance": {}}


@pytest.fixture(autouse=True)
def hosts_that_build(monkeypatch):
    def run_on(hosts, _module, given, *_rest):
        builds = {
            host: [{"uuid": each["uuid"], "reply": BUILT} for each in given[host].get("builds", ())] for host in hosts
        }
        return {host: {"changed": False, "builds": builds[host]} for host in hosts}

    monkeypatch.setattr(delegates, "run_on", run_on)


def files(own_state):
    folder = own_state / "failed"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def create(instances, variables=None):
    """Placement, and the end of the run as if each placed instance had been built."""
    placed = place(instances, variables, args={"plan": True})
    if placed.get("failed") or "outcomes" in placed:
        return placed
    plan = placed["ansible_facts"]["berth_plan"]
    for instance in plan["instances"].values():
        if instance["state"] == "claiming":
            instance.update(state="building", token="t" * 32)
    plan.update(claims={}, build=[name for name, each in plan["instances"].items() if each["state"] == "building"])
    it = Controller(
        {"kvm_hosts": HOSTS, "vms": list(instances)}, {"all": variables or {}}, {"localhost": {"berth_plan": plan}}
    )
    return it.run(
        "create_instances", {"may_fail": True}, {**it.task_vars(), "inventory_hostname": next(iter(instances))}
    )


def show(described=True, hosts=HOSTS, name="web1"):
    given = {name: VM} if described else {"all": {"berth_name": name}}
    it = Controller({"kvm_hosts": hosts, "vms": [name]}, given)
    it.register(
        "localhost", __berth_facts={"answers": {host: {"ansible_facts": facts(host), "notes": {}} for host in hosts}}
    )
    values = {**it.task_vars(), "ansible_forks": 5}
    return it.run("show_instances", {"instances": [name]}, values)["outcomes"][0]


def test_no_valid_host_leaves_a_record_that_show_finds_and_the_next_success_clears_it(own_state, capsys):
    create({"web1": HUGE})
    assert files(own_state) == [WEB + ".json"]
    capsys.readouterr()
    for described in (True, False):
        told = show(described)
        assert (told["state"], told["error"]) == ("error", "") and told["why"].startswith("NoValidHost: ")
        said = capsys.readouterr().out
        assert "web1: create failed at " in said and acting.WHO in said and acting.RUN in said
    create({"web1": VM})
    assert files(own_state) == [] and show()["state"] == "absent"


def test_over_quota_and_refused_input_leave_one_too(own_state):
    create({"web1": VM}, {"berth_quotas": {"*": {"instances": 0}}})
    assert show()["why"].startswith("QuotaExceeded: ")
    create({"web1": {**VM, "berth_flavor": "tinny"}, "Bad_Name!": {**VM, "berth_flavor": "tinny"}})
    assert show()["why"].startswith("FlavorNotFound: ") and "Did you mean tiny?" in show()["why"]
    assert files(own_state) == [WEB + ".json"]


def test_a_place_and_check_mode_leave_none(own_state, monkeypatch):
    place({"web1": {**VM, "berth_flavor": "tinny"}})
    monkeypatch.setattr(Task, "check_mode", True)
    create({"web1": HUGE})
    create({"web1": {**VM, "berth_flavor": "tinny"}})
    assert files(own_state) == []


def located(names, errors=None):
    shown = {
        "names": names,
        "found": [],
        "moving": [],
        "errors": errors or {},
        "shown": {},
        "instances": {},
        "left_out": {},
    }
    it = Controller({"kvm_hosts": HOSTS, "vms": names}, {name: VM for name in names})
    return end_of_operation.end(ACTION, it.task_vars(), "delete", shown, {}, {}, {})


def test_a_delete_clears_it_and_one_that_fails_does_not(own_state):
    create({"web1": HUGE})
    located(["web1"], {"web1": "InstanceUnknown: h1 is silent"})
    assert files(own_state) == [WEB + ".json"]
    located(["web1"])
    assert files(own_state) == []


def test_a_refused_move_is_told_and_no_typing_error_is_kept(own_state):
    errors = {"web1": "NoValidHost: none", "wbe1": "InstanceNotFound: wbe1 is in no inventory and on no host"}
    moves = {"moves": {}, "names": list(errors), "errors": errors, "settle": [], "act": [], "left_out": {}}
    it = Controller({"kvm_hosts": HOSTS, "vms": ["web1", "wbe1"]})
    ended = end_of_operation.end(ACTION, it.task_vars(), "resize", {}, {}, moves, dict.fromkeys(errors, {}))
    outcomes = ended["outcomes"]
    assert {outcome["error_code"] for outcome in outcomes} == {"NoValidHost", "InstanceNotFound"}
    assert files(own_state) == [WEB + ".json"]
    said = remembered_failures.known(whose_fleet.Fleet(whose_fleet.machines(it.task_vars(), HOSTS)))[WEB]
    assert (said["operation"], said["code"], said["message"]) == ("resize", "NoValidHost", "none")


def test_that_of_another_fleet_of_the_same_controller_is_not_told(own_state):
    create({"web1": HUGE})
    assert show(hosts=("k9",))["state"] == "absent"


@pytest.mark.parametrize("nonsense", ["", "{", "[]", "null", '{"uuid": 1}', "[" * 99999, '{"hosts": ["h1"]}'])
def test_a_file_that_was_edited_is_passed_over(own_state, nonsense):
    create({"web1": HUGE})
    (own_state / "failed" / (WEB + ".json")).write_text(nonsense)
    assert show()["state"] == "absent"


def test_where_it_cannot_be_kept_one_warning_says_so_and_the_run_ends_as_ever(own_state, monkeypatch, tmp_path):
    said = []
    monkeypatch.setattr(Display, "warning", lambda self, text, *args, **more: said.append(text))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    result = create({"web1": HUGE, "web2": HUGE})
    assert result["outcomes"][0]["error_code"] == "NoValidHost"
    assert [text.partition(":")[0] for text in said] == [
        "No receipt of this decision is kept", "The failure of this request is not remembered",
    ]  # fmt: skip


# -- the inventory


def said_of(name="web1", project="default", operation="create", **changes):
    return {
        "uuid": instance_uuid(project, name), "name": name, "project": project, "operation": operation, "code": "NoValidHost",
        "message": "none", "at": "2026-01-01T00:00:00Z", **changes,
    }  # fmt: skip


def known(name):
    if name == "kvm1":
        raise NotListed("a KVM host has that name")
    return {"berth_flavor": "tiny", "berth_project": "blue"} if name == "blue1" else None


@pytest.mark.parametrize(
    "said, found, variables",
    [
        (said_of(), (), {"berth_error", "berth_uuid", "berth_project"}),
        (said_of(), ("web1",), {"berth_error"}),
        (said_of(operation="resize"), ("web1",), {"berth_error"}),
        (said_of(operation="resize"), (), None),
        (said_of("blue1", "blue"), (), {"berth_error", "berth_uuid"}),
        (said_of("blue1"), (), None),
        (said_of("kvm1"), (), None),
        (said_of("localhost"), (), None),
        (said_of("{{ x }}"), (), None),
        (said_of(uuid=instance_uuid("default", "other")), (), None),
    ],
)
def test_the_inventory_lists_what_could_not_be_made_under_the_rules_of_names(said, found, variables):
    listed = failed([said], known, found)
    assert (set(listed[said["name"]]) if listed else None) == variables


def test_such_an_instance_is_one_for_show_and_delete_and_none_for_create():
    it = controller({"web1": {"berth_error": {"code": "NoValidHost"}, "berth_uuid": WEB}})
    result = it.run("placement", {"instances": ["web1"]})
    assert json.dumps(result["selections"]) == "{}" and not result.get("failed")
