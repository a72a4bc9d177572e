# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes that outlive their instance still count in its project's quota, and a create that failed gives back all."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest
from procedure_case import play
from procedure_case import run as to_the_end

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "protocol"))
import history_engine  # noqa: E402
from memory_engine import MemoryEngine  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Transact  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import engine, holdings, keys  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.transactions import transacted  # noqa: E402

WEB, HOST = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a", "11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a"
FLAVOR = {"vcpus": 2, "memory_mb": 512, "root_gb": 1}
STAYS = {"name": "db", "size_gb": 5, "new": True, "delete_on_termination": False}
GOES = {"name": "scratch", "size_gb": 2, "new": True, "delete_on_termination": True}
ALL = {"instances": 1, "cores": 2, "ram": 512, "volumes": 2, "gigabytes": 7}
KEPT = {"volumes": 1, "gigabytes": 5}


def web(*volumes):
    spec = {"uuid": WEB, "name": "web", "flavor": FLAVOR, "networks": [], "volumes": list(volumes)}
    return {"uuid": WEB, "name": "web", "project": "p", "host": "kvm1", "host_uuid": HOST, "spec": spec}


class Registry:
    def __init__(self):
        self.memory = MemoryEngine()
        self.write(keys.META, history_engine.META)
        counts = dict.fromkeys(("serial", "generation", "provider", "read_at"), 0)
        self.write(keys.host(HOST), {"name": "kvm1", **counts, "trusted": True, "reserved": {}, "removed": {}})

    def write(self, key, document):
        self.memory.transact(Transact(writes=(keys.written(key, document),)))

    def do(self, procedure):
        return to_the_end(play(procedure, None, engine=self.memory))

    def take(self, instance, owner=HOST, pending=()):
        def change(draft):
            yield from holdings.read(draft, instance)
            key = keys.instance(WEB)
            entry = draft.get(key) or keys.new_instance("web", "p")
            yield from holdings.take(draft, instance, entry, {}, {})
            draft.put(key, {**entry, "owner": owner, "pending": list(pending), "epoch": 1})

        self.do(transacted(change))

    def delete(self):
        known = self.do(engine.whereabouts([WEB]))
        self.do(engine.RemovesOnEngine(known).removed([{"uuid": WEB, "after": [1, 0]}], []))

    def used(self):
        key = keys.quota("p")
        return {part: amount for part, amount in keys.document(key, self.memory.keys[key]).items() if amount}


@pytest.fixture
def registry():
    return Registry()


def test_volumes_that_outlive_their_instance_still_count_after_its_delete(registry):
    registry.take(web(STAYS, GOES))
    assert registry.used() == ALL
    registry.delete()
    assert registry.used() == KEPT


def test_an_instance_that_takes_its_volumes_again_counts_them_once(registry):
    registry.take(web(STAYS, GOES))
    again = web({**STAYS, "new": False})
    registry.take(again)  # its host said that it removed it
    assert registry.used() == {**ALL, **KEPT}
    registry.delete()
    assert registry.used() == KEPT


def test_a_create_that_failed_gives_back_its_volumes_too(registry):
    intent = {"run": "r1", "kind": keys.CREATE, "host": HOST, "op": "t", "claimed": False}
    registry.take(web(STAYS, GOES), owner=None, pending=[intent])
    back = functools.partial(engine.given_back, run="r1", uuid=WEB, without=[HOST])
    registry.do(transacted(back))
    assert registry.used() == {}
