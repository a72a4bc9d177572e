# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance on a host of compute/conftest.py: what tests do to it, and what they look at."""

from __future__ import annotations

import contextlib

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import network
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim


class Killed(BaseException):
    """The process ends here: nothing cleans up."""


def dying(killed_at):
    """What runs in it is killed at that step, or at none and ends."""
    return pytest.raises(Killed) if killed_at else contextlib.nullcontext()


class OnHost:
    """What is there of ``uuid`` on ``host``, and the steps that its module has done."""

    def __init__(self, host, uuid):
        self.host, self.uuid, self.steps = host, uuid, []

    def instance(self, killed_at=None):
        def observe(step):
            self.steps.append(step)
            if step == killed_at:
                raise Killed(step)

        return Instance(self.host, self.uuid, timeout=1, observe=observe)

    @property
    def record(self):
        return self.host.store.read(self.uuid)

    @property
    def domain(self):
        return self.host.connection.domains.get(self.uuid)


class Case(OnHost):
    """The instance web1 on a host: what is done to it, and what is there."""

    def __init__(self, host, request):
        self.spec, self.seed = request
        super().__init__(host, self.spec["uuid"])

    def claim(self):
        claim._write(self.host.store, self.spec, "t1", {"vcpus": 1, "memory_mb": 64, "disk_gb": 1})

    def make(self, killed_at=None):
        self.claim()
        return self.instance(killed_at).started("t1", self.seed)

    @property
    def root(self):
        return self.host.pool / "instances" / self.uuid / "root.qcow2"

    def state(self):
        """(vm_state, task_state, power_state of the record, guest runs)"""
        record = self.record
        running = self.domain is not None and bool(self.domain.isActive())
        return record.vm_state, record.task_state, record.power_state, running


OTHER = "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"


def made_with_nic(host, request, monkeypatch, nic, machine="pc-q35-7.2"):
    """An instance with that NIC, made; the host has all that it needs, and libvirt gives the guest this ``machine``."""
    monkeypatch.setattr(network, "check", lambda *_: None)
    host.connection.complete_as(machine, 3)
    case = Case(host, request)
    case.spec["networks"] = [nic]
    case.make()
    return case
