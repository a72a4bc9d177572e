# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deletes an instance at any point of its move."""

from __future__ import annotations

from ....model import migration as names
from ....model.lifecycle import ERASING, FROZEN, IN, KEEP, OUT, OWN, RESIZING, RESTORING, REVERTED
from ....model.move_errors import InstanceInvalidState, MigrationConflict, MigrationNotReady
from .common import (
    GIVEN_UP,
    after,
    attempt_of,
    existing,
    fenced,
    has_just_ended,
    is_at_rest_since,
    moved,
    next_epoch,
    put,
    without_the_other,
)


def erase(host, uuid, token, peer=None, lost=False, changed_disks=False, **_ignored):
    """On the host that owns the instance, or would next: write that, then remove guest and disks. Nobody can continue
    the move, and no other step leaves this phase. The record stays until the other side holds nothing."""
    record = existing(host, uuid, token["op"])
    if is_at_rest_since(host, record, token["op"]):
        raise has_just_ended(uuid)
    seen = (peer.get("role"), peer.get("op"), peer.get("phase")) if peer else None
    let_go = {IN: (OUT, token["op"], KEEP), OUT: (OUT, token["op"], REVERTED)}
    if record.op != token["op"] or not (lost or record.role == OWN or seen == let_go.get(record.role)):
        raise MigrationConflict("%s is not owned by %s" % (uuid, host.identity["name"]), role=record.role)
    host.effects.check_side(record)
    if not changed_disks:
        host.effects.check_deletable(record)
    if not lost and record.role == IN:
        host.effects.publish_volumes(record)
    last = record.generation
    if record.role != OWN:
        # Higher than any that a lost host may have: it could have given the instance back.
        last = next_epoch(record) if lost else peer["generation"]
    attempt = max(attempt_of(record), (peer or {}).get("attempt") or 0) + 1
    doomed = moved(record, attempt=attempt).replace(role=OWN, phase=ERASING, generation=after(last))
    if record.role == IN and (not lost or host.effects.arrived(record)):
        doomed = moved(
            doomed, verified=attempt
        )  # so volumes that came with a running guest count as complete, and are kept
    doomed = without_the_other(doomed) if lost else doomed
    doomed = put(host, record, doomed, "delete")
    if not lost or (peer or {}).get("lost"):
        # Else the other host answers, and its part in this move is over: its volumes may be any instance's by now.
        host.effects.take_given_volumes(doomed)
    host.effects.erase(doomed)
    return True


def forget(host, uuid, token, peer=None, lost=False, **_ignored):
    """Remove the record last, so that an interrupted delete is always found."""
    if host.store.read(uuid) is None:
        return False
    record = fenced(host, uuid, token, (OWN,))
    if record.phase != ERASING:
        raise InstanceInvalidState(uuid, "task_state", record.task_state, "delete")
    if not (lost or names.same_host(record.migration)) and (peer is None or peer["role"] is not None):
        raise MigrationNotReady("the other host still holds a part of %s" % uuid)
    host.store.bury(token["op"])
    host.store.compare_and_swap(record, None)
    return True


# Gives up a move before the source has let go.


def abort(host, uuid, token, peer=None, **_ignored):
    """On the source: nobody else can continue this move; stop all copying for it."""
    record = existing(host, uuid, token["op"])
    if record.role == OWN and record.op is None:
        return False
    if record.op != token["op"] or record.role != OWN or record.phase not in (RESIZING, FROZEN, RESTORING):
        raise InstanceInvalidState(uuid, "task_state", record.task_state or record.phase, "abort")
    fenced(host, uuid, token, (OWN,))
    taken = moved(record, attempt=attempt_of(record) + 1, frozen=None).replace(phase=RESTORING)
    host.effects.stop_transfer(uuid)
    host.effects.own_volumes(record)
    put(host, record, taken, GIVEN_UP)
    return True
