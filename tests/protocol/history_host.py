# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host of a history: the modules that playbooks run there, on a fake libvirt, and what befalls such a host.

Each fresh disk has a name of its own and a counter that grows while a guest writes to it, both behind the header that the
host's code reads: so it shows where the newest content of an instance is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import volume_fleet_case
from fake_domain import FakeDomain
from libvirt_names import PAUSED

from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import acts as backup_acts
from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import clone
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import (
    acts,
    domain,
    domains,
    gate,
    power,
    set_aside,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import facts, leaving
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import (
    failed_instances,
    registry_mark,
    state_directory,
    whereabouts,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.store import is_owner

FACTS = Path(__file__).resolve().parent.parent / "unit" / "plugins" / "action" / "host.json"
HOST = json.loads(FACTS.read_text("utf-8"))  # what the facts of a host have beside what happens in a history
MEMORY_MB = 256  # room for four of the smallest instances
NAMED = re.compile(rb"disk ([0-9a-f]{8}) (\d{8})\n")


def make_one_fleet(machines):
    """The end of prepare_hosts: each knows that all of them belong to the fleet."""
    told = {machine.host.uuid: {"name": machine.name, "changes": 1} for machine in machines}
    for machine in machines:
        whereabouts.take_in_members(machine.host.store, told)


class Machine(volume_fleet_case.Site):
    """``up``: it answers; ``on``: it has power; ``dead``: it never comes back. ``older``: copies of its state directory."""

    about = ()
    readings = itertools.count(1)  # in place of the count of changes: a later one is larger

    def __init__(self, host, wanted):
        super().__init__(host, wanted)
        self.network = None  # of all hosts, see history_moves.py
        self.found_disks = os.path.join(
            os.path.dirname(str(host.pool)), "found"
        )  # of guests that somebody made by hand
        os.mkdir(self.found_disks)
        self.on, self.dead, self.boots, self.older, self.silent_for = True, False, 1, [], 0
        self.whole = None  # a backup of the whole machine: what its directories and its definitions were

    # what befalls it

    @property
    def boot(self):
        return "%s-%d" % (self.name, self.boots)

    def lose_power(self):
        connection = self.host.connection
        for guest in list(connection.domains.values()):
            if guest.isActive():
                FakeDomain.end(guest, 0)
        shutil.rmtree(os.path.join(self.host.run_dir, gate.PERMITS), ignore_errors=True)
        self.boots += 1

    def keep_state(self):
        if not self.host.settings.prepared:
            return
        there = "%s.%d" % (self.host.store.state_dir, len(self.older))
        shutil.copytree(self.host.store.state_dir, there)
        self.older.append(there)

    def restore_state(self, number):
        state = self.host.store.state_dir
        remove(state)  # that of a host that was removed is not there
        shutil.copytree(self.older[number % len(self.older)], state)

    def _kept(self):
        """What a backup of the whole machine has beside the definitions."""
        return [self.host.store.state_dir, str(self.host.pool), self.found_disks, self.host.store.identity_copy]

    def keep_whole(self):
        if not self.host.settings.prepared:
            return
        for path in self._kept():
            copy = shutil.copytree if os.path.isdir(path) else shutil.copy2
            remove(path + ".whole")
            copy(path, path + ".whole")
        self.whole = {uuid: guest.xml for uuid, guest in self.host.connection.domains.items() if guest.persistent}

    def restore_whole(self):
        """Not its memory: no guest runs afterwards, as after a start of the machine."""
        self.lose_power()
        for path in self._kept():
            copy = shutil.copytree if os.path.isdir(path + ".whole") else shutil.copy2
            remove(path)
            copy(path + ".whole", path)
        connection = self.host.connection
        connection.domains.clear()
        connection.domains.update({uuid: FakeDomain(connection, xml) for uuid, xml in self.whole.items()})

    def prepare(self):
        """prepare_hosts -e berth_host_accept_state_directory=true"""
        gate.install(self.host.hook, self.host.run_dir)
        self.host.settings = dataclasses.replace(self.host.settings, prepared=True)
        return {"changed": state_directory.establish(self.host.store, accept=True)}

    # what it holds

    def guests(self):
        """Those that execute: one that arrived by a live migration waits, paused, and writes nothing."""
        return [guest for guest in self.host.connection.domains.values() if guest.isActive() and guest.now != PAUSED]

    def owns(self, uuid):
        return is_owner(self.host.store.read(uuid))

    def remembers(self, uuid, owner):
        noted = whereabouts.recall(self.host.store, [uuid]).get(uuid) or {}
        return (noted.get("known") or {}).get("host_uuid") == owner.host.uuid

    @staticmethod
    def files_of(guest):
        return [path for path in sources(guest.live or guest.xml) if os.path.exists(path)]

    def _all_files(self):
        for directory in (str(self.host.pool), self.found_disks):
            yield from files_below(directory)

    def disks(self):
        """{name of a disk: the highest counter of its files here}"""
        found = {}
        for known in map(read_disk, self._all_files()):
            if known:
                found[known[0]] = max(found.get(known[0], 0), known[1])
        return found

    def files_of_disk(self, disk_name):
        """The files here that have something of that disk."""
        return [path for path in self._all_files() if (read_disk(path) or [None])[0] == disk_name]

    def records_count(self):
        return not self.dead and not state_directory.look(self.host.store)["fault"]

    def used_mb(self):
        return memory_used(self.host.connection, self.host.store.records())

    # the modules

    def facts(self, about=None, heard_of=False):
        host = self.host
        state = state_directory.look(host.store)
        records, states = host.store.records(), domains.states(host.connection)
        known = {record.uuid for record in records}
        foreign = [guest for uuid, (guest, _power) in states.items() if uuid not in known]
        instances = [facts._own(record, states) for record in records]
        instances += [
            {**facts._without_room(guest.uuid), "name": guest.name(), "managed": domain.is_managed(guest),
             "power_state": states[guest.uuid][1]}
            for guest in foreign
        ]  # fmt: skip
        volumes = [facts._volume(each, "berth", records, states) for each in self.store.records()]
        document = {
            **HOST,
            "uuid": host.uuid,
            "instances": instances,
            "volumes": volumes,
            "state": state,
            "host": self.name,
            "prepared": host.settings.prepared,
        }
        document.update(num_instances=len(instances), generation=next(self.readings))
        used = {"vcpus_used": "vcpus", "memory_mb_used": "memory_mb", "local_gb_used": "disk_gb"}
        document.update({total: sum(each[part] for each in instances) for total, part in used.items()})
        document.update(registry_mark.reported(host.store.state_dir))
        document["failed_instances"] = failed_instances.reported(host.store.state_dir)
        said = {"document": document, "notes": whereabouts.recall(host.store, self.about if about is None else about)}
        said["members"] = whereabouts.read_members(host.store.state_dir)
        if heard_of:
            said["heard_of"] = whereabouts.heard_of(host.store)
        said["digests"] = whereabouts.digests(host.store, failed_instances.read(host.store.state_dir))
        return said

    def host_facts(self, about=(), heard_of=False):
        """Also in a procedure."""
        return self.facts(list(about), heard_of)

    def moves(self, about):
        """The facts of this host, with what its records say of moves."""
        return {**self.facts(about), "moves": self.network.views(self.host)}

    def host_clean(self, authorities, check=False):
        host = self.host
        below = functools.partial(os.path.join, os.path.dirname(host.store.state_dir))
        places = leaving.Places(below("host.json"), below("pki"), host.hook, host.run_dir, below("code"), ())
        done = leaving.clean(host, authorities, places, check)
        host.settings = dataclasses.replace(host.settings, prepared=check)
        return {"changed": True, **done}

    def migration(self, **arguments):
        return self.network.run_leg(self.host, **arguments)

    def claim(self, claims=(), withdraw=(), failed=()):
        reply = super().claim(claims, withdraw)
        if failed:
            failed_instances.note(self.host.store, list(failed), False)
        return reply

    def build(self, spec, token, seed, power_state=None):
        wanted = {"token": token, "seed": seed, "power_state": power_state, "shutdown_timeout": 1, "spec": spec}
        instance = Instance(self.host, spec["uuid"], timeout=1)
        instance.clone = clone.build
        changed = power.present(instance, wanted, False)
        record = self.host.store.read(spec["uuid"])  # another run may have deleted it since
        return {"changed": changed, "instance": {"generation": list(record.generation)} if record else {}}

    def instance(self, uuid, state, **given):
        params = {"name": None, "project_id": None, "flavor": None,
                  "token": None, "seed": None, "shutdown_timeout": 1, "after": None, "reboot": "soft", "state": state,
                  "changed_disks": False, "moved_by": None, "snapshot": None, "snapshot_memory": False, "only_claim": False,
                  "shelve_to": None, **given}  # fmt: skip
        instance = Instance(self.host, uuid, timeout=1)
        changed = acts.act(instance, params, False)
        return {"changed": changed, "instance": instance.summary()}

    def instance_backup(self, uuid, state, **given):
        params = {"to": None, "full": False, "chain": 1, "keep": None, "keep_days": None, "of": None, "backup": None,
                  "newest": None, "spare": [], "parts": [], "targets": [], "key": None, "image": None, "discards": None,
                  "deep": False, **given}  # fmt: skip
        return backup_acts.outcome_of(Instance(self.host, uuid, timeout=1), {"state": state, **params}, False)

    def instance_copy(self, uuid, state, above=None, check=False, new_owner=None):
        instance = Instance(self.host, uuid, timeout=1)
        if state == "listed":
            return {"changed": False, "instance_copy": {"nics": set_aside.addresses(instance)}}
        acts = {
            "kept": lambda: (set_aside.would_keep if check else set_aside.keep)(instance, above),
            "stopped": lambda: set_aside.stop(instance, 1),
            "recorded": lambda: set_aside.record_again(instance),
            "brought_back": lambda: set_aside.bring_back(instance, above, 1),
            "set_aside": lambda: bool(set_aside.set_aside(instance, 1)),
            "removed": lambda: bool(set_aside.remove(instance)),
            "forgotten": lambda: bool(set_aside.remove_outdated(instance, new_owner)),
        }
        return {"changed": acts[state]()}


@contextlib.contextmanager
def closed_on_failure(close, uuid):
    """As that of move/transfer.py. ``close``: of the network in memory."""
    try:
        yield
    except BaseException:
        close(uuid)
        raise


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)


def files_below(directory):
    for entry in os.scandir(directory):
        if entry.is_dir():
            yield from files_below(entry.path)
        else:
            yield entry.path


@functools.lru_cache(maxsize=1000)
def sources(text):
    """The files of the disks in a definition."""
    return [source.get("file") for source in ElementTree.fromstring(text).iterfind("devices/disk/source")]


def header_size(path, form):
    """The size that a guest sees."""
    if form != "qcow2":
        return os.path.getsize(path)
    with open(path, "rb") as stream:
        return int.from_bytes(stream.read(32)[24:], "big")


def read_disk(path):
    """(name, counter) of what a guest wrote there, or None."""
    with open(path, "rb") as stream:
        found = NAMED.search(stream.read(4096), 100)
    return found and (found.group(1).decode(), int(found.group(2)))


def write_disk(path, name, counter):
    """The guest writes: its content is behind the header."""
    with open(path, "r+b") as stream:
        stream.seek(112)
        stream.write(b"disk %s %08d\n" % (name.encode(), counter))


def memory_used(connection, records):
    """Of the instances, and of the guests that somebody made by hand."""
    known = {record.uuid for record in records}
    by_hand = [memory_mb(guest) for uuid, guest in connection.domains.items() if uuid not in known]
    return sum(record.resources.get("memory_mb", 0) for record in records) + sum(by_hand)


def memory_mb(guest):
    return int(re.search(r'<memory unit="KiB">(\d+)<', guest.xml).group(1)) >> 10


def collect(connection, _settings, records, *_args, volumes=(), **_kwargs):
    """What a claim counts: the document of the host, with its room."""
    used_gb = sum(record.resources.get("disk_gb", 0) for record in [*records, *volumes])
    used_mb = memory_used(connection, records)
    instances = [facts._own(record, {}) for record in records]
    return {"host": "kvm", "uuid": _settings.uuid, "vcpus": 40, "memory_mb": MEMORY_MB, "memory_mb_used": used_mb,
            "reserved_host_memory_mb": 0, "ram_allocation_ratio": 1.0, "local_gb": 60, "local_gb_used": used_gb,
            "instances": instances, "num_instances": len(instances), "pool": "berth",
            "pools": {"berth": {"type": "dir"}}}  # fmt: skip
