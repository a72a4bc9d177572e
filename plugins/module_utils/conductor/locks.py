# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of an instance (Nova's), which the inventory or its host has: who locked it, what it stops, and what not."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Optional

from ..model import hints
from ..model.errors import InstanceIsLocked
from ..model.lifecycle import DELETING, OWN
from .fleet import Fleet, Place
from .plan import Instance, fail

# A lock keeps people from changing an instance. After a power cut, a locked instance should run again too.
NOT_STOPPED = ("console", "lock", "recover", "unlock")


def check(operation: str, name: str, locked: Any, places: Iterable[Place]) -> None:
    """Raise InstanceIsLocked if a lock of the inventory (``locked``) or of its host stops the operation."""
    if operation not in NOT_STOPPED:
        check_unlocked(name, locked)
        check_unlocked_there(name, places)


def check_unlocked(name: str, locked: Any) -> None:
    """InstanceIsLocked if the inventory sets ``berth_locked`` (true, or who locked it): Nova's check_instance_lock."""
    if locked:
        raise InstanceIsLocked("Instance %s is locked" % name, locked_by=str(locked))


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
        who = locks.get(name) or lock_of(places)
        if not who or not places:
            continue
        instance["locked"] = str(who)
        if any(place["phase"] == DELETING for place in places):
            fail(instance, InstanceIsLocked("Instance %s is locked" % name, locked_by=str(who)))
