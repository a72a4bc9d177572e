# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with the real store on which one step of a move is run, on a record that was put there."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps.common import view
from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps.table import run
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import Store
from ansible_collections.berth.kvm.plugins.module_utils.model import migration
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

UUID = instance_uuid("default", "web1")
S, D, OTHER = ({"uuid": instance_uuid("hosts", name), "name": name} for name in ("kvm1", "kvm2", "kvm3"))
OP, ANOTHER_OP = "op1", "op2"
FLAVORS = {name: {"name": name, "vcpus": cpus, "memory_mb": 64 * cpus} for name, cpus in (("old", 1), ("new", 2))}
SPECS = {
    name: {"uuid": UUID, "name": "web1", "project_id": "default", "flavor": flavor, "image": {}, "networks": []}
    for name, flavor in FLAVORS.items()
}
ROOM = {"old": {"vcpus": 1, "memory_mb": 64}, "new": {"vcpus": 2, "memory_mb": 128}}
ATTEMPT = 2
DECIDED = {"spec": SPECS["new"], "source": S, "destination": D}


class Effects:
    """``on``: the guest runs. Everything that a step does is in ``done``; what only looks is not."""

    def __init__(self):
        self.on, self.done = False, []

    def running(self, _uuid):
        return self.on

    executing = running

    def looks(self, *_arguments):
        return False

    has_left = halted = check_asked = check_disks = check_beside = check_networks = check_side = check_movable = (
        check_deletable
    ) = looks
    check_kept = check_restorable = check_destination = check_room = arrived = looks

    def end_left_backup(self, record):
        pass

    def renewed(self, record):
        return record

    def power_state(self, _uuid):
        return "running" if self.on else "shutdown"

    def channel_to_destination(self, _uuid, _op):
        return None

    def channel_to_source(self, _uuid, _op):
        return SimpleNamespace(receive=lambda _is_wanted: None)

    def has_kept_disks(self, _record):
        return True

    def health(self, _record):
        return {"state": "answers", "seen": "its agent answers"}

    def allocate(self, spec, _limits):
        return dict(ROOM[spec["flavor"]["name"]])

    def __getattr__(self, name):
        return lambda *_arguments: self.done.append(name)


class Side:
    def __init__(self, path, identity):
        self.identity, self.store, self.effects = identity, Store(str(path / identity["name"])), Effects()
        self.uptime, self.nonces = 100, itertools.count()

    def now(self):
        return 0

    def since_boot(self):
        return {"boot_id": "one", "uptime": self.uptime}

    def nonce(self):
        return "nonce-%d" % next(self.nonces)

    def holds(self, state, kind=migration.RESIZE, op=OP, epoch=3, destination=D, **changes):
        """Plant the record of a move in this state (role, phase); ``changes`` are those of its migration."""
        role, phase = state
        new = role == "IN" or phase in ("resized", "confirming", "reverting", "reverted")
        name = "new" if new else "old"
        record = Record(
            uuid=UUID, name="web1", project_id="default", role=role, generation=[epoch, 1], token=self.nonce(),
            phase=phase, spec=SPECS[name], resources=ROOM[name], op=op, vm_state="active",
        )  # fmt: skip
        told = migration.new_migration(op, kind, S, destination, record, SPECS["new"], 0, 600)
        told.update(old_spec=SPECS["old"], old_resources=ROOM["old"], attempt=ATTEMPT, waits_since=self.since_boot())
        return plant(self.store, record.replace(migration={**told, **changes}))

    def step(self, name, peer=None, attempt=ATTEMPT, op=OP, **options):
        return run(self, UUID, name, {"op": op, "attempt": attempt}, peer, **options)

    def said(self, **lies):
        """What this host says of its record, with what a test makes of that."""
        return {**view(self, UUID), **lies}
