# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a flavor lets its guests use of CPUs, disks and networks at most (Nova's quota:*), by libvirt's names and in its units.
What limits nothing is left out: 0, a negative quota of CPUs, and what is libvirt's default anyway.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

CPU = ("shares", "period", "quota")
DISK = tuple("%s_%s_sec" % (what, unit) for unit in ("bytes", "iops") for what in ("total", "read", "write"))
DIRECTIONS = ("inbound", "outbound")
OF_NIC = ("average", "peak", "burst")
DEFAULTS = {"shares": 100, "period": 100000}  # what libvirt shows for none that was there before
Numbers = Dict[str, int]


def of_flavor(flavor: Mapping[str, Any]) -> Dict[str, Any]:
    """The extra specs that are limits."""
    return {name: value for name, value in (flavor.get("extra_specs") or {}).items() if name.startswith("quota:")}


def of_cpu(specs: Mapping[str, Any]) -> Numbers:
    """{libvirt's name: limit} of a flavor's extra specs."""
    return _limiting(specs, "quota:cpu_", CPU)


def of_disk(specs: Mapping[str, Any]) -> Numbers:
    """The same for each disk of the guest's own."""
    return _limiting(specs, "quota:disk_", DISK)


def of_nic(specs: Mapping[str, Any]) -> Dict[str, Numbers]:
    """{inbound or outbound: {average, peak, burst}}, for each NIC."""
    found = {way: _limiting(specs, "quota:vif_%s_" % way, OF_NIC) for way in DIRECTIONS}
    return {way: numbers for way, numbers in found.items() if numbers}


def _limiting(specs: Mapping[str, Any], prefix: str, parts: Tuple[str, ...]) -> Numbers:
    found = {part: int(specs.get(prefix + part) or 0) for part in parts}
    return {part: number for part, number in found.items() if number > 0 and DEFAULTS.get(part) != number}
