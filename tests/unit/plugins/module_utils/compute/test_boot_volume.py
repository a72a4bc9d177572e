# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that boots from a volume: made from the image once, kept with all that is on it, booted again (A15, A21)."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess
from xml.etree import ElementTree

import pytest
from build_steps import BUILD_STEPS
from instance_case import Killed
from records import plant
from volume_case import DB, make_house, named

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, image
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import would_update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.record_copy import take_back
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
BOOT = {"boot_index": 0}
REAL_MAKE, REAL_ENSURE = disk.make, image.ensure  # tests of others replace it


@pytest.fixture
def made():
    """(name of the disk, whether it was made from the image) of each that was made."""
    return []


@pytest.fixture
def house(prepared, wanted, monkeypatch, made):
    found = make_house(prepared, wanted, monkeypatch)
    make = disk.make

    def noted(plan, path, base):
        made.append((plan.name, base is not None and plan.kind in ("overlay", disk.VOLUME)))
        make(plan, path, base)

    monkeypatch.setattr(disk, "make", noted)
    return found


def booting(house, name="web1"):
    guest = house.guest(name)
    guest.spec["is_bfv"] = True
    return guest


def boots_from(guest):
    root = ElementTree.fromstring(guest.domain.xml)
    return [
        (at, element.findtext("serial"))
        for at, element in enumerate(root.iterfind("devices/disk"))
        if element.find("boot") is not None
    ]


def test_the_volume_is_made_from_the_image_and_the_guest_has_no_other_root_disk(house, made):
    web = booting(house)
    web.make(named(new=True, **BOOT))
    assert made == [("volume-db", True)] and boots_from(web) == [(0, "db")]
    assert not web.root.exists() and house.has() == (ACTIVE, "web1", True)
    assert (web.record.resources["disk_gb"], house.volume().resources["disk_gb"]) == (0, 2)
    assert web.record.spec["volumes"] == [named(**BOOT)]
    assert web.go_on() is False


OTHER_IMAGE = {"image": {"name": "other", "checksum": "sha256:" + "0" * 64, "disk_format": "qcow2"}}


@pytest.mark.parametrize(
    ("before", "now", "image"),
    [
        ({}, BOOT, "the instance's"),
        (BOOT, {}, None),
        ({}, OTHER_IMAGE, "other"),
        (OTHER_IMAGE, {}, None),
    ],
)
def test_a_claim_for_a_volume_that_was_made_otherwise_is_decided_anew(house, before, now, image):
    """The volume's record says what it is made from, and what may boot from it later."""
    web = house.guest("web1")
    web.claim(named(new=True, **before))
    web.claim(named(new=True, **now), token="t2")
    expected = web.spec["image"]["name"] if image == "the instance's" else image
    assert house.volume().spec.get("source_image") == expected


def test_the_guest_finds_it_where_it_finds_a_root_disk(house):
    """libvirt orders disks by their targets, whatever their order in the definition."""
    web = booting(house)
    web.spec["flavor"].update(ephemeral_gb=1, swap=64)
    web.make(named("logs", new=True), named("os", slot=1, new=True, **BOOT))
    disks = ElementTree.fromstring(web.domain.xml).iterfind("devices/disk")
    targets = {element.find("target").get("dev"): element.findtext("serial") for element in disks}
    assert targets == {"vda": "os", "vdb": None, "vdc": None, "vdd": None, "vdaa": "logs"}


def test_delete_keeps_it_and_the_next_create_boots_from_it_with_all_that_is_on_it(house, made):
    web = booting(house)
    web.make(named(new=True, **BOOT))
    before, inode = house.file().read_bytes(), house.file().stat().st_ino
    web.delete()
    assert house.has() == (ACTIVE, None, True)
    web.make(named(**BOOT))
    assert len(made) == 1 and boots_from(web) == [(0, "db")]
    web.delete()
    other = booting(house, "web2")
    other.make(named(**BOOT))
    assert len(made) == 1 and boots_from(other) == [(0, "db")]
    assert (house.file().read_bytes(), house.file().stat().st_ino) == (before, inode)


