# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the build of an instance gets beside its request: the seed, which the plan never has."""

from __future__ import annotations

import pytest
from placement_case import VM, controller

from ansible_collections.berth.kvm.plugins.action import build_instance

LAN = {"lan": {"type": "bridge", "source": "br0", "cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "pool": {}}}


def test_the_seed_has_the_address_that_the_plan_chose_with_the_gateway(monkeypatch):
    """A03, C06: the inventory itself names none."""
    asked = {}
    monkeypatch.setattr(build_instance, "ask_module", lambda _action, _name, args, _vars: asked.update(args) or {})
    it = controller({"a": {**VM, "berth_networks": ["lan"]}}, {"berth_networks_defined": LAN})
    task_vars = {**it.task_vars(), "inventory_hostname": "a"}
    nic = {
        "mac": "02:00:00:00:00:01",
        "mtu": None,
        "address": "192.0.2.7/24",
        "gateway": "192.0.2.1",
        "nameservers": [],
    }
    it.run("build_instance", {"spec": {"uuid": "u", "image": {}, "networks": [nic]}, "token": "t"}, task_vars)
    static = asked["seed"]["network_config"]["config"][0]["subnets"][0]
    assert "mend" not in asked
    assert (static["address"], static["gateway"]) == ("192.0.2.7/24", "192.0.2.1")


def test_a_network_config_of_the_users_own_is_seeded_as_it_is(monkeypatch):
    asked, own = {}, {"version": 2, "ethernets": {"any": {"match": {"name": "e*"}, "dhcp4": True}}}
    monkeypatch.setattr(build_instance, "ask_module", lambda _action, _name, args, _vars: asked.update(args) or {})
    it = controller(
        {"a": {**VM, "berth_networks": ["lan"], "berth_network_config": own}}, {"berth_networks_defined": LAN}
    )
    task_vars = {**it.task_vars(), "inventory_hostname": "a"}
    it.run("build_instance", {"spec": {"uuid": "u", "image": {}, "networks": []}, "token": "t"}, task_vars)
    assert asked["seed"]["network_config"] == own


@pytest.mark.parametrize("given", [True, "yes", "true"])
def test_a_run_that_is_to_mend_says_so_to_the_host(monkeypatch, given):
    asked = {}
    monkeypatch.setattr(build_instance, "ask_module", lambda _action, _name, args, _vars: asked.update(args) or {})
    it = controller({"a": {**VM, "berth_networks": []}}, {"berth_mend": given})
    task_vars = {**it.task_vars(), "inventory_hostname": "a"}
    it.run("build_instance", {"spec": {"uuid": "u", "image": {}, "networks": []}}, task_vars)
    assert asked["mend"] is True


@pytest.mark.parametrize("locked, token, kept", [(True, None, False), (True, "t", True), ("no", None, True)])
def test_a_host_is_not_told_to_follow_the_request_of_an_instance_that_the_inventory_locks(
    monkeypatch, locked, token, kept
):
    """What is being created gets its request: nobody has changed it yet."""
    asked = {}
    monkeypatch.setattr(build_instance, "ask_module", lambda _action, _name, args, _vars: asked.update(args) or {})
    it = controller({"a": {**VM, "berth_networks": [], "berth_locked": locked}}, {"berth_mend": True})
    task_vars = {**it.task_vars(), "inventory_hostname": "a"}
    given = {"spec": {"uuid": "u", "image": {}, "networks": []}, **({"token": token} if token else {})}
    it.run("build_instance", given, task_vars)
    assert asked["uuid"] == "u" and ("spec" in asked, "mend" in asked) == (kept, kept)


def test_a_word_that_is_neither_yes_nor_no_is_refused_before_the_host_is_asked(monkeypatch):
    monkeypatch.setattr(build_instance, "ask_module", lambda *_: pytest.fail("the host was asked"))
    it = controller({"a": {**VM, "berth_networks": []}}, {"berth_mend": "now"})
    task_vars = {**it.task_vars(), "inventory_hostname": "a"}
    result = it.run("build_instance", {"spec": {"uuid": "u", "image": {}, "networks": []}}, task_vars)
    assert result["error"]["field"] == "berth_mend"


def test_a_host_that_is_in_no_inventory_fails_the_role_and_the_right_name_is_told(monkeypatch):
    monkeypatch.setattr(build_instance, "ask_module", lambda *_: pytest.fail("the host was asked"))
    it = controller({"a": {**VM, "berth_networks": []}})
    near = it.task_vars()["groups"]["kvm_hosts"][0]
    task_vars = {**it.task_vars(), "inventory_hostname": near + "x"}
    result = it.run("build_instance", {"spec": {"uuid": "u", "image": {}, "networks": []}}, task_vars)
    assert result["failed"] and result["error_code"] == "KvmHostNotFound"
    assert "create_host: there is no KVM host %sx. Did you mean %s?" % (near, near) in result["msg"]


@pytest.mark.parametrize(
    "said, power_state",
    [
        ({"berth_state": "stopped"}, "shutdown"),
        ({"berth_state": "active"}, "running"),
        ({}, None),
        ({"berth_state": "stopped", "berth_locked": True}, None),
    ],
)
def test_a_take_over_tells_the_host_whether_the_guest_is_to_run(monkeypatch, said, power_state):
    asked = {}
    monkeypatch.setattr(build_instance, "ask_module", lambda _action, _name, args, _vars: asked.update(args) or {})
    it = controller({"a": {**VM, **said}})
    task_vars = {**it.task_vars(), "inventory_hostname": "a"}
    it.run("build_instance", {"spec": {"uuid": "u"}, "token": "t", "take_over": "lost"}, task_vars)
    assert (asked["state"], asked.get("power_state")) == ("taken_over", power_state)
