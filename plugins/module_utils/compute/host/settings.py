# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of this host, /etc/berth/host.json: what nova.conf is to nova-compute."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from typing import Any, Dict, Optional, Tuple

from ...model import host_hints
from ...model.cpu_list import MAX_CPU, parse_cpu_spec
from ...model.errors import BerthError, InvalidInput
from ...model.identity import UUID
from ...model.safe_text import is_safe
from ...model.schema import CUSTOM, Check, Fields, Flag, ListOf, MapOf, OneOf, OrNull, Text, Whole
from ...model.unknown_names import did_you_mean
from ..errors import HostIdentityChanged, HostNotPrepared

PATH = "/etc/berth/host.json"
SCHEMA = 1
MAX_BYTES = 1 << 20
NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?\Z", re.ASCII)
TRUE, FALSE = ("true", "yes", "on", "t", "y", "1"), ("false", "no", "off", "f", "n", "0")  # as Ansible reads text
VARIABLE = "berth_host_"  # what comes before the name of a setting in the inventory


class SettingsInvalid(InvalidInput):
    """The settings of the host break a rule. Nothing was changed; another host may work.

    ``newer``: a later version wrote them."""

    retryable = True
    newer = False

    @classmethod
    def of(cls, error: InvalidInput) -> SettingsInvalid:
        """Return the same error, as one of the settings."""
        new = cls(error.field or "", None, error.rule, error.hint)
        new.message, new.value = error.message, error.value
        new.also = [cls.of(other) for other in error.also]
        return new


class SettingsUnreadable(BerthError):
    """The settings of the host cannot be read, or are not a JSON object."""

    retryable = True


@dataclasses.dataclass(frozen=True)
class HostSettings:
    """The settings of a host: the names and defaults are Nova's where Nova has them.

    ``reserved_host_memory_mb`` is in MiB, ``reserved_host_disk_gb`` in GiB, the CPU sets are in Nova's notation
    ("0-3,8,^2"). ``uuid`` is libvirt's host uuid at preparation. ``prepared`` is false if no file exists. Image files
    are only read below ``image_directories`` and downloaded by ``image_proxy``; ``metrics_directory`` has your own numbers for placement.
    ``enabled_mdev_types`` are the types of vGPUs that GPUs offer, one for each GPU. ``custom_resources`` {CUSTOM_X: how
    many} may be asked for by flavors, ``stats`` {name: text} by filters.
    """

    schema: int = SCHEMA
    uuid: Optional[str] = None
    pool: str = "berth"
    cpu_allocation_ratio: float = 4.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0
    reserved_host_cpus: int = 0
    reserved_host_memory_mb: int = 512
    reserved_host_disk_gb: int = 0
    cpu_dedicated_set: str = ""
    cpu_shared_set: str = ""
    pci_devices: Tuple[Dict[str, str], ...] = ()
    domain_type: str = "auto"
    cpu_models: Tuple[str, ...] = ()
    disabled: bool = False
    disabled_reason: str = ""
    max_concurrent_builds: int = 10
    traits: Tuple[str, ...] = ()
    migration_address: Optional[str] = None
    migration_address_only: bool = False
    security_driver_none_ok: bool = False
    image_directories: Tuple[str, ...] = ()
    image_proxy: Optional[str] = None
    metrics_directory: Optional[str] = None
    enabled_mdev_types: Tuple[Dict[str, Any], ...] = ()
    custom_resources: Dict[str, int] = dataclasses.field(default_factory=dict)
    stats: Dict[str, str] = dataclasses.field(default_factory=dict)
    prepared: bool = False

    def check_uuid(self, found: Optional[str]) -> None:
        """Raise if the uuid differs from ``found``, libvirt's present host uuid."""
        if self.uuid and self.uuid != found:
            raise HostIdentityChanged(
                "this host was prepared as %s and is now %s" % (self.uuid, found),
                field="uuid",
                rule="libvirt's host uuid stays as it was at preparation",
                hint=host_hints.uuid_changed(PATH, self.uuid),
            )

    def dedicated_cpus(self):
        return frozenset(parse_cpu_spec(self.cpu_dedicated_set))

    def shared_cpus(self):
        return frozenset(parse_cpu_spec(self.cpu_shared_set))

    def mdev_type(self, parent: str) -> Optional[str]:
        """Return the vGPU type of the GPU at a PCI address: that of the entry that names it, else the default one."""
        named = [entry["type"] for entry in self.enabled_mdev_types if parent in entry.get("parents", ())]
        others = [entry["type"] for entry in self.enabled_mdev_types if "parents" not in entry]
        return next(iter(named + others), None)

    def to_dict(self):
        """Return every setting except ``prepared``, for the file. Settings that earlier versions of the collection do
        not know are left out unless they are set."""
        data = dataclasses.asdict(self)
        del data["prepared"]
        data["enabled_mdev_types"] = list(data["enabled_mdev_types"])
        for name in LATER:
            if not data[name]:
                del data[name]
        return dict(
            data,
            pci_devices=[dict(device) for device in self.pci_devices],
            traits=list(self.traits),
            image_directories=list(self.image_directories),
            **({"cpu_models": list(self.cpu_models)} if self.cpu_models else {}),
        )


