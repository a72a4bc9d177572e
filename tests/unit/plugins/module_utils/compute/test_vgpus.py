# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The vGPUs of instances on one host: what it tells of them, and that each is there while its guest runs, and never left behind."""

from __future__ import annotations

import dataclasses
import os
import shutil
import types
from xml.etree import ElementTree

import pytest
from build_steps import BUILD_STEPS
from fake_gpus import FakeGpus
from instance_case import Case, Killed
from records import plant

from ansible_collections.berth.kvm.plugins.module_utils.compute.errors import BuildFailed, VgpuUnavailable
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import live_differences, power
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import mdev
from ansible_collections.berth.kvm.plugins.module_utils.compute.record import claim
from ansible_collections.berth.kvm.plugins.module_utils.model import host_hints, vgpus
from ansible_collections.berth.kvm.plugins.module_utils.model.host_settings import HostSettings
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.record import RecordInvalid

GPU, OTHER = "0000:84:00.0", "0000:85:00.0"
KIND = "nvidia-35"
FOREIGN = "99999999-3c6e-5d59-9d0b-3a1c9d7f1e2a"
MINE = vgpus.own_uuid(instance_uuid("default", "web1"), 0)


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    return FakeGpus(tmp_path, monkeypatch).add(GPU, nvidia_35=2, nvidia_36=1)


class GpuCase(Case):
    """web1 with ``number`` vGPUs of the GPU."""

    number = 1

    def claim(self):
        given = [{"parent": GPU, "type": KIND, "uuid": vgpus.own_uuid(self.uuid, at)} for at in range(self.number)]
        claim._write(self.host.store, self.spec, "t1", {"vcpus": 1, "memory_mb": 64, "disk_gb": 1, "vgpus": given})


@pytest.fixture
def web(prepared, wanted, gpus):
    prepared.settings = enabled({"type": KIND})
    return GpuCase(prepared, wanted("web1"))


def enabled(*entries):
    return HostSettings(uuid="11111111-3c6e-5d59-9d0b-3a1c9d7f1e2a", prepared=True, enabled_mdev_types=entries)


def record(*devices):
    given = [{"parent": parent, "type": kind, "uuid": uuid} for parent, kind, uuid in devices]
    return types.SimpleNamespace(resources={"vgpus": given})


# ---- what the host tells


def told(settings, *records):
    return {each["parent"]: (each["type"], each["used"], each["total"]) for each in mdev.tell(settings, records)}


def test_a_host_tells_the_vgpus_of_the_types_that_its_settings_enable(gpus):
    gpus.add(OTHER, nvidia_36=4)
    assert told(HostSettings()) == {}
    assert told(enabled({"type": KIND})) == {GPU: (KIND, 0, 2)}
    assert told(enabled({"type": "nvidia-36", "parents": [OTHER]}, {"type": KIND})) == {
        GPU: (KIND, 0, 2),
        OTHER: ("nvidia-36", 0, 4),
    }


def test_a_claim_counts_whether_its_device_is_made_or_not_and_so_does_what_others_made(gpus):
    mine = record((GPU, KIND, MINE))
    assert told(enabled({"type": KIND}), mine) == {GPU: (KIND, 1, 2)}
    gpus.make(MINE)
    assert told(enabled({"type": KIND}), mine) == {GPU: (KIND, 1, 2)}
    gpus.make(FOREIGN)
    assert told(enabled({"type": KIND}), mine) == {GPU: (KIND, 2, 2)}
    assert told(enabled({"type": KIND})) == {GPU: (KIND, 2, 2)}


def test_a_claim_of_a_type_that_is_no_longer_enabled_still_takes_room_on_its_gpu(gpus):
    assert told(enabled({"type": "nvidia-36"}), record((GPU, KIND, MINE))) == {GPU: ("nvidia-36", 1, 1)}


@pytest.mark.parametrize(
    ("parent", "interface", "number"),
    [
        ("mtty", "vfio-pci", 4),
        ("css", "vfio-ccw", 4),
        (OTHER, "vfio-ap", 4),
        (OTHER, "vfio-pci", "many"),
        (OTHER, "vfio-pci", -1),
    ],
)
def test_what_is_no_gpu_for_a_guest_is_not_told(gpus, parent, interface, number):
    gpus.add(parent, interface, nvidia_35=number)
    assert set(told(enabled({"type": KIND}))) == {GPU}


