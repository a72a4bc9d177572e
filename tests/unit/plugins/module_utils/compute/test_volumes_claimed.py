# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume is claimed and made with its instance and outlives it; of two that want it one gets it, and no crash loses it (C26)."""

from __future__ import annotations

import multiprocessing
import os
import subprocess

import pytest
from build_steps import BUILD_STEPS
from instance_case import Killed
from records import plant
from volume_case import NEEDS_QEMU_IMG, kill_before_write, named

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import volume
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim, volume_claim, volume_move
from ansible_collections.berth.kvm.plugins.module_utils.model import volume_hints, volumes
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid

pytestmark = NEEDS_QEMU_IMG

FORK = multiprocessing.get_context("fork")


def test_a_volume_is_made_with_its_instance_and_the_guest_knows_it_by_its_name(house):
    web = house.guest()
    assert web.make(named(new=True)) is True
    assert house.has() == (ACTIVE, "web1", True)
    assert web.named_by_guest() == ["db"] and "vdaa" in web.domain.xml
    assert web.go_on() is False
    assert web.record.resources["disk_gb"] == 1 and house.volume().resources["disk_gb"] == 2
    assert web.record.spec["volumes"] == [named()]  # nothing is new any more


def test_delete_keeps_the_volume_and_the_next_create_has_it_with_all_that_is_on_it(house):
    web = house.guest()
    web.make(named(new=True))
    before = house.file().read_bytes()
    web.delete()
    assert house.has() == (ACTIVE, None, True)
    web.make(named())
    assert house.has() == (ACTIVE, "web1", True) and house.file().read_bytes() == before
    assert web.named_by_guest() == ["db"]


def test_delete_removes_only_what_its_mapping_says(house):
    web, logs = house.guest(), volume_uuid("default", "logs")
    web.make(named(new=True), named("logs", 1, goes=True, new=True))
    web.delete()
    assert (house.has(), house.has(logs)) == ((ACTIVE, None, True), None)


@pytest.mark.follows("detach_volumes")
def test_the_hint_of_a_volume_in_use_leads_to_the_volume(house):
    web, other = house.guest(), house.guest("web2")
    web.make(named(new=True))
    before = house.file().read_bytes()
    result = other.try_to_claim(named())
    assert result["error"]["hint"] == volume_hints.detach_volumes("web1", ["db"])
    web.update()
    other.make(named())
    assert house.has() == (ACTIVE, "web2", True) and house.file().read_bytes() == before


def test_a_volume_has_one_instance_and_the_other_is_told_which(house):
    house.guest().make(named(new=True))
    other = house.guest("web2")
    for entry in (named(), named(new=True)):
        with pytest.raises(BerthError, match="VolumeInUse.*db is attached to web1"):
            other.claim(entry)
    assert house.has() == (ACTIVE, "web1", True) and other.record is None


def test_two_claims_at_once_of_a_free_volume_give_it_to_one(house):
    web, other = house.guest(), house.guest("web2")
    web.make(named(new=True))
    web.delete()
    web.claim(named())
    with pytest.raises(BerthError, match="VolumeInUse"):
        other.claim(named())
    assert web.go_on() and house.has() == (ACTIVE, "web1", True)


def test_a_volume_that_came_into_being_meanwhile_is_not_made_anew(house):
    web = house.guest()
    web.make(named(new=True))
    web.delete()
    with pytest.raises(BerthError, match="VolumeConflict"):
        house.guest("web2").claim(named(new=True))
    assert house.has() == (ACTIVE, None, True)


def test_a_volume_that_is_not_there_is_no_reason_to_make_one(house):
    with pytest.raises(BerthError, match="VolumeNotFound"):
        house.guest().claim(named())


def test_a_volume_with_a_layer_over_it_is_not_claimed_since_the_newest_data_may_be_in_the_layer(house):
    web = house.guest()
    web.make(named(new=True))
    web.delete()
    layer = house.file().with_name("snap1")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", house.file(), layer], check=True)
    with pytest.raises(BerthError, match="DiskChainChanged.* is a layer over volume db"):
        web.claim(named())
    assert (web.record, house.has()) == (None, (ACTIVE, None, True))


def test_a_volume_that_a_move_of_its_instance_left_between_two_hosts_is_owned_again_with_the_claim(house):
    web = house.guest()
    web.make(named(new=True))
    with house.host.store.host_lock():
        volume_move.let_go(house.store, web.record)
        left = house.volume()
        volume_claim.attach(house.host.store, web.record.spec, "t2")
    assert (left.role, house.volume().role) == ("OUT", "OWN")
    assert house.volume().generation[0] == left.generation[0] + 1


def test_a_withdrawn_claim_leaves_no_new_volume_and_every_old_one(house):
    web = house.guest()
    web.claim(named(new=True), token="t0")
    claim.withdraw_all(house.host, [{"uuid": web.uuid, "token": "t0"}])
    assert (web.record, house.has()) == (None, None)
    other = house.guest("web2")
    other.make(named(new=True))
    other.delete()
    other.claim(named(goes=True), token="t2")
    claim.withdraw_all(house.host, [{"uuid": other.uuid, "token": "t2"}])
    assert (other.record, house.has()) == (None, (ACTIVE, None, True))


def test_room_is_counted_once_and_also_while_nobody_has_the_volume(house):
    web = house.guest()
    with pytest.raises(BerthError, match="ClaimFailed"):
        web.claim(named(size_gb=10, new=True))
    assert house.has() is None
    web.make(named(size_gb=8, new=True))
    web.delete()
    with pytest.raises(BerthError, match="ClaimFailed"):
        house.guest("web2").claim(named("logs", size_gb=2, new=True))
    web.make(named(size_gb=8))


