# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes on their host: which are deleted, what their files and their storage have to be like, and what is taken back (C26)."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import partial
from html import escape
from pathlib import Path

import pytest
from instance_case import Killed
from records import plant
from volume_case import DB, NEEDS_QEMU_IMG, named

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import volume
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import set_aside
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.record_copy import take_back
from ansible_collections.berth.kvm.plugins.module_utils.model import state_hints, volumes
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE, DELETING
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import VolumeInUse, VolumeNotFound

pytestmark = NEEDS_QEMU_IMG


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


def test_a_host_without_the_volume_is_named(house):
    with pytest.raises(BerthError, match="VolumeNotFound: kvm1 has no volume db"):
        house.guest().make(named())


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