def test_its_mapping_says_whether_a_delete_removes_it(house):
    web = booting(house)
    web.make(named(goes=True, new=True, **BOOT))
    web.delete()
    assert house.has() is None


@pytest.mark.parametrize("step", BUILD_STEPS)
@pytest.mark.parametrize("is_new", [True, False])
def test_a_create_killed_at_a_step_is_finished_with_the_same_volume(house, made, step, is_new):
    web = booting(house)
    if not is_new:
        web.make(named(new=True, **BOOT))
        web.delete()
    inode = None if is_new else house.file().stat().st_ino
    with pytest.raises(Killed):
        web.make(named(**BOOT, **({"new": True} if is_new else {})), killed_at=step)
    assert web.go_on() is True
    assert house.has() == (ACTIVE, "web1", True) and boots_from(web) == [(0, "db")]
    assert inode in (None, house.file().stat().st_ino) and made == [("volume-db", True)]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_failed_build_removes_the_volume_that_it_made_and_no_other(house, monkeypatch, is_new):
    web = booting(house)
    if not is_new:
        web.make(named(new=True, **BOOT))
        web.delete()

    def fails(*_args):
        raise errors.BuildFailed("no")

    monkeypatch.setattr(domain, "define", fails)
    with pytest.raises(errors.BuildFailed):
        web.make(named(goes=True, **BOOT, **({"new": True} if is_new else {})))
    assert (web.record, house.has()) == (None, None if is_new else (ACTIVE, None, True))


def test_a_volume_that_was_not_made_from_the_image_is_not_booted_from(house):
    web = house.guest()
    web.make(named(new=True))
    web.delete()
    with pytest.raises(BerthError, match="VolumeNotBootable.*not made from an image"):
        booting(house).claim(named(**BOOT))
    web.make(named("root", new=True, slot=1), named())
    web.delete()
    other = booting(house, "web2")
    other.make(named("os", new=True, **BOOT))
    other.delete()
    other.spec["image"] = dict(other.spec["image"], name="another")
    with pytest.raises(BerthError, match="VolumeNotBootable.*made from image guest.*another"):
        other.claim(named("os", **BOOT))
    assert house.has() == (ACTIVE, None, True)


@pytest.mark.parametrize("image, error", [("guest", None), ("another", "VolumeNotBootable")])
def test_what_an_ended_run_began_of_a_volume_to_boot_from_is_gone_on_with_from_the_same_image(house, image, error):
    web = booting(house)
    web.claim(named(new=True, **BOOT))
    house.host.store.compare_and_swap(web.record, None)
    begun = house.volume()
    plant(house.store, begun.replace(spec={**begun.spec, "instance": None}))
    web.spec["image"] = {**web.spec["image"], "name": image}
    result = web.try_to_claim(named(new=True, **BOOT))
    assert (result["error"] or {}).get("code") == error


def test_a_volume_to_boot_from_can_be_looked_into_by_another_guest_and_booted_from_again(house):
    web, rescue = booting(house), house.guest("rescue")
    web.make(named(new=True, **BOOT))
    web.delete()
    rescue.make(named())
    assert boots_from(rescue) == [(0, None)] and rescue.root.exists()
    rescue.delete()
    web.make(named(**BOOT))
    assert boots_from(web) == [(0, "db")]


def test_two_volumes_of_one_turn_in_the_boot_order_are_refused_by_the_host_too(house):
    web = booting(house)
    for entries in (
        [BOOT, BOOT],
        [BOOT, {"boot_index": 16}],
        [{"boot_index": 1}, {"boot_index": 1}],
        [{"boot_index": -1}],
    ):
        with pytest.raises(BerthError, match="boot_index"):
            web.claim(*(named("v%d" % at, slot=at, new=True, **entry) for at, entry in enumerate(entries)))
    assert web.record is None and house.has() is None


