# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest's definition: only from the record, well formed whatever is in it (security.md: XML injection)."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain, domain_xml
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record

UUID = "0b7f9a52-3c6e-5d59-9d0b-3a1c9d7f1e2a"
HOST = domain_xml.Host("kvm", "x86_64", "/pool")
NIC = {"network": "lan", "type": "bridge", "source": "br0", "mac": "52:54:00:00:00:01", "model": "virtio"}


def render(host=HOST, properties=None, resources=None, networks=(), name="web-1", **flavor):
    sizes = {"name": "m1", "vcpus": 2, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 0, "swap": 0, "extra_specs": {}}
    spec = {
        "flavor": {**sizes, **flavor},
        "image": {"name": "guest", "properties": properties or {}},
        "networks": list(networks),
    }
    record = Record(
        uuid=UUID, name=name, project_id="default", role="OWN", generation=[1, 0], token="t", phase="building",
        spec=spec,
        resources=resources or {},
    )  # fmt: skip
    return ElementTree.fromstring(domain_xml.render(record, host))


def found(root, path):
    return [element.attrib for element in root.findall(path)]


def test_sizes_are_the_flavors():
    root = render()
    assert (root.findtext("memory"), root.find("memory").get("unit"), root.findtext("vcpu")) == (
        str(512 * 1024),
        "KiB",
        "2",
    )


def test_a_guest_of_a_flavor_with_ceilings_begins_with_its_sizes_and_has_places_for_more():
    root = render(extra_specs={"berth:max_vcpus": "8", "berth:max_memory_mb": "1024"})
    vcpu, most, cell = root.find("vcpu"), root.find("maxMemory"), root.find("cpu/numa/cell")
    assert (vcpu.text, vcpu.get("current")) == ("8", "2")
    assert (most.text, most.get("slots"), root.findtext("memory")) == (str(1024 << 10), "16", str(512 << 10))
    assert (cell.get("cpus"), cell.get("memory")) == ("0-7", str(512 << 10))


def test_a_guest_at_its_ceilings_is_as_one_without():
    at_most, plain = render(extra_specs={"berth:max_vcpus": "2", "berth:max_memory_mb": "512"}), render()
    parts = ("vcpu", "memory", "maxMemory", "cpu")
    assert [found(at_most, part) for part in parts] == [found(plain, part) for part in parts]


def test_a_guest_whose_cpus_alone_grow_has_no_cell():
    assert render(extra_specs={"berth:max_vcpus": "8"}).find("cpu/numa") is None


def test_the_domain_is_called_by_its_uuid_and_titled_by_its_name():
    root = render()
    assert (root.findtext("name"), root.findtext("uuid"), root.findtext("title")) == (UUID, UUID, "web-1")


def test_the_mark_of_berth_tells_who_it_is():
    instance = render().find("metadata/{%s}instance" % domain_xml.NAMESPACE)
    said = {element.tag.rpartition("}")[2]: element.text for element in instance}
    copy = json.loads(said.pop("record"))
    assert (copy["uuid"], copy["epoch"], set(copy)) == (UUID, 1, {*domain_xml.COPIED, "epoch"})
    assert said == {
        "uuid": UUID, "name": "web-1", "project": "default", "flavor": "m1", "image": "guest", "generation": "1",
    }  # fmt: skip


def test_every_disk_names_its_format():
    root = render(ephemeral_gb=1, swap=64)
    assert [element["type"] for element in found(root, "devices/disk/driver")] == ["qcow2", "raw", "raw", "raw"]
    assert [element["dev"] for element in found(root, "devices/disk/target")] == ["vda", "vdb", "vdc", "vdd"]


def test_the_seed_is_the_last_disk_and_read_only():
    last = render(swap=64).findall("devices/disk")[-1]
    assert last.find("source").get("file").endswith("/seed.iso")
    assert last.find("readonly") is not None


@pytest.mark.parametrize(
    "properties, path, expected",
    [
        ({}, "os/type", {"arch": "x86_64", "machine": "q35"}),
        ({"hw_machine_type": "pc"}, "os/type", {"arch": "x86_64", "machine": "pc"}),
        ({"hw_firmware_type": "uefi"}, "os", {"firmware": "efi"}),
        ({"hw_disk_bus": "scsi"}, "devices/disk/target", {"dev": "sda", "bus": "scsi"}),
        ({"hw_disk_bus": "scsi"}, "devices/controller", {"type": "scsi", "index": "0", "model": "virtio-scsi"}),
        ({"hw_cdrom_bus": "sata"}, "devices/disk[2]/target", {"dev": "sda", "bus": "sata"}),
        ({"hw_cdrom_bus": "sata"}, "devices/disk[2]", {"type": "file", "device": "cdrom"}),
        ({"hw_watchdog_action": "reset"}, "devices/watchdog", {"model": "i6300esb", "action": "reset"}),
        ({"hw_video_model": "virtio"}, "devices/graphics/listen", {"type": "address", "address": "127.0.0.1"}),
        ({}, "devices/video/model", {"type": "none"}),
        ({"hw_cpu_cores": "2"}, "cpu/topology", {"sockets": "1", "cores": "2", "threads": "1"}),
    ],
)
def test_image_properties_take_effect(properties, path, expected):
    assert found(render(properties=properties), path)[0] == expected


def test_the_flavor_goes_before_the_image():
    root = render(properties={"hw_machine_type": "pc"}, extra_specs={"hw:machine_type": "q35"})
    assert root.find("os/type").get("machine") == "q35"


def test_a_topology_that_is_not_the_number_of_vcpus_is_refused():
    with pytest.raises(InvalidInput):
        render(properties={"hw_cpu_sockets": "3"})


