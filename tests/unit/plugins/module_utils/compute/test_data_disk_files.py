# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data disks on a host: their files, their place in the guest, and what a move makes of them (C24)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import fake_libvirt
import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk, disk_chain, move_files
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain, domain_xml, seed
from ansible_collections.berth.kvm.plugins.module_utils.compute.move import disks, merge
from ansible_collections.berth.kvm.plugins.module_utils.model import disk_hints, hints
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import TransferFailed
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
OP = "ab" * 16
CHECKSUM = "sha256:" + "1" * 64
MIB, GIB = 1 << 20, 1 << 30
SMALL = {"name": "small", "vcpus": 1, "memory_mb": 128, "root_gb": 1}
LARGE = {"name": "large", "vcpus": 1, "memory_mb": 128, "root_gb": 2, "ephemeral_gb": 1, "swap": 1}
LOGS, DB = {"name": "logs", "size_gb": 3, "bus": "virtio"}, {"name": "send", "size_gb": 1, "bus": "scsi"}
needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


def spec(flavor=None, data=(LOGS, DB)):
    return {
        "flavor": flavor or SMALL,
        "disks": list(data),
        "image": {"name": "guest", "checksum": CHECKSUM, "properties": {}},
    }


def record(role="OWN", moved=True, **changes):
    migration = {"attempt": 1, "type": "resize", "shared": True, "old_spec": spec(), "new_spec": spec(LARGE)}
    parts = dict(
        uuid=UUID, name="vm", project_id="default", role=role, generation=[1, 1], token="t", phase="active",
        vm_state="active", spec=spec(LARGE if role == "IN" else SMALL), resources={},
        op=OP if moved else None, migration=migration if moved else None,
    )  # fmt: skip
    return Record(**{**parts, **changes})


def drives(flavor=None, data=(LOGS, DB)):
    root = ElementTree.fromstring(
        domain_xml.render(record(spec=spec(flavor, data)), domain_xml.Host("kvm", "x86_64", "/pool"))
    )
    return {
        Path(drive.find("source").get("file")).name: (drive.find("target").get("dev"), drive.findtext("serial"))
        for drive in root.findall("devices/disk")
    }, root


@pytest.fixture
def files(tmp_path):
    """The instance's disks in a pool, with something written on the first data disk."""
    directory = tmp_path / "instances" / UUID
    directory.mkdir(parents=True, mode=0o711)
    image = Path(paths.image(str(tmp_path), CHECKSUM))
    image.parent.mkdir()
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "--", image, "64M"], check=True)
    for planned in disk.plan(spec()):
        disk.make(
            planned, str(directory / planned.file), {"format": "qcow2", "path": str(image), "virtual_size": 64 * MIB}
        )
    (directory / seed.FILE).write_bytes(b"seed" * 512)
    write(directory / "data-logs.qcow2", "0x42")
    return directory


def write(path, pattern):
    subprocess.run(
        ["qemu-io", "-f", "qcow2", "-c", "write -P %s 0 64k" % pattern, path], check=True, capture_output=True
    )


def holds(path, pattern):
    done = subprocess.run(
        ["qemu-io", "-f", "qcow2", "-c", "read -P %s 0 64k" % pattern, path],
        check=False,
        capture_output=True,
        text=True,
    )
    return done.returncode == 0 and "verification failed" not in done.stdout


def pool(files):
    return str(files.parent.parent)


def info(path):
    text = subprocess.run(
        ["qemu-img", "info", "-f", "qcow2", "--output=json", "--", path], capture_output=True, check=True
    )
    return json.loads(text.stdout)


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
    monkeypatch.setattr(domain, "is_active", lambda connection, uuid: False)
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
    made = {str(path) for path in files.iterdir() if ".pre-" not in path.name and move_files.is_incoming(path.name)}
    assert len(made) == 5 and made <= set(synced)
    Path(move_files.incoming(str(files / "root.qcow2"), 0)).touch()
    disks.swap_in(pool(files), record("IN"))
    assert not [path.name for path in files.iterdir() if move_files.is_incoming(path.name)]


@needs_qemu_img
def test_a_resize_that_is_given_up_leaves_no_disk_that_it_began(files):
    before = sorted(path.name for path in files.iterdir())
    disks.layer(pool(files), record())
    disks.restore(pool(files), record())
    assert sorted(path.name for path in files.iterdir()) == before


@pytest.fixture
def resized(files, monkeypatch):
    """A resize to be confirmed: the new disks stand on the kept ones. Return the names of the kept disks that are left;
    the guest is off."""
    monkeypatch.setattr(domain, "is_active", lambda connection, uuid: False)
    disks.layer(pool(files), record())
    disks.swap_in(pool(files), record("IN"))
    return lambda: sorted(path.name for path in files.iterdir() if move_files.is_kept_or_incoming(path.name))


