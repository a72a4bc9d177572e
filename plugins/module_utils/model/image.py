# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image: its file, and its properties as Nova's filters know them."""

from __future__ import annotations

from typing import Any, Callable, Collection, Dict, List, Mapping, Optional

from .cpu_list import parse_cpu_spec
from .errors import InvalidInput
from .guest_settings import is_true
from .image_properties import PROPERTIES
from .messages import Document

ARCHITECTURES = frozenset(
    "alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips mipsel mips64 mips64el "
    "openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 s390x sh4 sh4eb sparc sparc64 unicore32 x86_64 "
    "xtensa xtensaeb riscv64".split()
)
HV_TYPES = frozenset(
    "baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels vz phyp qemu test uml vbox vmware "
    "xen zvm prsm".split()
)
VM_MODES = frozenset(("hvm", "xen", "uml", "exe"))
_ARCHITECTURE_NAMES = {
    "i386": "i686",
    "i486": "i686",
    "i586": "i686",
    "x86_32": "i686",
    "x86_32p": "i686",
    "amd64": "x86_64",
}
_VM_MODE_NAMES = {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}

# Property names from before Nova had one prefix for each kind.
LEGACY_NAMES = {
    "architecture": "hw_architecture",
    "owner_id": "img_owner_id",
    "auto_disk_config": "hw_auto_disk_config",
    "ipxe_boot": "hw_ipxe_boot",
    "cache_in_nova": "img_cache_in_nova",
    "vm_mode": "hw_vm_mode",
    "root_device_name": "img_root_device_name",
    "hypervisor_version_requires": "img_hv_requested_version",
    "hypervisor_type": "img_hv_type",
    "vmware_disktype": "hw_disk_type",
    "vmware_image_version": "img_version",
    "vmware_ostype": "os_distro",
    "vmware_linked_clone": "img_linked_clone",
    "xenapi_device_id": "hw_device_id",
    "xenapi_image_compression_level": "img_compression_level",
    "xenapi_use_agent": "img_use_agent",
    "xenapi_skip_agent_inject_ssh": "os_skip_agent_inject_ssh",
    "xenapi_skip_agent_inject_files_at_boot": "os_skip_agent_inject_files_at_boot",
    "bittorrent": "img_bittorrent",
    "bdm_v2": "img_bdm_v2",
}

SCSI_MODELS = ("buslogic", "ibmvscsi", "lsilogic", "lsisas1068", "lsisas1078", "virtio-scsi", "vmpvscsi")
_SCSI_MODEL_NAMES = {"lsilogicsas": "lsisas1068", "paravirtual": "vmpvscsi"}


def canonical_architecture(name: Optional[str]) -> Optional[str]:
    return _canonical(name, _ARCHITECTURE_NAMES, ARCHITECTURES, "architecture")


def canonical_hv_type(name: Optional[str]) -> Optional[str]:
    return _canonical(name, {"xapi": "xen"}, HV_TYPES, "hypervisor type")


def canonical_vm_mode(name: Optional[str]) -> Optional[str]:
    return _canonical(name, _VM_MODE_NAMES, VM_MODES, "vm mode")


def canonical_scsi_model(name: Optional[str]) -> Optional[str]:
    return _canonical(name, _SCSI_MODEL_NAMES, SCSI_MODELS, "SCSI model")


def _canonical(name: Optional[str], aliases: Mapping[str, str], known: Collection[str], what: str) -> Optional[str]:
    if name is None:
        return None
    canonical = str(name).lower()
    canonical = aliases.get(canonical, canonical)
    if canonical not in known:
        raise InvalidInput(what, name, "one of " + ", ".join(sorted(known)))
    return canonical


CANONICAL: Dict[str, Callable[[Any], Any]] = {
    "architecture": canonical_architecture,
    "hv_type": canonical_hv_type,
    "vm_mode": canonical_vm_mode,
    "scsi_model": canonical_scsi_model,
}
# Kind of a property -> what reads its value.
READ: Dict[str, Callable[[Any], Any]] = {
    **CANONICAL,
    "whole": int,
    "flag": is_true,
    "text": str,
}


def known_properties(given: Optional[Document], strict: bool = True) -> Document:
    """Return the properties that Nova knows, by their current names and with their types; placement ignores all others.

    ``traits_required`` collects ``trait:NAME: required``; ``hw_numa_cpus`` and ``hw_numa_mem`` collect their numbered
    forms. A value of the wrong type is an InvalidInput, or is left out where ``strict`` is false.
    """
    known: Document = {}
    properties = {**_adapter_type(given or {}), **(given or {})}
    for name, value in properties.items():
        if name in LEGACY_NAMES and LEGACY_NAMES[name] not in properties:
            name = LEGACY_NAMES[name]
        row = PROPERTIES.get(name)
        reader = READ.get(row.read_as) if row else None
        if reader is None or value is None:
            continue
        read = _typed("image.properties." + name, value, reader, strict)
        if read is not None:
            known[name] = read
    traits = [name[6:] for name, value in properties.items() if name.startswith("trait:") and str(value) == "required"]
    if traits:
        known["traits_required"] = traits
    numbered_kinds: Dict[str, Callable[[Any], Any]] = {"hw_numa_cpus": parse_cpu_spec, "hw_numa_mem": int}
    for name, reader in numbered_kinds.items():
        numbered = _numbered(properties, name, reader, strict)
        if numbered and None not in numbered:
            known[name] = numbered
    return known


def _adapter_type(properties: Document) -> Dict[str, str]:
    """Translate ``vmware_adaptertype``, which once named both bus and SCSI model, to the current properties."""
    adapter = properties.get("vmware_adaptertype")
    if not adapter:
        return {}
    return {"hw_disk_bus": "ide"} if adapter == "ide" else {"hw_disk_bus": "scsi", "hw_scsi_model": adapter}


def _numbered(properties: Document, name: str, reader: Callable[[Any], Any], strict: bool) -> List[Any]:
    values: List[Any] = []
    while "%s.%d" % (name, len(values)) in properties:
        field = "%s.%d" % (name, len(values))
        values.append(_typed("image.properties." + field, properties[field], reader, strict))
    return values


def _typed(field: str, value: Any, reader: Callable[[Any], Any], strict: bool) -> Any:
    """Return the value as its type, or None where it has another and ``strict`` is false."""
    try:
        return reader(value)
    except (ValueError, TypeError, InvalidInput) as error:
        if strict:
            raise InvalidInput(field, value, error.rule if isinstance(error, InvalidInput) else "a whole number")
        return None


class Image:
    """{id, name, disk_format, min_disk (GiB), min_ram (MiB), properties {}}; ``props`` are the ones that Nova knows."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.id = document.get("id") or document.get("name")
        self.name = document.get("name", "")
        self.disk_format = document.get("disk_format") or "qcow2"
        self.properties = document.get("properties") or {}
        self.props = known_properties(self.properties)

    def to_dict(self) -> Document:
        return dict(self.document)