def test_a_host_without_such_a_bus_tells_none(gpus):
    shutil.rmtree(gpus.top)
    assert mdev.tell(enabled({"type": KIND}), [record((GPU, KIND, MINE))]) == []


# ---- its life


def test_the_device_is_there_while_the_guest_runs_and_gone_when_it_is_stopped_or_deleted(web, gpus):
    """C27: one per vGPU, on the GPU that the claim bound, before the guest starts."""
    web.number = 2
    web.make()
    both = [vgpus.own_uuid(web.uuid, at) for at in range(2)]
    assert gpus.made() == sorted(both) and set(mdev.made().values()) == {(GPU, KIND)}
    assert web.instance().started() is False
    web.instance().stopped(1)
    assert gpus.made() == []
    assert told(web.host.settings, web.record) == {GPU: (KIND, 2, 2)}, "what is stopped keeps its claim"
    web.instance().started()
    assert gpus.made() == sorted(both)
    web.instance().absent()
    assert gpus.made() == [] and web.record is None


def test_the_guest_has_its_device(web):
    web.make()
    (hostdev,) = ElementTree.fromstring(web.domain.xml).findall("devices/hostdev")
    assert hostdev.attrib == {"mode": "subsystem", "type": "mdev", "managed": "no", "model": "vfio-pci"}
    assert hostdev.find("source/address").get("uuid") == MINE
    parts = live_differences.parts(ElementTree.fromstring(web.domain.xml))
    assert live_differences.expected(web.record)["hostdev"] == parts["hostdev"] == "there"


def schema_fault(text):
    """What libvirt's own schema says of a definition; its test driver reads that first."""
    library = pytest.importorskip("libvirt")
    library.registerErrorHandler(lambda _context, _error: None, None)
    try:
        library.open("test:///default").defineXMLFlags(text, library.VIR_DOMAIN_DEFINE_VALIDATE)
    except library.libvirtError as error:
        return str(error) if error.get_error_code() == library.VIR_ERR_XML_INVALID_SCHEMA else None
    return None


def test_libvirts_own_schema_takes_the_definition(web):
    web.make()
    assert schema_fault(web.domain.xml) is None
    assert "schema" in schema_fault(web.domain.xml.replace('type="mdev"', 'type="vgpu"'))


def test_it_is_made_again_after_the_hosts_power_was_lost(web, gpus, boot):
    web.make()
    web.host.connection.lose_power()
    gpus.lose_power()
    boot("two")
    assert gpus.made() == []
    assert web.instance().started() is True
    assert (gpus.made(), web.state()[3]) == ([MINE], True)


def test_a_reboot_keeps_it(web, gpus):
    web.make()
    power.reboot(web.instance(), hard=True, grace=1)
    assert gpus.made() == [MINE]
    assert gpus.written == [("create", MINE)]


def test_a_build_that_fails_leaves_none(web, gpus, monkeypatch):
    """C27"""
    monkeypatch.setattr(web.host.connection, "ask_the_gate", lambda _domain: 1 / 0)
    with pytest.raises(Exception, match="division"):
        web.make()
    assert [file for file, _text in gpus.written] == ["create", "remove"]
    assert (gpus.made(), web.record) == ([], None)


@pytest.mark.parametrize("step", BUILD_STEPS)
def test_a_build_that_is_killed_anywhere_is_ended_by_the_next_with_one_device_and_by_a_delete_with_none(
    web, gpus, step
):
    with pytest.raises(Killed):
        web.make(killed_at=step)
    web.instance().started("t1", web.seed)
    assert (gpus.made(), web.state()[3]) == ([MINE], True)
    web.instance().absent()
    assert (gpus.made(), web.record) == ([], None)


@pytest.mark.parametrize("step", ["stop", "stopped"])
def test_a_stop_that_is_killed_is_ended_by_the_next(web, gpus, step):
    web.make()
    with pytest.raises(Killed):
        web.instance(step).stopped(1)
    web.instance().stopped(1)
    assert gpus.made() == []


@pytest.mark.parametrize("step", ["delete begin", "delete permit", "delete domain", "delete disks", "delete record"])
def test_a_delete_that_is_killed_is_ended_by_the_next(web, gpus, step):
    web.make()
    with pytest.raises(Killed):
        web.instance(step).absent()
    web.instance().absent()
    assert (gpus.made(), web.record) == ([], None)


