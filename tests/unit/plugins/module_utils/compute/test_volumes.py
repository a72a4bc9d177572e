# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes on their host: they outlive their instance, one instance has each, and no crash loses one (C26)."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import subprocess
from functools import partial
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import fake_libvirt
import pytest
from instance_case import BUILD_STEPS, Killed
from records import plant
from volume_case import DB, House, make_house, named

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import volume
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain, set_aside
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import (
    update_disks,
    would_update_disks,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.record_copy import take_back
from ansible_collections.berth.kvm.plugins.module_utils.conductor import volumes as fleet_volumes
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.model import state_hints, volume_hints, volumes
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE, DELETING
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import CannotResizeDisk
from ansible_collections.berth.kvm.plugins.module_utils.model.record import RecordInvalid
from ansible_collections.berth.kvm.plugins.module_utils.model.volume_errors import (
    VolumeConflict,
    VolumeDuplicate,
    VolumeInUse,
    VolumeNotAttached,
    VolumeNotFound,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import volume_uuid

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def house(prepared, wanted, monkeypatch):
    return make_house(prepared, wanted, monkeypatch)


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


@pytest.mark.parametrize("runs", [True, False])
def test_update_attaches_and_detaches_and_each_again_is_no_change(house, runs):
    old, web = house.guest("old"), house.guest()
    old.make(named(new=True))
    old.delete()
    web.make()
    if not runs:
        web.instance().stopped(1)
    assert would_update_disks(web.instance(), [], [named()]) and house.has() == (ACTIVE, None, True)
    assert [web.update(named()), web.update(named())] == [True, False]
    assert house.has() == (ACTIVE, "web1", True) and web.named_by_guest() == ["db"]
    assert update_disks(web.instance(), []) is False  # what is not named at all stays as it is
    assert would_update_disks(web.instance(), [], []) and house.has() == (ACTIVE, "web1", True)
    assert [web.update(), web.update()] == [True, False]
    assert house.has() == (ACTIVE, None, True) and web.named_by_guest() == []
    assert bool(web.domain.isActive()) is runs


UPDATES = ["volumes record", "volumes attach", "disks attach", "disks note"]


@pytest.mark.parametrize("step", UPDATES)
def test_an_attach_killed_at_a_step_is_finished_and_nobody_else_gets_the_volume_after_its_record_says_so(house, step):
    old, web = house.guest("old"), house.guest()
    old.make(named(new=True))
    old.delete()
    web.make()
    with pytest.raises(Killed):
        web.update(named(), killed_at=step)
    if step != UPDATES[0]:
        with pytest.raises(BerthError, match="VolumeInUse"):
            house.guest("web2").claim(named())
    assert web.update(named()) is True
    assert house.has() == (ACTIVE, "web1", True) and web.named_by_guest() == ["db"]


@pytest.mark.parametrize("step", ["volumes detach", "volumes release", "volumes record"])
def test_a_detach_killed_at_a_step_is_finished_and_the_volume_is_no_others_before(house, step):
    web = house.guest()
    web.make(named(new=True))
    with pytest.raises(Killed):
        web.update(killed_at=step)
    with pytest.raises(BerthError, match="VolumeInUse"):
        house.guest("web2").claim(named())
    assert web.update() is True
    assert house.has() == (ACTIVE, None, True) and web.named_by_guest() == []


@pytest.mark.follows("unmount")
def test_a_guest_that_does_not_let_go_keeps_the_volume(house, monkeypatch):
    monkeypatch.setattr("ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_volumes.TIMEOUT", 0.1)
    web = house.guest()
    web.make(named(new=True))
    web.domain.holds_on = True
    with pytest.raises(errors.DiskNotDetached) as caught:
        web.update()
    assert caught.value.hint == volume_hints.unmount("web1", "db")
    assert house.has() == (ACTIVE, "web1", True) and web.record.spec["volumes"] == [named()]
    web.domain.holds_on = False  # it is unmounted
    assert web.update() is True and house.has() == (ACTIVE, None, True)


@pytest.mark.parametrize("user", [None, "a device"])
@pytest.mark.follows("stop_and_update_disks")
def test_a_volume_that_qemu_has_unknown_to_libvirt_is_free_only_when_its_file_is_closed(house, user):
    """libvirtd died as it attached the volume, and by now the volume is not wanted any more."""
    web = house.guest()
    web.make(named(new=True))
    web.update()
    with pytest.raises(Killed):
        web.update(named(), killed_at="disks attach")
    file = str(house.file())
    web.domain.nodes = {"libvirt-5-storage": (file, "libvirt-5-format"), "libvirt-5-format": (file, user)}
    if user:
        with pytest.raises(errors.DiskNotDetached, match="does not know"):
            web.update()
        assert house.has() == (ACTIVE, "web1", True)
        web.instance().stopped(1)
        web.domain.nodes = {}
    assert web.update() is True and house.has() == (ACTIVE, None, True) and not web.domain.nodes


def test_what_the_guest_refuses_is_told_where_qemu_itself_cannot_be_asked(house, monkeypatch):
    def no_monitor(*_asked):
        raise fake_libvirt.libvirtError(1, "the monitor is not there")

    web = house.guest()
    web.make(named(new=True))
    web.update()
    web.domain.takes_no_more = True
    monkeypatch.setattr(fake_libvirt.QemuPart, "qemuMonitorCommand", no_monitor)
    with pytest.raises(errors.DiskNotAttached, match="No more available PCI slots"):
        web.update(named())


def test_qemu_itself_is_not_asked_of_a_volume_that_libvirt_detaches(house, monkeypatch):
    """libvirt marks a guest whose QEMU was asked past it as tainted."""
    monkeypatch.setattr(fake_libvirt.QemuPart, "qemuMonitorCommand", lambda *_asked: pytest.fail("QEMU was asked"))
    web = house.guest()
    web.make(named(new=True))
    assert web.update() is True


def test_a_volume_grows_and_never_shrinks_and_its_room_is_claimed_first(house):
    web = house.guest()
    web.make(named(new=True))
    web.instance().stopped(1)
    with pytest.raises(BerthError) as caught:
        web.update(named(size_gb=20))
    assert caught.value.code == "ClaimFailed" and house.volume().resources["disk_gb"] == 2
    assert [web.update(named(size_gb=5)), web.update(named(size_gb=5))] == [True, False]
    assert house.volume().resources["disk_gb"] == 5
    with pytest.raises(CannotResizeDisk):
        web.update(named(size_gb=4))


def test_growth_killed_after_its_room_was_claimed_is_finished(house):
    web = house.guest()
    web.make(named(new=True))
    for step in ("volumes record", "disks grow"):
        with pytest.raises(Killed):
            web.update(named(size_gb=4), killed_at=step)
    assert web.update(named(size_gb=4)) is True
    assert house.volume().resources["disk_gb"] == 4 and web.domain.resized == {str(house.file()): 4 << 30}


def test_a_volume_detached_by_hand_is_attached_again(house):
    web = house.guest()
    web.make(named(new=True))
    web.domain.xml = web.domain.xml.replace(str(house.file()), "/gone")
    found = ElementTree.fromstring(web.domain.xml)
    for element in found.find("devices").findall("disk"):
        if element.find("source").get("file") == "/gone":
            found.find("devices").remove(element)
    web.domain.xml = ElementTree.tostring(found, encoding="unicode")
    assert house.has() == (ACTIVE, "web1", True)  # still its own: nobody else gets it
    assert web.update(named()) is True and web.named_by_guest() == ["db"]


def test_an_old_record_of_the_volume_gives_it_to_nobody_else(house):
    web = house.guest()
    web.make(named(new=True))
    current = house.volume()
    for instance in (None, {"uuid": house.guest("gone").uuid, "name": "gone"}):
        plant(house.store, current.replace(spec=dict(current.spec, instance=instance)))
        with pytest.raises(BerthError, match="VolumeInUse.*attached to web1"):
            house.guest("web2").claim(named())
        web.instance().stopped(1)
        with pytest.raises(VolumeNotAttached):
            web.instance().started()
        assert web.update(named()) is True  # the hint
        assert web.instance().started() is True


def test_an_old_record_of_the_volume_gives_it_to_nobody_else_while_libvirt_has_lost_the_guest(house):
    web = house.guest()
    web.make(named(new=True))
    web.instance().stopped(1)
    web.domain.undefineFlags(0)
    plant(house.store, house.volume().replace(spec=dict(house.volume().spec, instance=None)))
    error = house.guest("web2").try_to_claim(named())["error"] or {}
    assert (error.get("code"), error.get("hint")) == ("VolumeInUse", volume_hints.detach_volumes("web1", ["db"]))


def test_an_old_record_of_the_instance_does_not_set_its_volume_free(house):
    web = house.guest()
    web.make()
    before = web.record
    old = house.guest("old")
    old.make(named(new=True))
    old.delete()
    web.update(named())
    plant(house.host.store, before)
    with pytest.raises(BerthError, match="VolumeInUse.*attached to web1"):
        house.guest("web2").claim(named())
    with pytest.raises(VolumeInUse):
        volume.delete(house.host, DB)


def test_an_instance_whose_record_is_lost_keeps_its_volume_while_libvirt_knows_its_guest(house):
    web = house.guest()
    web.make(named(new=True))
    shutil.rmtree(house.host.store.state_dir + "/instances/" + web.uuid)
    with pytest.raises(VolumeInUse):
        volume.delete(house.host, DB)
    with pytest.raises(BerthError, match="VolumeInUse"):
        house.guest("web2").claim(named())


@pytest.mark.follows("restore_damaged_volume", "restore_volume_record")
def test_a_damaged_record_stops_its_host_and_no_volume_is_lost_whichever_way_it_is_mended(house, tmp_path):
    web = house.guest()
    web.make(named(new=True))
    web.delete()
    path, before = Path(house.store.state_dir) / "volumes" / DB / "record.json", house.file().read_bytes()
    backup = shutil.copy(path, tmp_path / "backup")
    path.write_text("{")
    with pytest.raises(RecordInvalid) as caught:
        house.store.records()
    assert caught.value.hint == state_hints.restore_damaged_volume(DB)
    shutil.copy(backup, path)
    web.make(named())
    web.delete()
    path.rename(tmp_path / "kept")  # the other way
    with pytest.raises(VolumeConflict) as caught:
        web.make(named(new=True))  # nothing is known of it, and its file is neither used nor made anew
    assert caught.value.hint == volume_hints.restore_volume_record(DB)
    assert house.file().read_bytes() == before and web.record is None
    path.parent.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(backup, path)
    web.make(named())
    assert house.has() == (ACTIVE, "web1", True) and house.file().read_bytes() == before


def refused_as_two(*houses):
    """What a run says that reads these hosts and is about volume db."""
    told = {}
    for house in houses:
        has = {"uuid": DB, "name": "db", "instance": house.volume().spec["instance"]}
        told[house.host.connection.getHostname()] = {"volumes": [has]}
    with pytest.raises(VolumeDuplicate) as caught:
        fleet_volumes.to_delete(Fleet(told, {}), "db", DB, {}, ())
    return caught.value


@pytest.mark.follows("keep_one_volume")
@pytest.mark.parametrize("attached", [False, True])
def test_of_two_volumes_of_a_name_the_one_stays_that_a_person_chose_and_the_file_of_the_other_too(
    house, make_host, wanted, tmp_path, attached
):
    """As when a host that was given up as lost comes back, after a create elsewhere made the volume anew."""
    other = House(make_host("kvm2", "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a"), wanted)
    for each in (house, other):
        each.guest().make(named(new=True))
        each.file().write_bytes(each.host.connection.getHostname().encode())
    house.guest().delete()
    if not attached:
        other.guest().delete()
    assert refused_as_two(house, other).hint == volume_hints.keep_one_volume("db", DB, ["kvm1", "kvm2"])
    if attached:
        other.guest().update()  # berth.kvm.update_disks, without it in berth_volumes
    (Path(other.store.state_dir) / "volumes" / DB / "record.json").rename(tmp_path / "kept")
    house.guest().make(named())
    assert house.has() == (ACTIVE, "web1", True) and house.file().read_bytes() == b"kvm1"
    with pytest.raises(VolumeConflict):
        other.guest("web2").make(named(new=True))  # nobody takes the file that stays there, nor writes over it
    assert other.file().read_bytes() == b"kvm2" and other.volume() is None


@pytest.mark.parametrize(
    "part, value",
    [
        ("instance", {}),
        ("instance", {"uuid": 7}),
        ("instance", None),
        ("pool", "berth"),
        ("size", {}),
        ("size", {"disk_gb": 1}),
    ],
)
def test_a_record_edited_by_hand_gives_the_volume_to_nobody_else(house, part, value):
    web = house.guest()
    web.make(named(new=True))
    record = house.volume()
    plant(
        house.store,
        record.replace(resources=value) if part == "size" else record.replace(spec=dict(record.spec, **{part: value})),
    )
    with pytest.raises(BerthError, match="VolumeInUse.*attached to web1"):
        house.guest("web2").claim(named())
    web.update(named())
    assert house.has() == (ACTIVE, "web1", True)


def test_what_was_claimed_and_ended_is_not_counted_as_new_in_a_record_that_is_taken_back(house):
    web = house.guest()
    web.make(named(new=True))
    assert '"new"' not in web.domain.xml


def test_a_free_volume_is_deleted_and_again_is_no_change(house):
    web = house.guest()
    web.make(named(new=True))
    with pytest.raises(VolumeInUse, match="web1"):
        volume.delete(house.host, DB)
    assert house.has() == (ACTIVE, "web1", True)
    web.delete()
    assert volume.delete(house.host, DB, dry=True) is True and house.has() == (ACTIVE, None, True)
    assert [volume.delete(house.host, DB), volume.delete(house.host, DB)] == [True, False]
    assert house.has() is None


def test_a_delete_of_a_volume_that_ended_in_the_middle_is_finished(house):
    web = house.guest()
    web.make(named(new=True))
    web.delete()
    plant(house.store, house.volume().replace(phase=DELETING))
    with pytest.raises(BerthError, match="VolumeConflict"):
        web.claim(named())
    assert volume.delete(house.host, DB) is True and house.has() is None


def test_a_volume_whose_file_is_gone_stops_what_needs_it_and_none_is_made_in_its_place(house):
    web = house.guest()
    web.make(named(new=True))
    web.instance().stopped(1)
    house.file().rename(house.file().parent / "elsewhere")
    with pytest.raises(errors.DiskChainChanged):
        web.instance().started()
    house.volume() and web.delete()
    with pytest.raises(VolumeNotFound):
        web.make(named())
    assert not house.file().exists()


def test_the_address_of_a_volume_that_was_detached_is_kept_for_no_other_device(house):
    web = house.guest()
    web.make(named(new=True))
    devices = {"disk/vda": "type=pci,slot=0x01", "disk/vdaa": "type=pci,slot=0x02"}
    kept = {"wished": None, "machine": "pc", "devices": devices}
    plant(house.host.store, web.record.replace(spec=dict(web.record.spec, hardware=kept)))
    web.update()
    assert web.record.spec["hardware"]["devices"] == {"disk/vda": "type=pci,slot=0x01"}


@pytest.mark.follows("detach_by_hand")
def test_a_volume_that_a_guest_in_libvirt_has_is_not_free_though_all_records_say_so(house):
    web = house.guest()
    web.make()
    before = web.record
    old = house.guest("old")
    old.make(named(new=True))
    old.delete()
    free = house.volume()
    web.update(named())
    for record, store in ((before, house.host.store), (free, house.store)):  # both from one backup
        plant(store, record)
    with pytest.raises(VolumeInUse, match="web1") as caught:
        volume.delete(house.host, DB)
    assert caught.value.hint == volume_hints.detach_by_hand("web1", web.uuid, str(house.file()))
    with pytest.raises(BerthError, match="VolumeInUse.*web1"):
        house.guest("web2").claim(named())
    assert house.has() == (ACTIVE, None, True)
    web.domain.xml = web.domain.xml.replace(str(house.file()), "/gone")  # the hint
    house.guest("web2").claim(named())


def test_a_claim_from_a_backup_over_a_guest_that_runs_sets_no_volume_free(house):
    web = house.guest()
    web.claim(named(new=True))
    claimed = web.record
    web.go_on()
    plant(house.host.store, claimed)
    with pytest.raises(errors.GuestRunsAlready):
        web.go_on()
    assert web.domain.isActive() and house.file().exists()
    with pytest.raises(VolumeInUse):
        volume.delete(house.host, DB)
    with pytest.raises(BerthError, match="VolumeInUse.*web1"):
        house.guest("web2").claim(named())


def test_a_delete_removes_no_volume_that_another_instance_has_by_now(house):
    web, other = house.guest(), house.guest("web2")
    web.make(named(goes=True, new=True))
    had, was = web.record, house.volume()
    web.update()
    other.make(named())
    for record, store in ((had, house.host.store), (was, house.store)):  # both from one backup
        plant(store, record)
    web.instance().absent(changed_disks=True)
    assert web.record is None and house.file().exists()
    with pytest.raises(VolumeInUse, match="web2"):
        volume.delete(house.host, DB)
    assert other.update(named()) is True and house.has() == (ACTIVE, "web2", True)


@pytest.mark.parametrize("role, phase", [("CLAIM", "claimed"), ("OWN", "building")])
def test_a_record_from_when_the_volume_was_made_lets_no_data_go(house, role, phase):
    web = house.guest()
    web.make(named(new=True))
    plant(house.store, house.volume().replace(role=role, phase=phase))
    web.delete()
    assert house.has() == (phase, None, True)


def test_a_record_from_when_the_instance_was_made_lets_no_data_go_when_the_build_fails_then(house, monkeypatch):
    web = house.guest()
    with pytest.raises(Killed):
        web.make(named(new=True), killed_at="build define")
    building = web.record
    web.go_on()
    web.domain.destroy()
    plant(house.host.store, building)

    def fails(*_args):
        raise errors.BuildFailed("no")

    monkeypatch.setattr(domain, "define", fails)
    with pytest.raises(errors.BuildFailed):
        web.go_on()
    assert house.has() == (ACTIVE, None, True)


def test_a_claim_that_is_taken_up_again_follows_the_mapping_of_now(house):
    web = house.guest()
    web.claim(named(goes=True, new=True), token="t0")
    web.claim(named(), token="t1")
    assert web.record.spec["volumes"] == [named(new=True)]
    web.go_on()
    web.delete()
    assert house.has() == (ACTIVE, None, True)


def test_sixteen_volumes_may_make_way_for_others(house):
    has = [named("v%d" % at, at) for at in range(volumes.MOST)]
    found = volumes.merged(has, [*has[1:], named("other")])
    assert [entry["slot"] for entry in found] == [*range(1, volumes.MOST), 0]


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


def layer_over(house, guest=None, name="disk.snapshot"):
    """A snapshot as backup programs take it: what is written from now on is in the layer."""
    layer = house.file().parent / name
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", house.file(), "--", layer]
    subprocess.run(list(map(str, command)), check=True)
    if guest:
        guest.domain.xml = guest.domain.xml.replace(str(house.file()), str(layer))
    return layer


def as_told(error):
    """Run the commands for root that the hint names."""
    subprocess.run(
        re.search(r"as root on kvm1: (.*?)(; then|\. Where|\. If)", error.hint, re.I).group(1), shell=True, check=True
    )


@pytest.mark.follows("merge_layers")
@pytest.mark.parametrize("lost", ["its definition", "its instance", "its instance, set aside"])
def test_a_snapshots_layer_over_a_volume_is_seen_wherever_the_volume_is_used_next(house, lost):
    web, other = house.guest(), house.guest("web2")
    web.make(named(new=True))
    layer = layer_over(house, web)
    subprocess.run(["qemu-io", "-c", "write -P 7 0 64k", str(layer)], check=True, capture_output=True)
    if lost == "its definition":
        web.domain.undefineFlags()
        web.domain.destroy()
    elif lost == "its instance":
        web.instance().absent(changed_disks=True)
    else:
        set_aside.set_aside(web.instance(), 0)

    def use():
        return web.instance().started() if lost == "its definition" else other.make(named())

    before = house.file().read_bytes()
    with pytest.raises(BerthError, match="disk.snapshot is a layer") as refused:
        use()
    assert house.file().read_bytes() == before and layer.exists()
    if lost == "its definition":
        as_told(refused.value)
    else:  # of a claim the text is what is told
        result = claim.claim_all(house.host, [{"spec": other.spec, "token": "t1"}])[0]
        as_told(errors.DiskChainChanged("", hint=result["error"]["hint"]))
    assert use() is True and not layer.exists()
    read = subprocess.run(["qemu-io", "-c", "read -P 7 0 64k", str(house.file())], check=True, capture_output=True)
    assert b"verification failed" not in read.stdout


def test_a_volume_that_was_restored_onto_another_file_is_not_attached_until_it_stands_alone(house, tmp_path):
    web, below = house.guest(), tmp_path / "backup.qcow2"
    web.make(named(new=True))
    web.delete()
    house.file().rename(below)
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", below, "--", house.file()]
    subprocess.run(list(map(str, command)), check=True)
    error = web.try_to_claim(named())["error"]
    assert error["code"] == "DiskChainChanged" and str(below) in error["message"]
    as_told(errors.DiskChainChanged("", hint=error["hint"]))
    below.unlink()
    assert web.make(named()) is True


@pytest.mark.follows("take_directory_away")
@pytest.mark.parametrize("what", ["a volume", "an instance", "what was set aside"])
def test_a_directory_among_files_that_are_to_go_is_named_and_none_of_them_goes_before_it_is_away(house, tmp_path, what):
    web = house.guest()
    web.make(named(new=True))
    instance_directory = house.host.pool / "instances" / web.uuid
    if what == "a volume":
        web.delete()
        directory, remove = house.file().parent, partial(volume.delete, house.host, DB)
    elif what == "an instance":
        directory, remove = instance_directory, web.delete
    else:
        directory = Path(set_aside.set_aside(web.instance(), 0))
        remove = partial(set_aside.remove, web.instance())
    (directory / "mine").mkdir()
    (directory / "mine" / "backup").write_text("the only one")
    files = sorted(directory.iterdir())
    for _again in range(2):
        with pytest.raises(errors.DirectoryInside, match="mine is a directory") as refused:
            remove()
        assert sorted(directory.iterdir()) == files
    assert refused.value.hint == state_hints.take_directory_away(str(directory / "mine"))
    (directory / "mine").rename(tmp_path / "mine")
    assert remove() and not directory.exists() and (tmp_path / "mine" / "backup").exists()


@pytest.mark.follows("mount_storage_to_remove")
@pytest.mark.parametrize("what", ["volumes", "set-aside"])
def test_nothing_is_removed_while_its_pool_is_not_mounted(house, what):
    web, directory = house.guest(), house.host.pool / what
    web.make(named(new=True))
    if what == "volumes":
        web.delete()
        path, remove = house.file(), partial(volume.delete, house.host, DB)
    else:
        path = Path(set_aside.set_aside(web.instance(), 0))
        remove = partial(set_aside.remove, web.instance())
    away = directory.rename(house.host.pool / "elsewhere")
    for _again in range(2):
        with pytest.raises(errors.StorageNotMounted) as refused:
            remove()
    assert refused.value.hint == state_hints.mount_storage_to_remove(str(directory))
    away.rename(directory)
    assert path.exists() and remove() and not path.exists()


def test_a_volume_of_storage_that_is_lost_for_good_is_forgotten_when_that_is_said(house):
    web = house.guest()
    web.make(named(new=True))
    web.delete()
    shutil.rmtree(house.host.pool / "volumes")
    (house.host.pool / "volumes").mkdir()
    assert volume.delete(house.host, DB) is True and house.has() is None


def test_a_volume_is_detached_whatever_characters_the_path_of_its_pool_has(house, tmp_path):
    house.host.pool = tmp_path / 'o\'brien & sons "x" é]'
    house.host.pool.mkdir()
    house.host.connection.pools["berth"] = house.host.connection.pool_path = escape(str(house.host.pool))
    web = house.guest()
    web.make(named(new=True))
    assert web.named_by_guest() == ["db"]
    assert web.update() is True and web.named_by_guest() == [] and house.has() == (ACTIVE, None, True)


@pytest.mark.parametrize("killed", [False, True])
def test_a_volume_whose_record_was_lost_with_that_of_its_instance_is_taken_back_with_it(house, killed, monkeypatch):
    web = house.guest()
    web.make(named(new=True, goes=True))
    before = house.file().read_bytes()
    for folder in ("instances", "volumes"):
        shutil.rmtree(Path(house.host.store.state_dir) / folder)
    if killed:
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(type(house.host.store), "restore", killed_after(type(house.host.store).restore))
            take_back(web.instance(), [7, 3])
        assert web.record is None and house.has() == (ACTIVE, "web1", True)
        with pytest.raises(VolumeInUse):
            volume.delete(house.host, DB)
    assert take_back(web.instance(), [7, 3]) is True
    assert house.has() == (ACTIVE, "web1", True) and house.volume().resources == {"disk_gb": 2}
    web.instance().stopped(0)
    assert web.instance().started() is True and house.file().read_bytes() == before
    assert web.update(named()) is True and web.delete() is True and house.has() == (ACTIVE, None, True)


def killed_after(done):
    def run(*args):
        done(*args)
        raise Killed

    return run


def test_a_volume_that_its_guest_has_no_more_is_not_taken_back_with_an_old_record(house):
    web, other = house.guest(), house.guest("web2")
    web.make(named(new=True))
    stale = web.record
    web.update()
    other.make(named())
    plant(house.host.store, stale)
    shutil.rmtree(Path(house.store.state_dir) / "volumes")
    assert take_back(web.instance(), [7, 3]) and house.volume() is None