LATER = (
    "image_proxy",
    "metrics_directory",
    "enabled_mdev_types",
    "migration_address_only",
    "cpu_models",
    "custom_resources",
    "stats",
)
NAMES = tuple(field.name for field in dataclasses.fields(HostSettings) if field.name != "prepared")


class CpuSet:
    """CPUs in Nova's notation."""

    def check(self, value: Any, field: str) -> str:
        if not isinstance(value, str):
            raise InvalidInput(field, value, "text such as 0-3,8,^2")
        parse_cpu_spec(value, field, MAX_CPU)
        return value


class Ratio:
    def check(self, value: Any, field: str) -> float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 < value <= 1000:  # also refuses NaN
            raise InvalidInput(field, value, "a number above 0 and at most 1000")
        return float(value)


class SafeLine:
    def check(self, value: Any, field: str) -> str:
        if not isinstance(value, str) or not is_safe(value, 255):
            raise InvalidInput(field, value, "one line of at most 255 printable characters without template marks")
        return value


class Directory:
    def __init__(self, what: str) -> None:
        self.what = what

    def check(self, value: Any, field: str) -> str:
        good = isinstance(value, str) and is_safe(value, 4096) and value.startswith("/") and value != "/"
        if not good or os.path.normpath(value) != value:
            raise InvalidInput(
                field, value, "the absolute path of a directory for %s, without .. and / at its end" % self.what
            )
        return value


