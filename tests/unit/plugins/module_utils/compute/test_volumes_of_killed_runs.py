# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that are killed at any write, beside other runs and silent hosts: a volume has one writer and one host, no data
goes that nobody asked to go, the quota holds, and what is run again ends (C26)."""

from __future__ import annotations

import random

import pytest
from volume_case import DB
from volume_fleet_case import INSTANCES, Doom, Fleet, make_sites, run

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import volume_claim
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid

VOLUMES = {"db": 2, "logs": 1, "big": 4}


@pytest.fixture
def fleet(make_host, wanted, monkeypatch):
    return Fleet(make_sites(make_host, wanted, monkeypatch), wanted, dict(VOLUMES))


def has(fleet, volume=DB):
    return {name: site.has(volume) for name, site in fleet.sites.items()}


def both_claimed(fleet, one="db", other="db"):
    """Two controllers that read all hosts, then claim on one host each, and are killed."""
    runs = fleet.create("web1", [one], prefer=["kvm1"]), fleet.create("web2", [other], prefer=["kvm2"])
    for _step in range(3):
        for each in runs:
            next(each)


class Watch:
    """What must hold after each step. ``written``: the files of volumes that a guest has had; ``may_go``: the volumes that
    somebody wants deleted."""

    def __init__(self, fleet):
        self.fleet, self.written, self.may_go = fleet, {}, set()

    def check(self):
        for name in VOLUMES:
            uuid = volume_uuid("default", name)
            owners = [site.name for site in self.fleet.sites.values() if self._owns(site, uuid)]
            assert len(owners) <= 1, (name, owners)
            for site in self.fleet.sites.values():
                self._check_file(site, uuid)

    @staticmethod
    def _owns(site, uuid):
        volume = site.volume(uuid)
        return volume is not None and volume.role == "OWN"

    def _check_file(self, site, uuid):
        file, domains = site.file(uuid), site.host.connection.domains
        users = [each.name() for each in domains.values() if each.isActive() and str(file) in each.XMLDesc(0)]
        assert len(users) <= 1, users
        if users:
            self.written.setdefault(file, file.stat().st_ino)
        if uuid in self.may_go and not file.exists():
            self.written.pop(file, None)
        assert file not in self.written or file.stat().st_ino == self.written[file]


OPERATIONS = {
    "create": lambda fleet: fleet.create("web2", ["logs"], prefer=["kvm1"]),
    "update_disks": lambda fleet: fleet.update("web1", ["db", "big"]),
    "detach": lambda fleet: fleet.update("web1", []),
    "delete": lambda fleet: fleet.delete("web1"),
    "delete_volume": lambda fleet: fleet.delete_volume("logs"),
}


def begun(fleet, operation):
    """web1 with db, and what the operation needs. Return what the operation may remove."""
    assert run(fleet.create("web1", ["db"], prefer=["kvm1"])) in (True, False)
    assert run(fleet.update("web1", ["db"])) in (True, False)
    fleet.defined["db"] = 3 if operation == "update_disks" else fleet.defined["db"]
    if operation == "delete_volume":
        assert run(fleet.create("web2", ["logs"], prefer=["kvm1"])) is True and run(fleet.delete("web2")) is True
    return {volume_uuid("default", "logs")} if operation == "delete_volume" else set()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_run_killed_at_any_write_on_a_host_is_finished_by_the_next_one(fleet, monkeypatch, operation, after):
    watch, doom, at, struck = Watch(fleet), Doom(monkeypatch), 0, True
    while struck:
        at += 1
        watch.may_go = begun(fleet, operation)
        watch.check()
        doom.left, doom.after = at, after
        run(OPERATIONS[operation](fleet))
        struck, doom.left = doom.left is None, None
        watch.check()
        first, again = run(OPERATIONS[operation](fleet)), run(OPERATIONS[operation](fleet))
        assert (first in (True, False), again) == (True, False), (at, first, again)
        watch.check()
        for name in ("web1", "web2"):
            assert run(fleet.delete(name)) in (True, False)
        watch.may_go = {volume_uuid("default", name) for name in VOLUMES}
        for name in VOLUMES:
            assert run(fleet.delete_volume(name)) in (True, False)
        watch.check()
        fleet.defined = dict(VOLUMES)
    assert at > 3


def test_two_runs_killed_after_their_claims_of_one_volume_leave_it_to_whoever_runs_again(fleet):
    both_claimed(fleet)
    assert run(fleet.create("web1", ["db"])).startswith("VolumeConflict")
    assert run(fleet.create("web2", ["db"])) is True
    assert has(fleet) == {"kvm1": None, "kvm2": ("active", "web2", True)}


def test_the_claim_that_a_killed_run_left_is_nothing_to_the_volume_on_another_host(fleet):
    runs = fleet.create("web1", ["db"], prefer=["kvm1"]), fleet.create("web2", ["db"], prefer=["kvm2"])
    for _step in range(2):
        for each in runs:
            next(each)
    assert run(runs[0]) is True
    next(runs[1])
    assert has(fleet) == {"kvm1": ("active", "web1", True), "kvm2": ("claimed", "web2", False)}
    assert [run(fleet.update("web1", ["db"])), run(fleet.create("web1", ["db"]))] == [False, False]
    assert run(fleet.create("web2", ["db"])).startswith("VolumeInUse")
    assert run(fleet.create("web2")) is True and has(fleet)["kvm2"] is None


@pytest.mark.follows("finish_claim")
@pytest.mark.parametrize("names", [("db",), ()], ids=["with it", "without it"])
def test_the_volume_of_a_claim_is_had_or_given_up_by_the_instance_it_was_claimed_for(fleet, names):
    killed = fleet.create("web2", ["db"], prefer=["kvm2"])
    for _step in range(3):
        next(killed)
    said = run(fleet.create("web1", ["db"]))
    assert said.startswith("VolumeInUse: volume db is claimed for web2, which is not built yet")
    assert run(fleet.delete_volume("db")).startswith("VolumeInUse: volume db is claimed for web2")
    assert run(fleet.create("web2", names)) is True
    assert run(fleet.create("web1", ["db"])) is True or names
    assert [pair[1] for pair in has(fleet).values() if pair] == ["web2" if names else "web1"]


@pytest.mark.follows("delete_begun_elsewhere")
def test_what_killed_runs_of_update_disks_began_on_two_hosts_is_removed_as_the_hint_says(fleet):
    for name, host in (("web1", "kvm1"), ("web2", "kvm2")):
        assert run(fleet.create(name, prefer=[host])) is True
    runs = fleet.update("web1", ["db"]), fleet.update("web2", ["db"])
    for _step in range(3):
        for each in runs:
            next(each)
    assert has(fleet) == {"kvm1": ("claimed", None, False), "kvm2": ("claimed", None, False)}
    assert run(fleet.create("web3", ["db"])).startswith("VolumeConflict")  # one of the two may still make it
    for error in ("VolumeConflict", "VolumeElsewhere"):
        assert run(fleet.update("web1", ["db"])).startswith(error)
        assert run(fleet.delete_volume("db")) is True
    assert run(fleet.update("web1", ["db"])) is True


def test_runs_that_were_killed_after_claims_beyond_the_quota_do_not_exceed_it_when_run_again(fleet):
    fleet.quotas = {"default": {"volumes": 1}}
    both_claimed(fleet, "db", "logs")
    assert "Quota exceeded for volumes" in run(fleet.create("web1", ["db"]))
    assert run(fleet.create("web2", ["logs"])) is True
    assert sum(len(site.store.records()) for site in fleet.sites.values()) == 1


def test_a_claim_that_cannot_have_its_volumes_after_all_leaves_nothing(fleet, monkeypatch):
    def fails(*_args):
        raise errors.InstanceBusy("the volume is being made")

    with monkeypatch.context() as patch:
        patch.setattr(volume_claim, "attach", fails)
        assert run(fleet.create("web1", ["db"])).startswith("InstanceBusy")
    assert not any(site.host.store.records() + site.store.records() for site in fleet.sites.values())


def step_of(fleet, watch, rng):
    kind, name = rng.choice(["create", "create", "update", "update", "delete", "delete_volume"]), rng.choice(INSTANCES)
    names = [volume for volume in VOLUMES if rng.random() < 0.5]
    if kind == "delete_volume":
        volume = rng.choice(list(VOLUMES))
        watch.may_go.add(volume_uuid("default", volume))
        return fleet.delete_volume(volume)
    if kind == "create":
        return fleet.create(name, names, prefer=rng.sample(list(fleet.sites), 2))
    return fleet.update(name, names) if kind == "update" else fleet.delete(name)


def disturb(fleet, doom, rng):
    if rng.random() < 0.05:
        site = rng.choice(list(fleet.sites.values()))
        site.up = not site.up
    if rng.random() < 0.04:
        volume = rng.choice(list(VOLUMES))
        fleet.defined[volume] = max(1, fleet.defined[volume] + rng.choice([-1, 1]))
    doom.left, doom.after = (rng.randint(1, 12) if rng.random() < 0.15 else None), rng.random() < 0.5


@pytest.mark.parametrize("seed", range(8))
def test_whatever_runs_at_once_and_is_killed_a_volume_has_one_writer_and_keeps_its_data(fleet, monkeypatch, seed):
    rng, watch, doom = random.Random(seed), Watch(fleet), Doom(monkeypatch)
    fleet.quotas = {"default": {"volumes": 2}} if seed % 2 else {}
    for _round in range(20):
        runs = [step_of(fleet, watch, rng) for _run in range(rng.choice([1, 1, 2]))]
        while runs:
            disturb(fleet, doom, rng)
            each = rng.choice(runs)
            if rng.random() < 0.03 or next(each, each) is each:  # the controller is killed, or the run has ended
                runs.remove(each)
            doom.left = None
            watch.check()
        watch.may_go.clear()
    for site in fleet.sites.values():
        site.up = True
    assert {run(fleet.delete(name)) for name in INSTANCES} <= {True, False}
    assert {run(fleet.delete(name)) for name in INSTANCES} == {False}
    watch.check()
