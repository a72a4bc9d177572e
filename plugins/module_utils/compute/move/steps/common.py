# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules for all steps of a move, how they read and write the record, and fencing: after another run has taken over a
move, the old run can do no further step of it.
"""

from __future__ import annotations

from ....model import hints, lifecycle, travelled_history, vm_states
from ....model import migration as names
from ....model.lifecycle import CONFIRMING, KEEP, OUT, OWN, RESIZED
from ....model.move_errors import (
    InstanceNotFound,
    MigrationConflict,
    MigrationEnded,
    MigrationFenced,
    MigrationNotReady,
)
from ...guest import summary
from ...record import journal

CONFIRMED, REVERTED_EVENT, GIVEN_UP = "confirmed", "reverted", "given up"

# The parts of a view that steps read, with their values if a host holds nothing.
NOTHING = {
    **dict.fromkeys(("uuid", "name", "project_id", "role", "phase", "op", "generation", "power_state", "migration")),
    "attempt": 0,
    "executing": False,
    "halted": False,
    "lost_moves": [],
    "host": {"uuid": None, "name": None},
}


def checked_view(peer):
    """Return the other host's view with every part that steps read. Raise MigrationConflict if it is not a view."""
    if not peer:
        return None
    whole = dict(NOTHING, **peer)
    plain = all(whole[part] is None or isinstance(whole[part], str) for part in ("uuid", "role", "phase", "op"))
    counts = [whole["attempt"], *(whole["generation"] if isinstance(whole["generation"], list) else ())]
    if (
        not plain
        or not isinstance(whole["host"], dict)
        or not isinstance(whole["migration"], (dict, type(None)))
        or not isinstance(whole["lost_moves"], list)
        or not all(isinstance(count, int) for count in counts)
        or (whole["role"] is not None and len(counts) != 3)
    ):
        raise MigrationConflict("the other host's report of %s is malformed" % whole["uuid"])
    return whole


def peer_part(peer, part):
    """Return a part of the other host's last reply beside its record. Raise MigrationNotReady if it is missing."""
    value = (peer or {}).get(part)
    if value is None:
        raise MigrationNotReady("the other host did not report its %s" % part, hint=hints.run_again())
    return value


def view(host, uuid):
    """Return what the controller and the other host may know of a record: plain data, no secrets."""
    record = host.store.read(uuid)
    return view_of(host, record) if record else {"uuid": uuid, "host": host.identity, "role": None}


def view_of(host, record):
    """Return the view of a record that was just read. ``running``: there is a QEMU; ``executing``: the guest really
    runs; ``halted``: it is paused and no job would change that."""
    return {
        "uuid": record.uuid,
        "name": record.name,
        "project_id": record.project_id,
        "host": host.identity,
        "role": record.role,
        "phase": record.phase,
        "op": record.op,
        "generation": list(record.generation),
        "attempt": attempt_of(record),
        "vm_state": record.vm_state,
        "task_state": record.task_state,
        "power_state": record.power_state,
        "spec": record.spec,
        "resources": record.resources,
        "migration": record.migration,
        "confirm_in": confirm_in(host, record),
        "last_move": last_move(record),
        "lost_moves": record.lost_moves,
        "running": host.effects.running(record.uuid),
        "executing": host.effects.executing(record.uuid),
        "has_left": host.effects.has_left(record.uuid),
        "halted": host.effects.halted(record.uuid),
    }


def confirm_in(host, record):
    """Return the seconds until an unconfirmed resize on this host is due, 0 if it is, or None."""
    waits = is_past(record, record.op, (OWN, RESIZED))
    return summary.confirm_in(record.migration, host.since_boot()) if waits else None


def last_move(record):
    """Return how the last move of this instance ended: confirmed, reverted, given up, or None."""
    own = travelled_history.own(record.history)
    ends = [entry["event"] for entry in own if entry.get("event") in (CONFIRMED, REVERTED_EVENT, GIVEN_UP)]
    return ends[-1] if ends else None


def attempt_of(record):
    return record.migration["attempt"] if record.migration else 0


