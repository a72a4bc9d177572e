# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Confirm: there is no way back, and what the source kept is removed (purge), also on a host that was lost and came
back. It is refused if the guest crashed. The last step of every move, finish, is refused while the other host may hold a
part of the instance."""

from __future__ import annotations

from ....model import hints, shelves
from ....model import migration as names
from ....model.errors import BerthError
from ....model.lifecycle import ACTIVE, CLAIM, CONFIRMING, IN, OUT, OWN, RESIZED, RESTORING, REVERTING
from ....model.move_errors import (
    InstanceInvalidState,
    InstanceNotResized,
    MigrationConflict,
    MigrationFenced,
    MigrationNotReady,
)
from ...errors import GuestCrashed, GuestNotSeen
from ...guest.health import CAME_UP, CRASHED
from .common import (
    CONFIRMED,
    REVERTED_EVENT,
    attempt_of,
    confirm_in,
    existing,
    fenced,
    has_ended,
    is_past,
    moved,
    put,
    was_on,
    without_the_other,
)
from .resize import bring_up

# Phase of the owner -> how the move has ended, though not yet on the other host, and which side the owner is.
SETTLED = {CONFIRMING: ("confirmed", "destination"), RESTORING: ("reverted", "source")}


def take(host, uuid, token, phases, phase, event):
    """Put the owner of a resized instance into ``phase`` and hand out the next attempt."""
    record = host.store.read(uuid)
    if record is None or record.role != OWN or record.op != token["op"] or record.phase not in phases:
        raise InstanceNotResized(uuid, phase=record.phase if record else None)
    return put(host, record, moved(record, attempt=attempt_of(record) + 1).replace(phase=phase), event)


def confirm(host, uuid, token, peer=None, lost=False, when_due=False, crashed=False, **_ignored):
    """On the destination: from here there is no way back. If an interrupted run did not start the guest, start it
    first. Confirm a crashed guest only with ``crashed``. With ``when_due``, confirm only if this host's window is over and
    the guest was seen to come up.

    If the source is lost, a revert that was not given back cannot continue, so the guest continues here."""
    record = existing(host, uuid, token["op"])
    if has_ended(host, record, token["op"]):
        return False
    if when_due and record.phase == RESIZED and confirm_in(host, record) != 0:
        raise MigrationNotReady(
            "the time limit for confirming %s has not passed on %s" % (record.name, host.identity["name"])
        )
    stopped = lost and is_past(record, token["op"], (OWN, REVERTING))
    host.effects.check_disks(record)
    behind = is_past(record, token["op"], (OWN, RESIZED)) and not record.migration["started"]
    if (behind or stopped) and was_on(record):
        bring_up(host, record)
    health = check_health(host, record, may_be_crashed=lost or (crashed and not when_due))
    if when_due and not lost:
        check_came_up(host, record, health)
    phases = (RESIZED, CONFIRMING, REVERTING) if lost else (RESIZED, CONFIRMING)
    take(host, uuid, token, phases, CONFIRMING, "confirm begins")
    return health


def check_health(host, record, may_be_crashed):
    """While a revert is possible, return the guest's health. Raise GuestCrashed unless ``may_be_crashed``."""
    if record.phase != RESIZED or record.migration["type"] == names.LIVE:
        return True
    health = host.effects.health(record)
    if health["state"] == CRASHED and not may_be_crashed:
        raise GuestCrashed(
            "the guest of %s (%s) on %s has crashed: %s. Nothing was confirmed"
            % (record.name, record.uuid, host.identity["name"], health["seen"]),
            hint=hints.guest_crashed(record.name),
            host=host.identity["name"],
        )
    return {"health": health}


def check_came_up(host, record, said):
    """Raise GuestNotSeen if nobody knows that the guest came up: no timer removes the way back then. ``said``: check_health."""
    health = said["health"] if isinstance(said, dict) else None
    if health and was_on(record) and health["state"] not in CAME_UP:
        raise GuestNotSeen(
            "it is unknown whether the guest of %s (%s) on %s came up: %s (%s). Nothing was confirmed, and its former copy is kept"
            % (record.name, record.uuid, host.identity["name"], health["state"], health["seen"]),
            hint=hints.guest_not_seen(record.name),
            host=host.identity["name"],
        )


