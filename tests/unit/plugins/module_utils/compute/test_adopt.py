# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest that is there becomes an instance and a guest again: neither it nor its files are touched."""

from __future__ import annotations

import os
import pathlib
from xml.etree import ElementTree

import fake_libvirt
import pytest
from adopt_case import DISK_BYTES, OWN_UUID, Found
from instance_case import Killed

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk_chain
from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import DisksUsed
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import (
    adopt,
    adoptable,
    domain_xml,
    domains,
    gate,
    mend,
    pause,
    power,
)
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.adopt import GuestNotFound
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.adoptable import GuestNotAdoptable
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import registry_mark, whereabouts
from ansible_collections.berth.kvm.plugins.module_utils.compute.record.record_copy import take_back
from ansible_collections.berth.kvm.plugins.module_utils.model import hints
from ansible_collections.berth.kvm.plugins.module_utils.model.adopted import AdoptedNotSupported
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InstanceExists, InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState

STEPS = ["adopt record", "adopt mark", "adopt permit"]
LEAVE_STEPS = ["leave mark", "leave permit", "leave record", "leave note"]


@pytest.fixture
def guest(prepared, tmp_path):
    return Found(prepared, tmp_path)


def bare(xml):
    """The definition without metadata, to compare what a guest can see."""
    root = ElementTree.fromstring(xml)
    for metadata in root.findall("metadata"):
        root.remove(metadata)
    return ElementTree.canonicalize(ElementTree.tostring(root, encoding="unicode"), strip_text=True)


@pytest.mark.parametrize("dry", [False, True])
def test_a_run_without_a_registry_adopts_nothing_on_a_host_that_belongs_to_one(guest, dry):
    with guest.host.store.host_lock():
        registry_mark.keep(guest.host.store, {"kind": "etcd", "incarnation": "one", "revision": 7})
    with pytest.raises(registry_mark.RegistryDiffers):
        guest.would_adopt() if dry else guest.adopt()
    assert guest.host.store.records() == []


def test_a_running_guest_becomes_an_instance_without_a_restart_or_a_new_definition(guest):
    before, domain = bare(guest.domain.xml), guest.domain
    assert guest.adopt() is True
    assert (guest.domain, domain.starts, bare(domain.xml)) == (domain, 1, before)
    record = guest.record
    assert (record.uuid, record.name, record.role, record.phase, record.generation) == (
        OWN_UUID,
        "web1",
        "OWN",
        "active",
        [1, 0],
    )
    assert (record.vm_state, record.power_state, record.task_state) == ("active", "running", None)
    assert domains.is_managed(ElementTree.fromstring(domain.xml)) and gate.is_permitted(OWN_UUID, guest.host.run_dir)
    assert "libosinfo" in domain.xml, "what others noted stays"
    assert guest.disk.stat().st_size == DISK_BYTES


def test_adopting_twice_changes_nothing(guest):
    guest.adopt()
    before = guest.record, guest.domain.xml
    assert [guest.would_adopt(), guest.adopt()] == [False, False]
    assert (guest.record, guest.domain.xml) == before


def test_check_mode_says_it_and_changes_nothing(guest):
    before = guest.domain.xml
    assert guest.would_adopt() is True
    assert (guest.record, guest.domain.xml, gate.is_permitted(OWN_UUID, guest.host.run_dir)) == (None, before, False)


@pytest.mark.parametrize("on", [True, False], ids=["running", "off"])
@pytest.mark.parametrize("step", STEPS)
def test_an_adopt_that_was_killed_is_finished_by_the_next(prepared, tmp_path, step, on):
    guest = Found(prepared, tmp_path, on)
    try:
        guest.adopt(killed_at=step)
    except Killed:
        guest.adopt()
    assert guest.adopt() is False
    assert guest.record and domains.is_managed(ElementTree.fromstring(guest.domain.xml))
    assert gate.is_permitted(OWN_UUID, guest.host.run_dir) is on


def test_a_guest_that_is_off_becomes_a_stopped_instance(prepared, tmp_path):
    guest = Found(prepared, tmp_path, on=False)
    guest.adopt()
    assert (guest.record.vm_state, guest.record.power_state, guest.domain.isActive()) == ("stopped", "shutdown", False)
    assert guest.instance().started() is True and guest.domain.isActive()


