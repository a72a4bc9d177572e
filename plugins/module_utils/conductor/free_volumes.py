# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes that no instance has: what show and the doctor report about them."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence, Tuple

from ..model.lifecycle import ACTIVE, OWN
from ..placement.text import table
from .fleet import Fleet

HEADS = ("FREE VOLUME", "PROJECT", "SIZE", "POOL", "HOST", "SINCE")
Free = Tuple[str, Mapping[str, Any]]  # (host, volume)


def of(fleet: Fleet) -> List[Free]:
    """The free volumes of the hosts that answered, sorted by name."""
    found = [
        (host, volume)
        for host, volume in fleet.volumes()
        if volume["instance"] is None and (volume["role"], volume["phase"]) == (OWN, ACTIVE)
    ]
    return sorted(found, key=lambda pair: (pair[1]["name"], pair[1]["project_id"], pair[0]))


def lines(found: Sequence[Free]) -> List[str]:
    """A table for people, or nothing if there is no free volume. Times are by the clocks of the hosts."""
    rows = [
        (
            volume["name"],
            volume["project_id"],
            "%d GiB" % volume["size_gb"],
            volume["pool"],
            host,
            volume.get("changed_at") or "-",
        )
        for host, volume in found
    ]
    return ["", *table(HEADS, rows, indent="")] if rows else []
