# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the instances are that a run is about: on a host, nowhere, on the move, or unknown because a host is silent."""

from __future__ import annotations

from ..model import migration
from ..model.record import CLAIM, OWN
from .errors import DuplicateInstance, InstanceIsLocked, InstanceMoving, InstanceUnknown

CONFIRM_FIRST = "Run confirm_resize or revert_resize first"
LEFT_OVER = (
    "Run confirm_resize or revert_resize, whichever ended the move: it removes that, or says what to do about it"
)
FINISH_FIRST = "Finish the move first: run the same playbook again, or revert_resize"


def locate(fleet, name, uuid, lost_hosts=()):
    """The hosts that hold something of the instance, its owner last: [] where it is nowhere.

    Raises InstanceMoving in a move and before it is confirmed; InstanceUnknown where it was not found and a host did
    not answer, unless that host is given up as lost.
    """
    places = fleet.places.get(uuid, [])
    owners = [place["host"] for place in places if place["role"] == OWN]
    claims = [place["host"] for place in places if place["role"] == CLAIM]
    moving = [place for place in places if is_moving(place)]
    if moving:
        raise _moving(name, uuid, places)
    if len(owners) > 1:
        raise DuplicateInstance(
            "%s is owned by %s" % (name, " and ".join(owners)), hint="Find out which copy is right before anything else"
        )
    silent = sorted(set(fleet.verdicts) - set(lost_hosts))
    if not owners and silent:
        raise InstanceUnknown(
            "%s is on no host that answered, and %s did not" % (name, ", ".join(silent)),
            hint="Bring the host back, or if it is gone for good pass -e berth_lost_hosts=%s" % ",".join(silent),
        )
    return claims + owners


def check_unlocked(name, locked):
    """InstanceIsLocked where the inventory sets ``berth_locked`` (true, or who locked it): Nova's check_instance_lock."""
    if locked:
        raise InstanceIsLocked("Instance %s is locked" % name, locked_by=str(locked))


def is_moving(place):
    """Whether a move holds the instance there: from its begin until it is confirmed, reverted or given up."""
    return place["role"] not in (OWN, CLAIM) or place["phase"] in migration.COLD_NAMES


def unconfirmed(places):
    """The place of an instance that was resized and waits for its confirmation (VERIFY_RESIZE), or None."""
    owners = [place for place in places if place["role"] == OWN]
    # Beside another owner it is the copy of a host that was given up as lost.
    return owners[0] if len(owners) == 1 and is_unconfirmed(owners[0]) else None


def is_unconfirmed(place):
    return place.get("vm_state") == "resized" and not place.get("task_state")


def _moving(name, uuid, places):
    """In Nova's words: the attribute that is in the way, and its state."""
    moving = [place for place in places if is_moving(place)]
    place = next((place for place in moving if place["role"] == OWN), moving[0])
    hosts = ", ".join(sorted(one["host"] for one in places))
    if any(one["role"] == OWN and not is_moving(one) for one in places):
        # Two that contradict each other: a host that was given up as lost is back.
        return InstanceMoving(
            "%s is in no move any more, but %s holds a part of one (%s)" % (name, place["host"], hosts),
            hint=LEFT_OVER,
            uuid=uuid,
        )
    attr = "task_state" if place.get("task_state") else "vm_state"
    return InstanceMoving(
        "Instance %s is in %s %s (%s)" % (name, attr, place.get(attr), hosts),
        hint=CONFIRM_FIRST if is_unconfirmed(place) else FINISH_FIRST,
        uuid=uuid,
        attr=attr,
        state=place.get(attr),
    )
