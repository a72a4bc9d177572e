# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a flavor or an image asks for is built into the guest, or refused before anything is claimed; never dropped."""

from __future__ import annotations

import json

import pytest
from guest_features_case import PINNED, UEFI, built, refusals, rendered, request, split
from sample_catalog import variables

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import traits
from ansible_collections.berth.kvm.plugins.module_utils.model import flavor_limits, guest_features, rescues
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.identity import instance_uuid
from ansible_collections.berth.kvm.plugins.module_utils.model.image import READ, known_properties
from ansible_collections.berth.kvm.plugins.module_utils.model.image_properties import (
    PROPERTIES,
    Built,
    Property,
    Refused,
)
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement import options, prefilters
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import build_request

ON_SCSI = {"hw_disk_bus": "scsi"}
VOLUME = "00000000-0000-4000-8000-00000000000%d"
CELLS = {
    "hw:numa_nodes": "2",
    "hw:numa_cpus.0": "0",
    "hw:numa_cpus.1": "1",
    "hw:numa_mem.0": "768",
    "hw:numa_mem.1": "1280",
}

# How each built one shows: what it needs beside itself, its value, and where in the guest's XML (path, attribute or None
# for the text, expected), or the part of the claim's NUMA topology that it changes, or "pci_requests", "disks" or "seed".
SHOWN = {
    "hw_machine_type": ({}, "pc", ("os/type", "machine", "pc")),
    "hw_disk_bus": ({}, "sata", ("devices/disk/target", "bus", "sata")),
    "hw_cdrom_bus": ({}, "sata", ("devices/disk[2]", "device", "cdrom")),
    "hw_rescue_bus": ({}, "sata", ("devices/disk[3]/target", "bus", "sata")),
    "hw_rescue_device": ({}, "cdrom", ("devices/disk[3]", "device", "cdrom")),
    "hw_video_model": ({}, "vga", ("devices/video/model", "type", "vga")),
    "hw_firmware_type": ({}, "uefi", ("os", "firmware", "efi")),
    "hw_watchdog_action": ({}, "reset", ("devices/watchdog", "action", "reset")),
    "hw_rng_model": ({}, "virtio", ("devices/rng", "model", "virtio")),
    "hw_scsi_model": (ON_SCSI, "virtio-scsi", ("devices/controller", "model", "virtio-scsi")),
    "hw_vm_mode": ({}, "hvm", ("os/type", None, "hvm")),
    "hw_boot_menu": ({}, "true", ("os/bootmenu", "enable", "yes")),
    "hw_qemu_guest_agent": ({}, "true", ("devices/channel/target", "name", "org.qemu.guest_agent.0")),
    "hw_vif_multiqueue_enabled": ({}, "true", ("devices/interface/driver", "queues", "2")),
    "hw_vif_model": ({}, "e1000", ("devices/interface/model", "type", "e1000")),
    "hw_locked_memory": ({"hw:mem_page_size": "small"}, "true", ("memoryBacking/locked", None, None)),
    "hw:locked_memory": ({"hw:mem_page_size": "small"}, "true", ("memoryBacking/locked", None, None)),
    "hw_tpm_version": ({}, "2.0", ("devices/tpm/backend", "version", "2.0")),
    "hw_tpm_model": ({"hw_tpm_version": "2.0"}, "tpm-crb", ("devices/tpm", "model", "tpm-crb")),
    "hw:tpm_model": ({"hw:tpm_version": "2.0"}, "tpm-tis", ("devices/tpm", "model", "tpm-tis")),
    "hw_viommu_model": ({}, "intel", ("devices/iommu", "model", "intel")),
    "hw_mem_encryption": (UEFI, "true", ("launchSecurity", "type", "sev")),
    "hw_mem_encryption_model": ({**UEFI, "hw_mem_encryption": "true"}, "amd-sev", ("launchSecurity", "type", "sev")),
    "hw:cpu_realtime": ({**PINNED, "hw:cpu_realtime_mask": "^0"}, "true", ("memoryBacking/nosharepages", None, None)),
    "hw_cpu_realtime_mask": ({**PINNED, "hw:cpu_realtime": "true"}, "^0", ("features/pmu", "state", "off")),
    "hw_auto_disk_config": ({}, "disabled", "seed"),
    "img_root_device_name": ({}, "/dev/vda", ("devices/disk/target", "dev", "vda")),
    "kernel_id": ({}, "vmlinuz", ("os/kernel", None, "/pool/instances/%s/kernel" % instance_uuid("default", "web-1"))),
    "ramdisk_id": (
        {"kernel_id": "vmlinuz"},
        "initrd",
        ("os/initrd", None, "/pool/instances/%s/initrd" % instance_uuid("default", "web-1")),
    ),  # fmt: skip
    "os_command_line": ({"kernel_id": "vmlinuz"}, "root=/dev/vda", ("os/cmdline", None, "root=/dev/vda")),
    "hw_cpu_cores": ({}, "2", ("cpu/topology", "cores", "2")),
    "os_type": ({}, "windows", ("clock", "offset", "localtime")),
    "hw_cpu_sockets": ({}, "2", ("cpu/topology", "sockets", "2")),
    "hw_cpu_threads": ({}, "2", ("cpu/topology", "threads", "2")),
    "hw_cpu_policy": ({}, "dedicated", "cpu_policy"),
    "hw_cpu_thread_policy": ({"hw_cpu_policy": "dedicated"}, "require", "cpu_thread_policy"),
    "hw_mem_page_size": ({"hw:mem_page_size": "any"}, "2048", "pagesize"),
    "hw_numa_nodes": ({}, "2", "cells"),
    "hw_numa_cpus": (CELLS, None, "cells"),
    "hw_numa_mem": (CELLS, None, "cells"),
    "os_secure_boot": ({"hw_firmware_type": "uefi"}, "required", ("os/loader", "secure", "yes")),
    "hw:cpu_thread_policy": (PINNED, "require", "cpu_thread_policy"),
    "hw:cpu_dedicated_mask": ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"}, None, "pcpuset"),
    "hw:emulator_threads_policy": (PINNED, "isolate", "emulator_threads_policy"),
    "hw:mem_page_size": ({}, "2048", "pagesize"),
    "pci_passthrough:alias": ({}, "gpu:1", "pci_requests"),
    "berth:root_disk": ({}, "raw", "disks"),
    "berth:max_vcpus": ({}, "8", ("vcpu", None, "8")),
    "berth:max_memory_mb": ({}, "8192", ("maxMemory", None, str(8192 << 10))),
    **{
        "quota:cpu_" + part: ({}, number, ("cputune/" + part, None, number))
        for part, number in (("shares", "200"), ("period", "50000"), ("quota", "25000"))
    },
    **{
        "quota:disk_" + part: ({}, "500", ("devices/disk[1]/iotune/" + part, None, "500"))
        for part in flavor_limits.DISK
    },
    **{
        "quota:vif_%s_%s" % (way, part): (
            {} if part == "average" else {"quota:vif_%s_average" % way: "1000"},
            "2000",
            ("devices/interface/bandwidth/" + way, part, "2000"),
        )
        for way in flavor_limits.DIRECTIONS
        for part in flavor_limits.OF_NIC
    },
}


