# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One instance on one host: what create, start, stop and delete do there, and what they leave alone."""

from __future__ import annotations

import os

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import claim, gate
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BootGateMissing, InstanceNotFound
from ansible_collections.berth.kvm.plugins.module_utils.compute.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.model.record import CLAIM

BUILD_STEPS = ["C3", "C4 disks", "C4 seed", "C5 define", "C6 active", "C7 permit", "C7 start", "C7 started"]


class Killed(BaseException):
    """The process ends here: nothing cleans up."""


class Case:
    """The instance web1 on a host: what is done to it, and what is there."""

    def __init__(self, host, request):
        self.host, (self.spec, self.seed) = host, request
        self.uuid = self.spec["uuid"]
        self.steps = []

    def claim(self):
        claim._write(self.host.store, self.spec, "t1", {"vcpus": 1, "memory_mb": 64, "disk_gb": 1})

    def instance(self, killed_at=None):
        def observe(step):
            self.steps.append(step)
            if step == killed_at:
                raise Killed(step)

        return Instance(self.host, self.uuid, timeout=1, observe=observe)

    def make(self, killed_at=None):
        self.claim()
        return self.instance(killed_at).started("t1", self.seed)

    @property
    def record(self):
        return self.host.store.read(self.uuid)

    @property
    def domain(self):
        return self.host.connection.domains.get(self.uuid)

    @property
    def root(self):
        return self.host.pool / "instances" / self.uuid / "root.qcow2"

    def state(self):
        """(vm_state, task_state, power_state of the record, guest runs)"""
        record = self.record
        running = self.domain is not None and bool(self.domain.isActive())
        return record.vm_state, record.task_state, record.power_state, running


@pytest.fixture
def web(prepared, wanted):
    return Case(prepared, wanted("web1"))


def test_a_claim_becomes_a_running_guest_and_again_is_no_change(web):
    assert web.make() is True
    assert web.state() == ("active", None, "running", True)
    assert web.steps == BUILD_STEPS
    assert web.instance().started() is False
    assert web.domain.starts == 1


def test_it_is_stopped_started_and_removed_and_each_again_is_no_change(web):
    web.make()
    assert [web.instance().stopped(1), web.instance().stopped(1)] == [True, False]
    assert web.state() == ("stopped", None, "shutdown", False)
    assert [web.instance().started(), web.instance().started()] == [True, False]
    assert web.state() == ("active", None, "running", True)
    assert [web.instance().absent(), web.instance().absent()] == [True, False]
    assert (web.record, web.domain, web.root.exists()) == (None, None, False)
    with pytest.raises(InstanceNotFound):
        web.instance().stopped(1)


def spoil(host):
    os.unlink(host.hook)


@pytest.mark.parametrize("state", ["claimed", "stopped", "off after a power cut"])
def test_nothing_is_started_where_the_gate_was_deleted(web, boot, state):
    """A guest that starts without the gate could be started by anybody after its instance has moved away."""
    web.claim()
    if state != "claimed":
        web.instance().started("t1", web.seed)
        web.instance().stopped(1) if state == "stopped" else (web.host.connection.lose_power(), boot("two"))
    spoil(web.host)
    with pytest.raises(BootGateMissing, match="--limit kvm1"):
        web.instance().started("t1", web.seed)
    assert not (web.domain and web.domain.isActive()) and not gate.is_permitted(web.uuid, web.host.run_dir)
    assert web.record is None or web.record.role != CLAIM, "a host that cannot build gives the claim back"
