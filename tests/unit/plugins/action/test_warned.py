# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's answer to which Ansible added a warning, such as the one on the Python it found there, is taken as any other."""

from __future__ import annotations

from ansible.module_utils._internal._messages import Event, WarningSummary
from controller import Controller
from placement_case import CATALOG, VM

from ansible_collections.berth.kvm.plugins.plugin_utils import delegates

WARNED = {"warnings": [WarningSummary(event=Event(msg="found /usr/bin/python3"))], "changed": True}
INSTANCE = {
    "uuid": "u",
    "name": "web-1",
    "project": "p",
    "spec": {"uuid": "u", "name": "web-1", "image": {}, "networks": []},
    "host": "kvm1",
    "alternates": [],
    "attempts": [],
}


def test_a_build(monkeypatch):
    plan = {
        "run": "r", "round": 1, "max_attempts": 3, "told": {}, "withdraw": {}, "build": ["web-1"], "claims": {},
        "planned": [], "ended": [], "uuids": {"kvm1": "h"}, "rescan": {}, "reachable": [], "faults": {}, "tell": {},
        "hosts": {"kvm1": {"uuid": "h"}}, "instances": {"web-1": dict(INSTANCE, state="building", token="t", error=None)},
    }  # fmt: skip
    groups = {"kvm_hosts": ["kvm1"], "instances": ["web-1"]}
    given = {"all": CATALOG, "web-1": VM}
    controller = Controller(groups, given, facts={"localhost": {"berth_plan": plan}})
    built = {**WARNED, "builds": [{"uuid": "u", "reply": {"changed": True, "instance": {}}}]}
    monkeypatch.setattr(delegates, "run_on", lambda hosts, *given: {host: built for host in hosts})
    (done,) = controller.run("create_instances", {}, {**controller.task_vars(), "inventory_hostname": "web-1"})[
        "outcomes"
    ]
    assert done["state"] == "active"
