# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What flavor and image ask for together, and what of it contradicts itself; as Nova 34 has it (A14, A16)."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model.errors import InvalidInput
from ansible_collections.berth.kvm.plugins.module_utils.model.image import known_properties
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import Flavor
from ansible_collections.berth.kvm.plugins.module_utils.placement import features, numa

ENCRYPTED = {"hw:mem_encryption": "true"}
UEFI = {"hw_firmware_type": "uefi"}
STATELESS = {**UEFI, "hw_firmware_stateless": "true"}
PAGES = {"hw:mem_page_size": "large"}


def ask(what, specs, props, vcpus=4):
    flavor = Flavor({"name": "f", "vcpus": vcpus, "memory_mb": 2048, "extra_specs": specs})
    return what(flavor, known_properties(props))


TABLE = [
    (features.locked_memory, {}, {}, None),
    (features.locked_memory, {"hw:locked_memory": "true", **PAGES}, {}, True),
    (features.locked_memory, {"hw:locked_memory": "true", **PAGES}, {"hw_locked_memory": "yes"}, True),
    (features.locked_memory, {"hw:locked_memory": "false"}, {"hw_locked_memory": "false"}, False),
    (features.locked_memory, PAGES, {"hw_locked_memory": "true"}, True),
    (features.locked_memory, ENCRYPTED, UEFI, True),
    (features.locked_memory, {**ENCRYPTED, "hw:mem_encryption_model": "amd-sev-snp"}, STATELESS, None),
    (features.secure_boot, {"os:secure_boot": "required"}, {}, "required"),
    (features.secure_boot, {}, {"os_secure_boot": "optional"}, "optional"),
    (features.secure_boot, {}, {}, None),
    (features.memory_encryption, {}, {}, None),
    (features.memory_encryption, {"hw:mem_encryption": "false"}, {}, None),
    (features.memory_encryption, {"hw:mem_encryption_model": "amd-sev-es"}, {}, None),
    (features.memory_encryption, ENCRYPTED, UEFI, "amd-sev"),
    (features.memory_encryption, {}, {"hw_mem_encryption": "1", **UEFI}, "amd-sev"),
    (features.memory_encryption, ENCRYPTED, {**UEFI, "hw_machine_type": "pc-q35-7.2"}, "amd-sev"),
    (
        features.memory_encryption,
        ENCRYPTED,
        {**STATELESS, "hw_mem_encryption_model": "intel-tdx", "hw_video_model": "none"},
        "intel-tdx",
    ),
    (features.tpm, {"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}, {}, ("2.0", "tpm-crb")),
    (features.tpm, {}, {"hw_tpm_version": "1.2"}, ("1.2", "tpm-tis")),
    (features.vif_multiqueue, {"hw:vif_multiqueue_enabled": "true"}, {}, True),
    (features.serial_ports, {"hw:serial_port_count": "4"}, {"hw_serial_port_count": "2"}, 2),
    (features.serial_ports, {}, {}, 1),
    (features.usb_ports, {"hw:redirected_usb_ports": "15"}, {}, 15),
    (features.ephemeral_encryption, {"hw:ephemeral_encryption": "true"}, {}, (True, None)),
    (
        features.cpu_topology,
        {"hw:cpu_max_sockets": "4", "hw:cpu_cores": "2"},
        {"hw_cpu_max_sockets": "2"},
        {"sockets": (0, 2), "cores": (2, 65536), "threads": (0, 65536)},
    ),
    (numa.page_size, {"hw:mem_page_size": "2MB"}, {}, 2048),
    (numa.page_size, {"hw:mem_page_size": "2MiB"}, {}, 2048),
    (numa.page_size, {"hw:mem_page_size": "1.5GB"}, {}, 1572864),
    (numa.page_size, {"hw:mem_page_size": "16Mbit"}, {}, 2048),
    (numa.page_size, {"hw:mem_page_size": "1023B"}, {}, 1023 / 1024),
]
BAD = [
    (features.locked_memory, {"hw:locked_memory": "true", **PAGES}, {"hw_locked_memory": "false"}),
    (features.locked_memory, {"hw:locked_memory": "false", **PAGES}, {"hw_locked_memory": "true"}),
    (features.locked_memory, {"hw:locked_memory": "true"}, {}),
    (features.locked_memory, {}, {"hw_locked_memory": "true"}),
    (features.locked_memory, ENCRYPTED, {}),
    (features.secure_boot, {"os:secure_boot": "foobar"}, {}),
    (features.secure_boot, {"os:secure_boot": "required"}, {"os_secure_boot": "disabled"}),
    (features.memory_encryption, ENCRYPTED, {}),
    (features.memory_encryption, ENCRYPTED, {"hw_firmware_type": "bios"}),
    (features.memory_encryption, ENCRYPTED, {**UEFI, "hw_machine_type": "pc"}),
    (features.memory_encryption, ENCRYPTED, {**UEFI, "hw_mem_encryption": "false"}),
    (features.memory_encryption, {"hw:mem_encryption": "false"}, {**UEFI, "hw_mem_encryption": "true"}),
    (features.memory_encryption, {**ENCRYPTED, "hw:mem_encryption_model": "evil"}, UEFI),
    (
        features.memory_encryption,
        {**ENCRYPTED, "hw:mem_encryption_model": "amd-sev"},
        {**UEFI, "hw_mem_encryption_model": "amd-sev-es"},
    ),
    (features.memory_encryption, {**ENCRYPTED, "hw:mem_encryption_model": "amd-sev-snp"}, UEFI),
    (features.memory_encryption, {**ENCRYPTED, "hw:mem_encryption_model": "intel-tdx"}, UEFI),
    (features.memory_encryption, {**ENCRYPTED, "hw:mem_encryption_model": "intel-tdx"}, STATELESS),
    (features.tpm, {"hw:tpm_version": "3.0"}, {}),
    (features.tpm, {"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-crb"}, {}),
    (features.vif_multiqueue, {"hw:vif_multiqueue_enabled": "true"}, {"hw_vif_multiqueue_enabled": "false"}),
    (features.serial_ports, {"hw:serial_port_count": "2"}, {"hw_serial_port_count": "4"}),
    (features.serial_ports, {"hw:serial_port_count": "foo"}, {}),
    (features.usb_ports, {"hw:redirected_usb_ports": "16"}, {}),
    (features.cpu_topology, {"hw:cpu_max_sockets": "2"}, {"hw_cpu_max_sockets": "4"}),
    (features.cpu_topology, {"hw:cpu_max_cores": "2"}, {"hw_cpu_cores": "4"}),
    (features.cpu_topology, {"hw:cpu_sockets": "many"}, {}),
    (features.ephemeral_encryption, {"hw:ephemeral_encryption": "true"}, {"hw_ephemeral_encryption": "false"}),
    (numa.page_size, {"hw:mem_page_size": "2mb"}, {}),
    (numa.page_size, {"hw:mem_page_size": "-2KB"}, {}),
    (numa.page_size, {"hw:mem_page_size": "1..5GB"}, {}),
]


@pytest.mark.parametrize("what,specs,props,wanted", TABLE)
def test_what_flavor_and_image_ask_for_together(what, specs, props, wanted):
    assert ask(what, specs, props) == wanted


@pytest.mark.parametrize("what,specs,props", BAD)
def test_what_contradicts_itself_is_refused_by_name(what, specs, props):
    with pytest.raises(InvalidInput) as caught:
        ask(what, specs, props)
    assert caught.value.field


@pytest.mark.parametrize("what,specs,props", [row for row in BAD if row[0] is not numa.page_size])
def test_every_contradiction_is_found_before_anything_is_placed(what, specs, props):
    with pytest.raises(InvalidInput):
        ask(features.check, specs, props)


def test_memory_encryption_that_cannot_work_is_refused_with_the_numa_topology_too():
    with pytest.raises(InvalidInput):
        ask(numa.constraints, {**ENCRYPTED, "hw:numa_nodes": "2"}, {})


def test_multiqueue_means_nothing_with_one_vcpu():
    specs, props = {"hw:vif_multiqueue_enabled": "true"}, {"hw_vif_multiqueue_enabled": "false"}
    assert ask(features.vif_multiqueue, specs, props, vcpus=1) is False


def test_a_page_size_below_a_kibibyte_is_asked_for_but_names_no_pages():
    topology = ask(numa.constraints, {"hw:mem_page_size": "1023B"}, {})
    assert [cell.pagesize for cell in topology.cells] == [0]


@pytest.mark.parametrize(
    "properties,bus,model",
    [
        ({"vmware_adaptertype": "ide"}, "ide", None),
        ({"vmware_adaptertype": "lsiLogicsas"}, "scsi", "lsisas1068"),
        ({"vmware_adaptertype": "paraVirtual"}, "scsi", "vmpvscsi"),
        ({"vmware_adaptertype": "busLogic", "hw_scsi_model": "lsilogic"}, "scsi", "lsilogic"),
        ({"vmware_adaptertype": "ide", "hw_disk_bus": "virtio"}, "virtio", None),
    ],
)
def test_the_adapter_type_of_old_images_means_a_bus_and_a_scsi_model(properties, bus, model):
    known = known_properties(properties)
    assert (known.get("hw_disk_bus"), known.get("hw_scsi_model")) == (bus, model)


def test_an_adapter_type_that_nobody_knows_is_refused():
    with pytest.raises(InvalidInput):
        known_properties({"vmware_adaptertype": "evil"})


@pytest.mark.parametrize("name", ["hw_numa_nodes", "hw_numa_mem.1", "hw_numa_cpus.1"])
def test_a_number_of_an_image_that_is_none_is_refused_by_name(name):
    properties = {"hw_numa_mem.0": "512", "hw_numa_cpus.0": "0", name: "evil"}
    with pytest.raises(InvalidInput, match=r"image\.properties\.%s: 'evil'" % name):
        known_properties(properties)


def test_what_a_host_says_wrong_of_an_instances_image_is_left_out():
    properties = {"hw_numa_mem.0": "512", "hw_numa_mem.1": "evil", "hw_numa_cpus.0": "evil", "os_distro": "debian"}
    assert known_properties(properties, strict=False) == {"os_distro": "debian"}


@pytest.mark.parametrize("nodes", [" 2 ", "02", "0", "-1", "2.0", "x"])
def test_a_number_of_numa_nodes_is_written_as_a_number_from_1(nodes):
    with pytest.raises(InvalidInput, match="hw:numa_nodes"):
        ask(numa.constraints, {"hw:numa_nodes": nodes}, {})