def orders(guest):
    """serial number -> its turn among what the firmware tries; the root disk has none."""
    disks = ElementTree.fromstring(guest.domain.xml).iterfind("devices/disk")
    return {
        element.findtext("serial"): element.find("boot").get("order")
        for element in disks
        if element.find("boot") is not None
    }


def test_the_firmware_goes_on_with_the_volumes_that_have_the_next_boot_indexes(house):
    web, other = booting(house), house.guest("web2")
    web.make(named("next", slot=1, goes=True, new=True, boot_index=1), named(new=True, **BOOT))
    assert orders(web) == {"db": "1", "next": "2"}
    web.delete()
    other.make(named("second", new=True, boot_index=1), named("third", slot=1, new=True, boot_index=2))
    assert orders(other) == {None: "1", "second": "2", "third": "3"}


@pytest.mark.follows("attach_again")
@pytest.mark.parametrize("runs", [True, False])
def test_a_volume_gets_its_turn_when_it_is_attached_and_another_one_when_it_is_attached_again(house, runs):
    web = house.guest()
    web.make()
    if not runs:
        web.instance().stopped(1)
    other = house.guest("other")
    other.make(named(new=True))
    other.delete()
    web.update(named(boot_index=1))
    assert orders(web) == {None: "1", "db": "2"}
    for update in (web.update, lambda *entries: would_update_disks(web.instance(), [], list(entries))):
        with pytest.raises(
            InvalidInput, match="berth_volumes.db.boot_index.*attached to web1.*update_disks --limit web1"
        ):
            update(named())
    web.update()
    web.update(named())
    assert orders(web) == {None: "1"} and web.named_by_guest()[-1] == "db"


@pytest.fixture
def images(house, tmp_path, monkeypatch):
    """The image of a volume, which the host takes and copies as it does; what else it makes is made up."""
    fake_ensure, fake_make = image.ensure, disk.make
    house.host.settings = dataclasses.replace(house.host.settings, image_directories=(str(tmp_path),))
    monkeypatch.setattr(
        image, "ensure", lambda pool, of, *more: (REAL_ENSURE if of["name"] == "data" else fake_ensure)(pool, of, *more)
    )
    monkeypatch.setattr(
        disk, "make", lambda plan, *more: (REAL_MAKE if plan.kind == disk.VOLUME else fake_make)(plan, *more)
    )
    source = tmp_path / "data.raw"
    source.write_bytes(b"data of the image" + bytes(1 << 20))
    checksum = "sha256:" + hashlib.sha256(source.read_bytes()).hexdigest()
    return {"name": "data", "url": str(source), "checksum": checksum, "disk_format": "raw"}


def begins(file, tmp_path):
    disk.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", "--", str(file), str(tmp_path / "back")])
    return (tmp_path / "back").open("rb").read(17), (tmp_path / "back").stat().st_size


@pytest.mark.parametrize("step", [None, *BUILD_STEPS])
def test_a_data_volume_is_made_from_its_own_image_once_and_may_be_booted_from_later(house, images, tmp_path, step):
    web = house.guest()
    entries = (named(new=True, image=images),)
    if step:
        with pytest.raises(Killed):
            web.make(*entries, killed_at=step)
        web.go_on()
    else:
        web.make(*entries)
    assert begins(house.file(), tmp_path) == (b"data of the image", 2 << 30)
    assert web.record.spec["volumes"] == [named()] and house.volume().spec["source_image"] == "data"
    web.delete()
    other = booting(house, "web2")
    other.spec["image"] = dict(other.spec["image"], name="data")
    other.make(named(**BOOT))
    assert boots_from(other) == [(0, "db")]


@pytest.mark.long
def test_an_image_that_is_larger_than_its_volume_is_refused_by_the_volumes_field(house, images, tmp_path):
    large = tmp_path / "data.raw"
    os.truncate(large, 3 << 30)
    images["checksum"] = (
        "sha256:" + subprocess.run(["sha256sum", large], capture_output=True, text=True, check=True).stdout[:64]
    )
    with pytest.raises(errors.FlavorTooSmall) as caught:
        house.guest().make(named(new=True, image=images))
    assert (caught.value.field, caught.value.value) == ("berth_volumes_defined.db.size_gb", 2)
    assert "image data does not fit on volume db" in str(caught.value) and house.has() is None


