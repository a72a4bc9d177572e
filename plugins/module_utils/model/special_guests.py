# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Contradictions in a request for real-time CPUs, a virtual IOMMU or encrypted memory."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator

from .errors import InvalidInput
from .guest_settings import GuestSettings

Q35 = ("q35", "pc-q35")
# IOMMU model -> the machine types that have it, as the beginnings of their names with a version.
IOMMU_MACHINES = {"intel": Q35, "smmuv3": ("virt",), "virtio": (*Q35, "virt")}


def conflicts(settings: GuestSettings, flavor: Dict[str, Any], field: str) -> Iterator[Callable[[], Any]]:
    """Yield checks, each of which may raise InvalidInput."""

    def realtime() -> None:
        asked = settings.realtime_cpus(flavor["vcpus"])
        if asked is None and settings.realtime_mask_of_flavor():
            raise InvalidInput(field, "hw:cpu_realtime_mask alone", "hw:cpu_realtime yes beside hw:cpu_realtime_mask")
        if asked and settings.get("cpu_policy") not in ("dedicated", "mixed"):
            raise InvalidInput(
                field, "real-time CPUs that are not pinned", "hw:cpu_policy dedicated or mixed beside them"
            )

    def viommu() -> None:
        model, wanted = settings.viommu_model(), settings.get("machine_type")
        fitting = IOMMU_MACHINES.get(model or "")
        if fitting and wanted and not wanted.startswith(fitting):
            rule = "%s only with machine type %s" % (model, " or ".join(name for name in fitting if "-" not in name))
            raise InvalidInput(field, "a virtual IOMMU with machine type %s" % wanted, rule)

    def encryption() -> None:
        if not settings.encrypts_memory():
            return
        machine = settings.get("machine_type") or "q35"
        has_firmware = settings.get("firmware_type") == "uefi" and not settings.secure_boot()
        if not has_firmware or not machine.startswith(Q35):
            raise InvalidInput(
                field,
                "memory encryption with firmware %s%s and machine type %s"
                % (settings.get("firmware_type", "bios"), " and secure boot" * settings.secure_boot(), machine),
                "hw:mem_encryption only with hw_firmware_type uefi without secure boot, and machine type q35",
            )

    yield realtime
    yield viommu
    yield encryption
