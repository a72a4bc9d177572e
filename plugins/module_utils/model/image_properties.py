# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Image properties: Nova's names and their valid values, so that typing mistakes are found before anything is built."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Optional, Union

from .errors import BerthError, InvalidInput
from .image import (
    KNOWN_PROPERTIES,
    LEGACY_NAMES,
    canonical_architecture,
    canonical_hv_type,
    canonical_scsi_model,
    canonical_vm_mode,
)
from .suggest import did_you_mean

Property = Union[str, List[str]]

_BUS = ("fdc", "ide", "sata", "scsi", "usb", "virtio")
_TRUTH = ("true", "false", "yes", "no", "on", "off", "1", "0")
_WORDS = {
    "hw_auto_disk_config": (*_TRUTH, "disabled"),
    "hw_cdrom_bus": _BUS,
    "hw_cpu_policy": ("dedicated", "mixed", "shared"),
    "hw_cpu_thread_policy": ("isolate", "prefer", "require"),
    "hw_disk_bus": _BUS,
    "hw_ephemeral_encryption_format": ("luks", "luksv2", "plain"),
    "hw_firmware_type": ("bios", "uefi"),
    "hw_floppy_bus": _BUS,
    "hw_input_bus": ("usb", "virtio"),
    "hw_maxphysaddr_mode": ("emulate", "passthrough"),
    "hw_mem_encryption_model": ("amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx"),
    "hw_pci_numa_affinity_policy": ("legacy", "preferred", "required", "socket"),
    "hw_pointer_model": ("usbtablet",),
    "hw_rescue_bus": _BUS,
    "hw_rescue_device": ("cdrom", "disk", "floppy", "fs", "lun"),
    "hw_rng_model": ("virtio",),
    "hw_sound_model": ("ac97", "es1370", "ich6", "ich9", "pcspk", "sb16", "usb", "virtio"),
    "hw_tpm_model": ("tpm-crb", "tpm-tis"),
    "hw_tpm_version": ("1.2", "2.0"),
    "hw_usb_model": ("nec-xhci", "none", "qemu-xhci"),
    "hw_video_model": ("bochs", "cirrus", "gop", "none", "qxl", "vga", "virtio", "vmvga", "xen"),
    "hw_vif_model": ("e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "spapr-vlan", "virtio", "vmxnet3"),
    "hw_viommu_model": ("auto", "intel", "smmuv3", "virtio"),
    "hw_watchdog_action": ("disabled", "none", "pause", "poweroff", "reset"),
    "img_config_drive": ("mandatory", "optional"),
    "os_secure_boot": ("disabled", "optional", "required"),
    "os_type": ("linux", "windows"),
}
_PER_CELL = re.compile(r"hw_numa_(cpus|mem)\.[0-9]+\Z", re.ASCII)
_OURS = re.compile(r"(hw|img|os)_")

_CANONICAL: Dict[str, Callable[[Any], Any]] = {
    "hw_architecture": canonical_architecture,
    "hw_emulation_architecture": canonical_architecture,
    "hw_scsi_model": canonical_scsi_model,
    "hw_vm_mode": canonical_vm_mode,
    "img_hv_type": canonical_hv_type,
}
# Placement does not read these; other code does.
_BESIDES = ("kernel_id", "ramdisk_id", "hw_auto_disk_config", "os_version", "img_block_device_mapping", "img_mappings")
KNOWN = frozenset(KNOWN_PROPERTIES) | frozenset(_BESIDES)


class InvalidImageProperty(BerthError):
    """An image property does not exist, or its value is not allowed (Nova: InvalidRequest)."""


class ImageProperties:
    """Check the ``properties`` of an image: every value becomes text, as in Glance, and a list of texts stays a list.
    Properties outside hw_*, img_* and os_* are the user's own and are kept.
    """

    def check(self, value: Any, field: str) -> Dict[str, Property]:
        if not isinstance(value, dict):
            raise InvalidImageProperty("%s: must be a mapping of names to values" % field, field=field)
        return {str(name): check_property(str(name), part, "%s.%s" % (field, name)) for name, part in value.items()}


def check_property(name: str, value: Any, field: str) -> Property:
    """Return the value of one property as text; InvalidImageProperty if there is no such property or value."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value):
        return [str(text) for text in value]
    if not isinstance(value, (str, int, float)) or len(str(value)) > 255:
        raise _refused(field, value, "text of at most 255 characters, a number, true/false or a list of texts")
    text = str(value)
    known_as = LEGACY_NAMES.get(name, name)
    kind = KNOWN_PROPERTIES.get(known_as)
    if known_as in _CANONICAL:
        try:
            return _CANONICAL[known_as](text)
        except InvalidInput as error:
            raise _refused(field, value, error.rule)
    if known_as in _WORDS:
        words = _WORDS[known_as]
        if text.lower() not in words:
            raise _refused(field, value, "one of " + ", ".join(words), did_you_mean(text, words))
        return text.lower()
    if kind == "whole" and not re.match(r"[0-9]{1,9}\Z", text):
        raise _refused(field, value, "a whole number, not negative")
    if kind == "flag" and text.lower() not in _TRUTH:
        raise _refused(field, value, "true or false")
    if name not in KNOWN and _OURS.match(name) and not _PER_CELL.match(name):
        raise _refused(field, value, "a property that exists", did_you_mean(name, KNOWN))
    return text


def _refused(field: str, value: Any, rule: Optional[str], hint: Optional[str] = None) -> InvalidImageProperty:
    shown = repr(value)[:120]
    return InvalidImageProperty("%s: %s is not valid" % (field, shown), field=field, value=shown, rule=rule, hint=hint)