def test_it_is_stopped_started_and_rebooted_like_others(guest):
    guest.adopt()
    before = bare(guest.domain.xml)
    assert guest.instance().started() is False
    assert [guest.instance().stopped(1), guest.instance().stopped(1)] == [True, False]
    assert not gate.is_permitted(OWN_UUID, guest.host.run_dir)
    assert [guest.instance().started(), guest.instance().started()] == [True, False]
    power.reboot(guest.instance(), True, 1)
    assert guest.domain.isActive() and bare(guest.domain.xml) == before


def test_after_a_power_cut_it_is_started_from_its_record(guest, boot):
    guest.adopt()
    guest.host.connection.lose_power()
    boot("two")
    with pytest.raises(fake_libvirt.libvirtError):
        guest.domain.createWithFlags()
    assert power.recover(guest.instance()) is True and guest.domain.isActive()


def test_one_whose_definition_is_lost_gets_the_same_one_again(guest):
    guest.adopt()
    before = bare(guest.domain.xml)
    guest.instance().stopped(1)
    guest.host.connection.domains.clear()
    assert guest.instance().started() is True
    assert bare(guest.domain.xml) == before and guest.domain.name() == "Web_1"
    assert domains.is_managed(ElementTree.fromstring(guest.domain.xml))


def test_it_does_not_start_without_its_disk_or_from_one_that_another_guest_runs_from(guest):
    guest.adopt()
    guest.instance().stopped(1)
    other = guest.domain.xml.replace(OWN_UUID, "6" + OWN_UUID[1:]).replace("Web_1", "copy")
    copied = guest.host.connection.defineXMLFlags(bare(other))
    copied.now = fake_libvirt.RUNNING
    with pytest.raises(DisksUsed, match="copy"):
        guest.instance().started()
    copied.now = fake_libvirt.SHUTOFF
    os.rename(guest.disk, str(guest.disk) + ".away")
    with pytest.raises(disk_chain.DiskChainChanged):
        guest.instance().started()
    assert not guest.domain.isActive()


def test_a_medium_in_its_drive_is_no_difference(guest):
    guest.adopt()
    drive = '<target dev="sdb" bus="sata" />'
    assert drive in guest.domain.xml
    guest.domain.xml = guest.domain.xml.replace(drive, '<source file="/tmp/setup.iso"/>' + drive)
    assert disk_chain.found_on(guest.host, guest.record) == []


def test_it_gets_a_flavor_of_its_own_or_one_that_agrees(guest):
    assert adopt._flavor(adoptable.of(guest.host.connection, OWN_UUID), guest.wanted()) == {
        "name": "web1-own", "vcpus": 2, "memory_mb": 2048, "root_gb": 3, "ephemeral_gb": 0, "swap": 0, "extra_specs": {},
    }  # fmt: skip
    agreeing = {"name": "medium", "vcpus": 2, "memory_mb": 2048, "root_gb": 3, "extra_specs": {"a": "b"}}
    guest.adopt(flavor=agreeing)
    assert guest.record.spec["flavor"] == agreeing


def test_a_flavor_that_differs_is_refused_with_all_that_differs(guest):
    with pytest.raises(InvalidInput) as refused:
        guest.adopt(flavor={"name": "small", "vcpus": 1, "memory_mb": 512, "root_gb": 3, "swap": 1})
    told = str(refused.value)
    assert all("flavor small: %s" % size in told for size in ("vcpus", "memory_mb", "swap")) and "root_gb" not in told
    assert guest.record is None


def test_it_counts_for_what_it_takes(guest):
    guest.adopt()
    assert {part: guest.record.resources[part] for part in ("vcpus", "memory_mb", "disk_gb")} == {
        "vcpus": 2, "memory_mb": 2048, "disk_gb": 3,
    }  # fmt: skip


def test_no_host_gets_two_instances_of_one_name(guest, web):
    web.make()
    with pytest.raises(InstanceExists, match="web1"):
        guest.adopt()
    assert guest.record is None
    guest.adopt(name="web2")
    with pytest.raises(InstanceExists, match="web2"):
        guest.adopt(name="web3")


