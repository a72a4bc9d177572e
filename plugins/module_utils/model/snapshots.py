# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshots of an instance, in its request: [{name, made_at, taken, size_gb (GiB), disks (names)}].

Each is kept inside the qcow2 files of the root disk and the data disks, so the file of a disk stays one file. ``made_at`` is
null until it is whole, and again from when its removal begins. ``taken``: whether the guest was off, running, or frozen by
its agent. ``memory``: it has the memory of the guest, in a file beside the disks. ``reverting``: the disks are on their way
back to it.
"""

from __future__ import annotations

import re
from typing import Any, List, Mapping, Optional, Sequence

from . import snapshot_hints
from .errors import BerthError, InvalidInput
from .messages import Document

NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,38}[A-Za-z0-9])?"
NAME_RULE = "a name of letters, digits, '.', '_' and '-', at most 40 long, that begins and ends with a letter or digit"
LONGEST_NAME = 40
MOST = 16
_PREFIX = "berth-"  # apart from others' in the same file; QEMU would take a name of digits for an id
_NAME = re.compile(NAME + r"\Z", re.ASCII)


class SnapshotNotFound(BerthError):
    """The instance has no snapshot of that name."""


class SnapshotLimitExceeded(BerthError):
    """The instance has as many snapshots as one may have."""


def of(spec: Mapping[str, Any]) -> List[Document]:
    return list(spec.get("snapshots") or ())


def check_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidInput("berth_snapshot", name, NAME_RULE)
    return name


def tag(name: str) -> str:
    """What QEMU calls it."""
    return _PREFIX + name


def tags(*specs: Mapping[str, Any]) -> List[str]:
    return [tag(each["name"]) for spec in specs for each in of(spec)]


def called(found: str) -> Optional[str]:
    """Return the name of the snapshot that QEMU calls ``found``, or None if it is none of ours."""
    name = found[len(_PREFIX) :] if found.startswith(_PREFIX) else ""
    return name if _NAME.match(name) else None


def memory_file(name: str) -> str:
    """The name of the file, beside the disks, with the guest's memory."""
    return "memory-" + name


def with_memory(spec: Mapping[str, Any]) -> List[str]:
    return [each["name"] for each in of(spec) if each.get("memory")]


MORE_MIB = 256  # beside the guest's memory: that of its devices, such as its screen


def memory_gb(spec: Mapping[str, Any]) -> int:
    """The GiB that a file with the guest's memory may take."""
    return -(-(spec["flavor"]["memory_mb"] + MORE_MIB) // 1024)


def total_gb(spec: Mapping[str, Any]) -> int:
    """What all of them may come to take: the guest may write each disk anew after each."""
    return sum(each["size_gb"] for each in of(spec))


def find(spec: Mapping[str, Any], name: str) -> Optional[Document]:
    return next((each for each in of(spec) if each["name"] == name), None)


def need(instance: str, spec: Mapping[str, Any], name: str) -> Document:
    found = find(spec, name)
    if found is None:
        has = ", ".join(each["name"] for each in of(spec)) or "none"
        raise SnapshotNotFound(
            "%s has no snapshot %s; it has %s" % (instance, name, has), field="berth_snapshot", value=name
        )
    return found


def check_room(instance: str, spec: Mapping[str, Any]) -> None:
    """Raise SnapshotLimitExceeded if it may have no more."""
    names = [each["name"] for each in of(spec)]
    if len(names) >= MOST:
        raise SnapshotLimitExceeded(
            "%s has %d snapshots, and an instance has at most %d: %s" % (instance, len(names), MOST, ", ".join(names)),
            hint=snapshot_hints.delete_one(instance, names[0]),
        )


def with_one(spec: Mapping[str, Any], entry: Document) -> Document:
    """Return the request with that snapshot, in its place if it has it."""
    found = of(spec)
    names = [each["name"] for each in found]
    if entry["name"] in names:
        found[names.index(entry["name"])] = entry
    else:
        found.append(entry)
    return dict(spec, snapshots=found)


def without(spec: Mapping[str, Any], name: str) -> Document:
    left = [each for each in of(spec) if each["name"] != name]
    parts = {part: value for part, value in spec.items() if part != "snapshots"}
    return dict(parts, snapshots=left) if left else parts


def reverting(spec: Mapping[str, Any]) -> Optional[str]:
    """The name of the snapshot to which the disks are on their way back, or None."""
    return next((each["name"] for each in of(spec) if each.get("reverting")), None)


def unfinished(spec: Mapping[str, Any]) -> Sequence[str]:
    return [each["name"] for each in of(spec) if not each["made_at"]]


def shown(spec: Mapping[str, Any]) -> List[Document]:
    """For people: {name, made_at (null: not whole), taken, memory, size_gb, disks}."""
    parts = ("name", "made_at", "taken", "size_gb", "disks")
    return [{**{part: each.get(part) for part in parts}, "memory": bool(each.get("memory"))} for each in of(spec)]
