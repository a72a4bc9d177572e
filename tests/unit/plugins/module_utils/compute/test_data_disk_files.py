# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data disks on a host: their files, their place in the guest, and what a move makes of them (C24)."""

from __future__ import annotations

import subprocess
import types
from pathlib import Path
from xml.etree import ElementTree

import fake_libvirt
import pytest
from data_disk_case import DB, GIB, LARGE, LOGS, OP, SMALL, UUID, holds, info, needs_qemu_img, pool, record, spec, write

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, disk_chain
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain, domain_xml, seed
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks
from ansible_collections.berth.kvm.plugins.module_utils.model import hints


def drives(flavor=None, data=(LOGS, DB)):
    root = ElementTree.fromstring(
        domain_xml.render(record(spec=spec(flavor, data)), domain_xml.Host("kvm", "x86_64", "/pool"))
    )
    return {
        Path(drive.find("source").get("file")).name: (drive.find("target").get("dev"), drive.findtext("serial"))
        for drive in root.findall("devices/disk")
    }, root


def test_data_disks_come_last_and_no_name_of_theirs_is_that_of_another_disk_or_file():
    named = [dict(LOGS, name=name) for name in ("root", "swap", "seed", "nvram", "ephemeral0", "send")]
    planned = disk.planned(spec(LARGE, named))
    assert [entry.name for entry in planned[:4]] == ["root", "ephemeral0", "swap", "data-root"]
    assert len({entry.name for entry in planned}) == len({entry.file for entry in planned}) == len(planned)


@needs_qemu_img
def test_a_data_disk_is_made_empty_in_its_size_with_nothing_below(files):
    found = info(files / "data-logs.qcow2")
    assert (found["virtual-size"], found.get("backing-filename")) == (3 * GIB, None)
    assert holds(files / "data-send.qcow2", "0")


def test_in_the_guest_a_data_disk_has_its_name_and_a_resize_moves_none_to_another_target():
    small, root = drives()
    large, _root = drives(LARGE)
    assert small["data-logs.qcow2"] == large["data-logs.qcow2"] == ("vde", "logs")
    assert small["data-send.qcow2"] == large["data-send.qcow2"] == ("sdf", "send")
    assert root.find("devices/controller").get("model") == "virtio-scsi"
    assert [
        drive.find("target").get("dev") for drive in root.findall("devices/disk") if drive.find("boot") is not None
    ] == ["vda"]


def test_sixteen_data_disks_beside_all_of_a_flavor_have_targets_of_their_own():
    found, _root = drives(LARGE, [dict(LOGS, name="d%d" % at) for at in range(16)])
    assert len({target for target, _serial in found.values()}) == 20


@pytest.mark.parametrize("count, controllers", [(1, 1), (3, 1), (4, 2), (16, 3)])
def test_all_scsi_disks_are_on_controllers_of_one_model(count, controllers):
    _found, root = drives(SMALL, [dict(DB, name="d%d" % at) for at in range(count)])
    given = [(one.get("index"), one.get("model")) for one in root.findall("devices/controller[@type='scsi']")]
    assert given == [(str(index), "virtio-scsi") for index in range(controllers)]


def test_a_guest_without_data_disks_is_defined_as_ever():
    found, _root = drives(LARGE, [])
    assert [target for target, _serial in found.values()] == ["vda", "vdb", "vdc", "vdd"]


@needs_qemu_img
def test_a_move_takes_all_data_disks_along(files):
    told = disks.manifest(pool(files), record())
    assert [(entry["name"], entry["size"]) for entry in told if entry["name"].startswith("data-")] == [
        ("data-logs", 3 * GIB),
        ("data-send", GIB),
    ]


@needs_qemu_img
def test_a_data_disk_that_did_not_come_over_is_never_made_empty_in_its_place(tmp_path):
    """The guest would find an empty disk, and the confirmation would remove the full one."""
    directory = tmp_path / "instances" / UUID
    directory.mkdir(parents=True)
    disks.add_new(str(tmp_path), record("IN"))
    lied = dict(record("IN").migration, old_spec=spec(data=()))
    disks.add_new(str(tmp_path), record("IN", migration=lied))
    assert sorted(path.name for path in directory.iterdir()) == ["ephemeral0", "swap"]


@needs_qemu_img
def test_on_one_storage_a_revert_goes_back_to_the_data_of_before_and_a_confirm_keeps_the_new(files, monkeypatch):
    monkeypatch.setattr(domain, "find_active", lambda connection, uuid: None)
    disks.layer(pool(files), record())
    disks.swap_in(pool(files), record("IN"))
    assert info(files / "data-logs.qcow2")["backing-filename"].endswith("data-logs.qcow2.pre-" + OP)
    assert holds(files / "data-logs.qcow2", "0x42")
    write(files / "data-logs.qcow2", "0x43")
    disks.restore(pool(files), record())
    assert holds(files / "data-logs.qcow2", "0x42") and "backing-filename" not in info(files / "data-logs.qcow2")
    disks.layer(pool(files), record())
    disks.swap_in(pool(files), record("IN"))
    write(files / "data-logs.qcow2", "0x44")
    disks.drop_kept(None, pool(files), record("IN"))
    assert holds(files / "data-logs.qcow2", "0x44") and "backing-filename" not in info(files / "data-logs.qcow2")
    assert not [path for path in files.iterdir() if ".pre-" in path.name]


