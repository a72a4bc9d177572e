# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host finds wrong with itself, and the little that it mends."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import fake_libvirt
import pytest
from instance_case import Case
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import differences, disk_chain, owner
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import (
    DiskChainChanged,
    GuestHung,
    HostNotPrepared,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import gate, health
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.power import recover
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import certificates
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import doctor as host_doctor
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.volume_store import VolumeStore
from ansible_collections.berth.kvm.plugins.module_utils.conductor import doctor
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.model import (
    disk_hints,
    fleet_hints,
    host_hints,
    snapshot_hints,
    state_hints,
    volume_hints,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record
from ansible_collections.berth.kvm.plugins.modules import instance_info

STRANGER = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"


class Pool:
    """The pool of the host, which starts with it or not."""

    def __init__(self, pool):
        self.pool, self.starts = pool, False

    def __getattr__(self, name):
        return getattr(self.pool, name)

    def autostart(self):
        return self.starts

    def setAutostart(self, starts):  # noqa: N802
        self.starts = bool(starts)


@pytest.fixture
def well(prepared, wanted, monkeypatch, tmp_path):
    """(host, uuid, look): a host with one guest that runs, on which nothing is wrong."""
    case = Case(prepared, wanted())
    case.make()
    uuid = case.uuid
    pool = Pool(prepared.connection.storagePoolLookupByName("berth"))
    pool.starts = True
    monkeypatch.setattr(prepared.connection, "storagePoolLookupByName", lambda name: pool)
    names = {fake_libvirt.RUNNING: "running", fake_libvirt.PAUSED: "paused", fake_libvirt.SHUTOFF: "shutdown"}
    monkeypatch.setattr(
        host_doctor.domains,
        "states",
        lambda libvirt: {uuid: (guest, names[guest.now]) for uuid, guest in libvirt.domains.items()},
    )
    monkeypatch.setattr(certificates, "missing", lambda pki: [])
    monkeypatch.setattr(certificates, "is_good", lambda place, pki: True)
    monkeypatch.setattr(host_doctor, "run", lambda *args, **more: "")
    server = socket.create_server(("localhost", 0))
    yield prepared, uuid, lambda fix=False: host_doctor.look(prepared, fix, str(tmp_path), server.getsockname()[1])
    server.close()


def codes(found):
    return [(one["code"], one["severity"], one["uuid"], one["fixed"]) for one in found]


def test_nothing_is_found_where_nothing_is_wrong(well):
    assert well[2]() == []


def test_a_hook_that_is_not_as_it_was_installed_is_found(well):
    host, _uuid, look = well
    os.chmod(host.hook, 0o644)
    assert codes(look()) == [("BootGateMissing", "error", None, False)]


@pytest.mark.follows("prepare_host")
def test_a_hook_of_an_earlier_version_is_found_until_the_host_is_prepared_again(well, monkeypatch):
    host, _uuid, look = well
    with open(host.hook, "w", encoding="utf-8") as stream:
        stream.write("the hook of before")
    monkeypatch.setattr(gate, "FORMER", (hashlib.sha256(b"the hook of before").hexdigest(),))
    (found,) = look()
    assert codes([found]) == [("BootGateOlder", "warning", None, False)]
    assert host.hook in found["said"] and told(found).todo == host_hints.prepare_host("kvm1")
    gate.install(host.hook, host.run_dir)
    assert look() == []


def test_guests_that_nothing_confines_are_found_unless_the_settings_mean_it(well, monkeypatch):
    host, _uuid, look = well
    monkeypatch.setattr(type(host), "capabilities", property(lambda self: SimpleNamespace(security_models=("dac",))))
    assert codes(look()) == [("GuestsNotConfined", "error", None, False)]
    host.settings = dataclasses.replace(host.settings, security_driver_none_ok=True)
    assert look() == []


@pytest.mark.follows("doctor_fixes")
def test_a_pool_that_does_not_start_with_the_host_is_mended_where_that_is_asked_for(well):
    host, _uuid, look = well
    host.connection.storagePoolLookupByName("berth").starts = False
    assert codes(look()) == [("PoolNotAutostarted", "warning", None, False)]
    assert codes(look(fix=True)) == [("PoolNotAutostarted", "warning", None, True)]
    assert look() == []


@pytest.mark.follows("doctor_fixes")
def test_a_permit_without_a_record_is_taken_back_where_that_is_asked_for_and_no_other_is(well):
    host, uuid, look = well
    gate.permit(STRANGER, host.run_dir)
    assert codes(look()) == [("PermitWithoutRecord", "warning", STRANGER, False)]
    assert gate.is_permitted(STRANGER, host.run_dir)
    assert codes(look(fix=True)) == [("PermitWithoutRecord", "warning", STRANGER, True)]
    assert not gate.is_permitted(STRANGER, host.run_dir) and gate.is_permitted(uuid, host.run_dir)


def test_an_instance_that_is_made_while_the_host_is_looked_at_is_well_and_keeps_its_permit(well, monkeypatch):
    host, uuid, look = well
    monkeypatch.setattr(host.store, "records", lambda: [])
    assert look(fix=True) == [] and gate.is_permitted(uuid, host.run_dir)


def test_disks_without_a_record_are_found_and_stay_those_of_another_host_are_its_own(well):
    host, _uuid, look = well
    path = host.pool / "instances" / STRANGER
    path.mkdir(mode=0o711)
    assert codes(look(fix=True)) == [("DisksWithoutRecord", "error", STRANGER, False)]
    assert path.is_dir()
    owner.write(str(host.pool), STRANGER, "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a")
    assert look() == []


@pytest.mark.follows("bring_files_back")
def test_an_instance_without_its_disks_is_found_until_they_are_there_again(well):
    host, uuid, look = well
    shutil.move(host.pool / "instances" / uuid, host.pool / "away")
    assert codes(look()) == [("DisksMissing", "error", uuid, False)]
    (one,) = look()
    assert told(one).todo == disk_hints.bring_files_back("kvm1", uuid)
    assert "On kvm1, mount the storage of these files again" in told(one).todo
    shutil.move(host.pool / "away", host.pool / "instances" / uuid)
    assert look() == []


def test_a_pool_that_is_stopped_is_told_alone_and_not_as_missing_disks_of_each_instance_in_it(well):
    host, _uuid, look = well
    pool = host.connection.storagePoolLookupByName("berth")
    pool.pool = SimpleNamespace(XMLDesc=pool.pool.XMLDesc, isActive=lambda: False)
    host.connection.listAllStoragePools = lambda _flags: []
    assert codes(look()) == [("PoolMissing", "error", None, False)]


def test_a_stopped_pool_that_is_not_the_hosts_own_is_named_with_the_instance_whose_disks_it_has(well, monkeypatch):
    host, uuid, look = well
    shutil.move(host.pool / "instances" / uuid, host.pool / "away")
    record = host.store.read(uuid)
    plant(host.store, record.replace(spec={**record.spec, "pool": "fast"}))
    own, stopped = host.pool_path, HostNotPrepared("storage pool fast is not an active directory")

    def pool_path(name=None):
        if name == "fast":
            raise stopped
        return own(name)

    monkeypatch.setattr(host, "pool_path", pool_path)
    (one,) = [each for each in look() if each["code"] == "DisksMissing"]
    assert one["said"].endswith("has no disks in a pool of this host: storage pool fast is not an active directory")


@pytest.mark.parametrize("now", [fake_libvirt.RUNNING, fake_libvirt.SHUTOFF])
def test_a_file_of_a_disk_that_is_gone_is_found_whether_the_guest_runs_or_not(well, now):
    host, uuid, look = well
    host.connection.domains[uuid].now = now
    root = host.pool / "instances" / uuid / "root.qcow2"
    root.rename(host.pool / "away")
    (one,) = [one for one in look() if one["code"] != "GuestOff"]
    assert codes([one]) == [("DisksMissing", "error", uuid, False)] and str(root) in one["said"]
    record = host.store.read(uuid)
    assert differences.reported_missing(record, host.pool_path) == {"disks_missing": [str(root)]}
    assert differences.reported_missing(record.replace(op="a move"), host.pool_path) == {}, (
        "whose steps make and remove files"
    )
    (host.pool / "away").rename(root)
    assert differences.reported_missing(record, host.pool_path) == {}


@pytest.mark.follows("undo_before_a_move")
def test_what_a_move_would_be_refused_for_is_told_before_it_is_needed(well, monkeypatch):
    host, uuid, look = well
    guest, record = host.connection.domains[uuid], host.store.read(uuid)
    guest.snapshots = ["before-upgrade"]
    (one,) = look()
    assert codes([one]) == [("DisksDiffer", "warning", uuid, False)] and "before-upgrade" in one["said"]
    assert told(one).todo == disk_hints.undo_before_a_move(uuid)
    assert "before-upgrade" in instance_info.against_a_move(host, record)["disks_differ"][0], "show says it too"
    guest.snapshots = []
    assert look() == [] and instance_info.against_a_move(host, record) == {}
    layer = disk_chain.Difference(disk_chain.OVERLAY, "vda is a snapshot's layer", None, ())
    monkeypatch.setattr(disk_chain, "found_on", lambda *_: [layer])
    (one,) = look()
    assert codes([one]) == [("DisksDiffer", "warning", uuid, False)] and "a snapshot's layer" in one["said"]
    with pytest.raises(DiskChainChanged, match="a snapshot's layer"):
        disk_chain.check(host, record)


@pytest.mark.parametrize("now, severity", [(fake_libvirt.RUNNING, "error"), (fake_libvirt.SHUTOFF, "warning")])
def test_another_domain_that_has_an_instances_disks_is_found_until_it_is_undefined(well, now, severity):
    """Somebody made it by virsh edit or virt-clone."""
    host, uuid, look = well
    text = host.connection.domains[uuid].xml
    for part in ("uuid", "name"):
        text = text.replace("<%s>%s<" % (part, uuid), "<%s>%s<" % (part, STRANGER))
    host.connection.defineXMLFlags(text).now = now
    (one,) = look()
    assert codes([one]) == [("DisksUsed", severity, uuid, False)] and STRANGER in one["said"]
    assert doctor.TODO["DisksUsed"]("kvm1", "web1", one["said"]) == state_hints.undefine_users_of_disks("kvm1")
    del host.connection.domains[STRANGER]
    assert look() == []


@pytest.mark.follows("remove_kept")
def test_what_is_kept_of_a_disk_that_was_brought_back_is_told_until_it_is_removed(well):
    host, uuid, look = well
    kept = host.pool / "instances" / uuid / ("root.qcow2" + differences.ASIDE)
    kept.write_bytes(b"of before")
    (one,) = look()
    assert codes([one]) == [("DiskKept", "warning", uuid, False)]
    assert told(one).todo == disk_hints.remove_kept("kvm1", str(kept)) and str(kept) in told(one).todo
    kept.unlink()
    assert look() == []


@pytest.mark.parametrize(
    "now, code", [(fake_libvirt.PAUSED, "GuestPaused"), (fake_libvirt.SHUTOFF, "GuestOff"), (None, "DomainMissing")]
)
def test_a_guest_that_is_paused_or_off_or_not_defined_is_found(well, now, code):
    host, uuid, look = well
    host.connection.domains[uuid].now = now
    if now is None:
        del host.connection.domains[uuid]
    assert [one["code"] for one in look()] == ([code] if code else [])


def test_a_guest_whose_qemu_does_not_answer_is_found_and_so_is_what_else_is_wrong(well, monkeypatch):
    host, uuid, look = well
    (host.pool / "instances" / uuid / "seed.iso").unlink()
    awake = threading.Event()
    monkeypatch.setattr(health, "ANSWER", 0.05)
    monkeypatch.setattr(fake_libvirt.FakeDomain, "blockStatsFlags", lambda *_: awake.wait(60))
    assert codes(look()) == [("SeedMissing", "error", uuid, False), ("GuestHung", "error", uuid, False)]
    awake.set()
    assert [found["code"] for found in look()] == ["SeedMissing"]


def test_of_many_guests_that_hang_only_a_few_are_asked(well, monkeypatch):
    """Each takes one of the few calls that libvirt serves at a time for one client."""
    host, uuid, _look = well

    def hang(_connection, asked, *_names):
        raise GuestHung(asked)

    monkeypatch.setattr(health, "check_answers", hang)
    records = [host.store.read(uuid).replace(uuid=uuid[:-1] + digit) for digit in "0123456789"]
    assert len(list(host_doctor._hung(host, records))) == host_doctor.MOST_HUNG


def test_after_a_guest_that_was_waited_for_no_other_is_asked(well, monkeypatch):
    """The host has a minute for all of its answer."""
    host, uuid, _look = well
    monkeypatch.setattr(health, "ANSWER", 0.05)

    def hang(_connection, asked, *_names):
        time.sleep(health.ANSWER)
        raise GuestHung(asked)

    monkeypatch.setattr(health, "check_answers", hang)
    records = [host.store.read(uuid).replace(uuid=uuid[:-1] + digit) for digit in "01"]
    assert len(list(host_doctor._hung(host, records))) == 1


def test_an_instance_whose_seed_is_gone_is_found(well):
    host, uuid, look = well
    (host.pool / "instances" / uuid / "seed.iso").unlink()
    assert codes(look()) == [("SeedMissing", "error", uuid, False)]


WAYS = {"start_after_outage": recover, "start": lambda guest: guest.started(), "stop": lambda guest: guest.stopped(1)}


@pytest.mark.follows("recover_or_start")
@pytest.mark.parametrize("way", WAYS)
def test_a_guest_that_is_off_though_nobody_stopped_it_is_found_until_it_runs_or_is_stopped(well, wanted, way):
    host, uuid, look = well
    host.connection.domains[uuid].now = fake_libvirt.SHUTOFF
    if way == "start_after_outage":
        gate.revoke(uuid, host.run_dir)  # as after a power cut
    (found,) = look()
    assert codes([found]) == [("GuestOff", "warning", uuid, False)]
    assert "berth.kvm.%s" % way in fleet_hints.recover_or_start("web1")
    WAYS[way](Case(host, wanted()).instance())
    assert look() == []


def test_certificates_are_found_that_are_missing_have_ended_or_end_soon(well, monkeypatch):
    _host, _uuid, look = well
    good = [True]
    monkeypatch.setattr(certificates, "is_good", lambda place, pki: good[0])
    monkeypatch.setattr(host_doctor, "_ends_soon", lambda path: True)
    assert {one["code"] for one in look()} == {"CertificateEndsSoon"}
    good[0] = False
    assert {one["code"] for one in look()} == {"CertificateEnded"}
    monkeypatch.setattr(certificates, "missing", lambda pki: ["/etc/pki/x"])
    assert {one["code"] for one in look()} == {"CertificatesMissing"}


def test_a_port_that_is_closed_is_found(well, monkeypatch):
    def refuse(address, timeout):
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(host_doctor.socket, "create_connection", refuse)
    assert codes(well[2]()) == [("PortClosed", "warning", None, False)]


def test_a_check_that_cannot_be_made_is_told_and_the_others_are_made(well, monkeypatch):
    host, _uuid, look = well
    os.chmod(host.hook, 0o644)

    def unreadable(*_args):
        raise PermissionError("no")

    monkeypatch.setattr(host_doctor, "_permits", unreadable)
    assert [one["code"] for one in look()] == ["BootGateMissing", "CheckFailed"]


def told(finding):
    """The finding as the doctor shows it, of host kvm1."""
    case = doctor.Case(Fleet({}, {}, {}), {"kvm1": {"clock": 0.0, "findings": [finding]}}, {}, ["kvm1"], (0.0, 0.0))
    return doctor.examine(case)[0]


@pytest.mark.follows("check_again")
def test_what_stood_in_the_way_of_a_check_is_named_and_the_check_is_made_when_it_is_put_right(well):
    host, _uuid, look = well
    permits = os.path.join(host.run_dir, gate.PERMITS)
    os.rename(permits, permits + ".away")
    open(permits, "w").close()
    (found,) = look()
    assert found["code"] == "CheckFailed" and permits in found["said"]
    assert told(found).todo == host_hints.check_again("kvm1")
    os.remove(permits)
    os.rename(permits + ".away", permits)
    assert look() == []


def has_volume(host, phase="active"):
    """A record of volume db, and its file."""
    volume = Record(
        uuid=STRANGER, name="db", project_id="default", role="OWN", generation=[1, 1], token="t", phase=phase,
        spec={"flavor": {}, "pool": None, "instance": None}, resources={"disk_gb": 1}, power_state="shutdown",
    )  # fmt: skip
    plant(VolumeStore.beside(host.store), volume)
    file = Path(paths.volume_file(host.pool_path(), STRANGER))
    file.parent.mkdir(parents=True, mode=0o711)
    file.write_text("what is on it")
    return VolumeStore.beside(host.store), file


@pytest.mark.follows("mount_or_restore_volume")
def test_a_volume_whose_file_is_gone_is_found_until_it_is_back(well, tmp_path):
    host, _uuid, look = well
    _store, file = has_volume(host)
    assert look() == []
    backup = file.rename(tmp_path / "backup")
    (found,) = look()
    assert (found["code"], found["severity"]) == ("VolumeFileMissing", "error") and "volume db" in found["said"]
    assert told(found).todo == volume_hints.mount_or_restore_volume("kvm1") and not file.exists()
    backup.rename(file)
    assert look() == []


@pytest.mark.follows("mount_or_restore_volume")
def test_a_pool_that_is_not_active_is_told_of_its_volumes_and_the_files_of_other_pools_are_looked_at(well, monkeypatch):
    host, _uuid, look = well
    file = has_volume(host)[1]
    lost = file.parent.parent / STRANGER.replace("0b7f", "0b7e")
    lost.mkdir(mode=0o711)
    (lost / file.name).write_text("nobody's")

    def inactive(_volume):
        raise HostNotPrepared("storage pool fast is not an active directory")

    monkeypatch.setattr(host, "pool_of", inactive)
    found = look()
    assert [one["code"] for one in found] == ["VolumeFileMissing", "VolumeWithoutRecord"]
    assert "volume db" in found[0]["said"] and "pool fast is not an active directory" in found[0]["said"]


def test_a_volume_that_is_being_made_has_no_file_yet(well):
    host, _uuid, look = well
    has_volume(host, phase="building")[1].unlink()
    assert look() == []


def test_the_file_of_a_volume_without_a_record_is_found_unless_it_is_another_hosts(well):
    host, _uuid, look = well
    store, file = has_volume(host)
    volume = store.read(STRANGER)
    os.remove(os.path.join(host.store.state_dir, "volumes", STRANGER, "record.json"))
    assert codes(look()) == [("VolumeWithoutRecord", "error", STRANGER, False)]
    assert codes(look(fix=True)) == codes(look()) and file.exists()
    owner.write(host.pool_path(), STRANGER, "22222222-3c6e-5d59-9d0b-3a1c9d7f1e2a", paths.volume)
    assert look() == []
    os.remove(file.with_name(owner.FILE))
    store.restore(volume)  # as restore_volume_record says
    assert look() == []


@pytest.mark.follows("close_to_others")
@pytest.mark.parametrize("what", ["directory", "owner of disks"])
def test_what_is_open_to_others_is_named_and_accepted_with_the_mode_that_is_told(well, what):
    host, uuid, look = well
    disks = paths.instance(host.pool_path(), STRANGER)
    os.mkdir(disks, paths.PASS_MODE)
    owner.write(host.pool_path(), STRANGER, uuid)
    path = host.run_dir if what == "directory" else os.path.join(disks, owner.FILE)
    os.chmod(path, 0o777)
    (found,) = look()
    assert found["code"] == "StateUnsafe" and os.path.basename(path) in found["said"]
    assert told(found).todo == state_hints.close_to_others("kvm1")
    os.chmod(path, int(found["said"].rpartition("mode at most ")[2].rstrip(")"), 8))
    assert look() == []


@pytest.mark.follows("close_to_others")
def test_a_link_in_place_of_a_directory_is_named_and_accepted_when_the_directory_is_back(well):
    host, _uuid, look = well
    os.rename(host.run_dir, host.run_dir + ".real")
    os.symlink(host.run_dir + ".real", host.run_dir)
    (found,) = look()
    assert (found["code"], told(found).todo) == ("StateUnsafe", state_hints.close_to_others("kvm1"))
    os.rename(host.run_dir, host.run_dir + ".link")
    os.rename(host.run_dir + ".real", host.run_dir)
    assert look() == []


@pytest.mark.follows("restore_damaged_volume")
def test_a_volume_whose_record_is_damaged_is_named_and_the_others_are_looked_at(well):
    host, _uuid, look = well
    store, _file = has_volume(host)
    (volume,) = store.records()
    path = Path(store.state_dir) / "volumes" / volume.uuid / "record.json"
    before = path.read_bytes()
    path.write_bytes(before.replace(b'"name": "db"', b'"name": "dc"'))
    assert path.read_bytes() != before
    (found,) = look()
    assert (found["code"], found["severity"], found["uuid"]) == ("VolumeDamaged", "error", volume.uuid)
    assert "checksum" in found["said"] and told(found).todo == state_hints.restore_damaged_volume(volume.uuid)
    path.write_bytes(before)
    assert look() == []


@pytest.mark.parametrize("made_at", [None, "2026-11-28T10:00:00Z"])
def test_a_snapshot_of_the_record_that_nobody_can_go_back_to_is_told_until_it_is_deleted(well, made_at):
    host, uuid, look = well
    record = host.store.read(uuid)
    entry = {"name": "one", "made_at": made_at, "taken": "off", "size_gb": 1, "disks": ["root"]}
    plant(host.store, record.replace(spec=dict(record.spec, snapshots=[entry])))
    found = look()
    assert codes(found) == [("SnapshotNotWhole", "warning", uuid, False)] and found[0]["said"].endswith("snapshot one")
    assert told(found[0]).todo == snapshot_hints.delete_rest(uuid, "one")
    plant(host.store, record)
    assert look() == []