def rebase(path, *more):
    subprocess.run(["qemu-img", "rebase", "-q", "-f", "qcow2", *more, "-b", "", "--", path], check=True)


@needs_qemu_img
def test_a_kept_disk_that_the_new_one_stands_on_after_all_is_not_removed(files, monkeypatch, resized):
    """Whatever qemu-img or libvirt says: the guest would lose all that was written before the move."""
    monkeypatch.setattr(merge, "_pull", lambda *_arguments: None)
    with pytest.raises(TransferFailed, match="still needs"):
        disks.drop_kept(None, pool(files), record("IN"))
    assert "root.qcow2.pre-" + OP in resized()


@needs_qemu_img
def test_a_qemu_that_died_right_after_a_merge_left_out_the_data_and_the_next_confirm_merges_them(files, resized):
    """QEMU writes into the disk's header that it stands on nothing before it writes where in it the data are."""
    write(files / "data-send.qcow2", "0x43")

    for name in ("root.qcow2", "data-logs.qcow2", "data-send.qcow2"):
        rebase(files / name, "-u")
        (files / move_files.merging("%s.pre-%s" % (name, OP))).touch()
    disks.drop_kept(None, pool(files), record("IN"))
    assert holds(files / "data-logs.qcow2", "0x42") and holds(files / "data-send.qcow2", "0x43")
    assert Path(info(files / "root.qcow2")["full-backing-filename"]) == Path(paths.image(pool(files), CHECKSUM))
    assert not resized()


@needs_qemu_img
def test_a_disk_that_somebody_made_independent_of_the_kept_one_keeps_its_content(files, resized):
    """qemu-img convert leaves out what is zero in the new disk and was not in the kept one."""
    disk_file, copy = files / "data-logs.qcow2", files / "copy"
    write(disk_file, "0")
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", "--", disk_file, copy], check=True)
    copy.rename(disk_file)
    disks.drop_kept(None, pool(files), record("IN"))
    assert holds(disk_file, "0") and not resized()


@pytest.fixture
def running(files, monkeypatch, resized):
    """The guest runs, and libvirt pulls. ``answers`` are those of its QEMU to a flush, by the name of the file."""
    answers = {}

    def ask(_guest, text):
        asked = json.loads(text)
        if asked["execute"] == "query-named-block-nodes":
            found = [{"node-name": path.name, "file": str(path)} for path in sorted(files.iterdir())]
            return json.dumps({"return": found})
        _qemu_io, name, _flush = asked["arguments"]["command-line"].split()
        assert "%s.pre-%s" % (name, OP) in resized(), "it is flushed while its kept disk is there"
        flushed.append(name)
        return json.dumps(answers.get(name, {"return": ""}))

    def pull(_guest, path, base):
        assert os.path.lexists(move_files.merging("%s.pre-%s" % (path, OP))), "it is noted before it begins"
        rebase(path, *(["-u"] if base else []))

    flushed = []
    monkeypatch.setattr(domain, "is_active", lambda connection, uuid: True)
    monkeypatch.setattr(domain, "find", lambda connection, uuid: "the guest")
    monkeypatch.setattr(domain, "ask_qemu", ask)
    monkeypatch.setattr(merge.jobs, "pull", pull)
    return answers, flushed


@needs_qemu_img
def test_a_running_guest_has_written_its_new_disk_out_before_the_kept_one_is_removed(files, running, resized):
    """Killed after a pull, QEMU would leave a disk that neither has the kept one's data nor stands on it."""
    _answers, flushed = running
    disks.drop_kept(None, pool(files), record("IN"))
    assert sorted(flushed) == ["data-logs.qcow2", "data-send.qcow2", "root.qcow2"]
    assert not resized()


@needs_qemu_img
@pytest.mark.parametrize("answer", [{"return": "Device not found"}, {"error": {"class": "GenericError"}}])
@pytest.mark.follows("merge_with_guest_off")
def test_without_qemus_word_that_it_has_written_the_disk_out_the_kept_one_stays_until_the_guest_is_off(
    files, running, resized, monkeypatch, answer
):
    answers, _flushed = running
    answers["data-logs.qcow2"] = answer
    with pytest.raises(TransferFailed) as caught:
        disks.drop_kept(None, pool(files), record("IN"))
    assert caught.value.hint == disk_hints.merge_with_guest_off("vm", UUID, os.uname().nodename)
    assert "data-logs.qcow2.pre-" + OP in resized()
    with pytest.raises(TransferFailed):
        disks.drop_kept(None, pool(files), record("IN"))
    monkeypatch.setattr(domain, "is_active", lambda connection, uuid: False)
    disks.drop_kept(None, pool(files), record("IN"))
    assert holds(files / "data-logs.qcow2", "0x42") and not resized()


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

    monkeypatch.setattr(domain, "find", lambda connection, uuid: object())
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