@needs_qemu_img
def test_the_new_disks_are_on_the_storage_before_the_source_lets_go_and_the_destination_removes_older_ones(
    files, monkeypatch
):
    """The two hosts may lose power at different times, and only the source still has what it wrote."""
    synced = []
    monkeypatch.setattr(paths, "sync", synced.append)
    disks.layer(pool(files), record())
    made = {str(path) for path in files.iterdir() if ".pre-" not in path.name and paths.is_incoming(path.name)}
    assert len(made) == 5 and made <= set(synced)
    Path(paths.incoming_file(str(files / "root.qcow2"), 0)).touch()
    disks.swap_in(pool(files), record("IN"))
    assert not [path.name for path in files.iterdir() if paths.is_incoming(path.name)]


@needs_qemu_img
def test_a_resize_that_is_given_up_leaves_no_disk_that_it_began(files):
    before = sorted(path.name for path in files.iterdir())
    disks.layer(pool(files), record())
    disks.restore(pool(files), record())
    assert sorted(path.name for path in files.iterdir()) == before


@pytest.fixture
def guest(files, monkeypatch):
    """The guest runs on its disks; its definition may be changed: {target: file}."""
    drives_of = {"vda": "root.qcow2", "vde": "data-logs.qcow2", "sdf": "data-send.qcow2", "vdb": "seed.iso"}

    def definitions(_found):
        root = ElementTree.Element("domain")
        devices = ElementTree.SubElement(root, "devices")
        for target, name in drives_of.items():
            drive = ElementTree.SubElement(devices, "disk", type="file")
            ElementTree.SubElement(drive, "driver", type="raw" if name == seed.FILE else "qcow2")
            ElementTree.SubElement(drive, "source", file=str(files / name))
            ElementTree.SubElement(drive, "target", dev=target)
        return (ElementTree.tostring(root, encoding="unicode"),) * 2

    monkeypatch.setattr(domain, "find", lambda connection, uuid: types.SimpleNamespace(name=lambda: "web1"))
    monkeypatch.setattr(domain, "definitions", definitions)
    return drives_of


@needs_qemu_img
def test_a_snapshot_of_a_data_disk_alone_is_seen_before_a_move_a_start_and_a_delete(files, guest):
    pytest.importorskip("libvirt")
    at_rest = record(moved=False)
    assert disk_chain.differences(None, at_rest, pool(files)) == []
    layer, below = files / "data-logs.snap1", files / "data-logs.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", below, "--", layer], check=True)
    guest["vde"] = layer.name
    for check in (disk_chain.check, disk_chain.check_start, disk_chain.check_delete):
        with pytest.raises(
            DiskChainChanged, match="blockcommit .* vde" if check is disk_chain.check else "data-logs.snap1"
        ):
            check(fake_libvirt.NamedHost(pool(files)), at_rest)


@needs_qemu_img
@pytest.mark.parametrize("defined", [True, False])
def test_a_data_disk_whose_file_is_gone_stops_a_move_and_a_start_and_no_delete(files, guest, monkeypatch, defined):
    pytest.importorskip("libvirt")
    (files / "data-logs.qcow2").unlink()
    if not defined:
        monkeypatch.setattr(domain, "find", lambda connection, uuid: None)
    at_rest = record(moved=False)
    assert [one.kind for one in disk_chain.differences(None, at_rest, pool(files))] == ["missing"]
    for check in (disk_chain.check, disk_chain.check_start):
        with pytest.raises(DiskChainChanged, match="data-logs.qcow2 is missing") as caught:
            check(fake_libvirt.NamedHost(pool(files)), at_rest)
        told = "virsh blockcopy" if defined else hints.bring_disks_back("kvm1", "vm")
        assert told in caught.value.hint
    disk_chain.check_delete(fake_libvirt.NamedHost(pool(files)), at_rest)


@needs_qemu_img
@pytest.mark.follows("bring_disks_back")
def test_a_storage_that_was_not_mounted_holds_the_disks_again_when_it_is(files, guest):
    away = files.with_name("away")
    files.rename(away)
    with pytest.raises(DiskChainChanged, match="is missing"):
        disk_chain.check(fake_libvirt.NamedHost(pool(files)), record(moved=False))
    away.rename(files)
    disk_chain.check(fake_libvirt.NamedHost(pool(files)), record(moved=False))


@needs_qemu_img
def test_while_a_move_lasts_its_own_steps_look_after_files_that_come_and_go(files, guest):
    (files / "data-logs.qcow2").rename(files / ("data-logs.qcow2.pre-" + OP))
    assert disk_chain.differences(None, record(), pool(files)) == []
