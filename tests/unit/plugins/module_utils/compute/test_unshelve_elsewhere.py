# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A shelved instance whose own host cannot take it back is unshelved on another one, and the first forgets it as after a move."""

from __future__ import annotations

import os

import pytest
from backup_case import make_place, needed
from instance_case import Killed, OnHost
from shelve_case import KVM, MIB, ON, SHELVED, STORE, Fleet, backups, closed, make_room, make_web
from small_disks import holds

from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import place
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import owner
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import moving_host, transfer
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import drained
from ansible_collections.berth.kvm.plugins.module_utils.model import operation_hints

pytestmark = [needed, pytest.mark.long]
NEXT, THIRD = "kvm2", "kvm3"


@pytest.fixture
def make_fleet(make_host, wanted, monkeypatch, tmp_path):
    """make_fleet(host, names): web1 is shelved on kvm1, which has no room by now; its backup is at ``host``."""
    for module in ("network", "arrival"):
        monkeypatch.setattr(getattr(moving_host, module), "check", lambda *_arguments: None)
    monkeypatch.setattr(transfer, "check_address", lambda *_arguments: None)
    monkeypatch.setattr(moving_host.MovingHost, "since_boot", lambda _self: {"boot_id": "one", "uptime": 1})
    uuids = []

    def make(host, names=(NEXT,)):
        hosts = {
            name: make_host(name, "%d1111111-3c6e-5d59-9d0b-3a1c9d7f1e2a" % at)
            for at, name in enumerate((KVM, *names), 1)
        }
        case = make_web(hosts[KVM], wanted("web1"), monkeypatch, tmp_path)
        uuids.append(case.uuid)
        for name in names:
            make_room(hosts[name], monkeypatch)
        fleet = Fleet(case, make_place(tmp_path, monkeypatch), host, [OnHost(hosts[name], case.uuid) for name in names])
        fleet.good("shelve")
        hosts[KVM].connection.room = 512
        return fleet

    yield make
    for uuid in uuids:
        closed(uuid)


@pytest.fixture
def fleet(make_fleet):
    return make_fleet(STORE)


def disks(fleet, host):
    directory = fleet.on[host].host.pool / "instances" / fleet.case.uuid
    return holds(directory / "root.qcow2", 1) and holds(directory / "data-db.qcow2", 2, MIB)


def state(fleet, host):
    record, domain = fleet.on[host].record, fleet.on[host].domain
    return record.vm_state, record.task_state, record.power_state, domain is not None and bool(domain.isActive())


def check_moved(fleet, host=NEXT):
    """It runs there with all of its disks, and is nowhere else."""
    assert state(fleet, host) == ON and disks(fleet, host)
    for name, other in fleet.on.items():
        if name != host:
            assert other.record is None and other.domain is None
            assert not (other.host.pool / "instances" / fleet.case.uuid).exists()
    record = fleet.on[host].record
    assert record.op is None and record.migration is None and "shelved" not in record.spec
    assert record.resources["memory_mb"] == record.spec["flavor"]["memory_mb"]
    assert owner.read(str(fleet.on[host].host.pool), fleet.case.uuid) == fleet.on[host].host.uuid
    assert not list((fleet.on[host].host.pool / "instances").rglob("*.incoming*"))


@pytest.mark.parametrize("host", [STORE, None], ids=["backup host", "directory"])
def test_where_its_own_host_has_no_room_another_one_has_it_with_all_of_its_disks(make_fleet, host):
    fleet = make_fleet(host)
    before, seed = fleet.case.record, fleet.case.root.with_name("seed.iso").read_bytes()
    done = fleet.good("unshelve")
    assert (done.changed, done.host) == (True, NEXT)
    check_moved(fleet)
    there = fleet.on[NEXT]
    assert (there.host.pool / "instances" / fleet.case.uuid / "seed.iso").read_bytes() == seed
    assert there.record.generation[0] == before.generation[0] + 1 and len(backups(fleet)) == 1
    assert not fleet.good("unshelve").changed


def test_a_host_that_was_drained_lets_it_go_to_another_one(fleet):
    fleet.case.host.connection.room = 1024
    drained.drain(fleet.case.host.store, "memory")
    assert fleet.good("unshelve").host == NEXT
    check_moved(fleet)


