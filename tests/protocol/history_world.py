# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of a history, what its user knows of them, and what must hold after each step.

H1 no two guests of one instance run. H2 no two guests write one file. H3 the newest content of each disk is on some host, or in
the backup that the instance is shelved in, until somebody deletes the instance or its host is gone for good. H4 no claim takes more
than a host has. H7 what was a whole backup, or a later one, is one, of one moment; no guest runs from a disk, and no image is a file,
that was not copied to its end.
H8 who was renamed is the only one of that name.
"""

from __future__ import annotations

import contextlib
import os
import time

import fibers
import history_backups
import history_engine
import history_found
import history_host
import history_names
import history_snapshots
import prepared_host
import volume_fleet_case
from fibers import OfEach
from history_host import Machine, read_disk, write_disk
from history_kills import Fuse
from history_moves import Network
from memory_names import Violation

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import qemu_nodes
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import boot_time, facts

LARGER = {"name": "small", "memory_mb": 128, "root_gb": 2}


class World:
    """``now``: the machine on which a run does something."""

    now = OfEach("now", lambda: None)

    def __init__(self, top, monkeypatch, hosts, names, on_engine=False):
        self.entries, self.disks_made = history_names.Entries(names), 0
        fibers.let_stop(monkeypatch)
        monkeypatch.setattr(boot_time, "boot_id", lambda: self.now.boot if self.now else "none")
        monkeypatch.setattr(connection.Deadline, "call", lambda _self, function, *args, what="": function(*args))
        monkeypatch.setattr(time, "sleep", lambda _seconds: None)
        monkeypatch.setattr(qemu_nodes, "write_out", lambda _guest, _path: True)
        wanted = ["kvm%d" % number for number in range(1, hosts + 1)]
        make_host = prepared_host.maker(top, monkeypatch)
        self.machines = volume_fleet_case.make_sites(make_host, prepared_host.request, monkeypatch, wanted, Machine)
        self._make = disk.make
        monkeypatch.setattr(disk, "make", self._make_named)
        monkeypatch.setattr(facts, "collect", history_host.collect)
        self.fuse = Fuse(monkeypatch)
        network = Network(self, monkeypatch)
        history_snapshots.set_up(self, monkeypatch)
        for machine in self.machines.values():
            machine.network = network
        self.inventory = list(self.machines)
        history_host.make_one_fleet(self.machines.values())
        self.newest, self.of_disk, self.given_up = {}, {}, set()
        self.flavors, self.number = {}, 0  # by uuid
        self.outdated = set()  # the hosts whose state directory is from a backup, or that were given up and are back
        self.volume_sizes, self.volume_disks = {}, {}
        self.plan = None  # the file with a plan for the fleet that is to be carried out
        self.storage = history_backups.Storage(self, top, monkeypatch)
        self.engine = history_engine.made(self.machines.values()) if on_engine else None

    # what the user knows

    @property
    def names(self):
        return self.entries.names()

    @property
    def by_uuid(self):
        return self.entries.by_uuid

    def uuid(self, name):
        return self.entries.uuid(name)

    def uuids(self):
        return list(self.by_uuid)

    def request(self, name):
        spec, seed = prepared_host.request(name)
        spec["flavor"].update(self.flavors.get(self.uuid(name), {}))
        return {**spec, "uuid": self.uuid(name), "pool": "berth", "volumes": []}, seed

    def resized(self, name, spec):
        """What the inventory asks of an instance in a resize: one that was adopted keeps what it was found with."""
        if self.uuid(name) not in history_found.UUIDS.values():
            return self.request(name)[0]
        return {**spec, "flavor": {**spec["flavor"], **self.flavors.get(self.uuid(name), {})}}

    def gives_up(self, name):
        """Somebody deletes it: its disks may go."""
        of_it = {disk for disk, uuid in self.of_disk.items() if uuid == self.uuid(name)}
        self.given_up.update(of_it - {disk for made in self.volume_disks.values() for disk in made})

    def gives_up_volume(self, uuid):
        self.given_up.update(self.volume_disks.get(uuid, ()))

    def ask_for_more(self, name):
        """The inventory asks for the larger flavor from now on."""
        self.flavors[self.uuid(name)] = LARGER

    def agrees_to_revert(self, name):
        """Whoever reverts a move, or to a snapshot, gives up what was written since."""
        for disk_name, uuid in self.of_disk.items():
            if uuid == self.uuid(name):
                files = [path for machine in self.machines.values() for path in machine.files_of_disk(disk_name)]
                self.newest[disk_name] = min(map(history_snapshots.oldest, files), default=0)

    def agrees_to_restore(self, name):
        """Whoever restores a backup gives up what was written since the oldest one, and disks that a backup lacks, but no volume."""
        in_backups, backups = self.storage.counters(self.uuid(name))
        for disk_name, uuid in self.of_disk.items():
            if uuid == self.uuid(name) and backups:
                counters = in_backups.get(disk_name, [])
                self.newest[disk_name] = min([self.newest[disk_name], *counters])
                lacks = len(counters) < backups and not self._is_of_volume(disk_name)
                self.given_up.update([disk_name] if lacks else [])

    def _contents(self):
        """{name of a disk: the highest counter that it has on a host, or in the backup that the instance is shelved in}"""
        found = self.storage.shelved()
        for machine in self.machines.values():
            for disk_name, counter in machine.disks().items():
                found[disk_name] = max(counter, found.get(disk_name, -1))
        return found

    def _is_of_volume(self, disk_name):
        return any(disk_name in made for made in self.volume_disks.values())

    def gives_up_copy(self, name, host):
        """What was written last on that host counts no more."""
        left = [machine for machine in self.machines.values() if machine.name != host]
        for disk_name, uuid in self.of_disk.items():
            if uuid == self.uuid(name):
                self.newest[disk_name] = max(machine.disks().get(disk_name, 0) for machine in left)

    def loses_what_was_written_since(self):
        """A backup of a whole machine is older than what its guests wrote since."""
        left = self._contents()
        self.given_up.update(self.newest.keys() - left.keys())
        self.newest.update({disk_name: left.get(disk_name, 0) for disk_name in self.newest})

    def continues_with(self, name, host):
        """Of what was written, the copy on that host counts."""
        here = self.machines[host].disks()
        self.newest.update(
            {disk_name: here.get(disk_name, 0) for disk_name, uuid in self.of_disk.items() if uuid == self.uuid(name)}
        )

    def new_number(self):
        self.number += 1
        return self.number

    def site(self, host):
        return self.machines.get(host) or history_backups.BackupHost

    def take_out(self, host):
        self.inventory = [name for name in self.inventory if name != host]

    def has_room(self):
        """Whether a host has room for the largest instance."""
        left = [machine for machine in self.machines.values() if machine.name in self.inventory and not machine.dead]
        return any(machine.used_mb() + LARGER["memory_mb"] <= history_host.MEMORY_MB for machine in left)

    def dead(self):
        return [name for name in self.inventory if self.machines[name].dead]

    # disks

    def new_disk_name(self):
        self.disks_made += 1
        return "%08x" % self.disks_made

    def _make_named(self, planned, path, base):
        self._make(planned, path, base)
        if planned.name == "root" or planned.kind == disk.VOLUME:
            name = self.new_disk_name()
            write_disk(path, name, 0)
            if planned.kind == disk.VOLUME:
                self.volume_disks.setdefault(os.path.basename(os.path.dirname(path)), []).append(name)

    def write(self):
        """Each running guest writes."""
        for machine in self.machines.values():
            for guest in machine.guests() if machine.on else ():
                for path in machine.files_of(guest):
                    known = read_disk(path)
                    if known:
                        name, counter = known
                        counter = max(counter, 0) + 1
                        write_disk(path, name, counter)
                        self.of_disk[name] = guest.uuid
                        self.newest[name] = max(self.newest.get(name, 0), counter)

    # rules

    @contextlib.contextmanager
    def on(self, machine, method):
        before, self.now = machine.used_mb(), machine
        try:
            yield
        finally:
            left, self.fuse.left = self.fuse.left, None
            after = machine.used_mb()
            self.fuse.left = left
            self.now = None
            if method in ("claim", "instance") and after > max(before, history_host.MEMORY_MB):
                raise Violation("H4 %s has claims of %d MiB" % (machine.name, after))

    def check_running(self):
        running = {}
        for machine in self.machines.values():
            for guest in machine.guests():
                running.setdefault(guest.uuid, []).append(machine.name)
        for uuid, hosts in running.items():
            if len(hosts) > 1:
                raise Violation("H1 %s runs on %s" % (self.by_uuid.get(uuid), hosts))

    def check(self):
        self.check_running()
        writing = {}
        for machine in self.machines.values():
            for guest in machine.guests():
                for path in machine.files_of(guest):
                    writing.setdefault(path, []).append(guest.uuid)
        for path, guests in writing.items():
            if len(guests) > 1 and path.endswith("qcow2"):
                raise Violation("H2 %s is written by %s" % (path, guests))
        self.check_disks()
        self.storage.check()

    def check_disks(self):
        found = self._contents()
        for name, counter in self.newest.items():
            if found.get(name, -1) < counter and name not in self.given_up:
                uuid = self.of_disk[name]
                what = "at %s" % found[name] if name in found else "nowhere"
                raise Violation("H3 disk %s of %s was at %d and is %s" % (name, self.by_uuid[uuid], counter, what))
