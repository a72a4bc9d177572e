# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data disks: what an instance has beside the disks of its flavor (berth_disks), [{name, size_gb (GiB), bus}] in its request.

They are made with the instance, empty, and removed with it. In the guest each is known by its name, which is its serial number.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional

from .errors import InvalidInput
from .messages import Document

# A serial number of virtio has at most 20 characters, and the name is part of a file's.
NAME = r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?"
NAME_RULE = "a name of a-z, 0-9 and '-', at most 20 long, that begins and ends with a letter or digit"
LONGEST_NAME = 20
BUSES = ("virtio", "scsi", "sata")
MOST = 16
MOST_GB = 64 * 1024
_NAME = re.compile(NAME + r"\Z", re.ASCII)


def of(spec: Mapping[str, Any]) -> List[Document]:
    """The data disks of a request; one that was written before there were any has none."""
    return list(spec.get("disks") or ())


def total_gb(spec: Mapping[str, Any]) -> int:
    return sum(disk["size_gb"] for disk in of(spec))


def check(spec: Mapping[str, Any]) -> List[Document]:
    """The data disks of a request on the host, where a name becomes a file's."""
    names = [disk.get("name") for disk in of(spec)]
    for at, disk in enumerate(of(spec)):
        name, size = names[at], disk.get("size_gb")
        if not isinstance(name, str) or not _NAME.match(name):
            raise InvalidInput("disks[%d].name" % at, name, NAME_RULE)
        if name in names[:at]:
            raise InvalidInput("disks[%d].name" % at, name, "each name once")
        if type(size) is not int or not 1 <= size <= MOST_GB:
            raise InvalidInput("disks[%d].size_gb" % at, size, "a whole number from 1 to %d" % MOST_GB)
        if disk.get("bus") not in BUSES:
            raise InvalidInput("disks[%d].bus" % at, disk.get("bus"), "one of " + ", ".join(BUSES))
    return of(spec)


def shown(spec: Mapping[str, Any]) -> Dict[str, int]:
    """{name: GiB}, for people and to compare."""
    return {disk["name"]: disk["size_gb"] for disk in of(spec)}


def difference(has: Mapping[str, int], wanted: Mapping[str, int]) -> Optional[str]:
    """What the inventory says otherwise of the data disks of an instance, which keeps those that it has."""
    parts = ["no data disk %s" % disk for disk in sorted(set(wanted) - set(has))]
    parts += ["data disk %s, which the inventory does not name" % disk for disk in sorted(set(has) - set(wanted))]
    parts += [
        "data disk %s of %d GiB, not %d" % (disk, has[disk], wanted[disk])
        for disk in sorted(set(has) & set(wanted))
        if has[disk] != wanted[disk]
    ]
    if not parts:
        return None
    return "has %s. Data disks are made with the instance and stay as they are" % ", ".join(parts)
