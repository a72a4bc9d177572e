# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances a recovery asks their hosts about. Each host decides by its record whether it starts the guest."""

from __future__ import annotations

from typing import Any, Dict, List

from ..model.lifecycle import OWN
from .errors import InstanceMoving, InstanceUnknown
from .fleet import Fleet
from .locate import locate

ALIVE = ("running", "paused", "suspended")


def to_recover(fleet: Fleet, name: str, uuid: str, lost_hosts: List[str]) -> Dict[str, Any]:
    """{hosts: the owner if its guest is off but should run, otherwise []; skipped: why it is left alone, or None}.

    Raises what needs a person, such as DuplicateInstance. Waiting for a silent host or for the end of a move is no
    failure, since a timer starts the run again.
    """
    try:
        hosts = locate(fleet, name, uuid, lost_hosts)
    except (InstanceUnknown, InstanceMoving) as error:
        return {"hosts": [], "skipped": str(error)}
    return {"hosts": [host for host in hosts[-1:] if is_off(fleet, uuid, host)], "skipped": None}


def is_off(fleet: Fleet, uuid: str, host: str) -> bool:
    place = next((place for place in fleet.places.get(uuid, ()) if place["host"] == host), None)
    return (
        place is not None
        and (place["role"], place["phase"], place["vm_state"]) == (OWN, "active", "active")
        and place["power_state"] not in ALIVE
    )
