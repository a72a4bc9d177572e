# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data disks for an instance that is there: room first, then the record, then files and guest (C24, C26)."""

from __future__ import annotations

import json
import shutil
import subprocess
from xml.etree import ElementTree

import pytest
from instance_case import Case, Killed
from records import plant
from small_disks import make_by_qemu

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DiskChainChanged, DiskNotAttached
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import (
    update_disks,
    would_update_disks,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import CannotResizeDisk, InstanceInvalidState

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
LOGS = {"name": "logs", "size_gb": 2}
STEPS = ["disks record", "disks publish", "disks attach", "disks note"]


class Web(Case):
    """web1 runs, and the host has 10 GiB of which it holds 1."""

    def update(self, *wanted, killed_at=None):
        return update_disks(self.instance(killed_at), list(wanted))

    def file(self, name="logs"):
        return self.host.pool / "instances" / self.uuid / ("data-%s.qcow2" % name)

    def size(self, name="logs"):
        command = ["qemu-img", "info", "-f", "qcow2", "--output=json", "--", str(self.file(name))]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["virtual-size"] >> 30

    def attached(self):
        return [element.text for element in ElementTree.fromstring(self.domain.xml).iterfind("devices/disk/serial")]


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    make_by_qemu(prepared, monkeypatch, 10)
    one = Web(prepared, wanted("web1"))
    one.make()
    return one


@pytest.mark.parametrize("runs", [True, False])
def test_a_disk_is_added_and_grown_and_each_again_is_no_change(web, runs):
    if not runs:
        web.instance().stopped(1)
    assert would_update_disks(web.instance(), [LOGS]) and not web.file().exists()
    assert [web.update(LOGS), web.update(LOGS)] == [True, False]
    assert (web.size(), web.attached(), web.record.resources["disk_gb"]) == (2, ["logs"], 3)
    larger = dict(LOGS, size_gb=5)
    assert would_update_disks(web.instance(), [larger])
    assert web.update(larger) is True
    assert web.record.resources["disk_gb"] == 6 and web.record.spec["disks"][0]["size_gb"] == 5
    if runs:
        assert web.domain.resized == {str(web.file()): 5 << 30}
    else:
        assert web.size() == 5 and web.update(larger) is False
    assert web.domain.isActive() is runs


def test_what_the_inventory_names_no_more_stays_and_so_does_every_byte(web):
    web.update(LOGS)
    before = web.file().read_bytes()
    assert web.update() is False
    assert web.update({"name": "db", "size_gb": 1}) is True
    assert (web.attached(), web.file().read_bytes()) == (["logs", "db"], before)


def test_a_disk_never_shrinks_and_a_refusal_changes_nothing(web):
    web.update(LOGS)
    before = web.record
    with pytest.raises(CannotResizeDisk):
        web.update(dict(LOGS, size_gb=1), {"name": "db", "size_gb": 1})
    assert web.record == before and not web.file("db").exists()


def test_what_the_host_has_no_room_for_is_refused_before_anything_is_made(web):
    before = web.record
    for wanted in ([dict(LOGS, size_gb=10)], [LOGS, {"name": "db", "size_gb": 8}]):
        with pytest.raises(BerthError) as caught:
            web.update(*wanted)
        assert caught.value.code == "ClaimFailed"
    assert (
        web.record == before and sorted(path.name for path in web.file().parent.iterdir() if "data" in path.name) == []
    )


@pytest.mark.parametrize("runs, step", [(True, step) for step in STEPS] + [(False, step) for step in STEPS[:-1]])
def test_an_update_killed_at_a_step_is_finished_by_the_next_run(web, step, runs):
    """Of a guest that is off the definition is made anew, and its note with it."""
    if not runs:
        web.instance().stopped(1)
    with pytest.raises(Killed):
        web.update(LOGS, killed_at=step)
    assert web.update(LOGS) is True
    assert (web.size(), web.attached(), web.record.resources["disk_gb"]) == (2, ["logs"], 3)
    assert web.update(LOGS) is False
    assert not [path.name for path in web.file().parent.iterdir() if path.name.endswith(".tmp")]


def test_a_growth_killed_after_the_record_is_finished_by_the_next_run(web):
    web.instance().stopped(1)
    web.update(LOGS)
    with pytest.raises(Killed):
        web.update(dict(LOGS, size_gb=5), killed_at="disks grow")
    assert would_update_disks(web.instance(), [dict(LOGS, size_gb=5)])
    assert web.update(dict(LOGS, size_gb=5)) is True and web.size() == 5


def test_a_disk_that_was_never_attached_is_attached_and_then_grown(web):
    with pytest.raises(Killed):
        web.update(LOGS, killed_at="disks attach")
    assert web.update(dict(LOGS, size_gb=5)) is True
    assert (web.attached(), web.domain.resized) == (["logs"], {str(web.file()): 5 << 30})


@pytest.mark.follows("name_data_disks")
def test_a_file_that_is_there_is_never_made_anew(web):
    """A record from a backup: what the guest wrote is in the file, and a detached one would not go with the next move."""
    older = web.record
    web.update(LOGS)
    before = web.file().read_bytes()
    plant(web.host.store, older)
    with pytest.raises(DiskChainChanged, match="data-logs") as caught:
        disk_chain.check(web.host, web.record)
    assert "berth.kvm.update_disks --limit web1" in caught.value.hint and "detach" not in caught.value.hint
    with pytest.raises(DiskChainChanged, match="data-logs"):
        web.update({"name": "db", "size_gb": 1})
    for act in (web.update, lambda *wanted: would_update_disks(web.instance(), list(wanted))):
        with pytest.raises(CannotResizeDisk, match="2147483648 bytes"):
            act(dict(LOGS, size_gb=1))
    assert web.update(LOGS) is True and web.update(LOGS) is False
    disk_chain.check(web.host, web.record)
    assert (web.file().read_bytes(), web.attached(), web.record.resources["disk_gb"]) == (before, ["logs"], 3)
    assert not web.file().with_name(web.file().name + ".tmp").exists()


@pytest.mark.parametrize("on", [True, False])
def test_a_data_disk_that_was_detached_from_a_guest_whose_record_lost_it_stays_behind_in_no_move(web, on):
    older = web.record
    xml = web.domain.xml
    web.update(LOGS)
    web.domain.xml = xml
    if not on:
        web.instance().stopped(1)
    plant(web.host.store, older.replace(**{part: getattr(web.record, part) for part in ("vm_state", "power_state")}))
    with pytest.raises(DiskChainChanged, match="does not name the data disk .*data-logs"):
        disk_chain.check(web.host, web.record)
    disk_chain.check_start(web.host, web.record)
    assert web.update(LOGS) is True and web.attached() == ["logs"]
    disk_chain.check(web.host, web.record)


def test_a_disk_whose_file_is_gone_is_never_made_anew(web):
    web.update(LOGS)
    web.file().unlink()
    with pytest.raises(DiskChainChanged, match="is missing"):
        web.update(dict(LOGS, size_gb=5))
    assert not web.file().exists()


@pytest.mark.parametrize("bus", ["sata", "scsi"])
@pytest.mark.follows("stop_and_update_disks")
def test_what_a_running_guest_cannot_be_given_it_gets_while_it_is_off(web, bus):
    before = web.record
    with pytest.raises(DiskNotAttached):
        would_update_disks(web.instance(), [dict(LOGS, bus=bus)])
    with pytest.raises(DiskNotAttached) as caught:
        web.update(dict(LOGS, bus=bus))
    assert "berth.kvm.stop" in caught.value.hint and "berth.kvm.update_disks" in caught.value.hint
    assert web.record == before and not web.file().exists()
    web.instance().stopped(1)
    web.update(dict(LOGS, bus=bus))
    web.instance().started()
    assert web.attached() == ["logs"]


@pytest.mark.follows("stop_and_update_disks")
def test_a_guest_that_takes_no_device_more_keeps_what_was_made_for_when_it_is_off(web):
    web.domain.takes_no_more = True
    with pytest.raises(DiskNotAttached, match="PCI slots"):
        web.update(LOGS)
    web.instance().stopped(1)
    assert web.update(LOGS) is True
    web.instance().started()
    assert (web.attached(), web.size()) == (["logs"], 2)


def left_open(web, path, user=None):
    """libvirtd died as it attached the file: QEMU has it open, in two layers, and libvirt does not know."""
    web.domain.nodes = {"libvirt-5-storage": (path, "libvirt-5-format"), "libvirt-5-format": (path, user)}


def test_what_a_libvirtd_that_died_left_of_a_disk_is_closed_and_the_disk_attached(web):
    with pytest.raises(Killed):
        web.update(LOGS, killed_at="disks attach")
    left_open(web, str(web.file()))
    assert web.update(LOGS) is True
    assert (web.attached(), web.domain.nodes, web.update(LOGS)) == (["logs"], {}, False)


@pytest.mark.follows("stop_and_update_disks")
def test_a_disk_that_a_device_has_unknown_to_libvirt_comes_anew_while_the_guest_is_off(web):
    with pytest.raises(Killed):
        web.update(LOGS, killed_at="disks attach")
    left_open(web, str(web.file()), user="a device")
    with pytest.raises(DiskNotAttached):
        web.update(LOGS)
    assert len(web.domain.nodes) == 2
    web.instance().stopped(1)
    web.domain.nodes = {}
    web.update(LOGS)
    web.instance().started()
    assert web.attached() == ["logs"]


def test_files_of_other_disks_stay_open_when_one_is_not_attached(web):
    left_open(web, "/somewhere/else")
    with pytest.raises(DiskNotAttached, match="Duplicate nodes"):
        web.update(LOGS)
    assert len(web.domain.nodes) == 2


def test_no_disk_changes_while_a_resize_waits_for_its_confirmation(web):
    plant(web.host.store, web.record.next(op="ab" * 16, phase="resized"))
    with pytest.raises(InstanceInvalidState):
        web.update(LOGS)
    assert not web.file().exists()


@pytest.mark.parametrize("runs", [True, False])
def test_the_copy_of_the_record_in_the_definition_has_the_disks_as_they_are(web, runs):
    if not runs:
        web.instance().stopped(1)
    for wanted in (LOGS, dict(LOGS, size_gb=4)):
        web.update(wanted)
        copy = json.loads(domain.mark(web.domain.xml)["record"])
        assert copy["spec"]["disks"] == [dict(wanted, bus="virtio")]
        assert domain.is_managed(web.domain)


def test_no_file_takes_the_place_of_a_disk_that_is_there(web):
    web.update(LOGS)
    before = web.file().read_bytes()
    web.file().with_name(web.file().name + ".tmp").write_bytes(b"of another program")
    assert web.update(LOGS) is False
    assert web.file().read_bytes() == before