@pytest.mark.parametrize("step", BUILD_STEPS)
@pytest.mark.parametrize("is_new", [True, False])
def test_a_create_killed_at_a_step_is_finished_by_the_next_run_with_the_same_volume(house, step, is_new):
    web = house.guest()
    if not is_new:
        web.make(named(new=True))
        web.delete()
    before = None if is_new else house.file().read_bytes()
    with pytest.raises(Killed):
        web.make(*[named(new=True) if is_new else named()], killed_at=step)
    assert web.go_on() is True
    assert house.has() == (ACTIVE, "web1", True)
    assert before is None or house.file().read_bytes() == before
    assert web.record.spec["volumes"] == [named()]


@pytest.mark.parametrize("step", BUILD_STEPS)
def test_a_create_killed_at_a_step_and_deleted_loses_no_volume_that_was_there(house, step):
    """Not even one that goes with its instance: the instance was never made."""
    web = house.guest()
    web.make(named(new=True))
    web.delete()
    with pytest.raises(Killed):
        web.make(named(goes=True), killed_at=step)
    web.delete()
    assert (web.record, house.has()) == (None, (ACTIVE, None, True))


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("where", ["define", "start"])
def test_a_failed_build_removes_the_volume_that_it_made_and_no_other(house, monkeypatch, where, is_new):
    web = house.guest()
    if not is_new:
        web.make(named(new=True))
        web.delete()

    def fails(*_args):
        raise errors.BuildFailed("no")

    monkeypatch.setattr(domain, where, fails)
    with pytest.raises(errors.BuildFailed):
        web.make(named(goes=True, **({"new": True} if is_new else {})))
    assert (web.record, house.has()) == (None, None if is_new else (ACTIVE, None, True))


@pytest.mark.parametrize("goes", [True, False])
def test_a_delete_killed_at_a_step_is_finished_and_the_volume_is_what_its_mapping_says(house, goes):
    steps = ["delete begin", "delete permit", "delete domain", "delete disks", "delete volumes", "delete record"]
    for step in steps:
        web = house.guest("at-" + step.split()[1])
        entry = named("v" + step.split()[1], goes=goes)
        uuid = volume_uuid("default", entry["name"])
        web.make(dict(entry, new=True))
        with pytest.raises(Killed):
            web.delete(killed_at=step)
        web.delete()
        assert house.has(uuid) == (None if goes else (ACTIVE, None, True)), step
        volume.delete(house.host, uuid)


@pytest.mark.long
@pytest.mark.parametrize("others", ["update_disks", "a claim"])
def test_of_processes_that_want_one_volume_at_once_one_gets_it_in_each_of_twenty_rounds(house, others):
    """Real processes on the host's real files: two instances that are there, or one of them and one that is claimed."""
    names = ("web1", "web2")
    web, other = [house.guest(name) for name in names]
    web.make(named(new=True))
    web.update()
    if others == "update_disks":
        other.make()
    ask = [web.update, other.update if others == "update_disks" else other.claim]

    def attempt(number, barrier):
        barrier.wait(30)
        try:
            ask[number](named())
        except BerthError as error:
            os._exit(3 if "volume db is attached to %s" % names[1 - number] in str(error) else 4)
        os._exit(0)

    for _round in range(20):
        barrier = FORK.Barrier(2)
        workers = [FORK.Process(target=attempt, args=(number, barrier)) for number in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        codes = [worker.exitcode for worker in workers]
        assert sorted(codes) == [0, 3]
        winner = codes.index(0)
        assert house.volume().spec["instance"]["name"] == names[winner] and house.file().exists()
        has = [bool(volumes.of(guest.record.spec)) if guest.record else False for guest in (web, other)]
        assert has == [winner == 0, winner == 1]
        if winner == 1 and others == "a claim":
            other.delete()
        else:
            (web, other)[winner].update()
    assert house.volume().spec["instance"] is None and house.file().exists()


@pytest.mark.parametrize("token", ["t1", "t2"])
def test_a_claim_that_was_killed_before_it_had_its_volumes_is_decided_anew(house, monkeypatch, token):
    """It would be built with a volume that another instance may have."""
    web = house.guest()
    web.make(named(new=True))
    web.delete()
    kill_before_write(monkeypatch, "attach")
    with pytest.raises(Killed):
        web.claim(named())
    assert house.has() == (ACTIVE, None, True)
    web.claim(named(), token=token)
    assert house.has() == (ACTIVE, "web1", True)


def test_room_is_counted_and_claimed_under_one_hold_of_the_hosts_lock(house, monkeypatch):
    """Of two runs that claim at once, each would have the last room."""
    web, store, held = house.guest(), house.host.store, []
    swap = store.compare_and_swap

    class Watched(claim.Ledger):
        def allocate(self, *arguments):
            held.append(None in store._held)
            return super().allocate(*arguments)

    def compare_and_swap(*records):
        held.append(None in store._held)
        return swap(*records)

    monkeypatch.setattr(claim, "Ledger", Watched)
    monkeypatch.setattr(store, "compare_and_swap", compare_and_swap)
    web.claim(named(new=True))
    claim.withdraw_all(house.host, [{"uuid": web.uuid, "token": "t1"}])
    assert held == [True] * 3


def test_with_an_instance_goes_what_is_on_its_way_and_what_this_host_owns_only_with_the_instance(house):
    """An old record of the instance does not tell whose data is newer; a lost host's owns both."""
    web = house.guest()
    web.make(named(new=True))
    let_go = web.record.replace(role="OUT", phase="keep")
    assert volume_move.leaving(house.store, web.record) == [house.volume()]
    assert volume_move.leaving(house.store, let_go) == []
    moving = plant(house.store, house.volume().replace(role="OUT", phase="keep"))
    assert volume_move.leaving(house.store, let_go) == [moving]