def test_a_name_that_no_instance_can_have_is_refused(guest):
    with pytest.raises(InvalidInput):
        guest.adopt(name="Web_1")


def test_a_guest_that_libvirt_does_not_know_is_not_adopted(guest):
    guest.host.connection.domains.clear()
    with pytest.raises(GuestNotFound, match="kvm1"):
        guest.adopt()


def changed(*pairs):
    def change(guest):
        for old, new in pairs:
            assert old in guest.domain.xml
            guest.domain.xml = guest.domain.xml.replace(old, new)

    return change


def device(xml):
    return changed(("</devices>", xml + "</devices>"))


def on_domain(**values):
    return lambda guest: [setattr(guest.domain, name, value) for name, value in values.items()]


NOVA = '<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1"/></metadata>'
IN_THE_WAY = {
    "Transient": on_domain(persistent=False),
    "NotQemu": changed(('type="kvm"', 'type="lxc"')),
    "OtherManager": changed(("</metadata>", NOVA)),
    "IsSaved": on_domain(saved=True),
    "HasSnapshots": on_domain(snapshots=["before"]),
    "IsPinned": changed(("</vcpu>", "</vcpu><cputune><vcpupin vcpu='0' cpuset='3'/></cputune>")),
    "HasHostDevice": device("<hostdev mode='subsystem' type='pci'/>"),
    "SharesWithHost": device("<filesystem type='mount'/>"),
    "NetworkKind": changed(('interface type="bridge"', 'interface type="user"')),
    "DiskKind": changed(('disk type="file" device="disk"', 'disk type="network" device="disk"')),
    "DiskFormat": changed(('type="raw"/><source', 'type="vmdk"/><source')),
    "DiskUnreadable": lambda guest: os.unlink(guest.disk),
    "DisksDiffer": lambda guest: setattr(guest.domain, "live", guest.domain.xml.replace(str(guest.disk), "/tmp/layer")),
}


@pytest.mark.parametrize("code", IN_THE_WAY)
def test_what_a_record_could_not_keep_is_in_the_way(guest, code):
    IN_THE_WAY[code](guest)
    found = adoptable.of(guest.host.connection, OWN_UUID)
    assert code in [each.code for each in found.in_the_way]
    with pytest.raises(GuestNotAdoptable) as refused:
        guest.adopt()
    assert code in refused.value.details["reasons"] and guest.record is None


def test_a_definition_with_a_password_is_in_the_way(guest, monkeypatch):
    plain = type(guest.domain).XMLDesc
    secure = fake_libvirt.CONSTANTS["VIR_DOMAIN_XML_SECURE"]
    monkeypatch.setattr(
        type(guest.domain),
        "XMLDesc",
        lambda each, flags=0: plain(each, flags) + "<!-- secret -->" * bool(flags & secure),
    )
    assert [each.code for each in adoptable.of(guest.host.connection, OWN_UUID).in_the_way] == ["HasSecret"]


def test_all_that_is_in_the_way_is_told_at_once(guest):
    IN_THE_WAY["NetworkKind"](guest)
    IN_THE_WAY["HasSnapshots"](guest)
    with pytest.raises(GuestNotAdoptable) as refused:
        guest.adopt()
    assert sorted(refused.value.details["reasons"]) == ["HasSnapshots", "NetworkKind"]


def qcow2(backing=None, snapshots=0):
    head = bytearray(64 * 1024)
    head[0:8] = b"QFI\xfb\x00\x00\x00\x03"
    name = (backing or "").encode()
    head[8:20] = (1024 if name else 0).to_bytes(8, "big") + len(name).to_bytes(4, "big")
    head[24:32] = DISK_BYTES.to_bytes(8, "big")
    head[60:64] = snapshots.to_bytes(4, "big")
    head[100:104] = (104).to_bytes(4, "big")
    head[1024 : 1024 + len(name)] = name
    return bytes(head)


@pytest.mark.parametrize(
    "file, code", [(qcow2("base.qcow2"), "HasBackingFile"), (qcow2(snapshots=1), "HasSnapshots"), (qcow2(), None)]
)
def test_a_qcow2_file_stands_on_nothing_that_is_not_there_and_has_no_snapshots(guest, file, code):
    guest.disk.write_bytes(file)
    changed(('type="raw"/><source', 'type="qcow2"/><source'))(guest)
    assert [each.code for each in adoptable.of(guest.host.connection, OWN_UUID).in_the_way] == [code] * bool(code)


