# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hosts in memory with the store and the effects that the steps of a move need, and the invariants over both.

A disk is {"version": n} of a host, or of both where they share storage; the guest writes by counting it up. ``latest`` is
the newest version that a guest on the owner wrote and that nobody agreed to give up.
A durable action costs one tick; where the fuse runs out the process is killed.
"""

from __future__ import annotations

import contextlib
import copy

from memory_effects import Effects
from memory_names import CEILINGS, OFF, OLD, ON, PAUSED, PROJECT, UUID, VOLUME, WHO, D, Killed, S, Violation
from memory_volumes import record_of

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import StaleRecord
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ERASING, OWN, check_change
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record


class World:
    def __init__(self, vm_state="active", kind="resize", shared=False, volume=False, grows=False):
        self.kind, self.shared, self.volume = kind, shared, volume
        self.grows, self.clings = grows, False  # the flavors have ceilings; the guest keeps what was plugged in
        self.flavor = OLD["flavor"]["name"]  # of which the running guest has CPUs and memory
        self.volumes = {S: None, D: None}
        self.volume_files = {S: volume, D: False}
        self.disk_owner = S
        self.records = {S: None, D: None}
        self.disks = {S: {"version": 1}, D: None}
        self.kept = {S: None, D: None}
        self.parts = {S: None, D: None}
        self.channel = {S: None, D: None}
        self.guest = {S: {"active": ON, "paused": PAUSED}.get(vm_state, OFF), D: OFF}
        self.buried = {S: [], D: []}
        self.latest = 1
        self.deleted = False
        self.nonces = 0
        self.fuse = None
        self.lose_finish = False
        self.left = False
        self.receipt = None
        self.records[S] = Record(
            **WHO, role=OWN, generation=[1, 1], token="t0", phase="active",
            vm_state=vm_state, spec=self.spec(OLD), resources={"vcpus": 1}, power_state="paused" if vm_state == "paused" else "running",
        ).to_dict()  # fmt: skip

        if volume:
            self.volumes[S] = Record(
                uuid=VOLUME, name="db", project_id=PROJECT, role=OWN, generation=[1, 1], token="v0", phase="active",
                spec={"flavor": {}, "pool": None, "instance": {"uuid": UUID, "name": WHO["name"]}}, resources={"disk_gb": 2},
                power_state="shutdown",
            ).to_dict()  # fmt: skip

    def spec(self, spec):
        if self.grows:
            spec = {**spec, "flavor": {**spec["flavor"], "root_gb": 1, "extra_specs": CEILINGS}}
        return {**spec, "volumes": [{"name": "db", "size_gb": 2, "slot": 0}]} if self.volume else spec

    def place(self, name):
        """Where the disks of the host ``name`` are."""
        return S if self.shared else name

    def key(self):
        records = [
            None if r is None else (
                r["role"], r["phase"], r["op"], r["generation"][0], r["vm_state"], r["spec"]["flavor"]["name"],
                r["migration"] and tuple(r["migration"][k] for k in ("attempt", "frozen", "verified")),
            )
            for r in (self.records[S], self.records[D])
        ]  # fmt: skip
        owned = [(v["role"], v["phase"], v["generation"][0]) if v else None for v in self.volumes.values()]
        parts = (
            owned,
            self.volume_files,
            self.disk_owner,
            self.disks,
            self.kept,
            self.parts,
            self.channel,
            self.guest,
            self.buried,
            self.latest,
            self.deleted,
            self.flavor,
        )
        return repr((records, parts, self.lose_finish, self.left, self.receipt and self.receipt["attempt"]))

    def copied(self):
        """One in which runs change nothing here. They replace records, so these are the same ones: that takes less long."""
        other = copy.copy(self)
        for name, value in self.__dict__.items():
            setattr(other, name, dict(value) if name in ("records", "volumes") else copy.deepcopy(value))
        return other

    def whole(self):
        """Everything that a later run may see."""
        return repr({name: value for name, value in self.__dict__.items() if name != "nonces"})

    def tick(self):
        if self.fuse is not None:
            if self.fuse == 0:
                raise Killed()
            self.fuse -= 1

    def host(self, name):
        return Host(self, name)

    def crash_host(self, name):
        self.guest[name] = OFF
        self.channel[name] = None
        self.left = self.left and name != S

    def write(self):
        """The guest writes, wherever one runs."""
        for name in (S, D):
            disk = self.disks[self.place(name)]
            if self.guest[name] == ON and disk:
                disk["version"] += 1
                record = self.records[name]
                if record and record["role"] == OWN:
                    self.latest = disk["version"]

    def check(self):
        running = [name for name in (S, D) if self.guest[name] == ON]
        if len(running) > 1:
            raise Violation("I1 two running guests")
        owners = [name for name in (S, D) if self.records[name] and self.records[name]["role"] == OWN]
        owners = [name for name in owners if not self.is_left(name)]
        if len(owners) > 1:
            raise Violation("I1 two owners")
        for name in running:
            if name not in owners:
                raise Violation("I1 a guest runs on %s which does not own it" % name)
        if self.volume:
            self.check_volume(running)
        if self.deleted or any(self.records[name]["phase"] == ERASING for name in owners):
            return  # what has arrived of its disks need not be made whole to be removed
        if owners:
            disk = self.disks[self.place(owners[0])]
            if disk is None:
                raise Violation("I3 the owner %s has no disk" % owners[0])
            if disk["version"] < self.latest:
                raise Violation("I3 the owner's disk has %d, the latest is %d" % (disk["version"], self.latest))
            if running and disk.get("of") != self.records[owners[0]]["spec"]["flavor"]["name"] and disk.get("of"):
                raise Violation("I4 a guest runs on a disk of another flavor")
        elif not any(self.disks[n] and self.disks[n]["version"] >= self.latest for n in (S, D)):
            raise Violation("I3 nobody holds the latest disk")

    def check_volume(self, running):
        records = {name: record for name, record in self.volumes.items() if record}
        owners = [name for name in records if records[name]["role"] == OWN and not self.is_left(name)]
        if not records:
            raise Violation("I3 nobody knows of the volume")
        if len(owners) > 1:
            raise Violation("I1 two hosts own the volume")
        if not all(self.volume_files[self.place(name)] for name in owners) or not any(self.volume_files.values()):
            raise Violation("I3 the volume of %s is lost: %s" % (owners, self.volume_files))
        for name in running:
            if name not in owners:
                raise Violation("I1 a guest runs on %s, which does not own its volume" % name)

    def is_left(self, name):
        """Whether the other host has ended the move of this one's record without it."""
        other = self.records[D if name == S else S]
        return bool(other and self.records[name]) and self.records[name]["op"] in other["lost_moves"]


