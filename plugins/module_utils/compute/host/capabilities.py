# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this host and its QEMU can do, according to libvirt: host uuid, CPU, guests, domain types, devices."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, FrozenSet, List, Optional, Tuple
from xml.etree import ElementTree

from ...model import host_hints
from ...model.errors import BerthError
from ..connection import LibvirtUnavailable, require_libvirt

# libvirt's term -> Nova's
_VM_MODES = {"linux": "xen"}

# The machine types of guests, by architecture; the first is the default.
GUEST_MACHINES = {"x86_64": ("q35", "pc"), "i686": ("q35", "pc"), "aarch64": ("virt",), "riscv64": ("virt",)}


class CpuModelNotUsable(BerthError):
    """None of the CPU models in berth_host_cpu_models can be had on this host; another host may have one."""

    retryable = True


@dataclasses.dataclass(frozen=True)
class HostCapabilities:
    """The parts of libvirt's capabilities that facts need. ``topology`` is the XML element of the NUMA cells."""

    uuid: Optional[str]
    arch: str
    cpu_info: Dict[str, Any]
    guests: Tuple[Tuple[str, str, str], ...]
    machine_types: Tuple[str, ...]
    security_models: Tuple[str, ...]
    topology: Any


@dataclasses.dataclass(frozen=True)
class DomainCapabilities:
    """What guests of one domain type can have: the CPU of mode host-model, and device models by device and enum.

    The enums combine all machine types of GUEST_MACHINES; ``machine`` and CPU are those of the default one.
    """

    domain_type: str
    machine: str
    cpu_model: Optional[str]
    cpu_required: FrozenSet[str]
    cpu_disabled: FrozenSet[str]
    enums: Dict[Tuple[str, str], FrozenSet[str]]
    usable_models: Tuple[str, ...] = ()  # that a guest can name, in libvirt's order
    encrypted_guests: int = 0  # the number of guests with AMD SEV that may run at a time


def parse_host(text) -> HostCapabilities:
    root = ElementTree.fromstring(text)
    host = root.find("host")
    cpu = host.find("cpu")
    arch = cpu.findtext("arch")
    guests, machine_types = [], []
    for guest in root.iter("guest"):
        guest_arch = guest.find("arch")
        mode = guest.findtext("os_type")
        for domain in guest_arch.iter("domain"):
            guests.append((guest_arch.get("name"), domain.get("type"), _VM_MODES.get(mode, mode)))
        if guest_arch.get("name") == arch:
            machine_types += [machine.text for machine in guest_arch.findall("machine")]
    return HostCapabilities(
        uuid=host.findtext("uuid"),
        arch=arch,
        cpu_info=_cpu_info(cpu, host.find("topology")),
        guests=tuple(guests),
        machine_types=tuple(sorted(set(machine_types))),
        security_models=tuple(model.text for model in host.iterfind("secmodel/model")),
        topology=host.find("topology"),
    )


def _cpu_info(cpu, topology):
    """Return Nova's cpu_info: {arch, model, vendor, topology {cells, sockets, cores, threads}, features [...]}."""
    info = {"arch": cpu.findtext("arch"), "model": cpu.findtext("model"), "vendor": cpu.findtext("vendor")}
    layout = cpu.find("topology")
    if layout is not None:
        cells = len(topology.findall("cells/cell")) if topology is not None else 1
        info["topology"] = {"cells": cells, **{name: int(layout.get(name)) for name in ("sockets", "cores", "threads")}}
    info["features"] = sorted(feature.get("name") for feature in cpu.findall("feature"))
    return info


