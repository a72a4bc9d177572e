# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was deleted is forgotten by all hosts; what may still be there is not."""

from __future__ import annotations

import pytest
from controller import Controller

from ansible_collections.berth.kvm.plugins.plugin_utils import delegates

H1 = "4c4c4544-0042-3510-8052-b4c04f4a3231"


@pytest.mark.parametrize(
    "owner, done, lost, told",
    [
        (H1, {"changed": True}, False, {"gone": {H1: {"u": [1, 7]}}}),
        (H1, {"failed": True}, False, None),
        (H1, {"unreachable": True}, False, None),
        (H1, None, False, None),
        (None, {"changed": True}, False, None),
        (H1, None, True, {"gone": {H1: {"u": [1, 7]}}, "after": {"u": 1}}),
    ],
    ids=["deleted", "failed", "its host fell silent", "never tried", "nobody remembers an owner", "lost with its host"],
)
def test_hosts_are_told_of_what_was_deleted_and_of_nothing_else(owner, done, lost, told, monkeypatch):
    asked = {}

    def run_on(hosts, module, arguments, *_limits):
        asked.update(arguments)
        return {host: {"changed": False} for host in hosts}

    monkeypatch.setattr(delegates, "run_on", run_on)
    instance = {"uuid": "u", "hosts": [] if lost else ["h1"], "after": [1, 7], "owner": owner, "given_up": lost}
    located = {"instances": {"web-1": instance}, "found": [] if lost else ["web-1"], "moving": [], "errors": {}}
    controller = Controller(
        {"kvm_hosts": ["h1", "h2"], "vms": ["web-1"]}, facts={"localhost": {"berth_located": located}}
    )
    controller.register("localhost", __berth_facts={"answers": {"h1": {}, "h2": {}}})
    if done:
        controller.register("web-1", __delete_done=done)
    values = {**controller.task_vars(), "inventory_hostname": "localhost", "ansible_forks": 5}
    controller.run("forget_deleted", task_vars={**values, "ansible_play_hosts_all": ["web-1"]})
    assert asked == ({"h1": {"told": told}, "h2": {"told": told}} if told else {})
