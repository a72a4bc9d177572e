# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the registry has of hosts: checked when it is written, and not once more by each run that reads it."""

from __future__ import annotations

import json
import uuid
import zlib

import pytest
import registry_case
from history_host import HOST
from procedure_case import play, run

from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Found, Transact
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import holdings, hosts, keys
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.transactions import transacted
from ansible_collections.berth.kvm.plugins.module_utils.model import host_document

NAMES = ("h1", "h2", "h3")
META = {"schema": keys.SCHEMA, "incarnation": "one", "kind": "etcd", "open": True}
WEB = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"


class Registry:
    def __init__(self):
        self.engine = registry_case.MemoryEngine()
        self.engine.transact(Transact(writes=(keys.written(keys.META, META),)))

    def told(self, name, document):
        is_new = keys.host(document["uuid"]) not in self.engine.keys
        return run(play(hosts.report(name, document, 0.0, still=is_new), None, engine=self.engine))

    def fleet(self):
        seen = run(play(hosts.hosts(), None, engine=self.engine))
        return read_fleet(hosts.reports(seen, NAMES, {}), host_document.check)

    def change(self, document, **fields):
        written = keys.written(keys.host(document["uuid"]), {**self.there(document), **fields})
        self.engine.transact(Transact(writes=(written,)))

    def leave(self, document, gone):
        def change(draft):
            yield from holdings.leave_host(draft, gone, document["uuid"], 1)

        run(play(transacted(change), None, engine=self.engine))

    def there(self, document):
        key = keys.host(document["uuid"])
        return keys.document(key, self.engine.keys[key])

    def without_seals(self):
        """As somebody has written them who is no controller."""
        for key, found in self.engine.keys.items():
            self.engine.keys[key] = Found(found.value, found.revision)


def of(name):
    return {**HOST, "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), "host": name}


@pytest.fixture
def registry():
    registry = Registry()
    for name in NAMES:
        registry.told(name, of(name))
    return registry


def test_what_is_sealed_is_not_checked_again(registry, monkeypatch):
    registry.change(of("h2"), removed={WEB: 3})  # which it does not show
    monkeypatch.setattr(host_document, "shape", lambda *_given: pytest.fail("it was checked when it was written"))
    assert set(registry.fleet().documents) == set(NAMES)


def test_of_a_sealed_document_only_what_was_reserved_since_is_checked(registry, monkeypatch):
    registry.change(of("h2"), reserved={WEB: reserved()})
    monkeypatch.setattr(host_document, "shape", lambda *_given: pytest.fail("it was checked when it was written"))
    assert registry.fleet().documents["h2"]["num_instances"] == 1


def test_the_fleet_is_the_same_with_seals_and_without(registry):
    registry.change(of("h2"), reserved={WEB: reserved()})
    sealed = registry.fleet()
    registry.without_seals()
    assert registry.fleet() == sealed and sealed.documents["h2"]["num_instances"] == 1


def test_without_a_seal_it_is_checked_and_one_that_is_wrong_is_left_out(registry):
    key = keys.facts(of("h2")["uuid"])
    wrong = {**of("h2"), "warnings": ["{{ lookup('pipe', 'id') }}"]}
    registry.engine.keys[key] = Found(zlib.compress(json.dumps(wrong).encode()), 99)
    found = registry.fleet()
    assert set(found.documents) == {"h1", "h3"} and "HostDocumentInvalid" in found.verdicts["h2"]


def test_what_was_reserved_there_since_is_checked(registry):
    registry.change(of("h2"), reserved={WEB: {**reserved(), "name": 7}})
    assert "HostDocumentInvalid" in registry.fleet().verdicts["h2"]


def test_facts_that_break_the_schema_are_refused_before_they_are_in_the_registry(registry):
    before = dict(registry.engine.keys)
    with pytest.raises(host_document.HostDocumentInvalid):
        registry.told("h1", {**of("h1"), "generation": 10**6, "vcpus": "many"})
    assert registry.engine.keys == before


def test_of_what_was_removed_a_host_keeps_only_what_its_facts_show(registry, monkeypatch):
    """However many instances come and go while nobody refreshes it."""
    monkeypatch.setattr(hosts, "MOST_REMOVED", 3)
    used = {"num_instances": 1, "vcpus_used": 2, "memory_mb_used": 512, "local_gb_used": 5}
    registry.told("h1", {**of("h1"), **used, "generation": 10**6, "instances": [reserved()]})
    for number in range(8):
        registry.leave(of("h1"), WEB if number == 2 else str(uuid.uuid5(uuid.NAMESPACE_DNS, str(number))))
    removed = registry.there(of("h1"))["removed"]
    assert removed[WEB] == 1 and len(removed) <= 4
    assert registry.fleet().documents["h1"]["num_instances"] == 0


def test_a_guest_that_left_is_counted_where_it_is(registry):
    """Its host shows it as a guest of libvirt alone from then on."""
    registry.leave(of("h1"), WEB)
    used = {"num_instances": 1, "vcpus_used": 2, "memory_mb_used": 512, "local_gb_used": 5}
    guest = {**reserved(), "foreign": True, "generation": None, "role": None}
    registry.told("h1", {**of("h1"), **used, "generation": 10**6, "instances": [guest]})
    assert registry.there(of("h1"))["removed"] == {} and registry.fleet().documents["h1"]["num_instances"] == 1
    registry.leave(of("h1"), WEB)
    assert registry.fleet().documents["h1"]["num_instances"] == 1


def test_a_delete_goes_on_where_the_facts_of_its_host_are_wrong(registry, monkeypatch):
    """As after an upgrade whose check is stricter: the next refresh mends it."""
    monkeypatch.setattr(hosts, "MOST_REMOVED", 0)
    registry.engine.keys[keys.facts(of("h1")["uuid"])] = Found(zlib.compress(b'{"uuid": 7}'), 99)
    registry.leave(of("h1"), WEB)
    assert registry.there(of("h1"))["removed"] == {WEB: 1}


@pytest.mark.parametrize(
    ("key", "document"),
    [
        (keys.group(WEB), {WEB: "h1"}),
        (keys.name("p", "web"), "web"),
        (keys.instance(WEB), {**keys.new_instance("web", "p"), "epoch": -1}),
        (keys.META, {**META, "schema": keys.SCHEMA + 1}),
    ],
)
def test_a_value_that_does_not_fit_its_key_is_refused_before_it_is_in_the_registry(key, document):
    with pytest.raises(keys.RegistryDocumentRefused, match=key):
        keys.written(key, document)


def reserved():
    return hosts.reservation({"uuid": WEB, "name": "web", "project": "default", "spec": {"flavor": FLAVOR}}, 1)


FLAVOR = {"name": "small", "vcpus": 2, "memory_mb": 512, "root_gb": 5}
