# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine of a history whose hosts are in a registry, and what befalls that."""

from __future__ import annotations

import json

import history_found
from memory_engine import MemoryEngine
from memory_names import Violation
from procedure_case import driven

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import registry_mark
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import hosts, keys

META = {"schema": keys.SCHEMA, "incarnation": "one", "kind": "etcd", "open": True}
# What runs on an engine may do yet, and how often.
PLAYBOOKS = {
    "create": 30, "delete": 10, "start": 6, "stop": 6, "reboot": 3, "recover": 3, "refresh": 8, "audit": 6,
    "resize": 8, "cold_migrate": 6, "live_migrate": 8, "confirm_resize": 5, "revert_resize": 5, "confirm_due": 1,
    "shelve": 4, "unshelve": 4, "remove_host": 4, "prepare_hosts": 5, "apply_plan": 5,
    "clone": 6, "rename": 6, "adopt": 6, "leave": 2,
}  # fmt: skip
EVENTS = {
    "silent": 8, "cut_power": 4, "switch_off": 5, "switch_on": 8, "die": 1,
    "destroy": 2, "virsh_start": 2, "follow": 12, "engine_away": 4, "engine_loses": 8, "engine_backup": 4, "engine_restored": 3,
    "make_guest": 5,
}  # fmt: skip


def made(machines):
    """An engine that knows all of them, and to which they belong."""
    engine = MemoryEngine()
    revision = engine.transact(Transact(writes=(keys.written(keys.META, META),)))["revision"]
    for machine in machines:
        store = machine.host.store
        with store.host_lock():
            registry_mark.keep(store, {"kind": "etcd", "incarnation": META["incarnation"], "revision": revision})
        carried_out(engine, hosts.report(machine.name, machine.facts([])["document"], 0.0, still=True))
    return engine


def restored(engine, backup, incarnation):
    """As restore_registry leaves it."""
    engine.away, engine.lost = False, []
    engine.restore(backup)
    document = {**META, "incarnation": incarnation, "open": False}
    engine.transact(Transact(writes=(keys.written(keys.META, document),)))


def is_closed(engine):
    return not json.loads(engine.keys[keys.META].value)["open"]


def carried_out(engine, procedure):
    """The result of a procedure that asks no host."""
    return driven(procedure, lambda step: engine.transact(step) if isinstance(step, Transact) else engine.scan(step))


def check_hosts(world):
    """All hosts that are there belong to it, also those that had left."""
    there = {keys.host(world.machines[name].host.uuid) for name in world.inventory if not world.machines[name].dead}
    if not there <= set(world.engine.keys):
        raise Violation("R4 the registry does not know %s" % sorted(there - set(world.engine.keys)))


def _is_given_up(entry, host_uuid):
    """Whether what the host has is an old copy of an instance that ended after its host was said to be lost: no run is about it."""
    return bool(entry) and not entry["owner"] and host_uuid in entry["given_up"]


def check(world, apart_from=()):
    """At the end: what the registry says is what the hosts have, and nothing is held by nobody. ``apart_from``: uuids of instances
    that nobody has looked at since, so that the registry may not have heard where they are."""
    read = {key: json.loads(found.value) for key, found in world.engine.keys.items() if not key.startswith(keys.FACTS)}
    entries = {key[len(keys.INSTANCES) :]: each for key, each in read.items() if key.startswith(keys.INSTANCES)}
    # nobody goes on with a move of a guest that was adopted and left alone
    begun = {uuid for uuid in history_found.UUIDS.values() if entries.get(uuid, {}).get("pending")}
    apart_from = {*apart_from, *begun}
    owners = {uuid: each["owner"] for uuid, each in entries.items() if each["owner"] and uuid not in apart_from}
    held = {
        uuid: machine.host.uuid
        for uuid in {*world.uuids(), *owners} - set(apart_from)
        for machine in world.machines.values()
        if machine.owns(uuid) and not _is_given_up(entries.get(uuid), machine.host.uuid)
    }
    dead = {machine.host.uuid for machine in world.machines.values() if machine.dead}
    if owners != held and not dead:
        raise Violation("R1 the registry has the owners %s, the hosts %s" % (owners, held))
    number = read.get(keys.quota("default"), {}).get("instances", 0)
    if number != sum(each["amounts"].get("instances", 0) for each in entries.values()):
        raise Violation("R2 the project uses %d by its quota, and %s" % (number, entries))
    takers = {key: uuid for key, uuid in read.items() if isinstance(uuid, str)}
    if any(key not in entries[uuid]["holds"] for key, uuid in takers.items()):
        raise Violation("R3 somebody holds what it does not know of: %s" % takers)
