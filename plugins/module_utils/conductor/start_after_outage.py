# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances a recovery asks their hosts about. Each host decides by its record whether it starts the guest.

A host that is back may have what others have taken over from it. It removes that if the disks prove it, and sets aside what was made
again from a backup for it: see outdated().
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from ..model import request_digest, shelves
from ..model.lifecycle import ACTIVE, ALIVE, OWN, PAUSED, SETTING_ASIDE
from ..model.vm_states import VM_STATES
from .closing_table import left_off
from .errors import InstanceMoving
from .fleet import Fleet, Place
from .locate import generation_of, locate_to_run
from .take_over import is_being_restored


def to_recover(fleet: Fleet, name: str, uuid: str, lost_hosts: List[str]) -> Dict[str, Any]:
    """{hosts: the owner if its guest is off but should run, otherwise []; skipped: why it is left alone, or None}.

    Raises what a start raises, also for an instance that may be on a silent host. An instance in a move is not a failure: whoever
    ends the move starts it.
    """
    copies = outdated(fleet.places.get(uuid, ()))
    if copies:
        stays = copies.pop()
        told = {"owner": fleet.documents[stays["host"]]["uuid"], "generation": stays["generation"]}
        left = [each["host"] for each in copies]
        aside = [each["host"] for each in copies if _was_evacuated(fleet, each, stays)]
        return {"hosts": left, "skipped": None, "stays": stays["host"], "outdated": left, "aside": aside, **told}
    try:
        hosts = locate_to_run(fleet, name, uuid, lost_hosts)
    except InstanceMoving as error:
        return {"hosts": [], "skipped": str(error)}
    place = fleet.place_on(uuid, hosts[-1]) if hosts else None
    if not place or (place["role"], place["phase"]) != (OWN, ACTIVE):
        return {"hosts": [], "skipped": None}
    state, meant = place["power_state"], VM_STATES.get(str(place["vm_state"]))
    if state in PAUSED and meant and meant.recovered:
        return {"hosts": [], "skipped": left_off(name, state, meant.back)}
    return {"hosts": hosts[-1:] if is_off(place) else [], "skipped": None}


def is_off(place: Mapping[str, Any]) -> bool:
    """Whether its guest is off but should run."""
    meant = VM_STATES.get(str(place.get("vm_state")))
    return meant is not None and meant.recovered and place["power_state"] not in ALIVE


def _was_evacuated(fleet: Fleet, copy: Place, stays: Place) -> bool:
    """Whether the one that stays was made again from a backup since the host of the copy was lost, whose guest is off. Until the
    backup is restored, the copy may be the only one that is whole."""
    lost = (stays["request_digests"] or {}).get(shelves.EVACUATED)
    host_uuid = fleet.documents[copy["host"]]["uuid"]
    return not is_being_restored(stays) and lost == request_digest.of(host_uuid) and copy["power_state"] not in ALIVE


def outdated(places: Sequence[Place]) -> List[Place]:
    """The places of an instance that several hosts own at rest, each in an epoch of its own, the latest last; [] if that is not so.
    Whether the latest has taken over the disks of the others, only these know."""
    owners = sorted((place for place in places if place["role"] == OWN), key=lambda place: generation_of([place]))
    epochs = {generation_of([place])[0] for place in owners}
    at_rest = all(place["phase"] in (ACTIVE, SETTING_ASIDE) for place in owners[:-1])
    if len(owners) < 2 or len(owners) < len(places) or len(epochs) < len(owners):
        return []
    return owners if at_rest and owners[-1]["phase"] == ACTIVE else []
