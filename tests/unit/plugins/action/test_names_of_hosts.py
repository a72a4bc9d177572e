# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances and KVM hosts are told apart by their names, and names of KVM hosts in variables are those of the inventory."""

from __future__ import annotations

import pytest
from ansible.utils.display import Display
from placement_case import VM, controller, place

from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints

MOVE = {"action": "cold_migrate"}
START = {"method": "start"}


def run(action, args, instances=None, names=("a",), variables=None, **more):
    it = controller(instances or {"a": VM}, variables, **more)
    values = {**it.task_vars(), "ansible_play_hosts_all": ["localhost"]}
    return it.run(action, {"instances": list(names), **args}, values)


@pytest.mark.parametrize(
    "action, args",
    [("placement", {}), ("plan_moves", MOVE), ("locate_instances", START)],
    ids=["place", "move", "start"],
)
def test_an_instance_with_the_name_of_a_kvm_host_is_refused(action, args):
    given = {**VM, "berth_name": "h1"}
    refused = run(action, args, names=["h1"], variables=given)
    assert refused["error_code"] == "InvalidInput"
    assert "berth_name: 'h1' is not valid (the name of an instance, and not of a KVM host)" in refused["msg"]
    assert "and not of a KVM host" not in run(action, args, variables=given).get("msg", "")


@pytest.mark.follows("name_of_no_host")
def test_a_kvm_host_that_is_described_as_an_instance_is_refused_until_it_is_no_more():
    it = controller({"a": VM})
    it.inventory.hosts["h1"].set_variable("berth_flavor", "tiny")
    refused = it.run("placement", {"instances": ["a"]})
    assert "'h1' is not valid" in refused["msg"] and "remove berth_flavor from it" in refused["msg"]
    del it.inventory.hosts["h1"].vars["berth_flavor"]
    assert list(it.run("placement", {"instances": ["a"]})["selections"]) == ["a"]


@pytest.mark.parametrize("name", ["localhost", "all", "ungrouped", "web"])
@pytest.mark.follows("name_of_no_group")
def test_an_instance_whose_name_stands_for_others_too_is_not_made(name):
    """A later delete --limit all would take everything with it."""
    it = controller({name: VM}, {"berth_name": name})
    if name == "web":
        it.inventory.add_group("web")
    values = {**it.task_vars(), "ansible_play_hosts_all": ["localhost"]}
    refused = it.run("placement", {"instances": [name]}, values)
    assert refused["error_code"] == "InvalidInput" and "'%s' is not valid" % name in refused["msg"]
    assert fleet_hints.name_of_no_group() in refused["msg"]
    assert list(run("placement", {}, variables={"berth_name": "a"})["selections"]) == ["a"]


def test_an_instance_of_the_inventory_may_be_called_as_its_group_is():
    it = controller({"a": VM})
    it.inventory.add_group("a")
    assert list(it.run("placement", {"instances": ["a"]})["selections"]) == ["a"]


def test_a_flavor_that_all_hosts_have_makes_no_instance_of_a_kvm_host():
    assert place({"a": VM}, {"berth_flavor": "tiny"})["selections"]["a"]["host"] in ("h1", "h2")


@pytest.mark.parametrize("host", ["kvm_1", "kvm1.example.org", "KVM-1", "192.0.2.7"])
def test_a_kvm_host_may_have_any_name(host):
    assert (
        place({"a.example.org": {**VM, "berth_target_host": host}}, hosts=(host, "h2"))["selections"]["a.example.org"][
            "host"
        ]
        == host
    )


@pytest.mark.parametrize(
    "variable, value",
    [
        ("berth_target_host", "kvm7"),
        ("berth_force_hosts", ["kvm7"]),
        ("berth_ignore_hosts", "kvm7"),
        ("berth_availability_zone", "nova:kvm7"),
    ],
)
def test_a_host_that_is_none_is_named_with_the_one_that_was_probably_meant(variable, value):
    result = place(
        {"a": {**VM, variable: value}}, {"berth_aggregates": {"z": {"availability_zone": "nova"}}}, hosts=("kvm1", "h2")
    )
    assert "KvmHostNotFound: a: %s: there is no KVM host kvm7. Did you mean kvm1?" % variable in result["msg"]


def test_all_hosts_that_are_none_are_told_at_once_with_the_other_faults():
    wrong = {**VM, "berth_ignore_hosts": ["h7", "h8"]}
    said = place({"a": wrong, "b": {**VM, "berth_flavor": "tny"}})["msg"]
    assert "h7" in said and "h8" in said and "tny" in said


def test_a_host_that_the_run_leaves_out_is_one_of_the_inventory():
    ignoring = {"a": {**VM, "berth_ignore_hosts": ["h1"]}}
    assert place(ignoring, args={"hosts": ["h2"]})["selections"]["a"]["host"] == "h2"


@pytest.mark.parametrize(
    "action, args",
    [("placement", {}), ("plan_moves", MOVE), ("locate_instances", START)],
    ids=["place", "move", "start"],
)
def test_a_lost_host_that_nobody_knows_is_told_and_none_is_proposed(action, args, monkeypatch):
    shown = []
    monkeypatch.setattr(Display, "warning", lambda self, text, *args, **more: shown.append(text))
    run(action, args, variables={"berth_lost_hosts": "h7"})
    assert [text for text in shown if "lost" in text] == [
        "berth_lost_hosts: there is no KVM host h7, and no host remembers that one of these instances was on it. The inventory has h1, h2"
    ]
