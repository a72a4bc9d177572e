# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Image properties: Nova's names and what each may hold, so that a typing mistake is found before anything is built."""

from __future__ import annotations

import re

from .errors import BerthError
from .suggest import did_you_mean

_BUS = ("fdc", "ide", "sata", "scsi", "usb", "virtio")
_TRUTH = ("true", "false", "yes", "no", "on", "off", "1", "0")
_WORDS = {
    "hw_architecture": ("aarch64", "armv7l", "i686", "ppc64", "ppc64le", "s390x", "x86_64"),
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
    "hw_scsi_model": ("buslogic", "ibmvscsi", "lsilogic", "lsisas1068", "lsisas1078", "virtio-scsi", "vmpvscsi"),
    "hw_sound_model": ("ac97", "es1370", "ich6", "ich9", "pcspk", "sb16", "usb", "virtio"),
    "hw_tpm_model": ("tpm-crb", "tpm-tis"),
    "hw_tpm_version": ("1.2", "2.0"),
    "hw_usb_model": ("nec-xhci", "none", "qemu-xhci"),
    "hw_video_model": ("bochs", "cirrus", "gop", "none", "qxl", "vga", "virtio", "vmvga", "xen"),
    "hw_vif_model": ("e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "spapr-vlan", "virtio", "vmxnet3"),
    "hw_viommu_model": ("auto", "intel", "smmuv3", "virtio"),
    "hw_vm_mode": ("exe", "hvm", "uml", "xen"),
    "hw_watchdog_action": ("disabled", "none", "pause", "poweroff", "reset"),
    "img_config_drive": ("mandatory", "optional"),
    "img_hv_type": ("kvm", "lxc", "qemu", "xen"),
    "os_secure_boot": ("disabled", "optional", "required"),
    "os_type": ("linux", "windows"),
}
_NUMBERS = (
    "hw_cpu_cores", "hw_cpu_max_cores", "hw_cpu_max_sockets", "hw_cpu_max_threads", "hw_cpu_sockets", "hw_cpu_threads",
    "hw_maxphysaddr_bits", "hw_numa_nodes", "hw_redirected_usb_ports", "hw_serial_port_count", "hw_video_ram",
)  # fmt: skip
_TRUTHS = (
    "hw_auto_disk_config", "hw_boot_menu", "hw_ephemeral_encryption", "hw_firmware_stateless", "hw_ipxe_boot",
    "hw_locked_memory", "hw_mem_encryption", "hw_pmu", "hw_qemu_guest_agent", "hw_time_hpet",
    "hw_vif_multiqueue_enabled", "hw_virtio_packed_ring", "img_hide_hypervisor_id", "os_require_quiesce",
)  # fmt: skip
_TEXTS = (
    "hw_cpu_realtime_mask", "hw_disk_type", "hw_emulation_architecture", "hw_machine_type", "hw_mem_page_size",
    "img_hv_requested_version", "img_owner_id", "img_root_device_name", "os_admin_user", "os_command_line", "os_distro",
    "os_version",
)  # fmt: skip
_PER_CELL = re.compile(r"hw_numa_(cpus|mem)\.[0-9]+\Z", re.ASCII)
_OURS = re.compile(r"(hw|img|os)_")

# Older spellings which Nova still reads as the newer ones.
_ALSO = {
    "hw_architecture": {"amd64": "x86_64", "x64": "x86_64", "i386": "i686", "i486": "i686", "i586": "i686"},
    "hw_vm_mode": {"hv": "hvm", "pv": "xen"},
}
KNOWN = frozenset(_WORDS) | frozenset(_NUMBERS) | frozenset(_TRUTHS) | frozenset(_TEXTS)


class InvalidImageProperty(BerthError):
    """An image property that does not exist, or that holds what it cannot (Nova: InvalidRequest, A14)."""


class ImageProperties:
    """Check of the ``properties`` of an image; every value becomes text, as an image service would give it.

    Properties outside hw_*, img_* and os_* are somebody's own and are kept.
    """

    def check(self, value, field):
        if not isinstance(value, dict):
            raise InvalidImageProperty("%s: must be a mapping of names to values" % field, field=field)
        return {str(name): _text(str(name), one, "%s.%s" % (field, name)) for name, one in value.items()}


def _text(name, value, field):
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, (list, tuple)) and all(isinstance(one, (str, int)) for one in value):
        value = ",".join(str(one) for one in value)
    if not isinstance(value, (str, int, float)) or len(str(value)) > 255:
        raise _refused(field, value, "text of at most 255 characters, a number or true/false")
    text = str(value)
    if name in _WORDS:
        word = text.lower()
        word = _ALSO.get(name, {}).get(word, word)
        if word not in _WORDS[name]:
            raise _refused(field, value, "one of " + ", ".join(_WORDS[name]), did_you_mean(text, _WORDS[name]))
        return word
    if name in _NUMBERS and not re.match(r"[0-9]{1,9}\Z", text):
        raise _refused(field, value, "a whole number, not negative")
    if name in _TRUTHS and text.lower() not in _TRUTH:
        raise _refused(field, value, "true or false")
    if name not in KNOWN and _OURS.match(name) and not _PER_CELL.match(name):
        raise _refused(field, value, "a property that exists", did_you_mean(name, KNOWN))
    return text


def _refused(field, value, rule, hint=None):
    shown = repr(value)[:120]
    return InvalidImageProperty("%s: %s is not valid" % (field, shown), field=field, value=shown, rule=rule, hint=hint)
