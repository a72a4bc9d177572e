# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks, before anything is claimed, whether the guest that a flavor and an image ask for can be built."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterator

from . import guest_settings
from .errors import BerthError, InvalidInput, together
from .guest_features import InvalidImageProperty, check_property, extra_specs, flavor_fate, image_fate
from .guest_settings import GuestSettings
from .image import LEGACY_NAMES
from .image_properties import Fate, Refused
from .unknown_names import did_you_mean

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


class GuestFeatureNotBuilt(BerthError):
    """The flavor or the image asks for a feature that this version does not build into guests; nothing was claimed."""


def check_guest(flavor: Dict[str, Any], image: Dict[str, Any], look_at_image: bool = True) -> None:
    """Refuse everything that is not built, in one error. ``look_at_image`` is false for a new flavor of an existing guest."""
    specs, properties = flavor.get("extra_specs") or {}, image.get("properties") or {}
    field = "berth_flavors.%s.extra_specs" % flavor["name"]
    checks = [functools.partial(_extra_spec, "%s.%s" % (field, name), name, str(specs[name])) for name in specs]
    if look_at_image:
        path = "berth_images.%s.properties" % image["name"]
        checks += [functools.partial(_property, "%s.%s" % (path, name), name, properties[name]) for name in properties]
    together(checks)
    settings = GuestSettings(specs, properties)
    checks = [
        functools.partial(guest_settings.check, image, settings),
        functools.partial(_root_device, image, settings),
    ]
    together([*(checks if look_at_image else ()), *_contradictions(settings, flavor, field)])


def _extra_spec(field: str, name: str, value: str) -> None:
    fate = flavor_fate(name)
    if fate is None:
        raise InvalidInput(field, value, "an extra spec that exists", hint=did_you_mean(name, extra_specs()))
    twin = name.replace(":", "_", 1)
    if not isinstance(fate, Refused) and image_fate(twin) is not None:
        try:
            checked = check_property(twin, value, field)
        except InvalidImageProperty as error:
            raise InvalidInput(field, value, error.rule, hint=error.hint)
        if checked != value:
            raise InvalidInput(field, value, "written as %s" % checked)
    _take(fate, field, value)


def _property(field: str, name: str, value: Any) -> None:
    fate = image_fate(LEGACY_NAMES.get(name, name))
    if fate is not None:
        _take(fate, field, str(value))


def _take(fate: Fate, field: str, value: str) -> None:
    if fate.takes(value):
        return
    raise GuestFeatureNotBuilt(
        "%s: %s is not built into guests by this version" % (field, value[:120]),
        field=field,
        value=value[:120],
        rule=fate.rule,
    )


def _root_device(image: Dict[str, Any], settings: GuestSettings) -> None:
    properties = image.get("properties") or {}
    asked = properties.get("img_root_device_name", properties.get("root_device_name"))
    if asked and str(asked).replace("/dev/", "", 1) != settings.root_device():
        path = "berth_images.%s.properties.img_root_device_name" % image["name"]
        bus = settings.get("disk_bus", "virtio")
        raise InvalidInput(path, asked, "/dev/%s, as a root disk on %s is called" % (settings.root_device(), bus))


def _contradictions(settings: GuestSettings, flavor: Dict[str, Any], field: str) -> Iterator[Callable[[], Any]]:
    """Yield the checks of features that can be built alone, but not together."""
    machine = settings.get("machine_type") or "q35"
    buses = {settings.get("disk_bus", "virtio"), settings.get("cdrom_bus")}

    def no_ide() -> None:
        if "ide" in buses and machine != "pc" and not machine.startswith("pc-i440fx"):
            raise InvalidInput(
                field,
                "bus ide with machine type %s" % machine,
                "hw_disk_bus or hw_cdrom_bus ide only with hw_machine_type pc",
            )

    def secure_boot() -> None:
        if settings.secure_boot() and (
            settings.get("firmware_type") != "uefi" or not machine.startswith(("q35", "pc-q35"))
        ):
            raise InvalidInput(
                field,
                "secure boot with firmware %s and machine type %s" % (settings.get("firmware_type", "bios"), machine),
                "os:secure_boot required only with hw_firmware_type uefi and machine type q35",
            )

    def tpm() -> None:
        if settings.get("tpm_model") and not settings.tpm_version():
            raise InvalidInput(field, "a TPM model without a version", "hw:tpm_version 2.0 beside hw:tpm_model")

    yield from conflicts(settings, flavor, field)
    yield tpm
    yield functools.partial(settings.cpu_topology, flavor["vcpus"])
    yield no_ide
    yield secure_boot
