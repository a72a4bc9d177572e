# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image properties of a request, and the extra specs of a flavor: their valid values, and what happens with each."""

from __future__ import annotations

import functools
import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from . import flavor_limit_checks, guest_settings, hot_plug
from .errors import BerthError, InvalidInput, together
from .guest_settings import GuestSettings
from .image import CANONICAL, LEGACY_NAMES
from .image_properties import ANY, FLAG, NEVER, PLACEMENT, PROPERTIES, TRUTH, UNLESS_NO, YES, Built, Fate, Refused
from .unknown_names import did_you_mean, meant, nearest

Property = Union[str, List[str]]

_IMAGE_PER_CELL = re.compile(r"hw_numa_(cpus|mem)\.[0-9]+\Z", re.ASCII)
_OURS = re.compile(r"(hw|img|os)_")


class InvalidImageProperty(BerthError):
    """An image property does not exist, or its value is not allowed (Nova: InvalidRequest)."""


class ImageProperties:
    """Check the ``properties`` of an image: every value becomes text, as in Glance, and a list of texts stays a list.
    Properties outside hw_*, img_* and os_* are the user's own and are kept.
    """

    def check(self, value: Any, field: str) -> Dict[str, Property]:
        if not isinstance(value, dict):
            raise InvalidImageProperty("%s: must be a mapping of names to values" % field, field=field)
        checks = [
            functools.partial(check_property, str(name), part, "%s.%s" % (field, name)) for name, part in value.items()
        ]
        return dict(zip(map(str, value), together(checks)))


def check_property(name: str, value: Any, field: str) -> Property:
    """Return the value of one property as text; InvalidImageProperty if there is no such property or value."""
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value):
        return [str(text) for text in value]
    if not isinstance(value, (str, int, float)) or len(str(value)) > 255:
        raise _refused(field, value, "text of at most 255 characters, a number, true/false or a list of texts")
    text = str(value)
    row = PROPERTIES.get(LEGACY_NAMES.get(name, name))
    kind = row.read_as if row else ""
    if kind in CANONICAL:
        try:
            return CANONICAL[kind](text)
        except InvalidInput as error:
            raise _refused(field, value, error.rule)
    if row and row.words:
        if text.lower() not in row.words:
            near = nearest(text, row.words)
            raise _refused(field, value, "one of " + ", ".join(row.words), meant(near) if near else None)
        return text.lower()
    if kind == "whole" and not re.match(r"[0-9]{1,9}\Z", text):
        raise _refused(field, value, "a whole number, not negative")
    if kind == "flag" and text.lower() not in TRUTH:
        raise _refused(field, value, "true or false")
    known = {own for own, row in PROPERTIES.items() if row.kind}
    if name not in known and _OURS.match(name) and not _IMAGE_PER_CELL.match(name):
        raise _refused(field, value, "a property that exists", did_you_mean(name, known))
    return text


def _refused(field: str, value: Any, rule: Optional[str], hint: Optional[str] = None) -> InvalidImageProperty:
    shown = repr(value)[:120]
    return InvalidImageProperty("%s: %s is not valid" % (field, shown), field=field, value=shown, rule=rule, hint=hint)


def _table(*parts: Tuple[Fate, str]) -> Dict[str, Fate]:
    """Return {name: fate} of (fate, "names separated by spaces") ...; a name that is in two parts is a mistake."""
    table: Dict[str, Fate] = {}
    for fate, names in parts:
        for name in names.split():
            if name in table:
                raise ValueError("%s is in the table twice" % name)
            table[name] = fate
    return table


# Extra specs that no image property is called like.
_ALONE = _table(
    (Built("isolate"), "hw:emulator_threads_policy"),
    (Built("full", "overlay", "raw"), "berth:root_disk"),
    (FLAG, "hw:cpu_realtime"),
    (ANY, "hw:cpu_dedicated_mask pci_passthrough:alias"),
    (UNLESS_NO, "hw:hide_hypervisor_id hide_hypervisor_id"),
    (ANY, " ".join((*flavor_limit_checks.RANGES, *hot_plug.SIZES))),
    (
        NEVER,
        "hw:pmem hw:tpm_secret_security hw_rng:rate_bytes hw_rng:rate_period hw_video:ram_max_mb "
        # limits of other hypervisors
        "accel:device_profile quota:cpu_limit quota:cpu_reservation quota:cpu_shares_level quota:cpu_shares_share "
        "quota:disk_io_limit quota:disk_io_reservation quota:disk_io_shares_level quota:disk_io_shares_share "
        "quota:disk_total_bytes_sec_max quota:disk_total_iops_sec_max quota:memory_limit quota:memory_reservation "
        "quota:memory_shares_level quota:memory_shares_share quota:vif_limit quota:vif_reservation "
        "quota:vif_shares_level quota:vif_shares_share",
    ),
    (Refused(*YES), "hw_rng:allowed"),
    (PLACEMENT, "group_policy"),
)

# In these scopes an extra spec that is not in the table is a mistake; in others it is the user's own.
OUR_SCOPES = frozenset(("accel", "berth", "hw", "hw_rng", "hw_video", "os", "pci_passthrough", "quota"))
_PER_CELL = re.compile(r"(hw[:_]numa_(?:cpus|mem))\.[0-9]+\Z", re.ASCII)


def extra_specs() -> Dict[str, Fate]:
    """Return {extra spec: fate} of all that Nova knows, and ours."""
    twins = {name.replace("_", ":", 1): row.fate for name, row in PROPERTIES.items() if row.spec}
    return {**twins, **_ALONE}


def image_fates() -> Dict[str, Fate]:
    return {name: row.fate for name, row in PROPERTIES.items()}


def image_fate(name: str) -> Optional[Fate]:
    """Return the fate of an image property by its current name; None if Nova does not know it."""
    if name.startswith("trait:"):
        return PLACEMENT
    return image_fates().get(_PER_CELL.sub(r"\1", name))


def flavor_fate(name: str) -> Optional[Fate]:
    """Return the fate of an extra spec; None if it is in one of our scopes and does not exist."""
    fate = extra_specs().get(_PER_CELL.sub(r"\1", name))
    if fate is None and name.partition(":")[0] not in OUR_SCOPES:
        return PLACEMENT
    return fate


# Checks, before anything is claimed, whether the guest that a flavor and an image ask for can be built.

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
    checks: List[Callable[[], Any]] = [
        functools.partial(_extra_spec, "%s.%s" % (field, name), name, str(specs[name])) for name in specs
    ]
    checks += flavor_limit_checks.checks(specs, field)
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
    yield from hot_plug.checks(flavor, settings, field)
    yield tpm
    yield functools.partial(settings.cpu_topology, flavor["vcpus"])
    yield no_ide
    yield secure_boot
