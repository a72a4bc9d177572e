# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts in memory and an engine in memory, and the runs that bring the ones to the other and back."""

from __future__ import annotations

import functools
import itertools
import json
import sys
from pathlib import Path

import procedure_case

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "protocol"))

import history_volumes  # noqa: E402
from history_world import World  # noqa: E402
from memory_engine import MemoryEngine  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.record import registry_mark  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import audit, enrol, keys

NAMES = ("web1", "web2")


class Dice:
    """In place of dice: hosts and all else in their order."""

    def shuffle(self, _several):
        pass

    def choice(self, several):
        return several[0]

    def random(self):
        return 0.0


class Site:
    """``engine``: one that the hosts do not belong to yet; ``world``: the hosts, without it."""

    def __init__(self, top, monkeypatch, hosts=3, names=NAMES):
        top.mkdir(exist_ok=True)
        self.world, self.engine = World(top, monkeypatch, hosts, names), MemoryEngine()
        self.incarnations, self.read_at = map("i%d".__mod__, itertools.count(1)), itertools.count(1)
        self.hints = {}  # of the last run of a playbook

    @property
    def machines(self):
        return self.world.machines

    # runs of playbooks

    def playbook(self, kind, *names, mark=None, **options):
        """The errors of a run, over the hosts alone, or with a mark over the registry."""
        self.world.engine = self.engine if mark else None
        run = history_volumes.Runs(self.world, list(self.machines), names or self.world.names, Dice(), **options)
        run.mark = mark
        for _step in getattr(run, kind)():
            self.world.check()
        self.world.engine = None
        self.hints = {name: error.get("hint") for name, error in run.errors.items()}
        return {name: error["code"] for name, error in run.errors.items()}

    def mark(self):
        """Of a run that has read the registry just now."""
        return {"kind": "etcd", "incarnation": self.meta()["incarnation"], "revision": self.engine.revision}

    def change(self, procedure, **more):
        """Its result, to the end."""
        return procedure_case.run(self.changing(procedure, **more))

    def changing(self, procedure, lost=(), dry=False, hosts=None):
        run = history_volumes.Runs(self.world, list(self.machines), self.world.names, Dice(), lost)
        change = enrol.Run(
            kind="etcd",
            hosts=hosts or list(self.machines),
            about={self.world.uuid(name): (name, "default") for name in self.world.names},
            read=lambda answers: read_fleet({host: dict(answer) for host, answer in answers.items()}, dict),
            new_incarnation=lambda: next(self.incarnations),
            now=lambda: float(next(self.read_at)),
            lost=lost,
            dry=dry,
        )
        return procedure_case.play(procedure(change), run._ask_step, engine=self.engine)

    use = functools.partialmethod(change, enrol.use_registry)
    leave = functools.partialmethod(change, enrol.leave_registry)
    audit = functools.partialmethod(change, audit.audit)
    refresh = functools.partialmethod(change, enrol.refresh)

    # what there is

    def document(self, key):
        found = self.engine.keys.get(key)
        return json.loads(found.value) if found else None

    def meta(self):
        return self.document(keys.META)

    def entry(self, name):
        return self.document(keys.instance(self.world.uuid(name)))

    def marks(self):
        return [registry_mark.read(machine.host.store.state_dir) for machine in self.machines.values()]

    def owner(self, name):
        found = [host for host, machine in self.machines.items() if machine.owns(self.world.uuid(name))]
        assert len(found) <= 1
        return found[0] if found else None

    def host_uuid(self, host):
        return self.machines[host].host.uuid

    def all_keys(self):
        """What the registry says, without what changes with each reading of a host."""
        return {
            key: json.loads(found.value)
            for key, found in self.engine.keys.items()
            if not key.startswith((keys.FACTS, keys.HOSTS, keys.META))
        }
