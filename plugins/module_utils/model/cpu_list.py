# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of CPUs in Nova's notation, such as "0-3,8,^2"."""

from __future__ import annotations

import re
from typing import Any, Set

from .errors import InvalidInput

MAX_CPU = 8191  # of a host
MAX_VCPU = 1 << 20
_RANGE = re.compile(r"(\^?)\s*(\d{1,20})\s*(?:-\s*(\d{1,20})\s*)?\Z", re.ASCII)


def parse_mask(text: str, vcpus: int, field: str) -> Set[int]:
    """Return the vCPUs of a guest; a mask that begins with ^ means all vCPUs but those."""
    return parse_cpu_spec("0-%d,%s" % (vcpus - 1, text) if text.strip().startswith("^") else text, field)


def parse_cpu_spec(text: Any, field: str = "cpus", highest: int = MAX_VCPU) -> Set[int]:
    """The CPUs of the list, as a set: numbers, ranges, and ^ for those left out, in any order."""
    rule = 'CPU numbers from 0 to %d, ranges and ^ for those left out, separated by commas: "0-3,8,^2"' % highest
    chosen: Set[int] = set()
    left_out: Set[int] = set()
    for part in filter(None, (part.strip() for part in str(text).split(","))):
        match = _RANGE.match(part)
        if not match:
            raise InvalidInput(field, text, rule)
        first = int(match.group(2))
        last = int(match.group(3) or first)
        if not first <= last <= highest:
            raise InvalidInput(field, text, rule)
        (left_out if match.group(1) else chosen).update(range(first, last + 1))
    return chosen - left_out
