# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which image properties and extra specs are refused, by name and all at once, and what is nobody's fault."""

from __future__ import annotations

import pytest
from guest_features_case import PINNED, UEFI, refusals, rendered, request, split
from sample_catalog import variables

from ansible_collections.berth.kvm.plugins.module_utils.model import guest_features
from ansible_collections.berth.kvm.plugins.module_utils.model.catalog import Catalog
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.image_properties import PROPERTIES, Refused
from ansible_collections.berth.kvm.plugins.module_utils.placement.request import resize_request


@pytest.mark.parametrize("name", [name for name, row in PROPERTIES.items() if isinstance(row.fate, Refused)])
def test_an_image_property_that_is_not_built_is_refused(name):
    values = {
        "hw_redirected_usb_ports": "2",
        "hw_video_ram": "16",
        "hw_serial_port_count": "2",
        "img_config_drive": "mandatory",
    }
    row = PROPERTIES[name]
    value = values.get(name) or (row.words[0] if row.words else "3" if row.kind == "whole" else "true")
    error = refusals({name: value})[0]
    assert (error.code, error.retryable) == ("GuestFeatureNotBuilt", False)
    assert name in error.field and error.value == value and "not built" in str(error)


@pytest.mark.parametrize(
    "name", [name for name, fate in guest_features.extra_specs().items() if isinstance(fate, Refused)]
)
def test_an_extra_spec_that_is_not_built_is_refused(name):
    error = refusals(extra_specs={name: "no" if name == "hw_rng:allowed" else "3" if "port" in name else "true"})[0]
    assert (error.code, error.retryable) == ("GuestFeatureNotBuilt", False)
    assert error.field == "berth_flavors.m1.extra_specs." + name


@pytest.mark.parametrize(
    "name", ["hw_mem_encryption", "hw_locked_memory", "hw_virtio_packed_ring", "os_require_quiesce"]
)
def test_to_ask_for_nothing_is_no_fault(name):
    request({name: "false"})


@pytest.mark.parametrize(
    "extra_specs, hint",
    [
        ({"hw:disk_buss": "scsi"}, "Did you mean hw:disk_bus?"),
        ({"os:secure_bot": "required"}, "Did you mean os:secure_boot?"),
        ({"hw:no_such_thing_at_all": "1"}, None),
        ({"berth:root": "raw"}, "Did you mean berth:root_disk?"),
    ],
)
def test_an_extra_spec_that_does_not_exist_is_refused_with_what_was_meant(extra_specs, hint):
    error = refusals(extra_specs=extra_specs)[0]
    assert error.code == "InvalidInput"
    assert hint is None or error.hint == hint


@pytest.mark.parametrize(
    "name", ["ssd", "capabilities:vcpus", "aggregate_instance_extra_specs:ssd", "mine:x", "trait:HW_CPU_X86_AVX"]
)
def test_extra_specs_that_choose_hosts_are_nobodys_fault(name):
    request(extra_specs={name: "1"})


@pytest.mark.parametrize(
    "given, field",
    [
        ({"hw:machine_type": "evil"}, "hw:machine_type"),
        ({"hw_machine_type": "evil"}, "hw_machine_type"),
        ({"hw:machine_type": "pc'/><evil/>"}, "hw:machine_type"),
        ({"hw:disk_bus": "evil"}, "hw:disk_bus"),
        ({"hw:disk_bus": "SATA"}, "hw:disk_bus"),
        ({"hw_disk_bus": "fdc"}, "hw_disk_bus"),
        ({"hw:cdrom_bus": "virtio"}, "hw:cdrom_bus"),
        ({"hw:video_model": "gop"}, "hw:video_model"),
        ({"hw:vif_model": "evil"}, "hw:vif_model"),
        ({"hw:watchdog_action": "evil"}, "hw:watchdog_action"),
        ({"hw:firmware_type": "UEFI"}, "hw:firmware_type"),
        ({"hw:boot_menu": "maybe"}, "hw:boot_menu"),
        ({"hw:cpu_cores": "many"}, "hw:cpu_cores"),
        ({"hw:cpu_sockets": "3"}, "hw:cpu_sockets"),
        ({"berth:root_disk": "fast"}, "berth:root_disk"),
        ({"hw:emulator_threads_policy": "share", "hw:cpu_policy": "dedicated"}, "hw:emulator_threads_policy"),
        ({"os:secure_boot": "foobar"}, "os:secure_boot"),
    ],
)
def test_a_value_that_cannot_be_built_is_refused_by_name(given, field):
    error = refusals(*split(given))[0]
    assert field in error.field and not error.retryable