def parse_domain(text) -> DomainCapabilities:
    root = ElementTree.fromstring(text)
    model = next((mode for mode in root.iterfind("cpu/mode") if mode.get("name") == "host-model"), None)
    by_policy: Dict[str, List[str]] = {"require": [], "disable": []}
    if model is not None:
        for feature in model.findall("feature"):
            by_policy.setdefault(feature.get("policy"), []).append(feature.get("name"))
    enums = {}
    parts = list(root.iterfind("devices/*")) + list(root.iterfind("os/*")) + list(root.iterfind("os"))
    for part in parts:
        if part.get("supported") == "yes":
            for enum in part.findall("enum"):
                enums[(part.tag, enum.get("name"))] = frozenset(value.text for value in enum.findall("value"))
    return DomainCapabilities(
        domain_type=root.findtext("domain"),
        machine=root.findtext("machine"),
        cpu_model=None if model is None else model.findtext("model"),
        cpu_required=frozenset(by_policy["require"]),
        cpu_disabled=frozenset(by_policy["disable"]),
        enums=enums,
        usable_models=tuple(model.text for model in root.iterfind("cpu/mode[@name='custom']/model[@usable='yes']")),
        encrypted_guests=int(root.findtext("features/sev[@supported='yes']/maxGuests") or 0),
    )


def default_machine(arch) -> Optional[str]:
    """Return the machine type of a guest that asks for none. None leaves the choice to libvirt."""
    return GUEST_MACHINES.get(arch, (None,))[0]


def domain_types(connection, setting, arch=None) -> List[DomainCapabilities]:
    """Return the domain types that work on this host, the best first: kvm if libvirt's QEMU can use it, then qemu.

    /dev/kvm may exist and yet fail, so ask libvirt, which has started QEMU with it. This cannot foresee a guest that
    only fails when it runs: such a host needs the setting qemu. ``setting`` (auto, kvm, qemu) only narrows the choice.
    """
    found = []
    for domain_type in ("kvm", "qemu") if setting == "auto" else (setting,):
        machines = GUEST_MACHINES.get(arch, (None,))
        answers = [_ask(connection, None if machine is None else arch, machine, domain_type) for machine in machines]
        known = [parse_domain(text) for text in answers if text is not None]
        if known:
            found.append(_merged(known))
    return found


def _ask(connection, arch, machine, domain_type) -> Optional[str]:
    """Return libvirt's answer about guests of one machine type, on which firmware and buses depend, or None."""
    library = require_libvirt()
    try:
        return connection.getDomainCapabilities(None, arch, machine, domain_type, 0)
    except library.libvirtError as error:
        if error.get_error_domain() == library.VIR_FROM_RPC:
            raise LibvirtUnavailable("the connection to libvirt broke: %s" % error)
        return None


def _merged(known) -> DomainCapabilities:
    """Return the first one with the device models of all."""
    enums: Dict[Tuple[str, str], FrozenSet[str]] = {}
    for machine in known:
        for where, values in machine.enums.items():
            enums[where] = enums.get(where, frozenset()) | values
    return dataclasses.replace(known[0], enums=enums)


def named_model(domain, wanted) -> Optional[str]:
    """Return the first of the wanted CPU models that guests can have here. None if none is wanted: they get host-model."""
    for name in wanted:
        if name in domain.usable_models:
            return name
    if wanted:
        raise CpuModelNotUsable(
            "guests cannot have CPU model %s here" % ", ".join(wanted),
            field="cpu_models",
            value=list(wanted),
            hint=host_hints.usable_cpu_models(),
        )
    return None


def with_model(domain, name) -> DomainCapabilities:
    """Return the domain type as guests with a named CPU model see it."""
    return dataclasses.replace(domain, cpu_model=name, cpu_required=frozenset(), cpu_disabled=frozenset())


def guest_cpu_features(connection, arch, domain) -> FrozenSet[str]:
    """Return every CPU feature that a guest of the domain type sees: the model's, with the listed changes."""
    library = require_libvirt()
    if domain.cpu_model is None:
        return frozenset()
    cpu = ElementTree.Element("cpu")
    ElementTree.SubElement(cpu, "arch").text = arch
    ElementTree.SubElement(cpu, "model").text = domain.cpu_model
    try:
        text = connection.baselineCPU(
            [ElementTree.tostring(cpu, encoding="unicode")], library.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
        )
    except library.libvirtError:
        return domain.cpu_required  # libvirt cannot expand the models of this architecture
    model = frozenset(feature.get("name") for feature in ElementTree.fromstring(text).iter("feature"))
    return (model | domain.cpu_required) - domain.cpu_disabled