_PCI_ADDRESS = Text(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z", "an address such as 0000:81:00.0")


class PciDevice:
    """A device that guests may have; without an address, every device of that kind."""

    _id = Text(r"[0-9a-f]{4}\Z", "four hexadecimal digits in lower case")
    _fields = Fields({"vendor_id": _id, "product_id": _id, "address": _PCI_ADDRESS}, defaults={"address": None})

    def check(self, value: Any, field: str) -> Dict[str, str]:
        return {name: part for name, part in self._fields.check(value, field).items() if part is not None}


class MdevType:
    """A type of mediated devices that guests may have; without parents, on every GPU that no other entry names."""

    _type = Text(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z", "a type such as nvidia-35", longest=64)
    _parents = OrNull(ListOf(_PCI_ADDRESS, longest=1000))
    _fields = Fields({"type": _type, "parents": _parents}, defaults={"parents": None})

    def check(self, value: Any, field: str) -> Dict[str, Any]:
        return {name: part for name, part in self._fields.check(value, field).items() if part is not None}


class Stat:
    """What a host says of itself to filters: text, as all of Nova's stats are; a number becomes text."""

    def check(self, value: Any, field: str) -> str:
        return SafeLine().check(str(value) if type(value) in (int, float) else value, field)


_CHECKS: Dict[str, Check] = {
    "schema": Whole(1, SCHEMA),
    "uuid": OrNull(Text(UUID + r"\Z", "a uuid in lower case")),
    "pool": Text(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z", "1 to 64 of letters, digits, _ . and -", longest=64),
    "cpu_allocation_ratio": Ratio(),
    "ram_allocation_ratio": Ratio(),
    "disk_allocation_ratio": Ratio(),
    "reserved_host_cpus": Whole(0, MAX_CPU),
    "reserved_host_memory_mb": Whole(0, 1 << 30),
    "reserved_host_disk_gb": Whole(0, 1 << 30),
    "cpu_dedicated_set": CpuSet(),
    "cpu_shared_set": CpuSet(),
    "pci_devices": ListOf(PciDevice(), longest=1000),
    "domain_type": OneOf("auto", "kvm", "qemu"),
    "cpu_models": ListOf(
        Text(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z", "a CPU model of libvirt such as Haswell", longest=64), longest=100
    ),
    "disabled": Flag(),
    "disabled_reason": SafeLine(),
    "max_concurrent_builds": Whole(1, 1000),
    "traits": ListOf(Text(r"[A-Z0-9_]+\Z", "A-Z, 0-9 and _"), longest=1000),
    "migration_address": OrNull(Text(r"[A-Za-z0-9][A-Za-z0-9.:-]*\Z", "a host name or an IP address", longest=253)),
    "migration_address_only": Flag(),
    "security_driver_none_ok": Flag(),
    "image_directories": ListOf(Directory("images"), longest=100),
    "image_proxy": OrNull(
        Text(r"https?://[A-Za-z0-9._:\[\]-]+/?\Z", "http://HOST:PORT, without user and password", longest=300)
    ),
    "metrics_directory": OrNull(Directory("metrics")),
    "enabled_mdev_types": ListOf(MdevType(), longest=100),
    "custom_resources": MapOf(
        Whole(1, (1 << 31) - 1), Text(CUSTOM + r"\Z", "a class such as CUSTOM_LICENSE", longest=255)
    ),
    "stats": MapOf(Stat(), Text(r"[A-Za-z0-9_.-]+\Z", "a name of letters, digits, _ . and -", longest=64)),
}


def _of_text(check: Check, value: Any) -> Any:
    """Return the truth value or number that a text says, as -e NAME=VALUE and a survey of AWX give it; else the value."""
    if isinstance(value, str) and isinstance(check, Flag):
        return {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}.get(value.lower(), value)
    if isinstance(value, str) and isinstance(check, (Ratio, Whole)) and NUMBER.match(value):
        return float(value) if "." in value else int(value)
    return value


def parse(data: Any, from_file: bool = False) -> HostSettings:
    """Return checked settings from the object in the file. Every error names its field. Fields may be missing.

    ``from_file``: a run wrote them, so an unknown one is of a newer version."""
    if not isinstance(data, dict):
        raise SettingsUnreadable("the host settings are not a JSON object")
    values = {"prepared": True}
    for name, value in data.items():
        if name not in _CHECKS:
            variable = VARIABLE + str(name)[:64]
            hint = did_you_mean(variable, [VARIABLE + known for known in NAMES])
            error = SettingsInvalid(variable, value, "no such setting", hint=hint)
            raise _of_newer(error) if from_file else error
        try:
            value = value if from_file or name == "schema" else _of_text(_CHECKS[name], value)
            checked = _CHECKS[name].check(value, VARIABLE + name)
        except InvalidInput as fault:
            error = SettingsInvalid.of(fault)
            raise _of_newer(error) if name == "schema" else error
        values[name] = tuple(checked) if isinstance(checked, list) else checked
    settings = HostSettings(**values)
    both = settings.dedicated_cpus() & settings.shared_cpus()
    if both:
        raise SettingsInvalid(
            VARIABLE + "cpu_shared_set",
            settings.cpu_shared_set,
            "CPU %d is in cpu_dedicated_set too" % min(both),
        )
    _check_one_type(settings.enabled_mdev_types)
    return settings


def _of_newer(error: SettingsInvalid) -> SettingsInvalid:
    error.newer, error.hint = True, host_hints.newer_version()
    return error


def _check_one_type(entries: Tuple[Dict[str, Any], ...]) -> None:
    """Check that a GPU offers one type only, as in Nova."""
    parents = [parent for entry in entries for parent in entry.get("parents", ("all other GPUs",))]
    twice = [parent for parent in parents if parents.count(parent) > 1]
    if twice:
        rule = "one type for each GPU, %s has two: name the GPUs of each type as its parents" % twice[0]
        raise SettingsInvalid(VARIABLE + "enabled_mdev_types", list(entries), rule)


def no_member(name: str) -> HostNotPrepared:
    """Return the error of a host without settings that is used as a member of the fleet."""
    return HostNotPrepared(
        "the host %s is not prepared: it never was, or berth.kvm.remove_host took it out of the fleet" % name,
        hint=host_hints.prepare_host(name),
    )


def load(path=PATH) -> HostSettings:
    """Return the settings in ``path``; without a file, the defaults with ``prepared`` false."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return HostSettings()
    except OSError as error:
        hint = host_hints.run_as_root() if isinstance(error, PermissionError) else None
        raise SettingsUnreadable("%s: %s" % (path, error.strerror), path=path, hint=hint)
    try:
        if len(text) > MAX_BYTES:
            raise ValueError("more than %d bytes" % MAX_BYTES)
        data = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        hint = host_hints.write_settings_anew(path)
        raise SettingsUnreadable("%s is no JSON: %s" % (path, error), path=path, hint=hint)
    try:
        return parse(data, from_file=True)
    except (SettingsInvalid, SettingsUnreadable) as fault:
        if not (isinstance(fault, SettingsInvalid) and fault.newer):
            fault.hint = host_hints.write_settings_anew(path)  # a corrected variable alone would not help
        raise
