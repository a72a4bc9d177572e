# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that boots from a volume: made from the image once, kept with all that is on it, booted again (A15, A21)."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree

import pytest
from instance_case import BUILD_STEPS, Killed
from records import plant
from volume_case import DB, make_house, named

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import would_update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.record_copy import take_back
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
BOOT = {"boot_index": 0}
REAL_MAKE = disk.make  # tests of others replace it


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


def test_a_volume_to_boot_from_can_be_looked_into_by_another_guest_and_booted_from_again(house):
    web, rescue = booting(house), house.guest("rescue")
    web.make(named(new=True, **BOOT))
    web.delete()
    rescue.make(named())
    assert boots_from(rescue) == [(0, None)] and rescue.root.exists()
    rescue.delete()
    web.make(named(**BOOT))
    assert boots_from(web) == [(0, "db")]


def test_two_volumes_to_boot_from_or_another_order_are_refused_by_the_host_too(house):
    web = booting(house)
    with pytest.raises(BerthError, match="boot_index"):
        web.claim(named(new=True, **BOOT), named("logs", slot=1, new=True, **BOOT))
    with pytest.raises(BerthError, match="boot_index"):
        web.claim(named(new=True, boot_index=1))
    assert web.record is None and house.has() is None


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
