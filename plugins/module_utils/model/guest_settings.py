# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a guest from its flavor and image, for the check of the request and for the build."""

from __future__ import annotations

import fnmatch
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Set

from .cpu_list import parse_mask
from .errors import InvalidInput
from .messages import Document

TRUE_WORDS = ("1", "t", "true", "on", "y", "yes")
# How libvirt names the disks of a bus: vda, vdb ...
TARGET_PREFIX = {"virtio": "vd", "scsi": "sd", "sata": "sd", "usb": "sd", "ide": "hd"}


def is_true(value: Any) -> bool:
    """Read a truth value written as text, as Nova does: everything but a word for yes is false."""
    return value if isinstance(value, bool) else str(value).strip().lower() in TRUE_WORDS


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


# What the hardware of a guest depends on, as its record keeps it, and whether a host has it: the machine type, and a
# UEFI firmware that keeps its variables as the guest's are kept.
#
# The build of the firmware does not count: it changes with every update of a host, and reads the variables of other
# builds that have the same size and format. One word tells these: raw-540672-authenticated, qcow2-540672. Variables
# that no firmware has formatted yet end with -blank.
KEY = "hardware"  # in the request
VARIABLES = r"(raw|qcow2)-[0-9]{1,12}(-(authenticated|plain|blank))?"  # such a word


class GuestNeeds(NamedTuple):
    """``machine`` and ``variables`` are None if the record does not say them, as before the first start."""

    machine: Optional[str]
    variables: Optional[str]
    secure_boot: bool

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> GuestNeeds:
        kept = hardware(spec)
        if not kept:
            return cls(None, None, False)
        return cls(kept.get("machine"), kept.get("variables"), GuestSettings.of(dict(spec)).secure_boot())

    def lacking(self, machine_types: Optional[List[str]], firmware: Optional[List[Dict[str, Any]]]) -> Optional[str]:
        """Why a host cannot run the guest, or None. ``firmware``: as compute/host/firmware.py tells it; a host that
        tells none may have one."""
        if self.machine and machine_types is not None and self.machine not in machine_types:
            return "has no machine type %s" % self.machine
        if not self.variables or not firmware:
            return None
        chosen = self.chosen(firmware)
        if chosen is None:
            return "has no UEFI firmware for %s%s" % (self.machine, " with secure boot" * self.secure_boot)
        if not fit(self.variables, chosen["variables"]):
            return "its UEFI firmware has variables of the form %s, the guest has %s" % (
                chosen["variables"],
                self.variables,
            )
        return None

    def chosen(self, firmware: List[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
        """The one that libvirt takes: the first that fits the machine type and signatures."""
        for one in firmware:
            is_for = any(fnmatch.fnmatchcase(self.machine or "", machine) for machine in one["machines"])
            if one["secure_boot"] == self.secure_boot and (is_for or not self.machine):
                return one
        return None


def fit(variables: str, others: str) -> bool:
    """Whether a firmware with the one kind can use the other. What is not formatted yet gets the firmware's own form."""
    mine, theirs = variables.split("-"), others.split("-")
    if "blank" in (mine[-1], theirs[-1]):
        return mine[:2] == theirs[:2]
    return mine == theirs


def hardware(spec: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """What the request keeps, or None. A request that now asks for another machine type starts without it."""
    kept = spec.get(KEY)
    return kept if kept and kept.get("wished") == GuestSettings.of(dict(spec)).get("machine_type") else None


# Direct kernel boot: the kernel and the initrd that an image names, and what conflicts with them.
#
# An image has ``kernel`` and ``initrd`` as {url, checksum}, or names other images by Nova's kernel_id and ramdisk_id.
PROPERTIES = {"kernel": "kernel_id", "initrd": "ramdisk_id"}


def with_boot_files(image: Document, find: Callable[[Any, str], Document]) -> Document:
    """Return the image with kernel and initrd from the images that it names; ``find(name, field)`` looks those up."""
    found = dict(image)
    for part, name in PROPERTIES.items():
        other, field = image["properties"].get(name), "berth_images.%s.properties.%s" % (image["name"], name)
        if not other:
            continue
        if image[part]:
            raise InvalidInput(field, other, "%s of the image or %s, not both" % (part, name))
        named = find(other, field)
        if named["disk_format"] != "raw":
            raise InvalidInput(field, other, "an image of disk_format raw, not %s" % named["disk_format"])
        if not named["url"]:
            raise InvalidInput(field, other, "an image with a url, not one that is uploaded")
        found[part] = {"url": named["url"], "checksum": named["checksum"]}
    return found


def check(image: Mapping[str, Any], settings: GuestSettings) -> None:
    """Refuse an image with two ways to boot, and an initrd or a command line without a kernel."""
    path = "berth_images.%s" % image["name"]
    properties = image.get("properties") or {}
    if image.get("kernel"):
        if settings.get("firmware_type") == "uefi" or settings.secure_boot():
            raise InvalidInput(
                path + ".kernel", "with UEFI firmware", "a kernel that is booted directly, or UEFI, not both"
            )
        return
    if image.get("initrd"):
        raise InvalidInput(path + ".initrd", "without a kernel", "a kernel, because there is an initrd")
    if properties.get("os_command_line"):
        field = path + ".properties.os_command_line"
        raise InvalidInput(field, properties["os_command_line"], "a kernel, because there is a command line")
