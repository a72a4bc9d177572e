# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A create with a new volume whose build fails on the chosen host: the alternate gets both, and the first host keeps nothing."""

from __future__ import annotations

import fake_libvirt
import pytest
import runs_of_create as runs
from volume_case import DB, make_house, named

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import volume_files
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BuildFailed
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import seed
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.instance import Instance
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.modules import rescan

FIRST, SECOND = "kvm1", "kvm2"


class Host:
    """A host as the create playbook meets it: the modules claim, rescan and instance, without Ansible."""

    def __init__(self, house, given_seed):
        self.house, self.host, self.seed = house, house.host, given_seed

    def claim(self, claims, withdraw=()):
        claim.withdraw_all(self.host, withdraw)
        return {"results": claim.claim_all(self.host, list(claims))}

    def rescan(self, about=(), told=None):
        told = [rescan.summary(record) for record in self.host.store.records()]
        volumes = [record.uuid for record in self.house.store.records()]
        return {"host_uuid": self.host.uuid, "instances": told, "notes": {}, "volumes": volumes}

    def build(self, uuid, token):
        try:
            return {"changed": Instance(self.host, uuid, timeout=1).made(token, self.seed), "instance": {}}
        except BerthError as error:
            return {"error": error.to_dict()}

    def left(self):
        """What it holds of instances and volumes."""
        files = [str(path.relative_to(self.host.pool)) for path in self.host.pool.glob("*/*/*")]
        records = [*self.host.store.records(), *self.house.store.records()]
        return files, records, list(self.host.connection.domains)


@pytest.fixture
def fleet(make_host, wanted, monkeypatch):
    """({name: Host}, the plan of a create of web1 with the new volume db, first on kvm1)."""
    spec, given_seed = wanted()
    spec.update(pool="berth", volumes=[named(new=True)])
    made = {}
    for number, name in enumerate((FIRST, SECOND), 1):
        uuid = fake_libvirt.HOST_UUID.replace("11111111", str(number) * 8)
        made[name] = Host(make_house(make_host(name, uuid), wanted, monkeypatch), given_seed)
    entry = runs.instance("web1", FIRST, (SECOND,), spec=spec, uuid=spec["uuid"])
    plan = runs.a_plan(entry, hosts=(FIRST, SECOND))
    plan["hosts"] = {name: {"uuid": host.host.uuid} for name, host in made.items()}
    return made, plan


def fail_on_first(monkeypatch, place, name):
    """The function fails the first time, on whichever host that is, and works after that."""
    real, first = getattr(place, name), iter([True])

    def call(*args, **more):
        if next(first, False):
            raise BuildFailed("no space left on device")
        return real(*args, **more)

    monkeypatch.setattr(place, name, call)


@pytest.mark.parametrize(
    "place, name",
    [
        (volume_files, "make"),
        (seed, "build"),
        (fake_libvirt.FakeConnection, "defineXMLFlags"),
        (fake_libvirt.FakeDomain, "createWithFlags"),
    ],
    ids=["volume", "seed", "definition", "start"],
)
def test_the_alternate_gets_instance_and_volume_and_the_first_host_keeps_nothing(fleet, monkeypatch, place, name):
    hosts, plan = fleet
    fail_on_first(monkeypatch, place, name)
    for _step in runs.steps(plan, hosts, (token * 32 for token in "abcdef")):
        pass
    entry = plan["instances"]["web1"]
    assert (entry["state"], entry["host"], len(entry["attempts"])) == ("active", SECOND, 1), entry
    assert hosts[FIRST].left() == ([], [], [])
    assert hosts[SECOND].house.has(DB) == ("active", "web1", True)
    (record,) = hosts[SECOND].host.store.records()
    assert (record.role, record.power_state) == ("OWN", "running")
    domain = hosts[SECOND].host.connection.domains[record.uuid]
    assert domain.isActive() and str(hosts[SECOND].house.file()) in domain.xml
