# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real-time CPUs, virtual IOMMU and encrypted memory: in the definition, and only on hosts that have them (A16)."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from guest_features_case import PINNED, UEFI, request, split

sys.path.insert(0, str(Path(__file__).parent))

from test_domain_xml import NIC, render  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.disk import disk
from ansible_collections.berth.kvm.plugins.module_utils.compute.guest import domain_xml
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import capabilities, facts, traits
from ansible_collections.berth.kvm.plugins.module_utils.model import migration
from ansible_collections.berth.kvm.plugins.module_utils.model.host_state import HostState
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import OperationNotSupportedForSEV
from ansible_collections.berth.kvm.plugins.module_utils.model.record import Record
from ansible_collections.berth.kvm.plugins.module_utils.model.request_spec import RequestSpec
from ansible_collections.berth.kvm.plugins.module_utils.placement import prefilters
from ansible_collections.berth.kvm.plugins.module_utils.placement.options import Options

SAMPLE = (Path(__file__).parent / "data" / "domain_capabilities.xml").read_text()
# As libvirt documents it for a host with AMD SEV.
WITH_SEV = SAMPLE.replace(
    '<sev supported="no" />',
    '<sev supported="yes"><cbitpos>47</cbitpos><reducedPhysBits>1</reducedPhysBits>'
    "<maxGuests>59</maxGuests><maxESGuests>450</maxESGuests></sev>",
)
REALTIME = {**PINNED, "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}
CELL = {"id": 0, "cpuset": [], "pcpuset": [0, 1, 2, 3], "memory_mb": 512}
PINS = {"numa_topology": {"cells": [{**CELL, "cpu_pinning": {"0": 4, "1": 5, "2": 6, "3": 7}}]}}


def test_real_time_vcpus_have_their_scheduler_and_no_emulator_beside_them():
    root = render(resources=PINS, vcpus=4, extra_specs=REALTIME)
    assert root.find("cputune/vcpusched").attrib == {"vcpus": "1-3", "scheduler": "fifo", "priority": "1"}
    assert root.find("cputune/emulatorpin").get("cpuset") == "4"
    assert {element.tag for element in root.find("memoryBacking")} == {"locked", "nosharepages"}
    assert root.find("features/pmu").get("state") == "off"


def test_where_all_vcpus_are_real_time_the_emulator_has_the_cpu_of_its_policy():
    cell = {**PINS["numa_topology"]["cells"][0], "cpuset_reserved": [9]}
    specs = {**PINNED, "hw:cpu_realtime": "yes", "hw:emulator_threads_policy": "isolate"}
    root = render(resources={"numa_topology": {"cells": [cell]}}, vcpus=4, extra_specs=specs)
    assert root.find("cputune/vcpusched").get("vcpus") == "0-3"
    assert root.find("cputune/emulatorpin").get("cpuset") == "9"


def test_the_mask_of_the_image_goes_before_that_of_the_flavor():
    root = render(properties={"hw_cpu_realtime_mask": "3"}, resources=PINS, vcpus=4, extra_specs=REALTIME)
    assert root.find("cputune/vcpusched").get("vcpus") == "3"


def test_a_guest_without_real_time_has_nothing_of_it():
    root = render(resources=PINS, vcpus=4, extra_specs=PINNED)
    assert root.find("cputune/vcpusched") is None and root.find("memoryBacking") is None
    assert root.find("features/pmu") is None and root.find("cputune/emulatorpin").get("cpuset") == "4-7"


def test_the_iommu_of_intel_has_its_driver_and_the_controller_of_interrupts_that_it_needs():
    root = render(extra_specs={"hw:viommu_model": "intel"})
    assert root.find("devices/iommu/driver").get("intremap") == "on"
    assert root.find("features/ioapic").get("driver") == "qemu"


@pytest.mark.parametrize("asked", ["auto", "virtio"])
def test_the_virtio_iommu_needs_nothing_beside_it(asked):
    root = render(properties={"hw_viommu_model": asked})
    assert root.find("devices/iommu").attrib == {"model": "virtio"}
    assert root.find("devices/iommu/driver") is None and root.find("features/ioapic") is None


def encrypted(**more):
    return render(properties=UEFI, networks=[NIC], extra_specs={"hw:mem_encryption": "true"}, **more)


def test_encrypted_memory_is_locked_and_each_virtio_device_goes_through_the_iommu():
    root = encrypted(swap=64)
    assert root.find("launchSecurity").get("type") == "sev" and root.findtext("launchSecurity/policy") == "0x0033"
    assert root.find("memoryBacking/locked") is not None
    devices = root.findall("devices/disk") + root.findall("devices/interface") + root.findall("devices/rng")
    devices += root.findall("devices/memballoon") + root.findall("devices/controller[@type='virtio-serial']")
    assert len(devices) == 7
    assert [device.tag for device in devices if device.find("driver").get("iommu") != "on"] == []


def test_a_disk_that_is_added_later_goes_through_the_iommu_too():
    spec, _seed = request(UEFI, {"hw:mem_encryption": "true"}, berth_disks={"logs": {"size_gb": 1}})
    record = Record(
        uuid=spec["uuid"], name="web-1", project_id="default", role="OWN", generation=[1, 0], token="t",
        phase="active", spec=spec, resources={},
    )  # fmt: skip
    host = domain_xml.Host("kvm", "x86_64", "/pool")
    added = domain_xml.added_disk(record, host, "/pool/instances/%s/%s" % (spec["uuid"], disk.plan(spec)[-1].file))
    assert ElementTree.fromstring(added).find("driver").get("iommu") == "on"


def test_a_guest_that_is_not_encrypted_has_nothing_of_it():
    root = render(networks=[NIC])
    assert root.find("launchSecurity") is None and root.findall("devices//driver[@iommu]") == []
    assert root.findall("devices/controller") == []


@pytest.mark.parametrize("text, guests", [(SAMPLE, 0), (WITH_SEV, 59)], ids=["without SEV", "with SEV"])
def test_a_host_says_how_many_encrypted_guests_it_can_have(text, guests):
    types = [capabilities.parse_domain(text)]
    assert types[0].encrypted_guests == guests
    told = facts._encrypted_guests(types, [])
    assert told == ({"encrypted_guests": {"total": 59, "used": 0}} if guests else {})
    found = traits.host_traits("x86_64", [], {}, 1, encrypted_guests=guests)
    assert ("HW_CPU_X86_AMD_SEV" in found) is bool(guests)


@pytest.mark.parametrize(
    "arch, versions, models",
    [
        ("x86_64", (9000000, 7002000), {"INTEL", "VIRTIO", "AUTO"}),
        ("x86_64", (8000000, 7002000), {"INTEL"}),
        ("x86_64", (9000000, 6002000), {"INTEL"}),
        ("aarch64", (9000000, 7002000), {"SMMUV3", "VIRTIO", "AUTO"}),
        ("s390x", (9000000, 7002000), set()),
    ],
)
def test_a_host_has_the_iommu_models_of_its_architecture_and_versions(arch, versions, models):
    assert set(traits.viommu_traits(arch, versions)) == {"COMPUTE_VIOMMU_MODEL_" + model for model in models}


def reasons(given, **host):
    spec, _seed = request(*split(given))
    query = prefilters.Query(RequestSpec(spec), Options())
    state = HostState({"host": "kvm1", "vcpus": 8, "memory_mb": 9999, "local_gb": 99, **host})
    said = {rule: verdict.reason for rule, verdict in query.verdicts(state) if not verdict.passed}
    assert query.passes(state) is not bool(said)
    return said


def test_a_host_without_the_iommu_is_left_out_by_name():
    asked = {"hw:viommu_model": "intel"}
    assert reasons(asked) == {"traits": "lacks trait COMPUTE_VIOMMU_MODEL_INTEL"}
    assert reasons(asked, traits=["COMPUTE_VIOMMU_MODEL_INTEL"]) == {}


def test_a_host_has_as_many_encrypted_guests_as_its_processor_has_keys():
    asked = {**UEFI, "hw:mem_encryption": "true"}
    assert set(reasons(asked)) == {"traits", "capacity"}
    able = {"traits": ["HW_CPU_X86_AMD_SEV"]}
    assert reasons(asked, encrypted_guests={"total": 2, "used": 1}, **able) == {}
    full = reasons(asked, encrypted_guests={"total": 2, "used": 2}, **able)
    assert "MEM_ENCRYPTION_CONTEXT: needs 1, 0 free" in full["capacity"]


def test_an_encrypted_guest_is_moved_while_it_is_off_and_never_live():
    spec, _seed = request(UEFI, {"hw:mem_encryption": "true"})
    for kind in ("resize", "migration"):
        migration.check_tied_to_host("web-1", spec, kind)
    with pytest.raises(OperationNotSupportedForSEV, match="web-1"):
        migration.check_tied_to_host("web-1", spec, "live-migration")
