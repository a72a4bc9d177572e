# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts on which a move begins and claims its room: guests and disks do nothing, the room is the real one."""

from __future__ import annotations

import itertools
import uuid

import pytest
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.host.host import Host
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps.table import run
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.model.host_settings import HostSettings
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import OWN
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

NIC = {"network": "lan", "type": "bridge", "source": "br0", "mac": "02:00:00:00:00:01", "address": "192.0.2.1/24"}


class Effects(moving_host.Effects):
    """Guests and disks do nothing; the room is the real one."""

    def running(self, uuid):
        return False

    executing = has_left = halted = running

    def power_state(self, uuid):
        return "running" if self.executing(uuid) else "shutdown"

    def check_movable(self, record):
        pass

    def end_left_backup(self, record):
        pass

    def disks(self, record):
        return []

    def check_networks(self, record, hint):
        """It has all of them."""

    def check_disks(self, record, live=False):
        pass

    def check_beside(self, record):
        pass

    def check_destination(self, record, manifest):
        return False

    def check_room(self, record, manifest):
        pass


class Side:
    def __init__(self, path, name):
        self.store = Store(str(path / name))
        self.connection, self.settings = None, HostSettings()
        self.compute = Host(store=self.store, settings=self.settings, connect=lambda: None)
        self.identity = {"uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), "name": name}
        self.compute.identify = lambda: self.identity["uuid"]
        self.effects, self.foreign = Effects(self), []
        self.nonces = itertools.count()

    def now(self):
        return 0

    def since_boot(self):
        return {"boot_id": "one", "uptime": 0}

    def nonce(self):
        return "nonce-%d" % next(self.nonces)


def spec(name, group=None, vcpus=1, **more):
    flavor = {"name": "m%d" % vcpus, "vcpus": vcpus, "memory_mb": 256, "root_gb": 1, "ephemeral_gb": 0, "swap": 0}
    return {
        "schema": 1, "uuid": instance_uuid("default", name), "name": name, "project_id": "default",
        "flavor": dict(flavor, extra_specs={}), "image": {"name": "guest", "url": "/i", "properties": {}},
        "networks": [dict(NIC, mac="02:00:00:00:00:" + name.encode().hex()[:2], address=None)], "group": group, "pool": "berth", **more,
    }  # fmt: skip


def pair(**rules):
    return {"name": "pair", "uuid": "pair-uuid", "policy": "anti-affinity", "rules": rules, "members": []}


def owns(side, wanted, **changes):
    allocation = {"vcpus": wanted["flavor"]["vcpus"], "pcpus": 0, "memory_mb": 256, "disk_gb": 1, "resources": {}}
    record = Record(
        uuid=wanted["uuid"], name=wanted["name"], project_id="default", role=OWN, generation=[3, 1], token="t", phase="active",
        vm_state="active", spec=wanted, resources=allocation, **changes,
    )  # fmt: skip
    with side.store.instance_lock(record.uuid):
        plant(side.store, record)


class Move:
    """A run that moves one instance to d: begin on the source, claim on the destination."""

    def __init__(self, fleet, source, wanted, op, kind="resize", destination="d", limits=None):
        self.source, self.destination = fleet[source], fleet[destination]
        self.uuid, self.token, self.peer = wanted["uuid"], {"op": op, "attempt": 0}, None
        self.decided = {
            "kind": kind, "spec": wanted, "limits": limits or {}, "source": self.source.identity,
            "destination": self.destination.identity,
        }  # fmt: skip

    def begin(self):
        _changed, self.peer = run(self.source, self.uuid, "begin", self.token, None, **self.decided)
        self.token = dict(self.token, attempt=self.peer["attempt"])
        return self

    def claim(self, **changes):
        run(self.destination, self.uuid, "claim", self.token, self.peer, **{**self.decided, **changes})
        return self.destination.store.read(self.uuid)


def refused(kind, function, *arguments, **more):
    with pytest.raises(kind) as error:
        function(*arguments, **more)
    return error.value