def test_a_nic_is_as_it_was_asked_for():
    nic = {**NIC, "mtu": 1400, "vlan": 7, "nwfilter": "clean-traffic"}
    interface = render(networks=[nic]).find("devices/interface")
    assert interface.find("source").attrib == {"bridge": "br0"}
    assert interface.find("mac").get("address") == "52:54:00:00:00:01"
    assert interface.find("mtu").get("size") == "1400"
    assert interface.find("vlan/tag").get("id") == "7"
    assert interface.find("filterref").get("filter") == "clean-traffic"


ALLOCATION = {
    "numa_topology": {
        "cells": [
            {"id": 1, "cpuset": [], "pcpuset": [0], "memory_mb": 256, "pagesize": 2048, "cpu_pinning": {"0": 5}},
            {"id": 0, "cpuset": [], "pcpuset": [1], "memory_mb": 256, "pagesize": 2048, "cpu_pinning": {"1": 2}},
        ]
    },
    "pci_devices": [{"address": "0000:81:10.1"}],
}


def test_the_claims_allocation_is_bound():
    root = render(resources=ALLOCATION)
    assert found(root, "cputune/vcpupin") == [{"vcpu": "0", "cpuset": "5"}, {"vcpu": "1", "cpuset": "2"}]
    assert found(root, "cputune/emulatorpin") == [{"cpuset": "2,5"}]
    assert [(element["cellid"], element["nodeset"]) for element in found(root, "numatune/memnode")] == [
        ("0", "1"),
        ("1", "0"),
    ]
    assert [(element["size"], element["nodeset"]) for element in found(root, "memoryBacking/hugepages/page")] == [
        ("2048", "0"),
        ("2048", "1"),
    ]
    assert [element["cpus"] for element in found(root, "cpu/numa/cell")] == ["0", "1"]
    assert found(root, "devices/hostdev/source/address") == [
        {"domain": "0x0000", "bus": "0x81", "slot": "0x10", "function": "0x1"}
    ]


@pytest.mark.parametrize(
    "text", ["]]>", "</name><devices/>", "&lt;", "\"'", "<!ENTITY x SYSTEM 'file:///etc/passwd'>", "\u202e"]
)
def test_no_text_leaves_its_place(text):
    root = render(name=text, networks=[{**NIC, "source": text}])
    assert root.findtext("title") == text
    assert root.find("devices/interface/source").get("bridge") == text
    assert len(root.findall("devices")) == 1


@pytest.mark.parametrize(
    "numbers, text", [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([0, 2, 3, 9], "0,2-3,9"), ([2, 1, 1], "1-2")]
)
def test_ranges(numbers, text):
    assert domain_xml.ranges(numbers) == text


def test_what_libvirt_dropped_is_found():
    wanted = render(networks=[NIC])
    kept = ElementTree.fromstring(ElementTree.tostring(wanted))
    assert domain.dropped_parts(wanted, kept) == []
    kept.find("devices").remove(kept.find("devices/rng"))
    assert domain.dropped_parts(wanted, kept) == ["/devices/rng"] or "/devices/rng" in str(
        domain.dropped_parts(wanted, kept)
    )


def test_what_libvirt_changed_is_found():
    wanted = render()
    kept = ElementTree.fromstring(ElementTree.tostring(wanted))
    kept.find("devices/disk/driver").set("type", "raw")
    assert domain.dropped_parts(wanted, kept)


WINDOWS = {"os_type": "windows"}


def test_windows_has_local_time_and_what_it_uses_of_hyper_v():
    root = render(properties=WINDOWS)
    hyperv = root.find("features/hyperv")
    assert {part.tag for part in hyperv if part.get("state") == "on"} == {
        *("relaxed", "vapic", "spinlocks", "vpindex", "runtime", "synic", "reset", "frequencies", "tlbflush", "ipi")
    }  # Nova's since 29
    assert hyperv.find("spinlocks").get("retries") == "8191" and hyperv.get("mode") == "custom"
    timers = {timer.get("name"): dict(timer.attrib) for timer in root.iterfind("clock/timer")}
    assert root.find("clock").get("offset") == "localtime"
    assert timers["hypervclock"]["present"] == "yes" and timers["hpet"]["present"] == "no"
    assert (timers["rtc"]["tickpolicy"], timers["pit"]["tickpolicy"]) == ("catchup", "delay")


@pytest.mark.parametrize("os_type", [None, "linux"])
def test_other_guests_have_universal_time_and_nothing_of_hyper_v(os_type):
    root = render(properties={"os_type": os_type} if os_type else None)
    assert root.find("clock").get("offset") == "utc" and root.find("features/hyperv") is None
    assert "hypervclock" not in [timer.get("name") for timer in root.iterfind("clock/timer")]


def test_without_kvm_windows_has_local_time_only():
    """QEMU would refuse the rest."""
    root = render(domain_xml.Host("qemu", "x86_64", "/pool"), WINDOWS)
    assert root.find("clock").get("offset") == "localtime" and root.find("features/hyperv") is None
    assert root.find("clock/timer[@name='hypervclock']") is None


@pytest.mark.parametrize("kind", ["kvm", "qemu"])
def test_a_cpu_model_of_the_hosts_settings_is_required_as_it_is(kind):
    cpu = render(domain_xml.Host(kind, "x86_64", "/pool", "Nehalem")).find("cpu")
    assert (cpu.get("mode"), cpu.get("match"), cpu.findtext("model")) == ("custom", "exact", "Nehalem")
    assert cpu.find("model").get("fallback") == "forbid"
    assert render().find("cpu").get("mode") == "host-model"
