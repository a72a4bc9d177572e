# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An adopted instance: a guest that was there before. Its request keeps the definition and the files that it was found with,
{definition: XML, disks: [{target, path, format, size (bytes)}], variables: path of its UEFI variables or null}.

A path that is a name alone is that of a file in the instance's directory, where a move to another host brings it. From the
flavor follow what it counts for, and CPUs, memory and the size of its first disk once a resize has changed them.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Optional
from xml.etree import ElementTree

from . import hints
from .errors import BerthError, InvalidInput
from .messages import Document
from .safe_text import clean

KEY = "adopted"
GIB = 1 << 30
NO_IMAGE = {"min_disk": 0, "min_ram": 0, "properties": {}}  # as a request has one
LONGEST = 1 << 16  # characters of a definition
LONGEST_PATH = 1024


class AdoptedNotSupported(BerthError):
    """The operation needs an image, a seed or a definition made by berth, and an adopted instance has its own."""


def of(spec: Mapping[str, Any]) -> Optional[Document]:
    found: Optional[Document] = spec.get(KEY)
    return found


def root_of(found: Mapping[str, Any]) -> ElementTree.Element:
    """Return the definition as XML. Raise InvalidInput if it is not one of a guest."""
    text = found["definition"]
    try:
        root = None if "<!" in text else ElementTree.fromstring(text)
    except ElementTree.ParseError:
        root = None
    amounts = [] if root is None else [root.findtext(part) or "" for part in ("vcpu", "memory")]
    if root is None or root.find("os/type") is None or not all(map(str.isdigit, amounts)):
        raise InvalidInput("adopted.definition", text[:60], "the definition of a guest in libvirt's XML")
    return root


def disks(spec: Mapping[str, Any]) -> List[Document]:
    """Its disks. The first one has at least the size of the flavor, which is that in whole GiB until a resize."""
    found = (of(spec) or {}).get("disks") or []
    return [{**each, "size": _size(spec, each["size"]) if at == 0 else each["size"]} for at, each in enumerate(found)]


def _size(spec: Mapping[str, Any], size: int) -> int:
    root_gb: int = spec["flavor"].get("root_gb") or 0
    return root_gb * GIB if root_gb > gb(size) else size


def gb(size: int) -> int:
    """GiB of bytes, rounded up."""
    return -(-size // GIB)


def more_gb(spec: Mapping[str, Any]) -> int:
    """GiB of its disks beside the first one, which the flavor counts."""
    return sum(gb(each["size"]) for each in disks(spec)[1:])


def files(spec: Mapping[str, Any]) -> List[str]:
    """The paths of the disks and of the UEFI variables where they were found, none of an instance that was created or has moved
    to another host."""
    found = of(spec) or {}
    paths = [*(each["path"] for each in found.get("disks", ())), found.get("variables")]
    return [path for path in paths if path and path.startswith("/")]


def has_moved(spec: Mapping[str, Any]) -> bool:
    """Whether its disks lie in its directory, where a move brought them."""
    return any("/" not in each["path"] for each in (of(spec) or {}).get("disks", ()))


def in_directory(spec: Mapping[str, Any], directory: str) -> Document:
    """Return the request of one that has moved as if it had been found with its files in another directory."""
    found: Document = of(spec) or {}
    root = root_of(found)
    for log in root.iterfind("devices/*/log"):
        log.set("file", "%s/console.log" % directory)
    there = {
        "definition": ElementTree.tostring(root, encoding="unicode"),
        "disks": [{**each, "path": "%s/%s" % (directory, each["path"])} for each in found["disks"]],
        "variables": found.get("variables") and "%s/%s" % (directory, found["variables"]),
    }
    return {**spec, KEY: there}


def words(spec: Mapping[str, Any]) -> List[str]:
    """Its disks in words, each with its path and size."""
    return [
        "%s %s %d GiB" % (clean(each["target"], 50), clean(each["path"], 1000), gb(each["size"]))
        for each in disks(spec)
    ]


def refused(name: str, operation: str, since: str = "") -> AdoptedNotSupported:
    return AdoptedNotSupported(
        "%s was adopted: %s is for instances that were created%s. Nothing was changed" % (name, operation, since),
        hint=hints.leave_adopted(name),
        operation=operation,
    )
