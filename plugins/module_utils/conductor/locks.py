# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of an instance (Nova's), which the inventory or its host has: who locked it, what it stops, and what not."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Optional

from ..model import fleet_hints, hints
from ..model.errors import InstanceIsLocked
from ..model.lifecycle import DELETING, OWN
from ..model.safe_text import clean
from .fleet import Fleet, Place
from .operations import OPERATIONS
from .plan import Instance, fail

YES = ("true", "yes", "on", "y", "t", "1", "1.0")  # of these a text says no more than that it is locked


def check(operation: str, name: str, locked: Any, places: Iterable[Place]) -> None:
    """Raise InstanceIsLocked if a lock of the inventory (``locked``) or of its host stops the operation."""
    # After a power cut, a locked instance should run again too.
    if operation not in OPERATIONS or OPERATIONS[operation].lockable:
        check_unlocked(name, locked)
        check_unlocked_there(name, places)


def check_unlocked(name: str, locked: Any) -> None:
    """InstanceIsLocked if the inventory sets ``berth_locked`` (true, or why or by whom): Nova's check_instance_lock."""
    if locked:
        raise _locked_there(name, locked)


def by_inventory(locked: Any) -> str:
    """Who locked it, where berth_locked did, with the text that it has."""
    says = clean(str(locked))
    plain_yes = says.strip().lower() in YES
    return "berth_locked of the inventory" if plain_yes else "berth_locked of the inventory: %s" % says


def _locked_there(name: str, locked: Any) -> InstanceIsLocked:
    who = by_inventory(locked)
    return InstanceIsLocked(
        "Instance %s is locked by %s" % (name, who), hint=fleet_hints.unlock_in_inventory(name), locked_by=str(locked)
    )


def check_unlocked_there(name: str, places: Iterable[Place]) -> None:
    """Raise InstanceIsLocked if somebody locked the instance on the host that has it, from any controller."""
    who = lock_of(places)
    if who:
        raise InstanceIsLocked("Instance %s is locked by %s" % (name, who), hint=hints.unlock(name), locked_by=who)


def lock_of(places: Iterable[Place]) -> Optional[str]:
    """Who locked it. Only its owner counts: a host with a claim, or one that lies, has no say."""
    return next((place["locked"] for place in places if place["role"] == OWN and place["locked"]), None)


def hold_locked(instances: Dict[str, Instance], locks: Mapping[str, Any], fleet: Fleet) -> None:
    """Mark the instances that are locked, in the inventory (``locks``: inventory name -> who locked it) or on their
    hosts. Create does not finish a delete of a locked instance."""
    for name, instance in instances.items():
        places = fleet.places.get(instance["uuid"], ())
        if not places or not (locks.get(name) or lock_of(places)):
            continue
        instance["locked"] = str(locks.get(name) or lock_of(places))
        if any(place["phase"] == DELETING for place in places):
            try:
                check("create", name, locks.get(name), places)
            except InstanceIsLocked as error:
                fail(instance, error)
