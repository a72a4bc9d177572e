# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Image properties and flavor extra specs: Nova's names and valid values, and what happens with each here: built into the
guest, refused, or for placement alone.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Pattern, Tuple, Union

from .errors import BerthError, InvalidInput
from .image import (
    KNOWN_PROPERTIES,
    LEGACY_NAMES,
    canonical_architecture,
    canonical_hv_type,
    canonical_scsi_model,
    canonical_vm_mode,
)
from .unknown_names import did_you_mean

# Image properties: Nova's names and their valid values, so that typing mistakes are found before anything is built.
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
_IMAGE_PER_CELL = re.compile(r"hw_numa_(cpus|mem)\.[0-9]+\Z", re.ASCII)
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
    if name not in KNOWN and _OURS.match(name) and not _IMAGE_PER_CELL.match(name):
        raise _refused(field, value, "a property that exists", did_you_mean(name, KNOWN))
    return text


def _refused(field: str, value: Any, rule: Optional[str], hint: Optional[str] = None) -> InvalidImageProperty:
    shown = repr(value)[:120]
    return InvalidImageProperty("%s: %s is not valid" % (field, shown), field=field, value=shown, rule=rule, hint=hint)


YES = ("true", "yes", "on", "1")
NO = ("false", "no", "off", "0")


class Built:
    """Built into the guest. ``words`` are the values that are; without them, all valid values are."""

    def __init__(self, *words: str, pattern: Optional[Pattern[str]] = None, rule: str = "") -> None:
        self.words, self.pattern = words, pattern
        self.rule = rule or "built are " + ", ".join(words)

    def takes(self, value: str) -> bool:
        if self.pattern is not None:
            return bool(self.pattern.match(value))
        return not self.words or value in self.words


class Flag(Built):
    """A truth value, written in any case."""

    def takes(self, value: str) -> bool:
        return value.lower() in self.words


class Refused:
    """Not built. ``harmless``: the values that every guest satisfies anyway."""

    def __init__(self, *harmless: str) -> None:
        self.harmless: FrozenSet[str] = frozenset(harmless)
        self.rule = "not built by this version" + ("; left out, or " + " or ".join(harmless) if harmless else "")

    def takes(self, value: str) -> bool:
        return value.lower() in self.harmless


class ForPlacement:
    """Chooses the host, or is for people; Nova's libvirt driver builds nothing from it either."""

    rule = ""

    def takes(self, _value: str) -> bool:
        return True


Fate = Union[Built, Refused, ForPlacement]

MACHINE = Built(
    pattern=re.compile(r"(pc|q35|virt|pseries|s390-ccw-virtio)(-[A-Za-z0-9.]+)*\Z", re.ASCII),
    rule="pc, q35, virt, pseries or s390-ccw-virtio, or a version of one such as pc-q35-8.2",
)
_ROOT_DEVICE = Built(
    pattern=re.compile(r"(/dev/)?[vsh]da\Z", re.ASCII),
    rule="/dev/vda, /dev/sda or /dev/hda, as the bus of the root disk has it",
)
_ANY, _FLAG, _PLACEMENT = Built(), Flag(*YES, *NO), ForPlacement()
_NEVER, _UNLESS_NO = Refused(), Refused(*NO)
_DISK_BUS, _CDROM_BUS = Built("ide", "sata", "scsi", "usb", "virtio"), Built("ide", "sata", "scsi", "usb")
_VIDEO = Built("bochs", "cirrus", "none", "qxl", "vga", "virtio", "vmvga")
_FIRMWARE = Built("bios", "uefi")
_WATCHDOG = Built("disabled", "none", "pause", "poweroff", "reset")
_TPM_VERSION, _TPM_MODEL = Built("2.0"), Built("tpm-crb", "tpm-tis")
_SECURE_BOOT = Built("disabled", "optional", "required")
_VIOMMU = Built("auto", "intel", "smmuv3", "virtio")
_ENCRYPTION_MODEL = Built("amd-sev")


