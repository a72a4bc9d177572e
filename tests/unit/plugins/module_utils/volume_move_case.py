# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An instance with a volume on one of two hosts, and runs that move it: real records, real marks and owners, a fake libvirt."""

from __future__ import annotations

import itertools
from pathlib import Path

import memory_names as memory
from memory_controller import Controller
from memory_names import D, S

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.volume_store import VolumeStore
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import OUT, OWN
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid

DB = volume_uuid("default", "db")
OPS = itertools.count(1)
HOSTS = {S: "kvm1", D: "kvm2"}
UUIDS = {name: "%d1111111-3c6e-5d59-9d0b-3a1c9d7f1e2a" % at for at, name in enumerate((S, D), 1)}


class Effects(moving_host.Effects):
    """What is no volume's comes and goes without a trace."""

    def nothing(self, *_arguments):
        return []

    check_disks = check_networks = check_deletable = check_kept = check_restorable = nothing
    complete = receive = restore_disks = drop_disks = has_kept_disks = keep_disks = check_asked = stop_transfer = (
        nothing
    )

    def has_left(self, uuid):
        return False

    halted = has_left

    def send(self, record, targets, key, options):
        return {"shared": True}

    def presend(self, record, targets, key, options):
        return None

    def allocate(self, spec, limits):
        return {"vcpus": 1, "memory_mb": 64, "disk_gb": 1, "resources": {}}

    def disks(self, record):
        """The mark, and no manifest."""
        moving_host.storage.mark(self.pool_path(record), record, self.host.identity["uuid"])
        return []


class Run(Controller):
    """A playbook run: each of its moves has an operation of its own."""

    def _plan(self, world):
        looks, self.looks, self.op = self.looks, 0, "%032x" % next(OPS)
        super()._plan(world)
        self.looks = looks


class Fleet:
    """Two hosts, as the controller of memory.py knows a world. ``check`` is asked after each step."""

    def __init__(self, hosts, spec):
        self.hosts, self.wanted, self.options = hosts, spec, {}
        self.kind, self.channel, self.receipt = "migration", {S: None, D: None}, None
        self.kept, self.disks = {S: None}, {S: {"version": 0}}  # what memory.py counts

    def host(self, name):
        return self.hosts[name]

    def spec(self, _like):
        return self.wanted

    def run(self, action, until=lambda: False):
        controller = Run(action, None)
        controller.options = self.options
        for _turn in range(60):
            if controller.state == "run" and not until():
                controller.advance(self)
        return controller

    def went(self, action):
        """Run it to its end. -> whether anything changed"""
        done = self.run(action)
        assert done.state == "done", done.error
        return done.changed

    def volume(self, name):
        return VolumeStore.beside(self.hosts[name].store).read(DB)

    def held(self, name):
        return self.hosts[name].store.read(memory.UUID)

    def roles(self):
        """{host: (role of the instance, role of the volume)} of the hosts that know of either."""
        found = {}
        for name in self.hosts:
            held, volume = self.held(name), self.volume(name)
            if held or volume:
                found[name] = (held and held.role, volume and volume.role)
        return found

    def check(self):
        roles = self.roles()
        own = [name for name, (_held, role) in roles.items() if role == OWN]
        assert len(own) <= 1, "two hosts own the volume: %s" % roles
        assert any(role for _held, role in roles.values()), "nobody knows of the volume"
        running = [name for name, host in self.hosts.items() if host.effects.executing(memory.UUID)]
        assert set(running) <= set(own), "a guest runs on %s: %s" % (running, roles)


def file_of(fleet):
    return Path(fleet.host(S).compute.pool) / "volumes" / DB / "disk.qcow2"


def owner_file(fleet):
    return str(file_of(fleet).with_name("owner"))


def files(fleet):
    return sorted(path.name for path in file_of(fleet).parent.iterdir())


THERE, BACK = {D: (OWN, OWN)}, {S: (OWN, OWN)}
WAITS = {S: (OUT, OUT), D: (OWN, OWN)}
# what was done, what is killed, what is run then, who has what after it
KILLS = {
    "resize": ([], "resize", "resize", [WAITS]),
    "resize, given up": ([], "resize", "revert", [BACK]),
    "confirm": (["resize"], "confirm", "confirm", [THERE]),
    "revert": (["resize"], "revert", "revert", [BACK]),
    "delete": (["resize"], "delete", "delete", [{S: (None, OWN)}, {D: (None, OWN)}]),
}


def kill_everywhere(name, make, kill_before, look):
    """``look(fleet, ended)`` after each kill, and after the run that ends what was killed."""
    before, killed, then, ends = KILLS[name]
    for number in itertools.count():
        fleet = make()
        for action in before:
            fleet.went(action)
        was_killed = kill_before(number, lambda fleet=fleet: fleet.run(killed))
        fleet.check()
        look(fleet, False)
        if not was_killed:
            break
        fleet.went(then)
        assert fleet.roles() in ends, "killed before write %d" % number
        look(fleet, True)
        assert fleet.went(then) is False
    assert number > 5, "nothing was killed"


def elsewhere(fleet, tmp_path):
    """D has another storage."""
    fleet.host(D).compute.connection.pool_path = str(tmp_path / "another")
    (tmp_path / "another" / "instances").mkdir(parents=True)