@pytest.mark.parametrize("runs", [True, False])
def test_update_disks_grows_it_and_changes_nothing_about_what_the_guest_boots_from(house, runs):
    web = booting(house)
    web.make(named(new=True, **BOOT))
    if not runs:
        web.instance().stopped(1)
    for wanted in ((), (named(),), (named(**BOOT), named("logs", slot=1, **BOOT))):
        for update in (web.update, lambda *entries: would_update_disks(web.instance(), [], list(entries))):
            with pytest.raises(InvalidInput, match="web1 was created"):
                update(*wanted)
    assert web.update(named(size_gb=3, **BOOT)) is True
    assert boots_from(web) == [(0, "db")] and house.volume().resources["disk_gb"] == 3
    data = house.guest("data")
    data.make()
    with pytest.raises(InvalidInput, match="data was created"):
        data.update(named(**BOOT))


def test_a_snapshots_layer_over_it_stops_what_would_lose_it(house, tmp_path):
    web = booting(house)
    web.make(named(new=True, **BOOT))
    web.instance().stopped(1)
    layer = tmp_path / "layer.qcow2"
    web.domain.xml = web.domain.xml.replace(str(house.file()), str(layer))
    disk.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(house.file()), "--", str(layer)])
    for act in (web.delete, web.instance().started):
        with pytest.raises(errors.DiskChainChanged):
            act()
    assert house.has() == (ACTIVE, "web1", True)


def test_a_file_that_is_gone_is_not_made_anew_from_the_image(house, made):
    web = booting(house)
    web.make(named(new=True, **BOOT))
    web.delete()
    house.file().unlink()
    with pytest.raises(BerthError, match="VolumeNotFound|not there"):
        web.make(named(**BOOT))
    assert not house.file().exists() and len(made) == 1


def test_records_that_were_lost_are_taken_back_and_it_boots_from_the_volume_again(house):
    web = booting(house)
    web.make(named(new=True, **BOOT))
    for part in ("instances/" + web.uuid, "volumes/" + DB):
        shutil.rmtree("%s/%s" % (house.host.store.state_dir, part))
    take_back(web.instance(), [0, 0], False)
    assert web.record.spec["volumes"] == [named(**BOOT)] and house.volume().spec["source_image"] == "guest"
    web.instance().stopped(1)
    assert web.instance().started() and boots_from(web) == [(0, "db")]


def test_a_record_from_before_it_was_made_overwrites_nothing(house, made):
    web = booting(house)
    web.make(named(new=True, **BOOT))
    web.delete()
    inode = house.file().stat().st_ino
    plant(house.store, house.volume().replace(role="OWN", phase="building"))
    web.make(named(**BOOT))
    assert house.file().stat().st_ino == inode and len(made) == 1


@pytest.mark.parametrize("form", ["raw", "qcow2"])
def test_its_file_is_a_full_copy_of_the_image_as_large_as_the_volume(tmp_path, form):
    image, copy = tmp_path / "image", tmp_path / "copy"
    (tmp_path / "bytes").write_bytes(b"boot me" + bytes(1 << 20))
    disk.run(["qemu-img", "convert", "-f", "raw", "-O", form, "--", str(tmp_path / "bytes"), str(image)])
    base = {"path": str(image), "format": form, "virtual_size": 1 << 20}
    plan = disk.Disk("volume-db", "disk.qcow2", "qcow2", 1 << 30, disk.VOLUME, "virtio", "db")
    REAL_MAKE(plan, str(copy), base)
    image.unlink()
    disk.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", "--", str(copy), str(tmp_path / "back")])
    assert (tmp_path / "back").stat().st_size == 1 << 30
    assert (tmp_path / "back").open("rb").read(7) == b"boot me"
