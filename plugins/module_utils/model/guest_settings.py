# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a guest from its flavor and image, for the check of the request and for the build."""

from __future__ import annotations

from typing import Any, Dict, Optional, Set

from .cpu_list import parse_mask
from .errors import InvalidInput
from .image import is_true

# How libvirt names the disks of a bus: vda, vdb ...
TARGET_PREFIX = {"virtio": "vd", "scsi": "sd", "sata": "sd", "usb": "sd", "ide": "hd"}


class GuestSettings:
    """Image properties and extra specs under one name: ``machine_type`` is hw:machine_type or hw_machine_type."""

    def __init__(self, extra_specs: Dict[str, Any], properties: Dict[str, Any]) -> None:
        self._flavor, self._image = extra_specs, properties

    @classmethod
    def of(cls, spec: Dict[str, Any]) -> GuestSettings:
        return cls(spec["flavor"].get("extra_specs") or {}, (spec.get("image") or {}).get("properties") or {})

    def get(self, name: str, default: Any = None) -> Any:
        return self._flavor.get("hw:" + name, self._image.get("hw_" + name, default))

    def secure_boot(self) -> bool:
        return "required" in (self._flavor.get("os:secure_boot"), self._image.get("os_secure_boot"))

    def is_windows(self) -> bool:
        return self._image.get("os_type") == "windows"

    def tpm_version(self) -> Optional[str]:
        return self.get("tpm_version") or None

    def realtime_cpus(self, vcpus: int) -> Optional[Set[int]]:
        """The vCPUs that run in real time, or None. The image's mask goes before the flavor's, as in Nova."""
        if not is_true(self._flavor.get("hw:cpu_realtime")):
            return None
        field = "hw:cpu_realtime_mask"
        mask, every = self._image.get("hw_cpu_realtime_mask") or self._flavor.get(field), set(range(vcpus))
        chosen = parse_mask(mask, vcpus, field) if mask else every
        emulator = self._flavor.get("hw:emulator_threads_policy")
        if not chosen or not chosen <= every or (chosen == every and not emulator):
            raise InvalidInput(
                field, mask, "a part of the flavor's vCPUs, or all of them beside hw:emulator_threads_policy"
            )
        return chosen

    def realtime_mask_of_flavor(self) -> Optional[str]:
        return self._flavor.get("hw:cpu_realtime_mask")

    def viommu_model(self) -> Optional[str]:
        """The model of the virtual IOMMU. Nova's auto is virtio if libvirt supports it; hosts without it are left out."""
        model = self.get("viommu_model")
        return "virtio" if model == "auto" else model

    def encrypts_memory(self) -> bool:
        return is_true(self._flavor.get("hw:mem_encryption")) or is_true(self._image.get("hw_mem_encryption"))

    def root_device(self) -> str:
        """The name of the root disk, the first on its bus."""
        return TARGET_PREFIX[self.get("disk_bus", "virtio")] + "a"

    def cpu_topology(self, vcpus: int) -> Dict[str, int]:
        """{sockets, cores, threads} with missing values filled in; empty if none is given."""
        wanted = {name: int(self.get("cpu_" + name, 0) or 0) for name in ("sockets", "cores", "threads")}
        if not any(wanted.values()):
            return {}
        cores, threads = wanted["cores"] or 1, wanted["threads"] or 1
        sockets = wanted["sockets"] or max(1, vcpus // (cores * threads))
        if sockets * cores * threads != vcpus:
            raise InvalidInput(
                "hw:cpu_sockets, cpu_cores, cpu_threads",
                (sockets, cores, threads),
                "their product is vcpus, %d" % vcpus,
            )
        return {"sockets": sockets, "cores": cores, "threads": threads}
