# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limits that Nova's libvirt driver knows as extra specs, and the values that libvirt takes: microseconds, bytes and requests
a second, KiB/s and KiB."""

from __future__ import annotations

import functools
import re
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple

from . import flavor_limits
from .errors import InvalidInput


class Range(NamedTuple):
    """0 is no limit, and so is a negative number if ``negative``."""

    low: int
    high: int
    negative: bool = False

    def has(self, number: int) -> bool:
        return number == 0 or self.low <= number <= self.high or self.negative and number < 0

    def rule(self) -> str:
        none = "0 or a negative number" if self.negative else "0"
        return "%s for none, or a whole number from %d to %d" % (none, self.low, self.high)


RANGES: Dict[str, Range] = {
    "quota:cpu_shares": Range(1, 10000),  # of cgroup v2
    "quota:cpu_period": Range(1000, 10**6),
    "quota:cpu_quota": Range(1000, 17592186044415, True),
    **{"quota:disk_" + part: Range(1, 10**15) for part in flavor_limits.DISK},  # QEMU's
    # libvirt's, for a running guest
    **{
        "quota:vif_%s_%s" % (way, part): Range(1, 2**32 - 1)
        for way in flavor_limits.DIRECTIONS
        for part in flavor_limits.OF_NIC
    },
}


def checks(specs: Mapping[str, Any], field: str) -> Iterator[Callable[[], None]]:
    """Yield checks of a flavor's extra specs, each of which may raise InvalidInput."""
    given = [name for name in RANGES if name in specs]
    for name in given:
        yield functools.partial(_number, "%s.%s" % (field, name), name, specs[name])
    if all(_is_valid(name, specs[name]) for name in given):
        yield functools.partial(_totals, specs, field)
        yield functools.partial(_averages, specs, field)


def _is_valid(name: str, value: Any) -> bool:
    return bool(re.match(r"-?[0-9]{1,19}\Z", str(value), re.ASCII)) and RANGES[name].has(int(value))


def _number(field: str, name: str, value: Any) -> None:
    if not _is_valid(name, value):
        raise InvalidInput(field, value, RANGES[name].rule())


def _totals(specs: Mapping[str, Any], field: str) -> None:
    """libvirt takes no total beside a part of it."""
    found = flavor_limits.of_disk(specs)
    for unit in ("bytes", "iops"):
        total, read, write = ("%s_%s_sec" % (what, unit) for what in ("total", "read", "write"))
        if total in found and (read in found or write in found):
            rule = "quota:disk_%s alone, or quota:disk_%s and quota:disk_%s" % (total, read, write)
            raise InvalidInput("%s.quota:disk_%s" % (field, total), found[total], rule)


def _averages(specs: Mapping[str, Any], field: str) -> None:
    for way, numbers in flavor_limits.of_nic(specs).items():
        if "average" not in numbers:
            name = "quota:vif_%s_%s" % (way, next(iter(numbers)))
            raise InvalidInput("%s.%s" % (field, name), specs[name], "quota:vif_%s_average beside it" % way)