def test_its_own_host_is_the_first_choice(fleet):
    fleet.case.host.connection.room = 1024
    assert fleet.good("unshelve").host is None and fleet.owners == [KVM]
    assert {host for host, _what in fleet.asked} == {KVM, STORE}


def test_an_alternate_takes_it_where_the_chosen_host_lost_the_race(make_fleet):
    fleet = make_fleet(STORE, (NEXT, THIRD))
    fleet.on[NEXT].host.connection.room = 512
    assert fleet.good("unshelve").host == THIRD
    check_moved(fleet, THIRD)


def test_where_no_host_has_room_it_stays_shelved_where_it_was(fleet):
    fleet.on[NEXT].host.connection.room = 512
    done = fleet.run("unshelve")
    assert [error["code"] for error in done.errors] == ["ClaimFailed", "ClaimFailed"]
    assert fleet.owners == [KVM] and state(fleet, KVM) == SHELVED and fleet.on[NEXT].record is None
    assert fleet.case.record.resources == {} and fleet.case.record.op is None
    fleet.on[NEXT].host.connection.room = 1024
    fleet.good("unshelve")
    check_moved(fleet)


@pytest.mark.follows("mount_its_backup")
def test_a_host_that_does_not_see_the_directory_with_its_backup_is_not_where_it_goes(make_fleet):
    fleet = make_fleet(None)
    os.rename(fleet.to, fleet.to + "-of-kvm1")
    refused, unseen = fleet.run("unshelve").errors
    assert (refused["code"], unseen["code"]) == ("ClaimFailed", "MigrationPreCheckError")
    assert unseen["hint"] == operation_hints.mount_its_backup(NEXT, fleet.to)
    assert fleet.owners == [KVM] and state(fleet, KVM) == SHELVED and fleet.case.record.op is None
    os.rename(fleet.to + "-of-kvm1", fleet.to)
    fleet.good("unshelve")
    check_moved(fleet)


def test_check_mode_says_it_and_changes_nothing(fleet):
    before = fleet.case.record
    done = fleet.good("unshelve", dry=True)
    assert done.changed and done.host == NEXT and done.diff == [{"before": "kvm1\n", "after": "kvm2\n"}]
    assert (
        fleet.case.record == before and fleet.on[NEXT].record is None and list(fleet.on[NEXT].host.pool.iterdir()) == []
    )


STEPS = (
    "begin", "claim", "receive", "freeze", "send", "release", "acquire", "confirm", "purge", "finish", "unshelve room", "restore",
    "restore disk", "restored", "start define", "start guest", "start done",
)  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_is_killed_at_any_step_of_a_host_is_ended_by_the_next(make_fleet, step):
    fleet = make_fleet(None)
    with pytest.raises(Killed):
        fleet.run("unshelve", killed_at=step)
    assert len(fleet.owners) <= 1 and len(backups(fleet)) == 1
    fleet.good("unshelve")
    check_moved(fleet)


def test_a_backup_that_cannot_be_restored_leaves_it_shelved_on_the_new_host_without_its_room(fleet):
    path = place.Place(fleet.to, fleet.case.uuid).path(backups(fleet)[0], "root.qcow2")
    whole = open(path, "rb").read()
    open(path, "r+b").write(b"damaged")
    assert fleet.refused("unshelve")["code"] == "BackupDamaged"
    assert fleet.owners == [NEXT] and state(fleet, NEXT) == SHELVED and fleet.on[NEXT].record.resources == {}
    open(path, "wb").write(whole)
    fleet.good("unshelve")
    check_moved(fleet)


def test_a_migration_leaves_it_shelved_and_waits_for_no_confirm(fleet):
    assert fleet.run("migrate").failure is None
    assert fleet.owners == [NEXT] and state(fleet, NEXT) == SHELVED and fleet.case.record is None
    assert fleet.on[NEXT].record.resources == {} and fleet.on[NEXT].domain is None
    assert fleet.files(NEXT) == ["owner", "seed.iso"]
    fleet.good("unshelve")
    check_moved(fleet)
