# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a run: what the table shows of facts and registered results, and what the recap counts."""

from __future__ import annotations

import pytest
from ansible.module_utils._internal._messages import Event, WarningSummary
from controller import Controller

from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid

WEB = instance_uuid("default", "web1")
WARNING = WarningSummary(event=Event(msg="found /usr/bin/python3"))


def located(**more):
    return {
        "names": ["web1", "web2"], "found": ["web1"], "moving": [], "errors": {}, "skipped": {}, "left_out": {},
        "shown": {"web1": {"host": "kvm1", "flavor": "small"}}, **more,
    }  # fmt: skip


@pytest.fixture
def show():
    """show(operation, {host: registered variables}, facts) -> the action's result."""

    def act(operation, registered, play=("web1", "web2"), **facts):
        it = Controller({"kvm_hosts": ["kvm1"], "vms": ["web1", "web2"]}, facts={"localhost": facts})
        for host, values in registered.items():
            it.register(host, **values)
        hosts = {"ansible_play_hosts_all": ["web1", "web2"], "ansible_play_hosts": list(play)}
        return it.run("show_results", {"operation": operation}, {**it.task_vars(), **hosts})

    return act


def states(result):
    return {line["instance"]: line["state"] for line in result["outcomes"]}


def test_every_instance_has_a_line_also_where_nothing_changed(show):
    result = show("start", {"web1": {"__berth_done": {"changed": False}}}, berth_located=located())
    assert states(result) == {"web1": "unchanged", "web2": "unchanged"}
    assert result["ansible_facts"]["berth_results"] == {"failed": {}, "left_out": {}}


def test_a_failure_is_kept_for_the_recap_with_the_name_of_the_instance(show):
    why = "InstanceMoving: Instance %s is in task_state resize_prep" % WEB
    failed = {"failed": True, "msg": why, "exception": WARNING, "changed": False}
    result = show("stop", {"web1": {"__berth_done": failed, "__berth_failure": why}}, berth_located=located())
    said = "InstanceMoving: Instance web1 is in task_state resize_prep"
    assert result["ansible_facts"]["berth_results"]["failed"] == {"web1": said}


def test_an_instance_whose_host_fell_silent_is_not_known(show):
    result = show("stop", {}, play=["web2"], berth_located=located())
    assert "stopped answering" in result["ansible_facts"]["berth_results"]["failed"]["web1"]


def test_the_recap_tells_a_silent_host_from_one_that_failed(show):
    left_out = {"kvm1": "UNREACHABLE: no answer within 60 s", "kvm2": "LibvirtNotFound: no binding"}
    hosts = show("start", {}, berth_located=located(left_out=left_out))["ansible_facts"]["berth_results"]["left_out"]
    assert {host: found["silent"] for host, found in hosts.items()} == {"kvm1": True, "kvm2": False}


def test_a_run_that_resized_before_does_not_change_what_is_said_of_a_stop(show):
    """Playbooks may be imported one after the other: the facts of the first are still there."""
    old = {"moves": {"web1": {}}, "act": ["web1"], "errors": {}, "left_out": {}, "settle": []}
    registered = {"web1": {"__berth_done": {"changed": True}, "move_walk": {"move": {}}}}
    assert states(show("stop", registered, berth_located=located(), berth_moves=old))["web1"] == "stopped"


def test_the_address_is_the_one_that_the_host_tells_such_as_one_of_a_pool(show):
    told = {"host": "kvm1", "flavor": "small", "networks": [{"address": "192.0.2.7"}, {"address": "2001:db8::7"}]}
    result = show("start", {}, berth_located=located(shown={"web1": told}))
    assert {line["instance"]: line["address"] for line in result["outcomes"]} == {"web1": "192.0.2.7 +1", "web2": ""}


@pytest.mark.parametrize(
    "name, counted", [("web1", {"failed": True, "msg": "X: no"}), ("kvm1", {"unreachable": True, "msg": "UNREACHABLE"})]
)
def test_what_failed_is_reported_in_its_own_name(name, counted):
    results = {"failed": {"web1": "X: no"}, "left_out": {"kvm1": {"reason": "UNREACHABLE", "silent": True}}}
    it = Controller({"kvm_hosts": ["kvm1"], "vms": ["web1"]}, facts={"localhost": {"berth_results": results}})
    done = it.run("report_failure", task_vars={**it.task_vars(), "inventory_hostname": name})
    assert {key: done[key] for key in counted} == counted
