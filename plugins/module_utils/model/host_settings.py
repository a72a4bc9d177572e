# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of a KVM host, what nova.conf is to nova-compute: a row of HostSettings for each, with default and check."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, FrozenSet, Optional, Tuple, Type

from .cpu_list import MAX_CPU, parse_cpu_spec
from .errors import InvalidInput
from .identity import UUID
from .safe_text import is_safe
from .schema import CUSTOM, Check, Fields, Flag, ListOf, MapOf, OneOf, OrNull, Text, Whole

SCHEMA = 1
VARIABLE = "berth_host_"  # what comes before the name of a setting in the inventory


class CpuSet:
    """CPUs in Nova's notation."""

    def check(self, value: Any, field: str) -> str:
        if not isinstance(value, str):
            raise InvalidInput(field, value, "text such as 0-3,8,^2")
        parse_cpu_spec(value, field, MAX_CPU)
        return value


class Ratio:
    rule = "a number above 0 and at most 1000, such as 4.0"

    def check(self, value: Any, field: str) -> float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 < value <= 1000:  # also refuses NaN
            raise InvalidInput(field, value, self.rule)
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


def _row(default: Any, check: Check, later: bool = False) -> Any:
    """``later``: earlier versions of the collection do not know the setting, so the file has it only where it is set."""
    # pylint: disable=invalid-field-call  # the class below calls this for each of its fields
    metadata = {"check": check, "later": later}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


_WORD = r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z"


@dataclasses.dataclass(frozen=True)
class HostSettings:
    """The settings of a host: the names and defaults are Nova's where Nova has them.

    ``reserved_host_memory_mb`` is in MiB, ``reserved_host_disk_gb`` in GiB, the CPU sets are in Nova's notation
    ("0-3,8,^2"). ``uuid`` is libvirt's host uuid at preparation. ``prepared`` is false if no file exists. Image files
    are only read below ``image_directories`` and downloaded by ``image_proxy``; ``metrics_directory`` has your own numbers for placement.
    ``enabled_mdev_types`` are the types of vGPUs that GPUs offer, one for each GPU. ``custom_resources`` {CUSTOM_X: how
    many} may be asked for by flavors, ``stats`` {name: text} by filters.
    """

    schema: int = _row(SCHEMA, Whole(1, SCHEMA))
    uuid: Optional[str] = _row(None, OrNull(Text(UUID + r"\Z", "a uuid in lower case")))
    pool: str = _row("berth", Text(_WORD, "1 to 64 of letters, digits, _ . and -", longest=64))
    cpu_allocation_ratio: float = _row(4.0, Ratio())
    ram_allocation_ratio: float = _row(1.0, Ratio())
    disk_allocation_ratio: float = _row(1.0, Ratio())
    reserved_host_cpus: int = _row(0, Whole(0, MAX_CPU))
    reserved_host_memory_mb: int = _row(512, Whole(0, 1 << 30, "MiB"))
    reserved_host_disk_gb: int = _row(0, Whole(0, 1 << 30, "GiB"))
    cpu_dedicated_set: str = _row("", CpuSet())
    cpu_shared_set: str = _row("", CpuSet())
    pci_devices: Tuple[Dict[str, str], ...] = _row((), ListOf(PciDevice(), longest=1000))
    domain_type: str = _row("auto", OneOf("auto", "kvm", "qemu"))
    cpu_models: Tuple[str, ...] = _row(
        (), ListOf(Text(_WORD, "a CPU model of libvirt such as Haswell", longest=64), longest=100), later=True
    )
    disabled: bool = _row(False, Flag())
    disabled_reason: str = _row("", SafeLine())
    max_concurrent_builds: int = _row(10, Whole(1, 1000))
    traits: Tuple[str, ...] = _row((), ListOf(Text(r"[A-Z0-9_]+\Z", "A-Z, 0-9 and _"), longest=1000))
    migration_address: Optional[str] = _row(
        None, OrNull(Text(r"[A-Za-z0-9][A-Za-z0-9.:-]*\Z", "a host name or an IP address", longest=253))
    )
    migration_address_only: bool = _row(False, Flag(), later=True)
    security_driver_none_ok: bool = _row(False, Flag())
    image_directories: Tuple[str, ...] = _row((), ListOf(Directory("images"), longest=100))
    image_proxy: Optional[str] = _row(
        None,
        OrNull(Text(r"https?://[A-Za-z0-9._:\[\]-]+/?\Z", "http://HOST:PORT, without user and password", longest=300)),
        later=True,
    )
    metrics_directory: Optional[str] = _row(None, OrNull(Directory("metrics")), later=True)
    enabled_mdev_types: Tuple[Dict[str, Any], ...] = _row((), ListOf(MdevType(), longest=100), later=True)
    custom_resources: Dict[str, int] = _row(
        {},
        MapOf(Whole(1, (1 << 31) - 1), Text(CUSTOM + r"\Z", "a class such as CUSTOM_LICENSE", longest=255)),
        later=True,
    )
    stats: Dict[str, str] = _row(
        {}, MapOf(Stat(), Text(r"[A-Za-z0-9_.-]+\Z", "a name of letters, digits, _ . and -", longest=64)), later=True
    )
    prepared: bool = False

    def dedicated_cpus(self) -> FrozenSet[int]:
        return frozenset(parse_cpu_spec(self.cpu_dedicated_set))

    def shared_cpus(self) -> FrozenSet[int]:
        return frozenset(parse_cpu_spec(self.cpu_shared_set))

    def mdev_type(self, parent: str) -> Optional[str]:
        """Return the vGPU type of the GPU at a PCI address: that of the entry that names it, else the default one."""
        named = [entry["type"] for entry in self.enabled_mdev_types if parent in entry.get("parents", ())]
        others = [entry["type"] for entry in self.enabled_mdev_types if "parents" not in entry]
        return next(iter(named + others), None)

    def to_dict(self) -> Dict[str, Any]:
        """Return every setting except ``prepared``, for the file."""
        data = {}
        for row in dataclasses.fields(self):
            value = getattr(self, row.name)
            if row.metadata and (value or not row.metadata["later"]):
                data[row.name] = list(value) if isinstance(value, tuple) else value
        return data


def checks_of(settings: Type[HostSettings]) -> Dict[str, Check]:
    """Return {name: check} of the rows."""
    return {row.name: row.metadata["check"] for row in dataclasses.fields(settings) if row.metadata}


CHECKS = checks_of(HostSettings)
# The variables of the inventory that become settings; a run writes the others.
VARIABLES = {VARIABLE + name: check for name, check in CHECKS.items() if name not in ("schema", "uuid")}