def test_every_row_says_how_its_values_are_read():
    assert {row.kind for row in PROPERTIES.values() if not row.words} <= {*READ, "unread", None}


def test_a_row_is_enough_for_a_new_image_property(monkeypatch):
    """Its values are checked, as are those of the extra spec of its name, placement reads it, and what is not built is refused."""
    monkeypatch.setitem(PROPERTIES, "hw_made_up", Property(("calm", "wild"), Built("calm"), spec=True))
    for name in ("hw_made_up", "hw:made_up"):
        request(*split({name: "calm"}))
        assert [error.code for error in refusals(*split({name: "wild"}))] == ["GuestFeatureNotBuilt"]
    with pytest.raises(guest_features.InvalidImageProperty) as refused:
        guest_features.check_property("hw_made_up", "clam", "properties.hw_made_up")
    assert refused.value.rule == "one of calm, wild" and "Did you mean calm?" in refused.value.hint
    assert [error.rule for error in refusals(*split({"hw:made_up": "clam"}))] == ["one of calm, wild"]
    assert known_properties({"hw_made_up": "calm"}) == {"hw_made_up": "calm"}


def test_an_extra_spec_has_one_fate():
    assert not set(guest_features._ALONE) & {name.replace("_", ":", 1) for name, row in PROPERTIES.items() if row.spec}