def test_an_instance_whose_record_was_lost_leaves_no_device_when_it_is_deleted(web, gpus):
    web.make()
    gpus.make(FOREIGN)
    shutil.rmtree(os.path.join(web.host.store.state_dir, "instances", web.uuid))
    assert web.instance().absent() is True
    assert gpus.made() == [FOREIGN]


# ---- what others did


def test_what_others_made_under_its_uuid_is_neither_used_nor_removed(web, gpus):
    web.make()
    web.instance().stopped(1)
    gpus.add(OTHER, nvidia_36=1)
    gpus.make(MINE, OTHER, "nvidia-36")
    with pytest.raises(VgpuUnavailable, match="%s on %s of type nvidia-36, which is not berth's" % (MINE, OTHER)):
        web.instance().started()
    assert web.state() == ("stopped", None, "shutdown", False)
    web.instance().absent()
    assert gpus.made() == [MINE]


def test_a_device_that_another_guest_runs_with_is_not_pulled_from_it(web, gpus):
    """Somebody copied the definition of the guest, which is off."""
    web.make()
    web.instance().stopped(1)
    gpus.make(MINE)
    text = "<domain><name>copy</name><uuid>%s</uuid><devices><x uuid='%s'/></devices></domain>" % (FOREIGN, MINE)
    web.host.connection.defineXMLFlags(text).createWithFlags()
    web.instance().absent()
    assert gpus.made() == [MINE]


def spoil(gpus, web, what):
    if what == "gone":
        gpus.take_out()
    elif what == "disabled":
        web.host.settings = enabled({"type": "nvidia-36", "parents": [GPU]}, {"type": KIND})
    elif what == "full":
        gpus.make(FOREIGN)
        gpus.make(FOREIGN.replace("9", "8"))


SPOILED = {
    "gone": host_hints.start_gpu_driver(GPU, "kvm1"),
    "disabled": host_hints.enable_mdev_type(KIND, GPU, "kvm1"),
    "full": host_hints.free_vgpus(GPU, "kvm1"),
}


@pytest.mark.parametrize("what", SPOILED)
def test_a_vgpu_that_cannot_be_had_is_told_before_the_guest_is_touched(web, gpus, what):
    web.make()
    web.instance().stopped(1)
    spoil(gpus, web, what)
    with pytest.raises(VgpuUnavailable, match="the vGPU nvidia-35 of web1 is not available") as refused:
        web.instance().started()
    assert refused.value.hint == SPOILED[what]
    assert (web.state(), web.domain.starts) == (("stopped", None, "shutdown", False), 1)


@pytest.mark.parametrize("what", ["gone", "disabled"])
def test_a_guest_whose_vgpu_would_not_come_back_is_not_rebooted(web, gpus, what):
    web.make()
    spoil(gpus, web, what)
    with pytest.raises(VgpuUnavailable):
        power.reboot(web.instance(), hard=True, grace=1)
    assert web.state()[3] and web.domain.starts == 1


def test_what_the_kernel_refuses_is_said_with_its_words(web, gpus, monkeypatch):
    web.make()
    web.instance().stopped(1)
    monkeypatch.setattr(mdev, "available", lambda _parent, _kind: 1)
    gpus.make(FOREIGN)
    gpus.make(FOREIGN.replace("9", "8"))
    with pytest.raises(
        BuildFailed, match="making the vGPU nvidia-35 of 0000:84:00.0 for web1: No space left on device"
    ):
        web.instance().started()


@pytest.mark.parametrize("edited", ["x", [None], [{}], [{"parent": GPU, "type": 1, "uuid": MINE}]])
def test_a_record_with_other_vgpus_than_can_be_is_refused(web, edited):
    web.make()
    with pytest.raises(RecordInvalid, match="resources.vgpus"):
        plant(web.host.store, dataclasses.replace(web.record, resources={**web.record.resources, "vgpus": edited}))


def test_another_instances_device_is_not_removed_by_a_record_that_was_edited(web, gpus):
    web.make()
    gpus.make(FOREIGN)
    stolen = [{"parent": GPU, "type": KIND, "uuid": FOREIGN}]
    plant(web.host.store, dataclasses.replace(web.record, resources={**web.record.resources, "vgpus": stolen}))
    web.instance().absent()
    assert FOREIGN in gpus.made()
