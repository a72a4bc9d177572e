# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data disks (berth_disks): an instance's disks besides its flavor's, [{name, size_gb (GiB), bus}] in its request.

They are created empty with the instance and removed with it. In the guest the name of each is its serial number. Its slot is its
place among the guest's devices: that in the list, unless ``slot`` says another, since one before it was removed.
"""

from __future__ import annotations

import re
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence

from .errors import InvalidInput
from .messages import Document
from .move_errors import CannotResizeDisk

PART = "disk "  # begins the name of a data disk or volume among the parts of a guest that are compared
# A virtio serial number has at most 20 characters, and the name is part of a file name.
NAME = r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?"
NAME_RULE = "a name of a-z, 0-9 and '-', at most 20 long, that begins and ends with a letter or digit"
LONGEST_NAME = 20
BUSES = ("virtio", "scsi", "sata")
MOST = 16
MOST_GB = 64 * 1024
_NAME = re.compile(NAME + r"\Z", re.ASCII)
_FILE = re.compile(r"data-(%s)\.qcow2\Z" % NAME, re.ASCII)


def of(spec: Mapping[str, Any]) -> List[Document]:
    """Return the data disks of a request; a request from before they existed has none."""
    return list(spec.get("disks") or ())


def file_of(name: str) -> str:
    """Return the name of a data disk's file, which is among the files of its instance."""
    return "data-%s.qcow2" % name


def name_of(file: str) -> Optional[str]:
    """Return the name of the data disk that has this file, given without its directory, or None if it is none's."""
    found = _FILE.match(file)
    return found and found.group(1)


def total_gb(spec: Mapping[str, Any]) -> int:
    return sum(disk["size_gb"] for disk in of(spec))


def check(spec: Mapping[str, Any]) -> List[Document]:
    """Check and return the data disks of a request on the host, where their names become file names."""
    names = [disk.get("name") for disk in of(spec)]
    taken = slots(of(spec))
    for at, disk in enumerate(of(spec)):
        if check_name_and_size("disks", at, disk) in names[:at]:
            raise InvalidInput("disks[%d].name" % at, names[at], "each name once")
        if disk.get("bus") not in BUSES:
            raise InvalidInput("disks[%d].bus" % at, disk.get("bus"), "one of " + ", ".join(BUSES))
        if taken[at] not in range(MOST) or taken.index(taken[at]) < at:
            raise InvalidInput("disks[%d].slot" % at, taken[at], "a whole number from 0 to %d, each once" % (MOST - 1))
    return of(spec)


def slots(disks: Sequence[Mapping[str, Any]]) -> List[int]:
    return [disk.get("slot", at) for at, disk in enumerate(disks)]


def _placed(disks: Sequence[Mapping[str, Any]], places: Sequence[int]) -> List[Document]:
    """Return the disks in these slots."""
    own = [{part: value for part, value in disk.items() if part != "slot"} for disk in disks]
    return [disk if at == slot else {**disk, "slot": slot} for at, (disk, slot) in enumerate(zip(own, places))]


def without(has: Sequence[Mapping[str, Any]], names: Collection[str]) -> List[Document]:
    """Return the disks but those of these names. The others stay where the guest has them."""
    left = [(disk, slot) for disk, slot in zip(has, slots(has)) if disk["name"] not in names]
    return _placed([disk for disk, _slot in left], [slot for _disk, slot in left])


def check_name_and_size(part: str, at: int, disk: Mapping[str, Any]) -> str:
    """Check a disk in ``part`` of a request and return its name."""
    name, size = disk.get("name"), disk.get("size_gb")
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidInput("%s[%d].name" % (part, at), name, NAME_RULE)
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MOST_GB:
        raise InvalidInput("%s[%d].size_gb" % (part, at), size, "a whole number from 1 to %d" % MOST_GB)
    return name


def shown(spec: Mapping[str, Any]) -> Dict[str, int]:
    """Return {name: GiB}, for people and for comparisons."""
    return {disk["name"]: disk["size_gb"] for disk in of(spec)}


def with_buses(disks: Sequence[Mapping[str, Any]], bus: str) -> List[Document]:
    """Return the disks with their final bus: their own, else the guest's ``bus``, or SATA for IDE, which takes four."""
    own = bus if bus in BUSES else "sata"
    return [{"name": disk["name"], "size_gb": disk["size_gb"], "bus": disk.get("bus") or own} for disk in disks]


def merged(has: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> List[Document]:
    """Return the disks ``has`` with their sizes in ``wanted``, then the new ones in it. None is removed or shrinks."""
    sizes = {disk["name"]: disk["size_gb"] for disk in wanted}
    names = [disk["name"] for disk in has]
    for disk in has:
        if sizes.get(disk["name"], disk["size_gb"]) < disk["size_gb"]:
            raise CannotResizeDisk(
                "Unable to resize disk down: data disk %s has %d GiB, and its size_gb is %d now"
                % (disk["name"], disk["size_gb"], sizes[disk["name"]]),
                field="berth_disks.%s.size_gb" % disk["name"],
                value=sizes[disk["name"]],
                rule="at least %d GiB" % disk["size_gb"],
            )
    grown = [dict(disk, size_gb=sizes.get(disk["name"], disk["size_gb"])) for disk in has]
    together = grown + [dict(disk) for disk in wanted if disk["name"] not in names]
    if len(together) > MOST:
        raise InvalidInput("berth_disks", len(together), "at most %d data disks, including the existing ones" % MOST)
    free = sorted(set(range(MOST)) - set(slots(grown)))
    return _placed(together, [*slots(grown), *free[: len(together) - len(grown)]])
