# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this host is told about itself: /etc/berth/host.json, to berth what nova.conf is to nova-compute."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from typing import Any, Dict, FrozenSet, Optional, Tuple

from ...model.errors import BerthError, InvalidInput
from ...model.safe_text import is_safe
from ...model.suggest import did_you_mean

PATH = "/etc/berth/host.json"
SCHEMA = 1
MAX_BYTES = 1 << 20
MAX_CPU = 8191

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,252}\Z")
TRAIT = re.compile(r"[A-Z0-9_]{1,255}\Z")
PCI_ID = re.compile(r"[0-9a-f]{4}\Z")
PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")


class SettingsInvalid(InvalidInput):
    """The settings of a host break a rule. Nothing was changed; another host may do."""

    retryable = True


class SettingsUnreadable(BerthError):
    """The settings of a host cannot be read, or are no JSON object."""

    retryable = True


@dataclasses.dataclass(frozen=True)
class HostSettings:
    """The settings of a host: the names and defaults are Nova's where Nova has them.

    ``reserved_host_memory_mb`` is in MiB, ``reserved_host_disk_gb`` in GiB, the CPU sets are in Nova's notation
    ("0-3,8,^2"). ``uuid`` is libvirt's host uuid as it was at preparation. ``prepared`` is false where no file exists.
    Files of images are read below ``image_directories`` alone.
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
    disabled: bool = False
    disabled_reason: str = ""
    max_concurrent_builds: int = 10
    traits: Tuple[str, ...] = ()
    migration_address: Optional[str] = None
    security_driver_none_ok: bool = False
    image_directories: Tuple[str, ...] = ()
    prepared: bool = False

    def dedicated_cpus(self):
        return parse_cpu_set(self.cpu_dedicated_set, "cpu_dedicated_set")

    def shared_cpus(self):
        return parse_cpu_set(self.cpu_shared_set, "cpu_shared_set")

    def to_dict(self):
        """What is written to the file: every setting, without ``prepared``."""
        data = dataclasses.asdict(self)
        del data["prepared"]
        return dict(
            data,
            pci_devices=[dict(device) for device in self.pci_devices],
            traits=list(self.traits),
            image_directories=list(self.image_directories),
        )


NAMES = tuple(field.name for field in dataclasses.fields(HostSettings) if field.name != "prepared")


def parse_cpu_set(text, field) -> FrozenSet[int]:
    """The CPUs of "0-3,8,^2": numbers, ranges, and ^ to leave some out, in any order (Nova: parse_cpu_spec)."""
    rule = 'CPU numbers from 0 to %d and ranges such as "0-3,8,^2"' % MAX_CPU
    if not isinstance(text, str):
        raise SettingsInvalid(field, text, rule)
    chosen, left_out = set(), set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.match(r"(\^?)([0-9]{1,4})(?:-([0-9]{1,4}))?\Z", part)
        if not match:
            raise SettingsInvalid(field, text, rule)
        first, last = int(match.group(2)), int(match.group(3) or match.group(2))
        if last < first or last > MAX_CPU:
            raise SettingsInvalid(field, text, rule)
        (left_out if match.group(1) else chosen).update(range(first, last + 1))
    return frozenset(chosen - left_out)


def _whole(low, high):
    rule = "a whole number from %d to %d" % (low, high)

    def check(value, field):
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise SettingsInvalid(field, value, rule)
        return value

    return check


def _ratio(value, field):
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or not 0 < value <= 1000
    ):
        raise SettingsInvalid(field, value, "a number above 0 and at most 1000")
    return float(value)


def _yes_no(value, field):
    if not isinstance(value, bool):
        raise SettingsInvalid(field, value, "true or false")
    return value


def _text(pattern, rule, optional=False):
    def check(value, field):
        if optional and value is None:
            return None
        if not isinstance(value, str) or not pattern.match(value):
            raise SettingsInvalid(field, value, rule + (", or null" if optional else ""))
        return value

    return check


def _line(value, field):
    if not isinstance(value, str) or not is_safe(value, 255):
        raise SettingsInvalid(field, value, "one line of at most 255 printable characters without template marks")
    return value


def _choice(*choices):
    def check(value, field):
        if not isinstance(value, str) or value not in choices:
            raise SettingsInvalid(field, value, "one of " + ", ".join(choices))
        return value

    return check


def _directory(value, field):
    good = isinstance(value, str) and is_safe(value, 4096) and value.startswith("/") and value != "/"
    if not good or os.path.normpath(value) != value:
        raise SettingsInvalid(field, value, "the absolute path of a directory for images, without .. and / at its end")
    return value


def _cpu_set(value, field):
    parse_cpu_set(value, field)
    return value


def _list(check_item, limit):
    def check(value, field):
        if not isinstance(value, (list, tuple)) or len(value) > limit:
            raise SettingsInvalid(field, value, "a list of at most %d items" % limit)
        return tuple(check_item(item, "%s[%d]" % (field, index)) for index, item in enumerate(value))

    return check


def _pci_device(value, field):
    """One line of the list of devices that guests may have; without an address every device of that kind."""
    parts = {"vendor_id": PCI_ID, "product_id": PCI_ID, "address": PCI_ADDRESS}
    if not isinstance(value, dict) or not {"vendor_id", "product_id"} <= set(value) <= set(parts):
        raise SettingsInvalid(field, value, "an object with vendor_id, product_id and perhaps address")
    for name, pattern in parts.items():
        if name in value and not (isinstance(value[name], str) and pattern.match(value[name])):
            raise SettingsInvalid(
                "%s.%s" % (field, name), value[name], "lower-case hex: four digits, or an address such as 0000:81:00.0"
            )
    return dict(value)


_CHECKS = {
    "schema": _whole(1, SCHEMA),
    "uuid": _text(UUID, "a uuid in lower case", optional=True),
    "pool": _text(WORD, "1 to 64 of letters, digits, _ . and -"),
    "cpu_allocation_ratio": _ratio,
    "ram_allocation_ratio": _ratio,
    "disk_allocation_ratio": _ratio,
    "reserved_host_cpus": _whole(0, MAX_CPU),
    "reserved_host_memory_mb": _whole(0, 1 << 30),
    "reserved_host_disk_gb": _whole(0, 1 << 30),
    "cpu_dedicated_set": _cpu_set,
    "cpu_shared_set": _cpu_set,
    "pci_devices": _list(_pci_device, 1000),
    "domain_type": _choice("auto", "kvm", "qemu"),
    "disabled": _yes_no,
    "disabled_reason": _line,
    "max_concurrent_builds": _whole(1, 1000),
    "traits": _list(_text(TRAIT, "A-Z, 0-9 and _"), 1000),
    "migration_address": _text(ADDRESS, "a host name or an IP address", optional=True),
    "security_driver_none_ok": _yes_no,
    "image_directories": _list(_directory, 100),
}


def parse(data: Any) -> HostSettings:
    """Checked settings from the object in the file; every error names its field. Absent fields have their defaults."""
    if not isinstance(data, dict):
        raise SettingsUnreadable("the host settings are no JSON object")
    values = {"prepared": True}
    for name, value in data.items():
        if name not in _CHECKS:
            raise SettingsInvalid(str(name)[:64], value, "no such setting", hint=did_you_mean(name, NAMES))
        values[name] = _CHECKS[name](value, name)
    settings = HostSettings(**values)
    both = settings.dedicated_cpus() & settings.shared_cpus()
    if both:
        raise SettingsInvalid(
            "cpu_shared_set",
            settings.cpu_shared_set,
            "CPU %d is in cpu_dedicated_set too" % min(both),
        )
    return settings


def load(path=PATH) -> HostSettings:
    """The settings in ``path``; where there is no file, the defaults and ``prepared`` false."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return HostSettings()
    except OSError as error:
        raise SettingsUnreadable("%s: %s" % (path, error.strerror), path=path)
    try:
        if len(text) > MAX_BYTES:
            raise ValueError("more than %d bytes" % MAX_BYTES)
        data = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise SettingsUnreadable("%s is no JSON: %s" % (path, error), path=path)
    return parse(data)