class Host:
    def __init__(self, world, name):
        self.world, self.name = world, name
        self.identity = {"uuid": "host-" + name, "name": name}
        self.store, self.effects = Store(world, name), Effects(world, name)

    def now(self):
        return 0

    def since_boot(self):
        return {"boot_id": "the only one", "uptime": 0}

    def nonce(self):
        self.world.nonces += 1
        return "t%d" % self.world.nonces


class Store:
    """``locked``: a step is one piece here only because it holds the lock of its instance; ``fenced``: one that does not."""

    locked = fenced = False

    def __init__(self, world, name):
        self.world, self.name = world, name

    def read(self, uuid):
        data = self.world.records[self.name]
        return record_of(data)

    @contextlib.contextmanager
    def instance_lock(self, uuid):
        before, self.locked = self.locked, True
        yield
        self.locked = before

    @contextlib.contextmanager
    def host_lock(self):
        yield

    def compare_and_swap(self, expected, new):
        if not self.locked and not self.fenced:
            raise Violation("I1 a record is read and written on %s without the lock of its instance" % self.name)
        found = self.read(UUID)
        if (found and found.version()) != (expected and expected.version()):
            raise StaleRecord("changed")
        check_change(found and found.state(), new and new.state())
        if expected and new and list(new.generation) <= list(expected.generation):
            raise Violation("I12 the generation does not grow")
        self.world.tick()
        self.world.records[self.name] = new.to_dict() if new else None
        return new

    def latest_epoch(self, uuid):
        return 0  # each run here knows no more than the two records

    def bury(self, op):
        self.world.tick()
        if op not in self.world.buried[self.name]:
            self.world.buried[self.name].append(op)

    def is_buried(self, op):
        return op in self.world.buried[self.name]
