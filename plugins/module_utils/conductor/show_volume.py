# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known about one volume, for people: its state, where it is, who has it, and who did what to it."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional

from ..model.lifecycle import CLAIM, CLAIMED, DELETING, IN, OUT
from ..model.messages import Document
from ..placement.text import table
from . import volume_hosts
from .fleet import Fleet
from .show_instance import HEADS, Held, history, owner


def held(fleet: Fleet, name: str, project: Optional[str]) -> Dict[str, volume_hosts.Found]:
    """{uuid: [(host, volume)]} of the volumes of that name, those of all projects if ``project`` is None."""
    found: Dict[str, volume_hosts.Found] = {}
    for host, volume in fleet.volumes():
        if volume["name"] == name and project in (None, volume["project_id"]):
            found.setdefault(volume["uuid"], []).append((host, volume))
    return found


def state(volume: Mapping[str, object]) -> str:
    """Whether an instance has the volume, and what is being done to it."""
    instance = volume["instance"]
    name = instance["name"] if isinstance(instance, dict) else None
    if volume["role"] in (IN, OUT):
        return "moving with %s" % name if name else "moving"
    if volume["phase"] == DELETING:
        return "being deleted"
    if volume_hosts.is_unused(volume):
        return "being made, or left by a run that was interrupted"
    if volume["phase"] == CLAIMED:
        return "claimed for %s, which is not built yet" % name
    return "attached to %s" % name if name else "free"


def lines(parts: Held, most: int) -> List[str]:
    """All details of a volume, with the last ``most`` events. ``parts``: (host, what it says of the volume)."""
    _host, volume = owner(parts)
    problem = str(volume_hosts.duplicate(volume["name"], list(parts))) if _is_on_two(parts) else None
    rows = {
        "state": state(volume),
        "project": volume["project_id"],
        "size": _size(volume),
        "pool": volume["pool"],
        "hosts": ", ".join("%s (%s)" % (host, part["role"]) for host, part in parts),
        "image": volume.get("image"),
        "problem": problem,
    }
    shown = [(key, value) for key, value in rows.items() if value]
    events = history(parts)[-most:]
    head = "%s (%s)" % (volume["name"], volume["uuid"])
    return [head, *table(shown[0], shown[1:]), *(table(HEADS, events) if events else [])]


def _is_on_two(parts: Held) -> bool:
    return len([part for _host, part in parts if part["role"] not in (CLAIM, IN, OUT)]) > 1


def _size(volume: Document) -> str:
    before_gb = volume_hosts.had_gb(volume)
    if before_gb == volume["size_gb"]:
        return "%d GiB" % before_gb
    return (
        "%d GiB; a run of update_disks has claimed %d GiB, and the next run grows the volume or releases the claim"
        % (
            before_gb,
            volume["size_gb"],
        )
    )