def on_a_base(guest):
    """The disk stands on a base image beside it."""
    base = guest.disk.with_name("base.qcow2")
    base.write_bytes(qcow2())
    guest.disk.write_bytes(qcow2("base.qcow2"))
    changed(('type="raw"/><source', 'type="qcow2"/><source'))(guest)
    return base


def test_a_guest_on_a_base_image_is_adopted_started_and_deleted_and_its_base_stays(guest):
    base = on_a_base(guest)
    other = guest.domain.xml.replace(OWN_UUID, "6" + OWN_UUID[1:]).replace("Web_1", "clone")
    guest.disk.with_name("clone.qcow2").write_bytes(qcow2("base.qcow2"))
    guest.host.connection.defineXMLFlags(other.replace(str(guest.disk), str(guest.disk.with_name("clone.qcow2"))))
    guest.adopt()
    guest.instance().stopped(1)
    assert guest.instance().started() is True and disk_chain.found_on(guest.host, guest.record) == []
    guest.instance().absent()
    assert base.exists() and not guest.disk.exists()


def test_a_base_to_which_another_guest_writes_is_in_the_way(guest):
    base = on_a_base(guest)
    other = guest.domain.xml.replace(OWN_UUID, "6" + OWN_UUID[1:]).replace("Web_1", "writer")
    guest.host.connection.defineXMLFlags(other.replace(str(guest.disk), str(base)))
    assert [each.code for each in adoptable.of(guest.host.connection, OWN_UUID).in_the_way] == ["HasBackingFile"]


def test_a_disk_of_two_guests_is_in_the_way_of_both(guest):
    other = "6" + OWN_UUID[1:]
    guest.host.connection.defineXMLFlags(guest.domain.xml.replace(OWN_UUID, other).replace("Web_1", "copy"))
    found = adoptable.look(guest.host.connection, ())
    assert {each.name: [reason.code for reason in each.in_the_way] for each in found} == {
        "Web_1": ["DiskShared"],
        "copy": ["DiskShared"],
    }
    assert adoptable.look(guest.host.connection, {OWN_UUID, other}) == []


def test_a_copy_of_an_instance_or_one_without_its_record_is_in_the_way(guest):
    guest.adopt()
    xml, other = guest.domain.xml, "6" + OWN_UUID[1:]
    guest.host.connection.domains[other] = fake_libvirt.FakeDomain(
        guest.host.connection, xml.replace("<uuid>" + OWN_UUID, "<uuid>" + other).replace("Web_1", "copy")
    )
    codes = {
        each.name: [reason.code for reason in each.in_the_way] for each in adoptable.look(guest.host.connection, ())
    }
    assert "IsCopy" in codes["copy"] and "IsInstance" in codes["Web_1"]


@pytest.mark.follows("leave_adopted")
def test_an_update_of_disks_is_refused_and_after_a_leave_the_guest_is_libvirts_alone(guest):
    before = guest.domain.xml
    guest.adopt()
    with pytest.raises(AdoptedNotSupported, match=r"berth\.kvm\.leave --limit web1"):
        adopt.check_supported(guest.instance(), "update_disks")
    assert guest.leave() is True
    assert bare(guest.domain.xml) == bare(before) and "berth" not in guest.domain.xml
    assert guest.domain.isActive() and guest.domain.starts == 1 and guest.disk.exists()
    assert (guest.record, gate.is_permitted(OWN_UUID, guest.host.run_dir)) == (None, False)
    guest.domain.end(fake_libvirt.SHUT_DOWN)
    guest.domain.createWithFlags()  # no gate


@pytest.mark.parametrize("step", LEAVE_STEPS)
def test_a_leave_that_was_killed_is_finished_by_the_next(guest, step):
    guest.adopt()
    with pytest.raises(Killed):
        guest.leave(killed_at=step)
    guest.leave()
    assert guest.leave() is False
    assert guest.record is None and "berth" not in guest.domain.xml and guest.domain.isActive()
    assert whereabouts.recall(guest.host.store, [OWN_UUID])[OWN_UUID]["gone"][0] == 1


