# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records that are old, damaged, lost, edited or twice give a volume to nobody else and lose no data (C26)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from instance_case import Killed
from records import plant
from volume_case import DB, NEEDS_QEMU_IMG, House, named

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import volume
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk.virtual_size import QCOW2_MAGIC
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain
from ansible_collections.berth.kvm.plugins.module_utils.conductor import volume_hosts as fleet_volumes
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.model import state_hints, volume_hints
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ACTIVE
from ansible_collections.berth.kvm.plugins.module_utils.model.record import RecordInvalid
from ansible_collections.berth.kvm.plugins.module_utils.model.volumes import (
    VolumeConflict,
    VolumeDuplicate,
    VolumeInUse,
    VolumeNotAttached,
)
from ansible_collections.berth.kvm.plugins.modules import rescan

pytestmark = NEEDS_QEMU_IMG


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
def test_a_volume_with_a_damaged_record_is_not_lost_whichever_way_it_is_mended(house, tmp_path):
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


def test_a_volume_with_a_damaged_record_counts_as_there_and_all_else_on_its_host_goes_on(house):
    web, other = house.guest(), house.guest("web2")
    web.make(named(new=True))
    other.make(named("log", new=True))
    web.instance().stopped(1)
    path = Path(house.store.state_dir) / "volumes" / DB / "record.json"
    before, file = path.read_bytes(), house.file().read_bytes()
    path.write_bytes(before.replace(b'"disk_gb": 2', b'"disk_gb": 3'))
    assert path.read_bytes() != before
    third = house.guest("web3")
    for refused in (
        lambda: volume.delete(house.host, DB),
        lambda: third.claim(named()),
        lambda: third.claim(named(new=True)),
        lambda: web.instance().started(),
        web.delete,
        lambda: other.update(named("log"), named("db", slot=1)),
    ):
        with pytest.raises(BerthError, match="damaged.*checksum"):
            refused()
    third.make(named("more", new=True))
    other.instance().stopped(1)
    assert other.instance().started() and other.update() and third.delete()
    told = rescan.exchange(house.host.store, house.host.uuid, [], {})["volumes"]
    assert DB in [each["uuid"] for each in told]
    path.write_bytes(before)
    assert house.file().read_bytes() == file and web.instance().started()


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
        each.file().write_bytes(QCOW2_MAGIC + each.host.connection.getHostname().encode())
    house.guest().delete()
    if not attached:
        other.guest().delete()
    assert refused_as_two(house, other).hint == volume_hints.keep_one_volume("db", DB, ["kvm1", "kvm2"])
    if attached:
        other.guest().update()  # berth.kvm.update_disks, without it in berth_volumes
    (Path(other.store.state_dir) / "volumes" / DB / "record.json").rename(tmp_path / "kept")
    house.guest().make(named())
    assert house.has() == (ACTIVE, "web1", True) and house.file().read_bytes() == QCOW2_MAGIC + b"kvm1"
    with pytest.raises(VolumeConflict):
        other.guest("web2").make(named(new=True))  # nobody takes the file that stays there, nor writes over it
    assert other.file().read_bytes() == QCOW2_MAGIC + b"kvm2" and other.volume() is None


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
    assert house.has() == (ACTIVE, None, True)


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