# What Nova's own validation of extra specs knows in these scopes, for its libvirt driver.
NOVAS = """
hw:boot_menu hw:cpu_cores hw:cpu_dedicated_mask hw:cpu_max_cores hw:cpu_max_sockets hw:cpu_max_threads hw:cpu_policy
hw:cpu_realtime hw:cpu_realtime_mask hw:cpu_sockets hw:cpu_thread_policy hw:cpu_threads hw:emulator_threads_policy
hw:ephemeral_encryption hw:ephemeral_encryption_format hw:hide_hypervisor_id hw:input_bus hw:locked_memory
hw:maxphysaddr_bits hw:maxphysaddr_mode hw:mem_encryption hw:mem_encryption_model hw:mem_page_size hw:numa_cpus
hw:numa_mem hw:numa_nodes hw:pci_numa_affinity_policy hw:pmem hw:pmu hw:pointer_model hw:redirected_usb_ports
hw:serial_port_count hw:sound_model hw:tpm_model hw:tpm_secret_security hw:tpm_version hw:usb_model
hw:vif_multiqueue_enabled hw:viommu_model hw:virtio_packed_ring hw:watchdog_action hw_rng:allowed hw_rng:rate_bytes
hw_rng:rate_period hw_video:ram_max_mb os:secure_boot pci_passthrough:alias accel:device_profile group_policy
hide_hypervisor_id quota:cpu_period quota:cpu_quota quota:cpu_shares quota:disk_read_bytes_sec quota:disk_read_iops_sec
quota:disk_write_bytes_sec quota:disk_write_iops_sec quota:disk_total_bytes_sec quota:disk_total_iops_sec
quota:vif_inbound_average quota:vif_inbound_burst quota:vif_inbound_peak quota:vif_outbound_average
quota:vif_outbound_burst quota:vif_outbound_peak
""".split()


@pytest.mark.parametrize("name", NOVAS)
def test_every_extra_spec_of_nova_has_a_fate(name):
    assert name in guest_features.extra_specs()


@pytest.mark.parametrize(
    "given",
    [
        {"hw:mem_encryption_model": "amd-sev-es"},
        {"hw_mem_encryption_model": "intel-tdx"},
        {"hw:tpm_version": "1.2"},
        {"hw_tpm_version": "1.2"},
        {"hw:tpm_secret_security": "user"},
        {"hw_virtio_packed_ring": "true"},
        {"hw_sound_model": "ich9"},
        {"hide_hypervisor_id": "true"},
        {"quota:cpu_limit": "10000"},
    ],
    ids=str,
)
def test_a_wish_that_changes_the_guest_is_never_dropped(given):
    assert refusals(*split(given))[0].code == "GuestFeatureNotBuilt"


def test_no_name_is_in_the_table_twice():
    with pytest.raises(ValueError, match="hw_pmu"):
        guest_features._table((Refused(), "hw_pmu"), (Built(), "hw_pmu"))


@pytest.mark.parametrize("name", built(guest_features.image_fates()) + built(guest_features.extra_specs()))
def test_what_is_called_built_is_in_the_guest_or_in_its_claim(name):
    beside, value, where = SHOWN.get(name) or SHOWN[name.replace(":", "_", 1)]
    given = {**beside, **({} if value is None else {name: value})}
    spec, seed = request(*split(given))
    if where == "seed":
        assert json.loads(seed["cloud_config"])["growpart"] == {"mode": "off"}
    elif where == "disks":
        assert disk.plan(spec)[0].format == value
    elif where == "pci_requests":
        assert spec["pci_requests"]
    elif isinstance(where, str):
        found = str([(spec["numa_topology"] or {}).get(where)] + [cell.get(where) for cell in cells(spec)])
        without, _seed = request(*split(beside if value is not None else {}))
        before = str([(without["numa_topology"] or {}).get(where)] + [cell.get(where) for cell in cells(without)])
        assert found != before
    else:
        path, attribute, expected = where
        spec = rescues.begun(spec, spec["image"], 1) if name.startswith("hw_rescue") else spec
        shown = rendered(spec).findall(path)
        assert expected in [entry.text if attribute is None else entry.get(attribute) for entry in shown]


def told_by_a_host_with_everything():
    """The traits of a host whose libvirt, QEMU, firmware and swtpm can do all that berth knows."""
    enums = {where: list(table) for where, table in traits.DEVICES.items()}
    own = traits.viommu_traits("x86_64", (11000000, 10000000))
    return set(traits.host_traits("x86_64", [], enums, threads=2, custom=own, encrypted_guests=1))