def test_a_definition_that_is_made_again_has_the_namespace_of_the_mark_at_the_mark_alone(guest):
    """libvirt keeps it where it was declared around the mark, and the boot gate knows a guest by it."""
    guest.adopt()
    rendered = domain_xml.render(guest.record, guest.host.for_guests(None))
    before, mark, _rest = rendered.partition("<berth:instance")
    assert mark and gate.NAMESPACE not in before and domains.is_managed(ElementTree.fromstring(rendered))


def test_after_a_leave_it_is_adopted_again_with_a_later_epoch(guest):
    guest.adopt()
    guest.leave()
    assert guest.adopt() is True and guest.record.generation == [2, 0]


def test_a_mend_changes_nothing_of_it_whatever_the_inventory_asks_for(guest):
    guest.adopt()
    before = guest.record, guest.domain.xml
    guest.domain.live = guest.domain.xml
    nic = {**guest.record.spec["networks"][0], "security": {"groups": {}, "allowed": []}, "port_security": True}
    assert mend.mend(guest.instance(), None, wanted={"networks": [nic]}) == []
    assert (guest.record, guest.domain.xml) == before


def test_a_record_that_was_lost_comes_back_from_the_definition(guest):
    guest.adopt()
    spec = guest.record.spec
    for file in (pathlib.Path(guest.host.store.state_dir) / "instances" / OWN_UUID).iterdir():
        if file.name.startswith("record"):
            file.unlink()
    assert guest.record is None and take_back(guest.instance(), [1, 0]) is True
    assert guest.record.spec == spec and guest.record.generation == [2, 0]
    assert guest.instance().stopped(1) and guest.instance().started()


def test_create_brings_it_to_the_power_that_the_inventory_says(guest):
    guest.adopt()
    assert power.converge(guest.instance(), None, None, "shutdown", 1) is True
    assert not guest.domain.isActive()
    assert power.converge(guest.instance(), None, None, "running", 1) is True
    assert guest.domain.isActive()


def test_what_was_created_does_not_leave(web):
    web.make()
    with pytest.raises(InstanceExists, match="created, not adopted"):
        adopt.leave(web.instance(), [0, 0])
    assert web.record and web.domain.isActive()


def test_the_kept_definition_is_rendered_whatever_the_host(guest):
    guest.adopt()
    rendered = domain_xml.render(guest.record, guest.host.for_guests(None))
    assert bare(rendered) == bare(guest.domain.xml)


def test_a_guest_whose_memory_is_saved_is_not_left_since_nothing_could_start_it_then(guest):
    guest.adopt()
    pause.suspend(guest.instance())
    for way in (guest.leave, lambda: adopt.would_leave(guest.instance())):
        with pytest.raises(InstanceInvalidState) as refused:
            way()
        assert refused.value.hint == hints.make_active("web1", "resume")
    assert guest.record and guest.domain.saved


def test_a_guest_whose_definition_is_gone_gets_it_back_before_its_record_goes(guest):
    guest.adopt()
    before = bare(guest.domain.xml)
    guest.instance().stopped(1)
    guest.host.connection.domains.clear()
    assert guest.leave() is True
    assert guest.record is None and bare(guest.host.connection.domains[OWN_UUID].xml) == before


def test_a_running_guest_that_somebody_undefined_is_left_with_a_definition(guest):
    guest.adopt()
    guest.domain.persistent = False
    assert guest.leave() is True and guest.record is None


def test_a_disk_that_is_being_copied_is_in_the_way_though_only_the_running_guest_tells_it(guest):
    mirrored = '<mirror type="file" file="/x"/></disk>'
    guest.domain.live = guest.domain.xml.replace("</disk>", mirrored, 1)
    found = adoptable.of(guest.host.connection, OWN_UUID).in_the_way
    assert [each.code for each in found] == ["DiskKind"] and "is being copied" in found[0].said


def test_a_guest_that_goes_while_the_guests_are_listed_is_left_out(guest, monkeypatch):
    def gone(_self, _flags=0):
        raise fake_libvirt.libvirtError(42, "no domain")

    monkeypatch.setattr(type(guest.domain), "hasManagedSaveImage", gone)
    assert adoptable.look(guest.host.connection, set()) == []
