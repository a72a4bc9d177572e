# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume, or a cached image, on which a disk of somebody's guest stands is neither free nor unused, also while that
guest is off; and an old record removes no volume under a guest (C26)."""

from __future__ import annotations

import os
import subprocess

import pytest
from instance_case import Killed
from records import plant
from volume_case import DB, NEEDS_QEMU_IMG, named

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import unused_images, volume
from ansible_collections.berth.kvm.plugins.module_utils.model import volume_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import VolumeInUse

pytestmark = NEEDS_QEMU_IMG

FOREIGN = "99999999-3c6e-5d59-9d0b-3a1c9d7f1e2a"
DISK = "<disk type='file'><driver type='%s'/><source file='%s'/></disk>"
GUEST = "<domain><name>lab</name><uuid>%s</uuid><devices>%s</devices></domain>"


def layer(path, base):
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(base), str(path)], check=True)


def foreign_guest(house, path, form="qcow2"):
    """A guest that is off and that berth did not make, with that disk."""
    house.host.connection.defineXMLFlags(GUEST % (FOREIGN, DISK % (form, path)))


def free_volume(house):
    web = house.guest()
    web.make(named(new=True))
    web.delete()


@pytest.mark.parametrize("where", ["beside it", "elsewhere", "on a second layer", "a copy beside it"])
def test_a_volume_below_a_disk_of_a_foreign_guest_is_not_free(house, tmp_path, where):
    free_volume(house)
    path = (house.file().parent if "beside" in where else tmp_path) / "disk.lab"
    if where == "a copy beside it":
        path.write_bytes(house.file().read_bytes())
    else:
        layer(path, house.file())
    if where == "on a second layer":
        layer(tmp_path / "disk.lab2", path)
        path = tmp_path / "disk.lab2"
    foreign_guest(house, path)
    with pytest.raises(VolumeInUse, match="attached to lab") as caught:
        volume.delete(house.host, DB)
    assert caught.value.hint == volume_hints.detach_by_hand("lab", FOREIGN, str(path))
    with pytest.raises(BerthError, match="VolumeInUse.*attached to lab"):
        house.guest("web2").claim(named())
    assert house.has() == (ACTIVE, None, True) and path.exists()


def test_what_a_guest_writes_into_its_raw_disk_makes_no_volume_used(house, tmp_path):
    free_volume(house)
    layer(tmp_path / "disk.raw", house.file())
    foreign_guest(house, tmp_path / "disk.raw", "raw")
    assert volume.delete(house.host, DB) is True


def test_an_image_below_a_disk_of_a_foreign_guest_that_is_off_is_not_unused(house, tmp_path):
    house.guest().make()
    images = house.host.pool / "images"
    images.mkdir(mode=0o711, exist_ok=True)
    for name in ("1" * 64, "2" * 64):
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(images / name), "1M"], check=True)
    layer(tmp_path / "disk.lab", images / ("1" * 64))
    foreign_guest(house, tmp_path / "disk.lab")
    house.host.pool_paths = lambda: [str(house.host.pool)]
    assert [os.path.basename(path) for path in unused_images.remove(house.host)] == ["2" * 64]


def records_of_its_build(house):
    """A guest that runs, and the records from before, as of a host that was restored. Return what is in its volume."""
    web = house.guest()
    web.claim(named(new=True))
    claimed = web.record
    with pytest.raises(Killed):
        web.go_on(killed_at="build seed")
    half, building = web.record, house.volume()
    web.go_on()
    plant(house.store, building)
    return web, claimed, half, house.file().read_bytes()


def test_records_from_the_middle_of_its_build_remove_no_volume_under_a_guest_that_runs(house):
    web, claimed, _half, before = records_of_its_build(house)
    plant(house.host.store, claimed)
    with pytest.raises(errors.GuestRunsAlready):
        web.go_on()
    assert house.file().read_bytes() == before


def test_a_delete_by_records_from_the_middle_of_its_build_keeps_the_volume_of_a_guest_that_runs(house):
    web, _claimed, half, before = records_of_its_build(house)
    plant(house.host.store, half)
    web.delete()
    assert house.file().read_bytes() == before and house.has() == (ACTIVE, None, True)
