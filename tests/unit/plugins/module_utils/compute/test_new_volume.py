# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new volume for an instance that is there: claimed, made, and free until it is attached (C26)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from instance_case import Killed
from records import plant
from volume_case import DB, kill_before_write, named

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors, paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import new_volume, volume
from ansible_collections.berth.kvm.plugins.module_utils.model import volume_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE, BUILDING, CLAIMED, RESIZED
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import (
    VolumeConflict,
    VolumeElsewhere,
    VolumeInUse,
    VolumeNotFound,
)

IMAGE = {"image": {"name": "data"}}

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


@pytest.fixture
def web(house):
    web = house.guest()
    web.make()
    return web


def wanted(web, **parts):
    return {"name": "db", "size_gb": 2, "pool": None, "instance": web.uuid, **parts}


def make(house, web, token="t2", **parts):
    new_volume.claim(house.host, wanted(web, **parts), token)
    new_volume.make(house.host, DB, token)


def give(house, web, token="t2"):
    """What update_disks does."""
    if not house.volume() or house.volume().phase != ACTIVE:
        make(house, web, token)
    return web.update(named())


@pytest.mark.parametrize("runs", [True, False])
def test_an_instance_that_is_there_gets_a_new_volume_while_its_guest_runs_or_is_off(house, web, runs):
    if not runs:
        web.instance().stopped(1)
    make(house, web)
    assert house.has() == (ACTIVE, None, True)
    assert [web.update(named()), web.update(named())] == [True, False]
    assert house.has() == (ACTIVE, "web1", True) and web.named_by_guest() == ["db"]
    assert bool(web.domain.isActive()) is runs
    web.delete()
    assert house.has() == (ACTIVE, None, True)


def test_room_is_claimed_before_anything_is_made_and_counts_from_then_on(house, web):
    with pytest.raises(BerthError) as caught:
        new_volume.claim(house.host, wanted(web, size_gb=20), "t2")
    assert caught.value.code == "ClaimFailed" and house.has() is None
    new_volume.claim(house.host, wanted(web, size_gb=8), "t2")
    assert house.has() == (CLAIMED, None, False)
    with pytest.raises(BerthError, match="ClaimFailed"):
        house.guest("web2").claim(named("logs", size_gb=1, new=True))


def test_check_mode_claims_nothing_and_refuses_what_a_run_would(house, web):
    new_volume.claim(house.host, wanted(web), "t2", dry=True)
    assert house.has() is None
    with pytest.raises(BerthError):
        new_volume.claim(house.host, wanted(web, size_gb=20), "t2", dry=True)


@pytest.mark.parametrize("at", ["claim", "build", "made"])
def test_a_run_killed_before_any_write_is_finished_by_the_next_one(house, web, monkeypatch, at):
    kill_before_write(monkeypatch, at)
    with pytest.raises(Killed):
        make(house, web)
    assert give(house, web, "t3") is True
    assert house.has() == (ACTIVE, "web1", True) and house.volume().resources == {"disk_gb": 2}


def test_a_run_killed_while_the_file_is_written_leaves_a_half_file_to_nobody(house, web, monkeypatch):
    def killed(*_args):
        raise Killed("publish")

    with monkeypatch.context() as patch:
        patch.setattr(paths, "publish", killed)
        with pytest.raises(Killed):
            make(house, web)
    assert house.has() == (BUILDING, None, False)
    with pytest.raises(VolumeNotFound):
        web.update(named())
    assert give(house, web, "t3") and sorted(os.listdir(house.file().parent)) == ["disk.qcow2"]


def test_the_claim_of_another_run_is_gone_on_with_and_the_first_one_makes_and_removes_nothing(house, web):
    new_volume.claim(house.host, wanted(web), "t2")
    new_volume.claim(house.host, wanted(web), "t3")
    with pytest.raises(VolumeConflict, match="adopted"):
        new_volume.make(house.host, DB, "t2")
    assert new_volume.withdraw(house.host, DB, "t2") is False and house.has() == (CLAIMED, None, False)
    new_volume.make(house.host, DB, "t3")
    assert house.has() == (ACTIVE, None, True)


def test_a_withdrawn_claim_leaves_nothing_and_what_was_made_is_never_withdrawn(house, web):
    new_volume.claim(house.host, wanted(web), "t2")
    assert [new_volume.withdraw(house.host, DB, "t2"), new_volume.withdraw(house.host, DB, "t2")] == [True, False]
    assert house.has() is None
    make(house, web)
    assert new_volume.withdraw(house.host, DB, "t2") is False and house.has() == (ACTIVE, None, True)


def test_in_check_mode_a_claim_is_neither_made_nor_withdrawn_and_a_second_make_is_no_change(house, web):
    new_volume.claim(house.host, wanted(web), "t2")
    claimed = house.has()
    assert new_volume.make(house.host, DB, "t2", dry=True) and new_volume.withdraw(house.host, DB, "t2", dry=True)
    assert house.has() == claimed
    assert [new_volume.make(house.host, DB, "t2"), new_volume.make(house.host, DB, "t2")] == [True, False]


@pytest.mark.follows("delete_begun_volume")
@pytest.mark.parametrize("other", [{"size_gb": 3}, {"image": {"name": "data"}}])
def test_what_an_ended_run_began_otherwise_is_deleted_as_the_hint_says(house, web, other):
    new_volume.claim(house.host, wanted(web), "t2")
    with pytest.raises(VolumeConflict, match="begun") as caught:
        new_volume.claim(house.host, wanted(web, **other), "t3")
    assert caught.value.hint == volume_hints.delete_begun_volume("db", "default")
    volume.delete(house.host, DB)
    new_volume.claim(house.host, wanted(web, **other), "t3")
    assert house.volume().resources["disk_gb"] == other.get("size_gb", 2)


