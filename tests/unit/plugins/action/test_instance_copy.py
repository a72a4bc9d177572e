# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What programs are told of a copy: what was asked, and of which host, by the controller and not by the host."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.berth.kvm.plugins.action.instance_copy import ActionModule
from ansible_collections.berth.kvm.plugins.plugin_utils import host_reply


@pytest.fixture
def run(monkeypatch):
    """run(reply): the result of the action for kvm2, after the host's checked reply."""

    def act(said):
        monkeypatch.setattr(host_reply.HostAction, "run", lambda *_: said)
        action = object.__new__(ActionModule)
        action._task = SimpleNamespace(args={"state": "set_aside"}, delegate_to="kvm2")
        return action.run(task_vars={"inventory_hostname": "web1"})

    return act


def test_a_copy_is_told_with_its_state_and_host(run):
    copy = run({"changed": True, "instance_copy": {"uuid": "u-1", "paths": ["/p"]}})["instance_copy"]
    assert copy == {"uuid": "u-1", "paths": ["/p"], "state": "set_aside", "host": {"name": "kvm2"}}


def test_a_failure_stays_as_it_is(run):
    assert run({"failed": True, "msg": "no"}) == {"failed": True, "msg": "no"}
