# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rescue and its way back on a host: real qcow2 files, a libvirt in memory."""

from __future__ import annotations

import os
from xml.etree import ElementTree

import fake_libvirt
import pytest
from data_disk_case import needs_qemu_img
from instance_case import Case, Killed
from volume_case import make_house

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain, image, unused_images
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BuildFailed, ImageUnavailable
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import (
    acts,
    domain,
    domain_xml,
    gate,
    mend,
    power,
    rescue,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.rescue import RescueNotPossible
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.set_aside import stop as stop_copy
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.update_disks import update_disks
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import doctor as host_doctor
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.record_copy import take_back
from ansible_collections.berth.kvm.plugins.module_utils.conductor import doctor, locate
from ansible_collections.berth.kvm.plugins.module_utils.conductor.outcome_of_create import left_as_found
from ansible_collections.berth.kvm.plugins.module_utils.model import (
    fleet_hints,
    hints,
    migration,
    operation_hints,
    rescues,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec

pytestmark = needs_qemu_img
ON, RESCUED = ("active", None, "running", True), ("rescued", None, "running", True)
OFF = ("stopped", None, "shutdown", False)
FROM = {"name": "debian-12", "checksum": "sha256:" + "1" * 64, "properties": {}}
STEPS = ["rescue image", "rescue record", "rescue define", "rescue stop", "start permit", "start guest", "start done"]
BACK = ["unrescue stop", "unrescue define", "unrescue record", "start permit", "start guest", "start done"]
GIB = 1 << 30


def unlike(one, other):
    """The parts in which two requests differ."""
    return {part: (one.get(part), other.get(part)) for part in {*one, *other} if one.get(part) != other.get(part)}


class Web(Case):
    """web1 runs with a root disk and a data disk."""

    def act(self, state, dry=False, killed_at=None, **more):
        given = dict.fromkeys(("token", "changed_disks", "after", "snapshot", "seed", "spec"))
        params = {**given, "state": state, "shutdown_timeout": 0, "mend": False, "rescue_image": FROM, **more}
        return acts.act(self.instance(killed_at), params, dry)

    def boots_from(self):
        """The files with an order, by the definition of the running guest."""
        live = ElementTree.fromstring(domain.definitions(self.domain)[0])
        orders = {
            each.find("source").get("file").rpartition("/")[2]: each.find("boot")
            for each in live.iterfind("devices/disk")
        }
        return [name for name, order in orders.items() if order is not None]

    def targets(self):
        root = ElementTree.fromstring(self.domain.xml)
        return {
            each.find("source").get("file").rpartition("/")[2]: each.find("target").get("dev")
            for each in root.iterfind("devices/disk")
        }

    def files(self):
        return sorted(path.name for path in self.root.parent.iterdir())


@pytest.fixture
def web(prepared, wanted, monkeypatch):
    make_house(prepared, wanted, monkeypatch)
    found = {"path": "/i", "format": "qcow2", "virtual_size": 2 * GIB}
    monkeypatch.setattr(image, "ensure", lambda _pool, _source, *_: found)
    prepared.connection.complete_as("pc-q35-7.2", 3)
    one = Web(prepared, wanted("web1"))
    one.spec["disks"] = [{"name": "logs", "size_gb": 2, "bus": "virtio"}]
    one.make()
    claimed = {**one.record.resources, "resources": {"DISK_GB": 1}}
    one.instance().swap(one.record.replace(resources=claimed))
    return one


def test_the_guest_boots_from_the_image_with_its_own_disks_where_they_were_and_goes_back_to_them(web):
    before, targets, files = web.record, web.targets(), web.files()
    assert web.act("rescued", dry=True) and web.record == before
    assert web.act("rescued") and web.state() == RESCUED
    assert web.boots_from() == ["rescue.qcow2"] and "rescue.qcow2" in web.files()
    assert targets.items() < web.targets().items()
    assert not web.act("rescued") and not web.act("rescued", dry=True)
    assert web.act("unrescued", dry=True) and web.state() == RESCUED
    assert web.act("unrescued") and web.state() == ON
    assert web.boots_from() == ["root.qcow2"] and web.targets() == targets and web.files() == files
    assert (unlike(web.record.spec, before.spec), web.record.resources) == ({}, before.resources)
    assert not web.act("unrescued") and not web.act("unrescued", dry=True)
    events = [each["event"] for each in web.record.history]
    assert events[-4:] == ["rescue", "start", "unrescue", "start"]
    assert next(each for each in web.record.history if each["event"] == "rescue")["image"] == "debian-12"


def test_its_disk_takes_room_that_unrescue_gives_back(web):
    before = web.record.resources["disk_gb"]
    web.act("rescued")
    assert web.record.resources["disk_gb"] == before + 2
    assert RequestSpec(web.record.spec).data_gb == RequestSpec(rescues.ended(web.record.spec)).data_gb + 2
    web.act("unrescued")
    assert web.record.resources["disk_gb"] == before


def test_a_disk_that_was_added_since_its_last_start_stays_where_it_is(web):
    update_disks(web.instance(), [{"name": "logs", "size_gb": 2}, {"name": "more", "size_gb": 1}])
    web.domain.xml = fake_libvirt.completed(web.domain.xml, "pc-q35-7.2", 20)
    at = mend.with_hardware(web.instance(), web.record).spec["hardware"]["devices"]
    assert "disk/vdf" in at and "disk/vdf" not in web.record.spec["hardware"]["devices"]
    web.act("rescued")
    assert at.items() < web.record.spec["hardware"]["devices"].items()
    web.act("unrescued")
    assert web.record.spec["hardware"]["devices"] == at


def test_one_that_was_off_is_rescued_and_started_afterwards_as_in_nova(web):
    web.instance().stopped(0)
    assert web.act("rescued") and web.state() == RESCUED
    assert web.act("unrescued") and web.state() == ON


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.follows("end_it")
def test_a_rescue_that_is_killed_at_any_step_is_ended_by_the_next_one_or_taken_back(web, step):
    for end, state, boots in (("rescued", RESCUED, "rescue.qcow2"), ("unrescued", ON, "root.qcow2")):
        with pytest.raises(Killed):
            web.act("rescued", killed_at=step)
        if web.record.vm_state == "rescued":
            place = {
                "phase": "active",
                "task_state": web.record.task_state,
                "vm_state": "rescued",
                "op": None,
                "role": "OWN",
            }
            assert locate.to_end(place, "web1") == fleet_hints.end_it("web1", "unrescue")
        web.act(end)
        assert web.state() == state and web.boots_from() == [boots]
        assert not web.act(end)
        web.act("unrescued")
    assert web.record.resources["disk_gb"] == 1


@pytest.mark.parametrize("step", BACK)
def test_an_unrescue_that_is_killed_at_any_step_is_ended_by_the_next_one(web, step):
    before = web.record
    web.act("rescued")
    with pytest.raises(Killed):
        web.act("unrescued", killed_at=step)
    web.act("unrescued")
    assert web.state() == ON and web.boots_from() == ["root.qcow2"] and "rescue.qcow2" not in web.files()
    assert (unlike(web.record.spec, before.spec), web.record.resources) == ({}, before.resources)


@pytest.mark.parametrize(
    "state, step", [*(("rescued", step) for step in STEPS), *(("unrescued", step) for step in BACK)]
)
def test_a_host_that_lost_its_power_at_any_step_boots_what_the_record_says(web, state, step):
    if state == "unrescued":
        web.act("rescued")
    with pytest.raises(Killed):
        web.act(state, killed_at=step)
    gate.revoke(web.uuid, web.host.run_dir)
    if web.domain.isActive():
        web.domain.destroy()
    assert power.recover(web.instance())
    is_rescued = bool(rescues.of(web.record.spec))
    assert web.state() == (RESCUED if is_rescued else ON)
    assert web.boots_from() == ["rescue.qcow2" if is_rescued else "root.qcow2"]
    assert is_rescued or "rescue.qcow2" not in web.files()


@pytest.mark.follows("go_back")
def test_create_leaves_it_rescued_and_starts_it_so(web):
    web.act("rescued")
    assert not power.converge(web.instance(), None, None, "running", 0)
    shown = {"result": {"state": "running", "vm_state": "rescued"}}
    assert left_as_found(shown) == "rescued; " + operation_hints.go_back()
    assert left_as_found({**shown, "locked": "me"}) == "rescued; locked"
    web.domain.destroy()
    assert power.converge(web.instance(), None, None, "running", 0)
    assert web.state() == RESCUED and web.boots_from() == ["rescue.qcow2"]
    assert web.act("unrescued") and left_as_found({"result": {"state": "running", "vm_state": "active"}}) is None


LEGAL = ("absent", "unrescued", "rescued", "recovered", "locked", "unlocked", "present", "renamed")


@pytest.mark.parametrize("state", sorted(set(acts.ACTS) - set(LEGAL) - {"adopted", "left", "recorded"}))
@pytest.mark.follows("make_active")
def test_what_nova_refuses_of_a_rescued_instance_is_refused_and_unrescue_makes_it_active(web, state):
    web.act("rescued")
    before = web.record
    more = {
        "snapshot": "one",
        "snapshot_memory": False,
        "reboot": "hard",
        "disks": [],
        "volumes": None,
        "discards": [],
        "only_claim": False,
    }
    for dry in (True, False):
        with pytest.raises(InstanceInvalidState, match="vm_state rescued") as refused:
            web.act(state, dry, **more, spec=before.spec, discards_root="web1")
        assert refused.value.hint == hints.make_active("web1", "unrescue")
    assert web.record == before
    web.act("unrescued")
    assert web.state() == ON


@pytest.mark.parametrize("kind", ["resize", "migration", "live-migration"])
def test_it_is_not_moved(web, kind):
    web.act("rescued")
    with pytest.raises(InstanceInvalidState, match="vm_state rescued") as refused:
        migration.check_begin(web.record, kind, web.record.spec, "running")
    assert refused.value.hint == hints.make_active("web1", "unrescue")


@pytest.mark.parametrize("state", ["paused", "suspended", "error"])
def test_an_instance_is_rescued_only_while_it_is_active_or_stopped(web, state):
    web.instance().swap(web.record.replace(vm_state=state, task_state="rebuilding" if state == "error" else None))
    with pytest.raises(InstanceInvalidState, match="vm_state %s" % state):
        web.act("rescued")


@pytest.mark.follows("unrescue_first")
def test_another_image_is_another_rescue(web):
    web.act("rescued")
    other = {**FROM, "name": "other", "checksum": "sha256:" + "2" * 64}
    for dry in (True, False):
        with pytest.raises(RescueNotPossible, match="web1 is rescued from image debian-12") as refused:
            web.act("rescued", dry, rescue_image=other)
    assert refused.value.hint == operation_hints.unrescue_first("web1")
    web.act("unrescued")
    assert web.act("rescued", rescue_image=other)


def test_an_image_that_cannot_be_had_or_a_host_without_room_leaves_the_guest_as_it_was(web, monkeypatch):
    before, starts = web.record, web.domain.starts
    monkeypatch.setattr(image, "ensure", lambda *_: {"path": "/i", "format": "qcow2", "virtual_size": 99 * GIB})
    with pytest.raises(BerthError, match="DISK_GB|disk"):
        web.act("rescued")

    def gone(*_args):
        raise ImageUnavailable("404")

    monkeypatch.setattr(image, "ensure", gone)
    with pytest.raises(ImageUnavailable):
        web.act("rescued")
    assert web.record == before and web.domain.starts == starts and "rescue.qcow2" not in web.files()


def test_a_definition_that_the_host_cannot_have_leaves_the_guest_as_it_was(web, monkeypatch):
    before, starts = web.record, web.domain.starts

    def refused(*_args):
        raise BuildFailed("no such bus")

    monkeypatch.setattr(domain_xml, "define_guest", refused)
    with pytest.raises(BuildFailed):
        web.act("rescued")
    after = web.record
    assert (after.spec, after.resources, web.state()) == (before.spec, before.resources, ON)
    assert after.faults[-1]["message"] == "no such bus"
    assert web.domain.starts == starts and web.domain.isActive() and "rescue.qcow2" not in web.files()


def test_packet_filters_that_the_host_cannot_have_leave_a_definition_without_the_rescue(web, monkeypatch):
    """libvirt has the definition by then, and the disk that it boots from goes."""

    def refused(*_args):
        raise BuildFailed("no filters here")

    with monkeypatch.context() as without:
        without.setattr(domain_xml.packet_filter, "define", refused)
        with pytest.raises(BuildFailed, match="no filters here"):
            web.act("rescued")
    assert "rescue.qcow2" not in web.files() and "rescue.qcow2" not in web.domain.xml
    assert web.instance().stopped(0) and power.start(web.instance(), None, None)
    assert web.state() == ON and web.boots_from() == ["root.qcow2"]


def test_a_guest_with_disks_that_are_not_its_records_is_refused(web):
    web.domain.xml = web.domain.xml.replace(str(web.root), "/srv/other.qcow2")
    before = web.record
    with pytest.raises(BerthError, match="not those that its record names"):
        web.act("rescued")
    assert web.record == before


def test_nothing_is_missed_and_nothing_is_mended_while_it_is_rescued(web):
    web.act("rescued")
    assert disk_chain.found_on(web.host, web.record) == []
    assert mend.differing(web.instance(), web.record) == {}
    assert not [each for each in host_doctor.look(web.host) if each["uuid"] == web.uuid]
    assert FROM["checksum"] in unused_images.checksums([web.record])


def test_a_lost_disk_of_the_rescue_does_not_keep_it_from_going_back(web):
    web.act("rescued")
    (web.root.parent / "rescue.qcow2").unlink()
    assert web.act("unrescued") and web.state() == ON


@pytest.mark.follows("rescued_and_off")
def test_the_doctor_names_one_whose_guest_is_off_and_what_it_says_starts_it(web):
    web.act("rescued")
    web.domain.destroy()
    (found,) = [each for each in host_doctor.look(web.host) if each["uuid"] == web.uuid]
    assert found["code"] == "RescuedGuestOff"
    assert doctor.TODO["RescuedGuestOff"]("kvm1", "web1", "") == operation_hints.rescued_and_off("web1")
    assert web.act("rescued") and web.state() == RESCUED and web.boots_from() == ["rescue.qcow2"]
    web.domain.destroy()
    assert web.act("unrescued") and web.state() == ON


def test_a_lost_record_comes_back_rescued(web):
    web.act("rescued")
    before = web.record
    os.unlink(os.path.join(web.host.store.state_dir, "instances", web.uuid, "record.json"))
    assert take_back(web.instance(), [9, 9], False, None)
    assert web.state() == RESCUED and web.record.spec == before.spec
    assert web.act("unrescued") and web.state() == ON and web.boots_from() == ["root.qcow2"]


def test_a_copy_that_is_stopped_for_another_one_stays_rescued_and_off(web):
    web.act("rescued")
    assert stop_copy(web.instance(), 0)
    assert web.state() == ("rescued", None, "shutdown", False)
    assert web.act("unrescued") and web.state() == ON


def test_a_delete_removes_its_disk_too(web):
    web.act("rescued")
    assert web.instance().absent() and not web.root.parent.exists()


def test_an_iso_is_a_cd_on_the_bus_of_the_machine(web):
    web.act("rescued", rescue_image={**FROM, "properties": {"hw_rescue_device": "cdrom"}})
    root = ElementTree.fromstring(web.domain.xml)
    (cd,) = root.findall("devices/disk[@device='cdrom']")
    assert cd.find("target").get("bus") == "sata" and cd.find("readonly") is not None and cd.find("boot") is not None
    assert disk_chain.found_on(web.host, web.record) == []
    web.act("unrescued")
    assert web.state() == ON and web.boots_from() == ["root.qcow2"]


@pytest.mark.parametrize(
    "machine, bus",
    [("pc-q35-7.2", "sata"), ("q35", "sata"), ("pc-i440fx-7.2", "ide"), ("pc", "ide"), ("virt-7.2", "scsi")],
)
def test_the_bus_of_a_cd_is_that_of_nova_for_the_machine(machine, bus):
    class Settings:
        get = staticmethod(lambda _name: None)

    assert domain_xml._cdrom_bus(machine, Settings) == bus


def test_a_kernel_of_its_own_image_is_not_booted_meanwhile(web):
    spec = {**web.record.spec, "image": {**web.record.spec["image"], "kernel": {"url": "/k", "checksum": "sha256:0"}}}
    host = web.host.for_guests(None)
    record = web.record.replace(spec=spec)
    assert ElementTree.fromstring(domain_xml.render(record, host)).find("os/kernel") is not None
    rescued = record.replace(spec=rescues.begun(spec, FROM, 1))
    assert ElementTree.fromstring(domain_xml.render(rescued, host)).find("os/kernel") is None


def test_one_that_boots_from_a_volume_boots_from_the_image_with_that_beside_it(web):
    volume = {"name": "sys", "uuid": web.uuid, "size_gb": 1, "boot_index": 0, "slot": 0}
    spec = rescues.begun({**web.record.spec, "volumes": [volume]}, FROM, 1)
    root = ElementTree.fromstring(domain_xml.render(web.record.replace(spec=spec), web.host.for_guests(None)))
    orders = {each.find("target").get("dev"): each.find("boot") is not None for each in root.iterfind("devices/disk")}
    assert [name for name, boots in orders.items() if boots] == ["vdc"] and set(orders) == {"vda", "vdb", "vdc", "vde"}


def test_adopted_instances_are_refused():
    assert acts.NOT_OF_ADOPTED["rescued"] == rescue.RESCUE


def test_an_iso_is_a_cd_by_itself():
    assert rescues.device({"disk_format": "iso"}) == rescues.CDROM
    assert rescues.device({"disk_format": "raw"}) == rescues.DISK