def _table(*parts: Tuple[Fate, str]) -> Dict[str, Fate]:
    """Return {name: fate} of (fate, "names separated by spaces") ...; a name that is in two parts is a mistake."""
    table: Dict[str, Fate] = {}
    for fate, names in parts:
        for name in names.split():
            if name in table:
                raise ValueError("%s is in the table twice" % name)
            table[name] = fate
    return table


IMAGE = _table(
    (MACHINE, "hw_machine_type"),
    (_DISK_BUS, "hw_disk_bus"),
    (_CDROM_BUS, "hw_cdrom_bus"),
    (_VIDEO, "hw_video_model"),
    (_FIRMWARE, "hw_firmware_type"),
    (_WATCHDOG, "hw_watchdog_action"),
    (_SECURE_BOOT, "os_secure_boot"),
    (Built("virtio"), "hw_rng_model"),
    (Built("virtio-scsi"), "hw_scsi_model"),
    (Built("hvm"), "hw_vm_mode"),
    (Flag(*YES, *NO, "disabled"), "hw_auto_disk_config"),
    (_ROOT_DEVICE, "img_root_device_name"),
    (Built("linux", "windows"), "os_type"),
    (_ANY, "kernel_id ramdisk_id os_command_line"),
    (_TPM_VERSION, "hw_tpm_version"),
    (_TPM_MODEL, "hw_tpm_model"),
    (_VIOMMU, "hw_viommu_model"),
    (_ENCRYPTION_MODEL, "hw_mem_encryption_model"),
    (_FLAG, "hw_boot_menu hw_locked_memory hw_mem_encryption hw_qemu_guest_agent hw_vif_multiqueue_enabled"),
    (
        _ANY,
        "hw_cpu_cores hw_cpu_sockets hw_cpu_threads hw_cpu_policy hw_cpu_realtime_mask hw_cpu_thread_policy hw_mem_page_size "
        "hw_numa_nodes hw_numa_cpus hw_numa_mem hw_vif_model",
    ),
    (
        _UNLESS_NO,
        "hw_ephemeral_encryption hw_firmware_stateless hw_time_hpet "
        "hw_virtio_packed_ring img_bdm_v2 img_hide_hypervisor_id os_require_quiesce",
    ),
    (
        _NEVER,
        "hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_ephemeral_encryption_format "
        "hw_ephemeral_encryption_secret_uuid hw_input_bus hw_maxphysaddr_bits hw_maxphysaddr_mode "
        "hw_pmu hw_pointer_model hw_sound_model hw_usb_model img_block_device_mapping img_mappings "
        "img_signature img_signature_certificate_uuid "
        "img_signature_hash_method img_signature_key_type vmware_adaptertype",
    ),
    (Refused("0"), "hw_redirected_usb_ports hw_video_ram"),
    (Refused("1"), "hw_serial_port_count"),
    (Refused("optional"), "img_config_drive"),
    (
        _PLACEMENT,
        "hw_architecture hw_device_id hw_disk_type hw_emulation_architecture hw_floppy_bus "
        "hw_ipxe_boot hw_pci_numa_affinity_policy hw_rescue_bus hw_rescue_device img_bittorrent img_cache_in_nova "
        "img_compression_level img_hv_requested_version img_hv_type img_linked_clone img_owner_id "
        "img_use_agent img_version os_admin_user os_distro os_skip_agent_inject_files_at_boot "
        "os_skip_agent_inject_ssh os_version",
    ),
)

