# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What somebody made beside an instance's disks, as virt-clone and a copy before a change do, is removed by no move or
delete that does not name it first (I3)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path

import fake_libvirt
import pytest
from disk_case import CHECKSUM, FLAVOR, OP, UUID, make_guest, overlay, record

from ansible_collections.berth.kvm.plugins.module_utils.compute import errors, paths
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import doctor as host_doctor
from ansible_collections.berth.kvm.plugins.module_utils.conductor import doctor
from ansible_collections.berth.kvm.plugins.module_utils.model import volumes

MOVE = {"source": {"uuid": "a", "name": "kvm1"}, "destination": {"uuid": "b", "name": "kvm2"}}


@pytest.fixture
def guest(tmp_path, monkeypatch):
    return make_guest(tmp_path, monkeypatch)


def host(guest):
    return fake_libvirt.NamedHost(guest.pool)


def of_a_move(role="OUT"):
    parts = {"old_spec": record().spec, "new_spec": {**record().spec, "flavor": dict(FLAVOR, ephemeral_gb=1)}}
    return record(role=role, op=OP, migration={**MOVE, **parts})


@pytest.mark.follows("take_files_away")
@pytest.mark.parametrize(
    "name",
    [
        "root-clone.qcow2",
        "root.qcow2.bak",
        "root.qcow2.pre-upgrade",
        "extra.qcow2",
        "data-old.qcow2",
        "data-old.qcow2.before",
        "x.tmp",
        "notes",
    ],
)
def test_a_file_that_somebody_made_beside_the_disks_is_named_before_a_purge_and_can_be_taken_away(
    guest, tmp_path, name
):
    made = Path(guest.file(name))
    made.write_bytes(b"x" * 512)
    with pytest.raises(DiskChainChanged, match=made.name) as caught:
        disk_chain.check_beside(host(guest), of_a_move())
    assert "move these files to another directory" in caught.value.hint and made.exists()
    shutil.move(made, tmp_path / "elsewhere")
    disk_chain.check_beside(host(guest), of_a_move())


@pytest.mark.parametrize(
    "name",
    ["owner", "moving-" + OP, "swap.tmp", "root.qcow2.pre-" + OP, "root.qcow2.pre-%s.merging" % OP, "nvram.fd", "kernel",
     "root.qcow2.incoming-3", "root.qcow2.scratch", "root.qcow2.replaced", "root.qcow2.made", "root.qcow2.before",
     "ephemeral0", "ephemeral0.incoming-1", ".nfs0001", ".owner.tmp", "root.raw", "record.json", "domain.xml",
     "data-begun.qcow2.tmp"],
)  # fmt: skip
def test_what_berth_itself_makes_beside_the_disks_is_no_file_of_others(guest, name):
    Path(guest.file(name)).write_bytes(b"x" * 512)
    for each in (record(), of_a_move(), of_a_move("OWN")):
        disk_chain.check_beside(host(guest), each)


def test_a_layer_that_was_merged_and_a_link_hold_up_nothing(guest, tmp_path):
    """virsh blockcommit leaves the file of the layer: all that it has is in the disk."""
    overlay(guest.file("root.one"), guest.file("root.qcow2"))
    overlay(guest.file("root.two"), guest.file("root.one"))
    Path(guest.file("shortcut")).symlink_to(tmp_path)
    disk_chain.check_beside(host(guest), record())


@pytest.mark.parametrize("goes", [True, False])
def test_a_copy_beside_a_volume_is_named_where_the_volume_goes_too(guest, goes):
    """A delete leaves most volumes where they are."""
    entry = {"name": "v", "size_gb": 1, "slot": 0, "delete_on_termination": goes}
    with_volume = record(spec={"flavor": FLAVOR, "image": {"checksum": CHECKSUM}, "volumes": [entry]})
    volume = Path(paths.volume_file(str(guest.pool), volumes.of(with_volume.spec)[0]["uuid"]))
    volume.parent.mkdir(parents=True)
    copy = volume.with_name("disk-clone.qcow2")
    for path in (volume, copy):
        shutil.copy(guest.image, path)
    guest.use("vdaa", volume)
    with pytest.raises(DiskChainChanged, match=copy.name):
        disk_chain.check_beside(host(guest), with_volume)
    with pytest.raises(DiskChainChanged, match="%s with it" % copy) if goes else contextlib.nullcontext():
        disk_chain.check_delete(host(guest), with_volume)


