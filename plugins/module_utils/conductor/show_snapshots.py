# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshots of instances, as people read them."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence

from ..placement.text import table

HEADS = ("INSTANCE", "SNAPSHOT", "MADE AT", "GUEST WAS", "MEMORY", "ROOM", "DISKS")


def lines(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> List[str]:
    """``found``: instance -> its snapshots, as module instance_info returns them."""
    rows = [
        (
            name,
            each["name"],
            each["made_at"] or "not whole",
            each["taken"] or "",
            "yes" if each.get("memory") else "no",
            "%d GiB" % each["size_gb"],
            ", ".join(each["disks"]),
        )
        for name, entries in found.items()
        for each in entries
    ]
    return ["", *table(HEADS, rows)] if rows else []