@pytest.mark.parametrize(
    "given, words",
    [
        ({"hw_disk_bus": "ide"}, "ide only with"),
        ({"hw:cdrom_bus": "ide", "hw:machine_type": "pc-q35-7.2"}, "ide only with"),
        ({"hw:tpm_model": "tpm-crb"}, "hw:tpm_version 2.0 beside"),
        ({"hw_tpm_model": "tpm-crb"}, "hw:tpm_version 2.0 beside"),
        ({"hw:locked_memory": "true"}, "needs hw:mem_page_size"),
        ({"os:secure_boot": "required"}, "only with hw_firmware_type uefi"),
        ({"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}, "dedicated or mixed beside"),
        ({"hw:cpu_realtime": "yes", **PINNED}, "or all of them beside hw:emulator_threads_policy"),
        ({"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "7", **PINNED}, "a part of the flavor's vCPUs"),
        ({"hw:cpu_realtime_mask": "^0", **PINNED}, "hw:cpu_realtime yes beside"),
        ({"hw:viommu_model": "intel", "hw_machine_type": "pc"}, "intel only with machine type q35"),
        ({"hw_viommu_model": "smmuv3", "hw_machine_type": "q35"}, "smmuv3 only with machine type virt"),
        ({"hw_viommu_model": "auto", "hw_machine_type": "pc-i440fx-7.2"}, "virtio only with machine type q35 or virt"),
        ({"hw_viommu_model": "intel", "hw:viommu_model": "virtio"}, "both must agree"),
        ({"hw:mem_encryption": "true"}, "only with hw_firmware_type uefi"),
        ({"hw:mem_encryption": "true", **UEFI, "os:secure_boot": "required"}, "uefi without secure boot"),
        ({"hw:mem_encryption": "true", **UEFI, "hw_mem_encryption": "false"}, "both must agree"),
        ({"os:secure_boot": "required", "hw_firmware_type": "uefi", "hw_machine_type": "pc"}, "machine type q35"),
    ],
)
def test_what_does_not_go_together_is_refused(given, words):
    assert words in str(refusals(*split(given))[0])


def test_what_does_not_go_together_is_told_at_once():
    found = refusals(
        {"hw_machine_type": "pc", "hw_viommu_model": "intel"}, {"hw:mem_encryption": "true", "hw:cpu_realtime": "true"}
    )
    told = " ".join(map(str, found))
    assert len(found) == 3
    assert all(word in told for word in ("hw:cpu_realtime_mask", "intel only with", "hw:mem_encryption only with"))


def test_ide_goes_with_the_machine_type_that_has_it():
    spec, _seed = request({"hw_disk_bus": "ide", "hw_machine_type": "pc-i440fx-7.2"})
    assert [target.get("bus") for target in rendered(spec).findall("devices/disk/target")] == ["ide", "ide"]


def test_all_faults_of_flavor_and_image_are_told_at_once():
    found = refusals({"hw_sound_model": "ich9"}, {"hw:time_hpet": "yes", "hw:pmu": "on", "hw:no_such": "1"})
    assert sorted(entry.field for entry in found) == [
        "berth_flavors.m1.extra_specs.hw:no_such",
        "berth_flavors.m1.extra_specs.hw:pmu",
        "berth_flavors.m1.extra_specs.hw:time_hpet",
        "berth_images.debian-12.properties.hw_sound_model",
    ]


@pytest.mark.parametrize(
    "resized",
    [
        {"hw:locked_memory": "true"},
        {"hw:disk_bus": "evil"},
        {"os:secure_boot": "required"},
        {"hw:firmware_type": "uefi"},
        {"hw:tpm_version": "2.0"},
    ],
)
def test_the_new_flavor_of_a_resize_is_judged_alike(resized):
    spec, _seed = request()
    given = variables()
    given["berth_flavors"] = {"m2": {"vcpus": 2, "memory_mb": 4096, "root_gb": 1, "extra_specs": resized}}
    with pytest.raises(BerthError) as caught:
        resize_request(spec, {"berth_flavor": "m2"}, Catalog.from_variables(given))
    assert not caught.value.retryable


def test_a_resize_to_the_same_flavor_judges_nothing_anew():
    """The guest is there, whatever an earlier version let pass."""
    spec, _seed = request()
    spec["flavor"]["extra_specs"] = {"hw:locked_memory": "true", "hw:mem_page_size": "2048"}
    given = variables()
    given["berth_flavors"] = {
        "m1": {"vcpus": 2, "memory_mb": 2048, "root_gb": 1, "extra_specs": dict(spec["flavor"]["extra_specs"])}
    }
    resize_request(spec, {"berth_flavor": "m1"}, Catalog.from_variables(given))