def existing(host, uuid, op=None):
    """Return the record. If it is gone, another run may have ended the move ``op`` meanwhile."""
    record = host.store.read(uuid)
    if record is None and op is not None and host.store.is_buried(op):
        raise has_just_ended(uuid)
    if record is None:
        raise InstanceNotFound("Instance %s could not be found on %s" % (uuid, host.identity["name"]))
    return record


def has_just_ended(uuid):
    return MigrationEnded("the move of %s has just ended" % uuid, hint=hints.run_again())


def is_at_rest_since(host, record, op):
    """Whether this move has ended, with the instance on this host."""
    return (record.role, record.op) == (OWN, None) and host.store.is_buried(op)


def is_past(record, op, *states):
    """Whether the record of this move is already in one of the (role, phase) ``states``."""
    return record is not None and record.op == op and (record.role, record.phase) in states


def has_ended(host, record, op):
    """Whether this move was confirmed and has ended, with the instance on this host."""
    return record is not None and is_at_rest_since(host, record, op) and last_move(record) == CONFIRMED


def is_taken_over(host, record, op):
    """Whether this host owns the instance by this move, even if the move has been confirmed or ended since."""
    return is_past(record, op, (OWN, RESIZED), (OWN, CONFIRMING)) or has_ended(host, record, op)


def put(host, old, new, event=None):
    """Write the record with a new token. Set Nova's names by the phase, and add the history event."""
    if new.migration is not None and new.op is not None:
        vm_state, task_state, status = lifecycle.names(
            new.migration["type"] == names.LIVE, new.role, new.phase, new.migration["vm_state_before"]
        )
        if new.migration["vm_state_before"] == vm_states.SHELVED:
            vm_state = vm_states.SHELVED  # nothing of it waits for a confirm
        new = new.replace(vm_state=vm_state, task_state=task_state, migration=dict(new.migration, status=status))
    if event:
        status = new.migration["status"] if new.migration else None
        new = journal.noted(new, event, vm_state=new.vm_state, task_state=new.task_state, migration_status=status)
    if old is not None and list(new.generation) <= list(old.generation):
        new = new.replace(generation=after(old.generation))
    return host.store.compare_and_swap(old, new.replace(token=host.nonce()))


def moved(record, **changes):
    """Return the record with changes to its migration."""
    return record.replace(migration=dict(record.migration, **changes))


def share_storage(peer):
    """Whether the hosts share the storage, as the destination ``peer`` found at its claim."""
    return bool(((peer or {}).get("migration") or {}).get("shared"))


def was_on(record):
    return vm_states.VM_STATES[vm_states.before(record.migration["vm_state_before"])].on()


def next_epoch(record):
    """Return the generation of giving up the instance: the epoch counts owners, the number an owner's writes."""
    return [record.generation[0] + 1, 0]


def after(generation):
    return [generation[0], generation[1] + 1]


def without_the_other(record):
    """Return the record of a move that continues without its other host."""
    return record.replace(lost_moves=[*(op for op in record.lost_moves if op != record.op), record.op])


def has_released(peer, token):
    """Whether the source let go: then the instance is what the destination has, and nothing there is made again."""
    return bool(peer) and (peer.get("role"), peer.get("op"), peer.get("phase")) == (OUT, token["op"], KEEP)


# Fencing: after another run has taken over a move, the old run can do no further step of it.
#
# ``attempt`` identifies the run that works on the move now. The owner hands it out, it only grows, and a step with an
# older one is fenced (MigrationFenced). A deleted or abandoned move leaves a tombstone, which stops a late claim.


def fenced(host, uuid, token, roles):
    """Return the record, if it has one of ``roles`` in this move and no later run has taken the move over."""
    record = existing(host, uuid, token["op"])
    if is_at_rest_since(host, record, token["op"]):
        raise has_just_ended(uuid)
    if record.op != token["op"] or record.role not in roles:
        raise MigrationConflict(
            "%s on %s is %s of the operation %s" % (uuid, host.identity["name"], record.role, record.op),
            role=record.role,
            phase=record.phase,
        )
    if attempt_of(record) != token["attempt"]:
        raise MigrationFenced(
            "attempt %d of the move of %s was taken over by attempt %d" % (token["attempt"], uuid, attempt_of(record)),
            hint=hints.another_run(),
        )
    return record