@pytest.mark.follows("delete_begun_volume")
@pytest.mark.parametrize("before, now", [({}, IMAGE), (IMAGE, {}), (IMAGE, {"image": {"name": "other"}})])
def test_a_new_instance_takes_what_an_ended_run_began_only_if_it_is_made_from_the_same_image(house, web, before, now):
    """Its record says what it is made from, and what may boot from it later."""
    new_volume.claim(house.host, wanted(web, **before), "t2")
    other, has = house.guest("web2"), house.has()
    with pytest.raises(BerthError, match="VolumeConflict.*began"):
        other.claim(named(**now))
    result = other.try_to_claim(named(**now))
    assert result["error"]["hint"] == volume_hints.delete_begun_volume("db", "default")
    assert (other.record, house.has()) == (None, has)
    volume.delete(house.host, DB)
    other.claim(named(new=True, **now))
    assert house.volume().spec.get("source_image") == now.get("image", {}).get("name")


def test_a_new_instance_takes_what_an_ended_run_began_from_the_same_image(house, web):
    new_volume.claim(house.host, wanted(web, **IMAGE), "t2")
    house.guest("web2").claim(named(**IMAGE))
    assert house.has() == (CLAIMED, "web2", False) and house.volume().spec["source_image"] == "data"


def test_what_is_left_of_an_ended_run_is_removed_as_any_free_volume(house, web):
    new_volume.claim(house.host, wanted(web), "t2")
    assert volume.delete(house.host, DB) is True and house.has() is None


def test_a_volume_that_is_there_is_never_claimed_anew(house, web):
    make(house, web)
    with pytest.raises(VolumeConflict):
        new_volume.claim(house.host, wanted(web), "t3")
    web.update(named())
    with pytest.raises(VolumeInUse):
        new_volume.claim(house.host, wanted(web), "t3")
    assert house.has() == (ACTIVE, "web1", True)


def test_a_volume_whose_file_is_gone_is_not_made_anew_in_its_place(house, web):
    make(house, web)
    house.file().unlink()
    with pytest.raises(VolumeConflict):
        new_volume.claim(house.host, wanted(web), "t3")
    with pytest.raises(VolumeNotFound):
        web.update(named())
    assert not house.file().exists() and web.record.spec.get("volumes") in (None, [])


def test_a_lost_record_of_a_volume_makes_no_file_anew_and_gives_the_file_to_nobody(house, web, tmp_path):
    make(house, web)
    before, path = house.file().read_bytes(), Path(house.store.state_dir) / "volumes" / DB / "record.json"
    path.rename(tmp_path / "kept")
    with pytest.raises(VolumeConflict) as caught:
        new_volume.claim(house.host, wanted(web), "t3")
    assert caught.value.hint == volume_hints.restore_volume_record(DB)
    assert house.volume() is None and house.file().read_bytes() == before


@pytest.mark.parametrize("role, phase", [("CLAIM", "claimed"), ("OWN", "building")])
def test_a_record_from_when_the_volume_was_made_overwrites_nothing(house, web, role, phase):
    make(house, web)
    web.update(named())
    before, inode = house.file().read_bytes(), house.file().stat().st_ino
    plant(house.store, house.volume().replace(role=role, phase=phase, spec=dict(house.volume().spec, instance=None)))
    with pytest.raises(BerthError):
        make(house, web, "t3")  # the instance's record has it
    web.instance().stopped(1)
    plant(house.host.store, web.record.replace(spec=dict(web.record.spec, volumes=[])))
    web.domain.undefineFlags(0)
    try:
        make(house, web, "t3")
    except VolumeConflict:
        assert phase == CLAIMED
    assert house.file().read_bytes() == before and house.file().stat().st_ino == inode


def test_nothing_is_made_in_a_pool_that_is_not_mounted(house, web):
    (house.host.pool / "instances").rename(house.host.pool / "elsewhere")
    with pytest.raises(errors.DiskChainChanged):
        new_volume.claim(house.host, wanted(web), "t2")
    assert house.has() is None and not (house.host.pool / "volumes").exists()


def test_no_volume_is_made_while_a_resize_waits_for_its_confirmation_nor_for_one_that_is_gone(house, web):
    record = web.record
    plant(house.host.store, record.replace(phase=RESIZED, op="o1"))
    for instance in (web.uuid, house.guest("gone").uuid):
        with pytest.raises(VolumeConflict):
            new_volume.claim(house.host, wanted(web, instance=instance), "t2")
    assert house.has() is None


def test_another_pool_and_the_name_of_a_data_disk_are_refused_before_anything_is_claimed(house, web):
    with pytest.raises(VolumeElsewhere):
        new_volume.claim(house.host, wanted(web, pool="fast"), "t2")
    plant(
        house.host.store,
        web.record.replace(spec=dict(web.record.spec, disks=[{"name": "db", "size_gb": 1, "bus": "virtio"}])),
    )
    (house.host.pool / "instances" / web.uuid / "data-db.qcow2").touch()
    with pytest.raises((InvalidInput, errors.DiskChainChanged)):
        new_volume.claim(house.host, wanted(web), "t2")
    assert house.has() is None


def test_a_create_that_finds_what_an_ended_run_left_goes_on_with_it(house, web):
    new_volume.claim(house.host, wanted(web), "t2")
    other = house.guest("web2")
    assert other.make(named()) is True
    assert house.has() == (ACTIVE, "web2", True)
    with pytest.raises(VolumeConflict):
        new_volume.make(house.host, DB, "t2")