@pytest.mark.parametrize(
    "name", [*built(guest_features.image_fates()), *built(guest_features.extra_specs()), "hw:pci_numa_affinity_policy"]
)
def test_what_can_be_asked_for_asks_for_no_trait_that_no_host_tells(name):
    beside, value, _where = SHOWN.get(name) or SHOWN.get(name.replace(":", "_", 1)) or ({}, "socket", None)
    spec, _seed = request(*split({**beside, **({} if value is None else {name: value})}))
    query, _limit = prefilters.query_for(RequestSpec.from_dict(spec), options.read_options(), [], [])
    asked = query.ask.required | {trait for trait, _rule in query.root_required}
    assert asked <= told_by_a_host_with_everything()


def cells(spec):
    return (spec["numa_topology"] or {}).get("cells") or []


def test_uefi_alone_does_not_check_signatures():
    spec, _seed = request({"hw_firmware_type": "uefi"})
    root = rendered(spec)
    assert {feature.get("name"): feature.get("enabled") for feature in root.findall("os/firmware/feature")} == {
        "secure-boot": "no", "enrolled-keys": "no",
    }  # fmt: skip
    assert root.find("os/loader") is None and root.find("features/smm") is None


def boot_orders(spec):
    disks = rendered(spec).findall("devices/disk[boot]")
    return {each.find("target").get("dev"): each.find("boot").get("order") for each in disks}


@pytest.mark.parametrize(
    "properties, own, own_volumes",
    [({"hw_firmware_type": "uefi"}, {"vda": "2"}, {"vda": "2", "vdab": "3"}), ({}, {}, {})],
    ids=["uefi", "bios"],
)
def test_with_uefi_the_guests_own_disks_keep_an_order_behind_that_of_a_rescue(properties, own, own_volumes):
    """OVMF removes the boot entries of a disk without one, and an installed system would not boot after the rescue."""
    spec, _seed = request(properties)
    assert boot_orders(spec) == {"vda": "1"}
    assert boot_orders(rescues.begun(spec, spec["image"], 1)) == {"vdc": "1", **own}
    volumes = [{"uuid": VOLUME % at, "name": "v%d" % at, "slot": at, "boot_index": at} for at in (0, 1)]
    spec = {**spec, "volumes": volumes, "flavor": {**spec["flavor"], "root_gb": 0}}
    assert boot_orders(rescues.begun(spec, spec["image"], 1)) == {"vdc": "1", **own_volumes}


@pytest.mark.parametrize("given", [{"os_secure_boot": "required"}, {"os:secure_boot": "required"}])
def test_secure_boot_is_built_where_flavor_or_image_requires_it(given):
    properties, extra_specs = split(given)
    spec, _seed = request({**properties, "hw_firmware_type": "uefi"}, extra_specs)
    root = rendered(spec)
    assert {feature.get("name"): feature.get("enabled") for feature in root.findall("os/firmware/feature")} == {
        "secure-boot": "yes", "enrolled-keys": "yes",
    }  # fmt: skip
    assert root.find("features/smm").get("state") == "on"


@pytest.mark.parametrize("bus", ["sata", "ide"])
def test_the_seed_is_a_cd_rom_on_buses_without_read_only_disks(bus):
    spec, _seed = request({"hw_disk_bus": bus, "hw_machine_type": "pc"})
    disks = rendered(spec).findall("devices/disk")
    assert [disk.get("device") for disk in disks] == ["disk", "cdrom"]
    assert disks[-1].find("source").get("file").endswith("/seed.iso")
    assert disks[-1].find("driver").get("discard") is None


def test_emulator_threads_of_their_own_are_bound_to_what_the_claim_set_aside():
    spec, _seed = request()
    cell = {
        "id": 0,
        "cpuset": [],
        "pcpuset": [0, 1],
        "memory_mb": 512,
        "cpu_pinning": {"0": 4, "1": 5},
        "cpuset_reserved": [7],
    }
    root = rendered(spec, {"numa_topology": {"cells": [cell]}})
    assert root.find("cputune/emulatorpin").get("cpuset") == "7"


def test_the_networks_own_model_goes_before_the_images():
    spec, _seed = request({"hw_vif_model": "e1000"})
    assert spec["networks"][0]["model"] == "e1000"
    given = variables()
    given["berth_networks_defined"]["lan"]["model"] = "rtl8139"
    given["berth_images"]["debian-12"]["properties"] = {"hw_vif_model": "e1000"}
    asked = {
        "inventory_hostname": "web-1",
        "berth_flavor": "m1.tiny",
        "berth_image": "debian-12",
        "berth_networks": ["lan"],
    }
    assert build_request(asked, Catalog.from_variables(given))[0]["networks"][0]["model"] == "rtl8139"
