# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of an adopted instance, whose disk lies where it was found, and an image made of it."""

from __future__ import annotations

import dataclasses
import re
from xml.etree import ElementTree

import pytest
from adopt_case import OWN_UUID, Found
from data_disk_case import needs_qemu_img
from instance_case import Killed
from small_disks import make_by_qemu
from snapshot_case import answer_as_qemu, is_so, qemu

from ansible_collections.berth.kvm.plugins.module_utils.compute.backup import to_image
from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import layers
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import SnapshotNotPossible
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import acts, adoptable, snapshots
from ansible_collections.berth.kvm.plugins.module_utils.model import made_images
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState

pytestmark = needs_qemu_img


class Web(Found):
    """The guest Web_1, adopted, with a qcow2 disk of 3 GiB that has some data."""

    def __init__(self, host, directory):
        super().__init__(host, directory)
        self.disk.unlink()
        qemu("qemu-img", "create", "-q", "-f", "qcow2", str(self.disk), "3G")
        self.domain.xml = self.domain.xml.replace('type="raw"/><source', 'type="qcow2"/><source')
        self.domain.live = self.domain.xml
        self.write(1)

    def write(self, pattern):
        qemu("qemu-io", "-f", "qcow2", "-c", "write -P %d 1M 64k" % pattern, str(self.disk))

    def holds(self, pattern):
        return is_so(self.disk, "read -P %d 1M 64k" % pattern)

    def act(self, state, killed_at=None, memory=False):
        params = {"state": state, "snapshot": "one", "snapshot_memory": memory, "shutdown_timeout": 1}
        return acts.act(self.instance(killed_at), params, False)

    def tags(self):
        return layers.snapshots_in(str(self.disk))


@pytest.fixture
def qmp(monkeypatch):
    return answer_as_qemu(monkeypatch)


@pytest.fixture
def guest(prepared, tmp_path, qmp, monkeypatch):
    make_by_qemu(prepared, monkeypatch, 10)
    found = Web(prepared, tmp_path)
    found.adopt()
    return found


def test_an_adopted_instance_has_snapshots_goes_back_and_its_definition_stays(guest, qmp):
    before = guest.domain.xml
    gb = guest.record.resources["disk_gb"]
    assert [guest.act("snapshotted"), guest.act("snapshotted")] == [True, False]
    assert guest.tags() == ["berth-one"] and qmp["orders"] == ["transaction"]
    (entry,) = guest.record.spec["snapshots"]
    assert (entry["disks"], entry["size_gb"], entry["taken"]) == (["sda"], 3, "running")
    assert guest.record.resources["disk_gb"] == gb + 3
    guest.write(2)
    guest.act("stopped")
    assert guest.act("snapshot_reverted") is True and guest.holds(1)
    assert guest.act("snapshot_deleted") is True and guest.tags() == []
    assert guest.record.resources["disk_gb"] == gb and "snapshots" not in guest.record.spec
    assert bare(guest.domain.xml) == bare(before)


def bare(xml):
    root = ElementTree.fromstring(xml)
    root.remove(root.find("metadata"))
    return ElementTree.tostring(root)


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("step", ["snapshot record", "snapshot take", "snapshot taken"])
def test_a_snapshot_of_an_adopted_instance_that_was_killed_is_finished_by_the_next(guest, step, runs):
    if not runs:
        guest.act("stopped")
    with pytest.raises(Killed):
        guest.act("snapshotted", step)
    assert guest.act("snapshotted") is True and guest.tags() == ["berth-one"]
    assert guest.record.task_state is None and guest.record.spec["snapshots"][0]["made_at"]


def test_there_is_no_place_for_the_memory_of_one_whose_disks_lie_outside_of_the_pool(guest):
    with pytest.raises(SnapshotNotPossible, match="its disks lie outside of the pool"):
        guest.act("snapshotted", memory=True)
    assert guest.tags() == []


def test_the_snapshots_of_an_adopted_instance_are_named_to_whoever_leaves_it(guest):
    guest.act("snapshotted")
    with pytest.raises(InstanceInvalidState, match="snapshots one") as refused:
        guest.leave()
    assert "berth.kvm.delete_snapshot --limit web1 -e berth_snapshot=one" in refused.value.hint
    guest.act("snapshot_deleted")
    assert guest.leave() is True and guest.domain.isActive()


