# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's capabilities, read from recorded XML."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute import connection
from ansible_collections.berth.kvm.plugins.module_utils.compute.host import capabilities, traits

DATA = Path(__file__).parent / "data"
HOST = capabilities.parse_host((DATA / "capabilities.xml").read_text())
GUEST = capabilities.parse_domain((DATA / "domain_capabilities.xml").read_text())


def test_the_host_tells_its_uuid_its_machine_types_and_its_guests():
    assert HOST.uuid == "e083fc1c-e230-5e1e-a5ea-175f6b4c38fe"
    assert HOST.machine_types == ("pc", "pc-q35-7.2", "q35")
    assert HOST.guests == (("i686", "qemu", "hvm"), ("x86_64", "qemu", "hvm"))


def test_cpu_info_has_the_keys_of_nova():
    assert HOST.cpu_info == {
        "arch": "x86_64",
        "model": "kvm64",
        "vendor": "AMD",
        "topology": {"cells": 2, "sockets": 1, "cores": 2, "threads": 2},
        "features": ["aes", "avx", "avx2"],
    }


def test_security_models_are_listed():
    assert "none" in HOST.security_models


def test_a_guest_type_tells_its_cpu_and_devices():
    assert (GUEST.domain_type, GUEST.cpu_model) == ("qemu", "EPYC")
    assert "vaes" in GUEST.cpu_required and "sha-ni" in GUEST.cpu_disabled
    assert "virtio" in GUEST.enums["disk", "bus"]
    assert GUEST.enums["loader", "secure"] == {"no"}


class Libvirt:
    """Knows the domain types it is given."""

    def __init__(self, *types):
        self.types = types

    def getDomainCapabilities(self, _emulator, _arch, _machine, domain_type, _flags):
        if domain_type not in self.types:
            raise connection.libvirt.libvirtError("the accel 'kvm' is not supported")
        return (DATA / "domain_capabilities.xml").read_text().replace("<domain>qemu<", "<domain>%s<" % domain_type)


@pytest.mark.parametrize(
    ("works", "setting", "types"),
    [
        (("kvm", "qemu"), "auto", ["kvm", "qemu"]),
        (("qemu",), "auto", ["qemu"]),
        (("kvm", "qemu"), "qemu", ["qemu"]),
        (("qemu",), "kvm", []),
        (("kvm", "qemu"), "kvm", ["kvm"]),
    ],
)
def test_a_domain_type_is_offered_where_libvirt_says_it_works_and_the_setting_allows_it(works, setting, types):
    pytest.importorskip("libvirt")
    assert [guest.domain_type for guest in capabilities.domain_types(Libvirt(*works), setting)] == types


class ByMachine:
    """Says for each machine type what libvirt 9 says of firmware and buses."""

    FOUND = {"q35": ("<value>yes</value>", "<value>sata</value>"), "pc": ("", "<value>ide</value>")}

    def __init__(self, *machines):
        self.machines = machines

    def getDomainCapabilities(self, _emulator, arch, machine, domain_type, _flags):
        if machine not in self.machines:
            raise connection.libvirt.libvirtError("invalid argument: the machine '%s' is not supported" % machine)
        secure, bus = self.FOUND[machine]
        return """<domainCapabilities><domain>%s</domain><machine>%s</machine><arch>%s</arch>
            <os supported='yes'><enum name='firmware'><value>efi</value></enum><loader supported='yes'>
            <enum name='secure'>%s<value>no</value></enum></loader></os>
            <devices><disk supported='yes'><enum name='bus'>%s</enum></disk></devices></domainCapabilities>""" % (
            domain_type, machine, arch, secure, bus,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("machines", "expected"),
    [
        (("q35", "pc"), {"COMPUTE_SECURITY_UEFI_SECURE_BOOT", "COMPUTE_STORAGE_BUS_SATA", "COMPUTE_STORAGE_BUS_IDE"}),
        (("q35",), {"COMPUTE_SECURITY_UEFI_SECURE_BOOT", "COMPUTE_STORAGE_BUS_SATA"}),
        (("pc",), {"COMPUTE_STORAGE_BUS_IDE"}),
    ],
)
def test_a_host_offers_what_guests_of_any_of_its_machine_types_can_have(machines, expected):
    """Asked for libvirt's default machine, pc, no x86 host has secure boot."""
    pytest.importorskip("libvirt")
    found = capabilities.domain_types(ByMachine(*machines), "qemu", "x86_64")
    assert set(traits.device_traits(found[0].enums)) == expected | {"COMPUTE_FIRMWARE_UEFI"}
    assert found[0].machine == machines[0]


MODELS = """<domainCapabilities><domain>kvm</domain><cpu>
<mode name="host-model" supported="yes"><model>EPYC</model><feature policy="require" name="vaes"/></mode>
<mode name="custom" supported="yes"><model usable="no">EPYC-Genoa</model><model usable="yes">Haswell</model>
<model usable="unknown">max</model><model usable="yes">Nehalem</model></mode></cpu></domainCapabilities>"""


def test_the_first_cpu_model_of_the_settings_that_the_host_can_run_is_that_of_its_guests():
    found = capabilities.parse_domain(MODELS)
    assert found.usable_models == ("Haswell", "Nehalem")
    assert capabilities.named_model(found, ("EPYC-Genoa", "Nehalem", "Haswell")) == "Nehalem"
    assert capabilities.named_model(found, ()) is None


def test_a_host_that_can_run_no_cpu_model_of_its_settings_says_which():
    with pytest.raises(capabilities.CpuModelNotUsable, match="EPYC-Genoa, max") as refused:
        capabilities.named_model(capabilities.parse_domain(MODELS), ("EPYC-Genoa", "max"))
    assert refused.value.retryable and "guest_cpu.usable" in refused.value.hint