FLAVOR = _table(
    (MACHINE, "hw:machine_type"),
    (_DISK_BUS, "hw:disk_bus"),
    (_CDROM_BUS, "hw:cdrom_bus"),
    (_VIDEO, "hw:video_model"),
    (_FIRMWARE, "hw:firmware_type"),
    (_WATCHDOG, "hw:watchdog_action"),
    (_SECURE_BOOT, "os:secure_boot"),
    (Built("isolate"), "hw:emulator_threads_policy"),
    (Built("full", "overlay", "raw"), "berth:root_disk"),
    (_TPM_VERSION, "hw:tpm_version"),
    (_TPM_MODEL, "hw:tpm_model"),
    (_VIOMMU, "hw:viommu_model"),
    (_ENCRYPTION_MODEL, "hw:mem_encryption_model"),
    (_FLAG, "hw:boot_menu hw:cpu_realtime hw:locked_memory hw:mem_encryption hw:vif_multiqueue_enabled"),
    (
        _ANY,
        "hw:cpu_cores hw:cpu_sockets hw:cpu_threads hw:cpu_policy hw:cpu_realtime_mask hw:cpu_thread_policy hw:cpu_dedicated_mask "
        "hw:mem_page_size hw:numa_nodes hw:numa_cpus hw:numa_mem hw:vif_model pci_passthrough:alias",
    ),
    (
        _UNLESS_NO,
        "hw:ephemeral_encryption hw:firmware_stateless hw:hide_hypervisor_id "
        "hw:time_hpet hw:virtio_packed_ring hide_hypervisor_id",
    ),
    (
        _NEVER,
        "hw:cpu_max_cores hw:cpu_max_sockets hw:cpu_max_threads hw:ephemeral_encryption_format "
        "hw:input_bus hw:maxphysaddr_bits hw:maxphysaddr_mode hw:pmem hw:pmu "
        "hw:pointer_model hw:sound_model hw:tpm_secret_security hw:usb_model "
        "hw_rng:rate_bytes hw_rng:rate_period hw_video:ram_max_mb accel:device_profile quota:cpu_limit "
        "quota:cpu_period quota:cpu_quota quota:cpu_reservation quota:cpu_shares quota:cpu_shares_level "
        "quota:cpu_shares_share quota:disk_io_limit quota:disk_io_reservation quota:disk_io_shares_level "
        "quota:disk_io_shares_share quota:disk_read_bytes_sec quota:disk_read_iops_sec quota:disk_total_bytes_sec "
        "quota:disk_total_bytes_sec_max quota:disk_total_iops_sec quota:disk_total_iops_sec_max "
        "quota:disk_write_bytes_sec quota:disk_write_iops_sec quota:memory_limit quota:memory_reservation "
        "quota:memory_shares_level quota:memory_shares_share quota:vif_inbound_average quota:vif_inbound_burst "
        "quota:vif_inbound_peak quota:vif_limit quota:vif_outbound_average quota:vif_outbound_burst "
        "quota:vif_outbound_peak quota:vif_reservation quota:vif_shares_level quota:vif_shares_share",
    ),
    (Refused("0"), "hw:redirected_usb_ports"),
    (Refused("1"), "hw:serial_port_count"),
    (Refused(*YES), "hw_rng:allowed"),
    (_PLACEMENT, "group_policy hw:pci_numa_affinity_policy"),
)

# In these scopes an extra spec that is not in the table is a mistake; in others it is the user's own.
OUR_SCOPES = frozenset(("accel", "berth", "hw", "hw_rng", "hw_video", "os", "pci_passthrough", "quota"))
_PER_CELL = re.compile(r"(hw[:_]numa_(?:cpus|mem))\.[0-9]+\Z", re.ASCII)


def image_fate(name: str) -> Optional[Fate]:
    """Return the fate of an image property by its current name; None if Nova does not know it."""
    if name.startswith("trait:"):
        return _PLACEMENT
    return IMAGE.get(_PER_CELL.sub(r"\1", name))


def flavor_fate(name: str) -> Optional[Fate]:
    """Return the fate of an extra spec; None if it is in one of our scopes and does not exist."""
    fate = FLAVOR.get(_PER_CELL.sub(r"\1", name))
    if fate is None and name.partition(":")[0] not in OUR_SCOPES:
        return _PLACEMENT
    return fate