def test_a_move_takes_the_request_with_its_snapshots_and_finds_nothing_in_the_way(guest):
    guest.act("snapshotted")
    renewed = adoptable.renewed(guest.host.connection, guest.record, guest.host.pool_of)
    assert renewed.spec["snapshots"] == guest.record.spec["snapshots"]
    adoptable.check_movable(guest.host.connection, guest.record)


@pytest.mark.usefixtures("qmp")
def test_a_raw_disk_of_an_adopted_instance_has_no_snapshot(prepared, tmp_path):
    raw = Found(prepared, tmp_path)
    raw.adopt()
    with pytest.raises(SnapshotNotPossible, match="disk sda is raw"):
        snapshots.would_snapshot(raw.instance(), "one")


ONLY_READ = """<disk type="file" device="disk"><driver name="qemu" type="%s"/><source file="%s"/><target dev="sdc" bus="sata"/>
<readonly/></disk>"""


def with_one_more(guest, form, readonly=True):
    more = guest.disk.with_name("data.img")
    qemu("qemu-img", "create", "-q", "-f", form, str(more), "1G")
    element = ONLY_READ % (form, more) if readonly else (ONLY_READ % (form, more)).replace("<readonly/>", "")
    guest.define(guest.domain.xml.replace("<interface", element + "<interface", 1))
    guest.domain.createWithFlags()


@pytest.mark.parametrize("form", ["raw", "qcow2"])
def test_a_disk_that_the_guest_only_reads_is_left_out_and_that_is_said(prepared, tmp_path, qmp, monkeypatch, form):
    make_by_qemu(prepared, monkeypatch, 10)
    guest = Web(prepared, tmp_path)
    with_one_more(guest, form)
    guest.adopt()
    instance = guest.instance()
    assert snapshots.snapshot(instance, "one") is True
    (entry,) = guest.record.spec["snapshots"]
    assert (entry["disks"], entry["size_gb"]) == (["sda"], 3) and guest.tags() == ["berth-one"]
    assert instance.told == [
        "its disk sdc (%s) is left out: its guest only reads it" % guest.disk.with_name("data.img")
    ]
    guest.write(2)
    guest.act("stopped")
    assert guest.act("snapshot_reverted") is True and guest.holds(1)


@pytest.mark.usefixtures("qmp")
def test_a_raw_disk_to_which_the_guest_may_write_after_its_next_start_is_not_left_out(prepared, tmp_path, monkeypatch):
    make_by_qemu(prepared, monkeypatch, 10)
    guest = Web(prepared, tmp_path)
    with_one_more(guest, "raw")
    guest.adopt()
    guest.domain.live, guest.domain.xml = guest.domain.xml, re.sub("<readonly */>", "", guest.domain.xml)
    with pytest.raises(SnapshotNotPossible, match="disk sdc is raw"):
        snapshots.would_snapshot(guest.instance(), "one")


@pytest.mark.follows("make_independent")
@pytest.mark.parametrize("dry", [True, False])
def test_a_disk_that_stands_on_another_file_has_no_snapshot_until_it_is_independent(guest, dry):
    base = guest.disk.with_name("base.qcow2")
    guest.act("stopped")
    qemu("mv", str(guest.disk), str(base))
    qemu("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(base), str(guest.disk))
    before = guest.record
    with pytest.raises(SnapshotNotPossible, match="sda stands on %s" % base) as refused:
        (snapshots.would_snapshot if dry else snapshots.snapshot)(guest.instance(), "one")
    assert guest.record == before and "virsh blockpull %s sda --wait" % OWN_UUID in refused.value.hint
    assert refused.value.hint.endswith(" while it is off")
    qemu("sh", "-c", refused.value.hint.rpartition(" while the guest runs, ")[2][: -len(" while it is off")])
    assert guest.act("snapshotted") is True and guest.holds(1)


def test_an_image_of_an_adopted_instance_says_the_machine_that_its_system_knows(guest, tmp_path):
    to = tmp_path / "golden"
    to.mkdir()
    guest.host.settings = dataclasses.replace(guest.host.settings, image_directories=(str(to),))
    guest.act("stopped")
    found = to_image.make_image(guest.instance(), to_image.Wish("golden"))["image"]
    assert is_so(found["path"], "read -P 1 1M 64k") and found["min_disk"] == 3
    has = {"hw_firmware_type": "bios", "hw_machine_type": "pc", "hw_disk_bus": "sata", "hw_vif_model": "e1000"}
    assert found["properties"] == has
    assert '"hw_disk_bus": "sata"' in "\n".join(made_images.entry(found))
