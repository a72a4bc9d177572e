# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's image properties, a row for each: its valid values, so that typing mistakes are found before anything is built, and
what happens with it here: built into the guest, refused, or for placement alone."""

from __future__ import annotations

import re
from typing import Dict, FrozenSet, NamedTuple, Optional, Pattern, Tuple, Union

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


class Property(NamedTuple):
    """``kind`` has the valid values, or names how the value is read (READ in image.py); "unread" is for what placement does not
    read, None for what is no name of its own. ``spec``: the extra spec of the same name, hw:x for hw_x, means the same.
    """

    kind: Union[str, Tuple[str, ...], None]
    fate: Fate
    spec: bool = False

    @property
    def words(self) -> Tuple[str, ...]:
        return self.kind if isinstance(self.kind, tuple) else ()

    @property
    def read_as(self) -> str:
        return self.kind if isinstance(self.kind, str) else "text" if self.kind else ""


def _built(*words: str, spec: bool = True) -> Property:
    """Return the row of a property whose valid values are all built."""
    return Property(words, Built(*words), spec)


MACHINE = Built(
    pattern=re.compile(r"(pc|q35|virt|pseries|s390-ccw-virtio)(-[A-Za-z0-9.]+)*\Z", re.ASCII),
    rule="pc, q35, virt, pseries or s390-ccw-virtio, or a version of one such as pc-q35-8.2",
)
ROOT_DEVICE = Built(
    pattern=re.compile(r"(/dev/)?[vsh]da\Z", re.ASCII),
    rule="/dev/vda, /dev/sda or /dev/hda, as the bus of the root disk has it",
)
ANY, FLAG, PLACEMENT, NEVER, UNLESS_NO = Built(), Flag(*YES, *NO), ForPlacement(), Refused(), Refused(*NO)
BUS = ("fdc", "ide", "sata", "scsi", "usb", "virtio")
TRUTH = ("true", "false", "yes", "no", "on", "off", "1", "0")

PROPERTIES: Dict[str, Property] = {
    "hw_architecture": Property("architecture", PLACEMENT),
    "hw_auto_disk_config": Property((*TRUTH, "disabled"), Flag(*YES, *NO, "disabled")),
    "hw_boot_menu": Property("flag", FLAG, spec=True),
    "hw_cdrom_bus": Property(BUS, Built("ide", "sata", "scsi", "usb"), spec=True),
    "hw_cpu_cores": Property("whole", ANY, spec=True),
    "hw_cpu_max_cores": Property("whole", NEVER, spec=True),
    "hw_cpu_max_sockets": Property("whole", NEVER, spec=True),
    "hw_cpu_max_threads": Property("whole", NEVER, spec=True),
    "hw_cpu_policy": Property(("dedicated", "mixed", "shared"), ANY, spec=True),
    "hw_cpu_realtime_mask": Property("text", ANY, spec=True),
    "hw_cpu_sockets": Property("whole", ANY, spec=True),
    "hw_cpu_thread_policy": Property(("isolate", "prefer", "require"), ANY, spec=True),
    "hw_cpu_threads": Property("whole", ANY, spec=True),
    "hw_device_id": Property("whole", PLACEMENT),
    "hw_disk_bus": Property(BUS, Built("ide", "sata", "scsi", "usb", "virtio"), spec=True),
    "hw_disk_type": Property("text", PLACEMENT),
    "hw_emulation_architecture": Property("architecture", PLACEMENT),
    "hw_ephemeral_encryption": Property("flag", UNLESS_NO, spec=True),
    "hw_ephemeral_encryption_format": Property(("luks", "luksv2", "plain"), NEVER, spec=True),
    "hw_ephemeral_encryption_secret_uuid": Property("text", NEVER),
    "hw_firmware_stateless": Property("flag", UNLESS_NO, spec=True),
    "hw_firmware_type": _built("bios", "uefi"),
    "hw_floppy_bus": Property(BUS, PLACEMENT),
    "hw_input_bus": Property(("usb", "virtio"), NEVER, spec=True),
    "hw_ipxe_boot": Property("flag", PLACEMENT),
    "hw_locked_memory": Property("flag", FLAG, spec=True),
    "hw_machine_type": Property("text", MACHINE, spec=True),
    "hw_maxphysaddr_bits": Property("whole", NEVER, spec=True),
    "hw_maxphysaddr_mode": Property(("emulate", "passthrough"), NEVER, spec=True),
    "hw_mem_encryption": Property("flag", FLAG, spec=True),
    "hw_mem_encryption_model": Property(
        ("amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx"), Built("amd-sev"), spec=True
    ),
    "hw_mem_page_size": Property("text", ANY, spec=True),
    "hw_numa_cpus": Property(None, ANY, spec=True),
    "hw_numa_mem": Property(None, ANY, spec=True),
    "hw_numa_nodes": Property("whole", ANY, spec=True),
    "hw_pci_numa_affinity_policy": Property(("legacy", "preferred", "required", "socket"), PLACEMENT, spec=True),
    "hw_pmu": Property("flag", NEVER, spec=True),
    "hw_pointer_model": Property(("usbtablet",), NEVER, spec=True),
    "hw_qemu_guest_agent": Property("flag", FLAG),
    "hw_redirected_usb_ports": Property("whole", Refused("0"), spec=True),
    "hw_rescue_bus": Property(BUS, Built("ide", "sata", "scsi", "usb", "virtio")),
    "hw_rescue_device": Property(("cdrom", "disk", "floppy", "fs", "lun"), Built("cdrom", "disk")),
    "hw_rng_model": _built("virtio", spec=False),
    "hw_scsi_model": Property("scsi_model", Built("virtio-scsi")),
    "hw_serial_port_count": Property("whole", Refused("1"), spec=True),
    "hw_sound_model": Property(("ac97", "es1370", "ich6", "ich9", "pcspk", "sb16", "usb", "virtio"), NEVER, spec=True),
    "hw_time_hpet": Property("flag", UNLESS_NO, spec=True),
    "hw_tpm_model": _built("tpm-crb", "tpm-tis"),
    "hw_tpm_version": Property(("1.2", "2.0"), Built("2.0"), spec=True),
    "hw_usb_model": Property(("nec-xhci", "none", "qemu-xhci"), NEVER, spec=True),
    "hw_video_model": Property(
        ("bochs", "cirrus", "gop", "none", "qxl", "vga", "virtio", "vmvga", "xen"),
        Built("bochs", "cirrus", "none", "qxl", "vga", "virtio", "vmvga"),
        spec=True,
    ),
    "hw_video_ram": Property("whole", Refused("0")),
    "hw_vif_model": Property(
        ("e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "spapr-vlan", "virtio", "vmxnet3"), ANY, spec=True
    ),
    "hw_vif_multiqueue_enabled": Property("flag", FLAG, spec=True),
    "hw_viommu_model": _built("auto", "intel", "smmuv3", "virtio"),
    "hw_virtio_packed_ring": Property("flag", UNLESS_NO, spec=True),
    "hw_vm_mode": Property("vm_mode", Built("hvm")),
    "hw_watchdog_action": _built("disabled", "none", "pause", "poweroff", "reset"),
    "img_bdm_v2": Property("flag", UNLESS_NO),
    "img_bittorrent": Property("flag", PLACEMENT),
    "img_block_device_mapping": Property("unread", NEVER),
    "img_cache_in_nova": Property("flag", PLACEMENT),
    "img_compression_level": Property("whole", PLACEMENT),
    "img_config_drive": Property(("mandatory", "optional"), Refused("optional")),
    "img_hide_hypervisor_id": Property("flag", UNLESS_NO),
    "img_hv_requested_version": Property("text", PLACEMENT),
    "img_hv_type": Property("hv_type", PLACEMENT),
    "img_linked_clone": Property("flag", PLACEMENT),
    "img_mappings": Property("unread", NEVER),
    "img_owner_id": Property("text", PLACEMENT),
    "img_root_device_name": Property("text", ROOT_DEVICE),
    "img_signature": Property("text", NEVER),
    "img_signature_certificate_uuid": Property("text", NEVER),
    "img_signature_hash_method": Property("text", NEVER),
    "img_signature_key_type": Property("text", NEVER),
    "img_use_agent": Property("flag", PLACEMENT),
    "img_version": Property("whole", PLACEMENT),
    "kernel_id": Property("unread", ANY),
    "os_admin_user": Property("text", PLACEMENT),
    "os_command_line": Property("text", ANY),
    "os_distro": Property("text", PLACEMENT),
    "os_require_quiesce": Property("flag", UNLESS_NO),
    "os_secure_boot": _built("disabled", "optional", "required"),
    "os_skip_agent_inject_files_at_boot": Property("flag", PLACEMENT),
    "os_skip_agent_inject_ssh": Property("flag", PLACEMENT),
    "os_type": _built("linux", "windows", spec=False),
    "os_version": Property("unread", PLACEMENT),
    "ramdisk_id": Property("unread", ANY),
    "vmware_adaptertype": Property(None, NEVER),
}