def purge(host, uuid, token, peer=None, lost=False, changed_disks=False, **_ignored):
    """Remove everything of this move that this host does not own: guest, disks, then the record. The source runs it in
    a confirm, the destination in a revert. ``lost``: this host was lost, so it may no longer own what its record
    says."""
    host.store.bury(token["op"])
    record = host.store.read(uuid)
    if record is None or record.role == CLAIM:  # which a create that was killed left: it is no part of any move
        return False
    left = lost and is_superseded(record, peer)
    if record.op != token["op"] or not (left or record.role in (OUT, IN)):
        raise MigrationConflict(
            "%s on %s is %s: not purged" % (uuid, host.identity["name"], record.role), role=record.role
        )
    if token["attempt"] < attempt_of(record):
        raise MigrationFenced("attempt %d of the move of %s is over" % (token["attempt"], uuid))
    # An arriving copy was never the instance, and a person has said that a lost host's copy may go.
    if record.role == OUT and not changed_disks:
        _check_disks_left(host, record, (peer or {}).get("phase"))
    host.effects.purge(record)
    host.store.compare_and_swap(record, None)
    return True


def _check_disks_left(host, record, owner_phase):
    """Raise what these checks raise, and say how far the move is: a person may take the refusal for one of all of it."""
    try:
        host.effects.check_disks(record)
        host.effects.check_beside(record)
    except BerthError as error:
        if owner_phase in SETTLED:
            word, side = SETTLED[owner_phase]
            owner = record.migration[side]["name"]
            here = host.identity["name"]
            error.message += ". The move of %s is %s and it stays on %s: only what %s has left of it was not removed" % (
                record.name, word, owner, here,
            )  # fmt: skip
        raise


def is_superseded(record, owner):
    """Whether the instance continued without this host: its owner has ended this move, in a later generation."""
    return (
        bool(owner)
        and owner.get("role") == OWN
        and record.op in owner["lost_moves"]
        and list(owner["generation"]) > list(record.generation)
    )


def drop_old(host, uuid, token, peer=None, **_ignored):
    """On the destination, which may be the same host: remove the old disks that were kept beside the new ones."""
    record = existing(host, uuid)
    if record.role == OWN and record.op is None:
        return False
    record = fenced(host, uuid, token, (OWN,))
    if record.phase != CONFIRMING:
        raise InstanceNotResized(uuid)
    host.effects.check_disks(record)
    host.effects.drop_disks(record)
    return True


def finish(host, uuid, token, peer=None, lost=False, **_ignored):
    """The last step of every move, on the owner: make the record an ordinary one again."""
    record = existing(host, uuid)
    if record.role == OWN and record.op is None:
        return False
    record = fenced(host, uuid, token, (OWN,))
    if record.phase not in (CONFIRMING, RESTORING):
        raise InstanceInvalidState(uuid, "task_state", record.task_state, "finish")
    # Never finish a move while the other side may still have a copy. Claims do not count as copies.
    if not (lost or names.same_host(record.migration)) and (peer is None or peer["role"] not in (None, CLAIM)):
        raise MigrationNotReady("the other host still holds a part of the move of %s" % uuid)
    host.store.bury(token["op"])
    event = CONFIRMED if record.phase == CONFIRMING else REVERTED_EVENT
    ended = (without_the_other(record) if lost else record).replace(
        op=None, phase=ACTIVE, vm_state=record.migration["vm_state_before"], task_state=None, migration=None
    )
    if record.phase == CONFIRMING and names.same_host(record.migration):
        ended = ended.replace(resources=record.migration["new_resources"])
    if shelves.of(record.spec):
        ended = ended.replace(resources={})
    ended = put(host, record, ended, event)
    host.effects.settle(ended)
    return True
