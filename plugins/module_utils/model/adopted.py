# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An adopted instance: a guest that was there before. Its request keeps the definition and the files that it was found with,
{definition: XML, disks: [{target, path, format, size (bytes)}], variables: path of its UEFI variables or null}.

Nothing follows from its flavor but what it counts for. What needs more of the guest than that is refused by its name.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Optional

from . import hints
from .errors import BerthError
from .messages import Document
from .safe_text import clean

KEY = "adopted"
GIB = 1 << 30
# operations beside moves
ONLY_OF_CREATED = ("update_disks", "snapshot", "revert_snapshot", "delete_snapshot", "restore")


class AdoptedNotSupported(BerthError):
    """An adopted instance is not moved, resized or given disks: its disks lie where they were found."""


def of(spec: Mapping[str, Any]) -> Optional[Document]:
    found: Optional[Document] = spec.get(KEY)
    return found


def files(spec: Mapping[str, Any]) -> List[str]:
    """The paths of the disks and of the UEFI variables where they were found, none of an instance that was created."""
    found = of(spec) or {}
    paths = [*(each["path"] for each in found.get("disks", ())), found.get("variables")]
    return [path for path in paths if path]


def words(spec: Mapping[str, Any]) -> List[str]:
    """Its disks in words, each with its path and size (GiB, rounded up)."""
    return [
        "%s %s %d GiB" % (clean(each["target"], 50), clean(each["path"], 1000), -(-each["size"] // GIB))
        for each in (of(spec) or {}).get("disks", ())
    ]


def refused(name: str, operation: str) -> AdoptedNotSupported:
    return AdoptedNotSupported(
        "%s was adopted: %s is for instances that were created. Nothing was changed" % (name, operation),
        hint=hints.leave_adopted(name),
        operation=operation,
    )