@pytest.mark.follows("delete_changed_disks", "take_files_away")
def test_a_delete_names_each_file_that_goes_with_the_disks(guest):
    made = guest.file("root-clone.qcow2")
    Path(made).write_bytes(b"x" * 512)
    with pytest.raises(DiskChainChanged) as caught:
        disk_chain.check_delete(host(guest), record())
    assert "deletes the instance as it is, %s with it" % made in caught.value.hint


def test_of_many_files_of_somebody_else_some_are_named_and_all_counted_so_that_the_hint_is_read(guest):
    made = [guest.file("copy-%03d" % n) for n in range(300)]
    for path in made:
        Path(path).touch()
    for check in (disk_chain.check_beside, disk_chain.check_delete):
        with pytest.raises(DiskChainChanged) as caught:
            check(host(guest), record())
        assert made[0] in caught.value.message and "290 more files lie there" in caught.value.message
        assert len(str(caught.value)) < 5000 and caught.value.details["files"] == made


def test_a_file_whose_name_is_no_utf8_is_refused_in_words_that_json_can_carry(guest):
    Path(guest.file(os.fsdecode(b"co\xffpy"))).touch()
    with pytest.raises(DiskChainChanged) as caught:
        disk_chain.check_beside(host(guest), record())
    text = json.dumps(errors.result_of(caught.value), ensure_ascii=False).encode("utf-8")
    assert b"co?py lies beside its disks" in text


def test_a_file_that_somebody_removes_while_it_is_looked_at_fails_nothing(guest, monkeypatch):
    Path(guest.file("root-clone.qcow2")).touch()

    found = os.lstat

    def look(path):
        Path(guest.file("root-clone.qcow2")).unlink(missing_ok=True)
        return found(path)

    monkeypatch.setattr(os, "lstat", look)
    monkeypatch.setattr(os.path, "lexists", os.path.exists)  # as it was a moment before
    disk_chain.check_beside(host(guest), record())


def test_a_start_does_not_mind_what_lies_beside_the_disks(guest):
    Path(guest.file("root-clone.qcow2")).write_bytes(b"x" * 512)
    assert guest.found() == [] and UUID in str(guest.directory)


def beside_disks(web):
    return [found for found in host_doctor.look(web.host) if found["code"] == "FilesBeside"]


@pytest.mark.follows("take_files_away")
def test_the_doctor_names_them_before_a_move_is_refused(web):
    web.make()
    assert beside_disks(web) == []
    made = web.root.with_name("root-clone.qcow2")
    made.write_bytes(b"x" * 512)
    (found,) = beside_disks(web)
    text = "in %s, beside the disks of web1, and none of them: root-clone.qcow2" % made.parent
    assert found == {"code": "FilesBeside", "severity": "warning", "said": text, "uuid": web.uuid, "fixed": False}
    assert "move these files to another directory" in doctor.TODO["FilesBeside"]("kvm1", "web1", text)
    shutil.move(made, web.host.pool / "elsewhere")
    assert beside_disks(web) == []


def test_the_doctor_asks_nobody_to_move_a_file_that_a_domain_uses(web):
    web.make()
    made = web.root.with_name("added.qcow2")
    made.write_bytes(b"x" * 512)
    disk = '<disk type="file"><source file="%s"/><target dev="vdz"/></disk></devices>' % made
    web.domain.xml = web.domain.xml.replace("</devices>", disk)
    assert beside_disks(web) == []
