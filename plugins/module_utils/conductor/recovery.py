# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances a recovery asks their hosts about. Each host decides by its record whether it starts the guest."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..model.lifecycle import ALIVE, OWN, PAUSED
from .errors import InstanceMoving
from .fleet import Fleet
from .locate import locate_to_run
from .report import left_off


def to_recover(fleet: Fleet, name: str, uuid: str, lost_hosts: List[str]) -> Dict[str, Any]:
    """{hosts: the owner if its guest is off but should run, otherwise []; skipped: why it is left alone, or None}.

    Raises what a start raises, also for an instance that may be on a silent host. An instance in a move is not a failure: whoever
    ends the move starts it.
    """
    try:
        hosts = locate_to_run(fleet, name, uuid, lost_hosts)
    except InstanceMoving as error:
        return {"hosts": [], "skipped": str(error)}
    state = _meant_to_run(fleet, uuid, hosts[-1]) if hosts else None
    if state in PAUSED:
        return {"hosts": [], "skipped": left_off(name, state)}
    return {"hosts": hosts[-1:] if state and state not in ALIVE else [], "skipped": None}


def _meant_to_run(fleet: Fleet, uuid: str, host: str) -> Optional[str]:
    """The power state of the guest, where it was made, is in no change and was not stopped."""
    place = fleet.place_on(uuid, host)
    at_rest = place and (place["role"], place["phase"], place["vm_state"]) == (OWN, "active", "active")
    return (place["power_state"] or "nostate") if place and at_rest else None
