# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a move, each on one host: a compare-and-swap on the record there, and the effect that goes with it.

The tables are R1-R8 (resize, cold migrate), F1-F3 (confirm), V1-V6 (revert), L3-L8 (live), A1-A3 (give up) and D1-D3
(delete). A step looks at the record first: what was done already is passed over, so a run that follows a crash walks the same list
again.

Rules all steps keep:
- only the OWN host may start the guest; a move is release, then acquire;
- ``attempt`` says who works on the move now. The owner hands it out, it only grows, and a step with an older one is
  fenced (MigrationFenced). A deleted or abandoned move leaves a tombstone, so a late claim finds it;
- a record is written before the effect it allows, and deleted after everything that it accounts for.

``host`` gives ``store``, ``effects``, ``identity`` {uuid, name}, ``now()`` (s) and ``nonce()``. ``ticket`` is
{op, attempt}, as begin handed it out. ``peer`` is the view of the other host's record as its last step returned it.
"""

from __future__ import annotations

import contextlib

from ...model import migration as names
from ...model.migration import (
    ACTIVE,
    CONFIRMING,
    ERASING,
    FROZEN,
    INCOMING,
    KEEP,
    RESIZED,
    RESIZING,
    RESTORING,
    REVERTED,
    REVERTING,
    VERIFIED,
)
from ...model.record import IN, OUT, OWN, Record
from .. import journal
from . import guards
from .errors import (
    InstanceInvalidState,
    InstanceNotFound,
    InstanceNotResized,
    MigrationConflict,
    MigrationEnded,
    MigrationFenced,
    MigrationNotReady,
    MigrationPreCheckError,
)

CONFIRMED, REVERTED_EVENT, GIVEN_UP = "confirmed", "reverted", "given up"


def view(host, uuid):
    """What the controller and the other host may know of a record: plain data, no secrets."""
    record = host.store.read(uuid)
    if record is None:
        return {"uuid": uuid, "host": host.identity, "role": None}
    return {
        "uuid": uuid,
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
        "last_move": last_move(record),
        "running": host.effects.running(uuid),
        "executing": host.effects.executing(uuid),
        "has_left": host.effects.has_left(uuid),
    }


def last_move(record):
    """How the last move of this instance ended: confirmed, reverted, given up, or None."""
    ends = [entry["event"] for entry in record.history if entry.get("event") in (CONFIRMED, REVERTED_EVENT, GIVEN_UP)]
    return ends[-1] if ends else None


def attempt_of(record):
    return record.migration["attempt"] if record.migration else 0


# ---- helpers -------------------------------------------------------------------------------------------------------


def existing(host, uuid):
    record = host.store.read(uuid)
    if record is None:
        raise InstanceNotFound("Instance %s could not be found on %s" % (uuid, host.identity["name"]))
    return record


def mine(host, uuid, ticket, roles):
    """The record, where it plays one of ``roles`` in this move and nobody took the move up since."""
    record = existing(host, uuid)
    if record.op != ticket["op"] or record.role not in roles:
        raise MigrationConflict(
            "%s on %s is %s of the operation %s" % (uuid, host.identity["name"], record.role, record.op),
            role=record.role,
            phase=record.phase,
        )
    if attempt_of(record) != ticket["attempt"]:
        raise MigrationFenced(
            "attempt %d of the move of %s was taken over by attempt %d" % (ticket["attempt"], uuid, attempt_of(record)),
            hint="Another run is at work, or was since: run again",
        )
    return record


def is_past(record, op, *states):
    """Is the record of this move already in one of the (role, phase) ``states``?"""
    return record is not None and record.op == op and (record.role, record.phase) in states


def put(host, old, new, event=None):
    """Write the record with a new token; names and history follow the phase."""
    if new.migration is not None and new.op is not None:
        vm_state, task_state, status = names.names(new.migration["type"], new.phase, new.migration["vm_state_before"])
        new = new.replace(vm_state=vm_state, task_state=task_state, migration=dict(new.migration, status=status))
    if event:
        status = new.migration["status"] if new.migration else None
        new = journal.noted(new, event, vm_state=new.vm_state, task_state=new.task_state, migration_status=status)
    if old is not None and list(new.generation) <= list(old.generation):
        new = new.replace(generation=after(old.generation))
    return host.store.compare_and_swap(old, new.replace(token=host.nonce()))


def moved(record, **changes):
    """The record with its migration part changed."""
    return record.replace(migration=dict(record.migration, **changes))


def was_on(record):
    return record.migration["vm_state_before"] == "active"


def next_epoch(record):
    """The generation with which a host lets go: the epoch counts the owners, the number the writes of one owner."""
    return [record.generation[0] + 1, 0]


def after(generation):
    return [generation[0], generation[1] + 1]


def has_released(peer, ticket):
    """The source let go: what is on the destination is the instance now, and nothing there is made anew."""
    return bool(peer) and (peer.get("role"), peer.get("op"), peer.get("phase")) == (OUT, ticket["op"], KEEP)


# ---- R1-R8: source S, destination D --------------------------------------------------------------------------------


def begin(host, uuid, ticket, peer=None, kind=names.RESIZE, spec=None, destination=None, confirm_window=0, **dummy):
    """R1 on S: take the move up. Hands out the attempt; nothing else has happened to the guest."""
    record = existing(host, uuid)
    op = ticket["op"]
    if is_past(record, op, (OUT, KEEP), (OWN, RESIZED)):
        return False
    if record.role != OWN:
        raise MigrationConflict("%s is not owned by %s" % (uuid, host.identity["name"]), role=record.role)
    if kind != names.RESIZE:
        spec = record.spec
    if record.op is None:
        if host.store.is_buried(op):
            raise MigrationEnded("the move %s of %s has ended" % (op, uuid))
        guards.check_begin(record, kind, spec, host.effects.executing(uuid))
        migration = names.new_migration(op, kind, host.identity, destination, record, spec, host.now(), confirm_window)
        new = record.replace(op=op, phase=RESIZING, migration=migration)
        with host.store.host_lock():
            if names.same_host(migration):
                new = both_resources(host, new)
            put(host, record, new, "%s begins" % kind)
    elif record.op == op and record.phase in (RESIZING, FROZEN):
        if destination and destination["uuid"] != record.migration["destination"]["uuid"]:
            raise MigrationConflict("the move of %s goes to %s" % (uuid, record.migration["destination"]["name"]))
        taken = moved(record, attempt=attempt_of(record) + 1).replace(phase=RESIZING)
        put(host, record, taken, "%s is taken up again" % record.migration["type"])
    else:
        raise InstanceInvalidState(uuid, "task_state", record.task_state or record.phase, kind, op=record.op)
    record = host.store.read(uuid)
    said = {"disks": host.effects.disks(record)}
    return dict(said, guest=host.effects.describe_live(record)) if kind == names.LIVE else said


def both_resources(host, record):
    """On one host old and new count as the greater of both until the resize is confirmed (I2)."""
    old, new = record.resources, host.effects.allocate(record.uuid, record.migration["new_spec"])
    guards.check_same_host(record.uuid, old, new)
    record = moved(record, new_resources=new)
    return record.replace(resources=greater(old, new))


def greater(old, new):
    """Each amount of two allocations at its larger; what is no amount is the new one's."""
    result = dict(new)
    for name, amount in old.items():
        if isinstance(amount, dict) and isinstance(new.get(name), dict):
            result[name] = greater(amount, new[name])
        elif isinstance(amount, (int, float)) and not isinstance(amount, bool):
            result[name] = max(amount, new.get(name) or 0)
    return result


def claim(host, uuid, ticket, peer=None, **dummy):
    """R2 on D: set the new flavor's resources aside; a later attempt takes the claim over."""
    op, attempt = ticket["op"], ticket["attempt"]
    record = host.store.read(uuid)
    if is_past(record, op, (OWN, RESIZED)):
        return False
    if host.store.is_buried(op):
        raise MigrationEnded("the move %s of %s was given up" % (op, uuid))
    if record is None:
        if peer is None or peer["op"] != op or peer["role"] != OWN:
            raise MigrationNotReady("the source has not begun the move of %s" % uuid)
        return claim_room(host, uuid, ticket, peer)
    if record.role != IN or record.op != op:
        raise MigrationConflict("%s already holds a record of %s" % (host.identity["name"], uuid), role=record.role)
    if attempt < attempt_of(record):
        raise MigrationFenced("attempt %d of the move of %s is over" % (attempt, uuid))
    if attempt > attempt_of(record):
        put(host, record, moved(record, attempt=attempt, verified=None).replace(phase=INCOMING))
        return True
    return False


def claim_room(host, uuid, ticket, peer):
    """Capacity is decided and written under one hold of the host's lock."""
    migration = dict(peer["migration"], attempt=ticket["attempt"], verified=None, frozen=None)
    incoming = Record(
        uuid=uuid,
        name=peer["name"],
        project_id=peer["project_id"],
        role=IN,
        generation=list(peer["generation"]),
        token=host.nonce(),
        phase=INCOMING,
        spec=migration["new_spec"],
        resources={},
        op=ticket["op"],
        power_state=peer["power_state"],
        migration=migration,
    )
    incoming = moved(incoming, shared=host.effects.check_destination(incoming, peer.get("disks")))
    with host.store.host_lock():
        resources = host.effects.allocate(uuid, migration["new_spec"])
        put(host, None, incoming.replace(resources=resources), "%s is claimed" % migration["type"])
    return True


def freeze(host, uuid, ticket, peer=None, stop_timeout=60, **dummy):
    """R5 on S: write it, THEN stop the guest. From here nobody starts it before the move is over or given up."""
    if is_past(host.store.read(uuid), ticket["op"], (OUT, KEEP)):
        return False
    record = mine(host, uuid, ticket, (OWN,))
    if record.migration["frozen"] != ticket["attempt"]:
        put(host, record, moved(record, frozen=ticket["attempt"]).replace(phase=FROZEN), "the guest is stopped")
    host.effects.stop(uuid, stop_timeout)
    return True


def receive(host, uuid, ticket, peer=None, key=None, **dummy):
    """R3 on D: fresh disks beside their final names, open for the source alone. -> where they are reached.

    All that can go wrong here is done here, while the guest still runs: room for the disks, the guest's definition.
    """
    if has_released(peer, ticket) or is_past(host.store.read(uuid), ticket["op"], (OWN, RESIZED)):
        return False
    record = mine(host, uuid, ticket, (IN,))
    targets = host.effects.receive(record, peer["disks"], key)
    host.effects.define(record)
    return {"targets": targets}


def send(host, uuid, ticket, peer=None, key=None, options=None, **dummy):
    """R5 on S: write every disk to the destination, compare and flush. Holds no lock: it may take hours."""
    if is_past(host.store.read(uuid), ticket["op"], (OUT, KEEP)):
        return False
    record = mine(host, uuid, ticket, (OWN,))
    if record.migration["frozen"] != ticket["attempt"] or host.effects.running(uuid):
        raise MigrationNotReady("%s is not stopped for this attempt" % uuid)
    return {"transfer": host.effects.send(record, peer["targets"], key, options or {}), "sent": ticket["attempt"]}


def presend(host, uuid, ticket, peer=None, key=None, options=None, **dummy):
    """R4 on S, before the freeze: copy while the guest runs, so that send has only the rest to do."""
    if is_past(host.store.read(uuid), ticket["op"], (OUT, KEEP)):
        return False
    record = mine(host, uuid, ticket, (OWN,))
    return {"transfer": host.effects.presend(record, peer["targets"], key, options or {})}


def release(host, uuid, ticket, peer=None, sent=None, **dummy):
    """R6 on S: COMMIT. The guest is down for this attempt and this run has put its disks on the destination's: let go.

    ``sent`` is the attempt for which ``send`` ended in this run of the module. It is written nowhere: whoever has not
    sent the disks does not release them.
    """
    if is_past(host.store.read(uuid), ticket["op"], (OUT, KEEP)):
        return False
    record = mine(host, uuid, ticket, (OWN,))
    if record.migration["type"] != names.LIVE:
        # Live, libvirt's own word that the destination has the whole guest stands for it: frozen was written on that.
        check_sent(record, ticket, peer, sent)
    if record.migration["frozen"] != ticket["attempt"]:
        raise MigrationNotReady("%s may have run since it was copied" % uuid)
    if host.effects.running(uuid):
        raise MigrationNotReady("%s still runs on %s" % (uuid, host.identity["name"]))
    host.effects.hide(record)
    # From here this host may not own the disks any more: what purges it has to know.
    told = moved(record, shared=bool(peer["migration"].get("shared")))
    put(host, record, told.replace(role=OUT, phase=KEEP, generation=next_epoch(record)), "released")
    return True


def check_sent(record, ticket, peer, sent):
    if (
        not peer
        or sent != ticket["attempt"]
        or (peer["role"], peer["op"], peer["attempt"]) != (IN, ticket["op"], ticket["attempt"])
        or peer["host"]["uuid"] != record.migration["destination"]["uuid"]
    ):
        raise MigrationNotReady("the destination does not hold the whole of %s" % record.uuid)


def acquire(host, uuid, ticket, peer=None, **dummy):
    """R7 on D: with the source's receipt (OUT of this move, one generation on) name the disks and become the owner."""
    if is_past(host.store.read(uuid), ticket["op"], (OWN, RESIZED)):
        return False
    record = mine(host, uuid, ticket, (IN,))
    if (
        not peer
        or (peer["role"], peer["op"], peer["phase"]) != (OUT, ticket["op"], KEEP)
        or peer["attempt"] != ticket["attempt"]
        or peer["generation"][0] != record.generation[0] + 1
    ):
        raise MigrationNotReady("the source has not let go of %s" % uuid)
    if record.migration["type"] == names.LIVE:
        check_arrived(record, ticket)
    else:
        host.effects.complete(record)
    window = record.migration["confirm_window"]
    owned = moved(record, frozen=None, confirm_by=host.now() + window if window else None)
    host.effects.take_over(record)
    put(host, record, owned.replace(role=OWN, phase=RESIZED, generation=after(peer["generation"])), "acquired")
    return True


def check_arrived(record, ticket):
    if record.migration["verified"] != ticket["attempt"]:
        raise MigrationNotReady("%s has not arrived" % record.uuid)


def start(host, uuid, ticket, peer=None, **dummy):
    """R8 on D, V4 on S: start the guest where it was on before; a stopped instance stays stopped."""
    record = existing(host, uuid)
    if record.role != OWN or record.op != ticket["op"] or record.phase not in (RESIZED, RESTORING):
        return False
    if not was_on(record):
        return False
    changed = bring_up(host, record)
    if record.phase == RESIZED and not record.migration["started"]:
        put(host, record, moved(record, started=True), "started")
    return changed


def bring_up(host, record):
    if host.effects.arrived(record):
        host.effects.resume(record)
    elif host.effects.running(record.uuid):
        return False
    else:
        host.effects.start(record)
    return True


# ---- F1-F3: confirm ------------------------------------------------------------------------------------------------


def take(host, uuid, ticket, phases, phase, event):
    """The owner of a resized instance goes into ``phase`` and hands out the next attempt."""
    record = host.store.read(uuid)
    if record is None or record.role != OWN or record.op != ticket["op"] or record.phase not in phases:
        raise InstanceNotResized(uuid, phase=record.phase if record else None)
    return put(host, record, moved(record, attempt=attempt_of(record) + 1).replace(phase=phase), event)


def confirm(host, uuid, ticket, peer=None, **dummy):
    """F1 on D: from here there is no way back. A guest that a run left behind before its start is started first."""
    record = existing(host, uuid)
    if is_past(record, ticket["op"], (OWN, RESIZED)) and was_on(record) and not record.migration["started"]:
        bring_up(host, record)
    take(host, uuid, ticket, (RESIZED, CONFIRMING), CONFIRMING, "confirm begins")
    return True


def purge(host, uuid, ticket, peer=None, **dummy):
    """F2 on S, V5 on D: everything of this move that is not owned here: guest, disks, then the record."""
    host.store.bury(ticket["op"])
    record = host.store.read(uuid)
    if record is None:
        return False
    if record.op != ticket["op"] or record.role not in (OUT, IN):
        raise MigrationConflict(
            "%s on %s is %s: not purged" % (uuid, host.identity["name"], record.role), role=record.role
        )
    if ticket["attempt"] < attempt_of(record):
        raise MigrationFenced("attempt %d of the move of %s is over" % (ticket["attempt"], uuid))
    host.effects.purge(record)
    host.store.compare_and_swap(record, None)
    return True


def finish(host, uuid, ticket, peer=None, **dummy):
    """F3 on D, V6 and A3 on S: the move is over, the record is an ordinary one again."""
    record = existing(host, uuid)
    if record.role == OWN and record.op is None:
        return False
    record = mine(host, uuid, ticket, (OWN,))
    if record.phase not in (CONFIRMING, RESTORING):
        raise InstanceInvalidState(uuid, "task_state", record.task_state, "finish")
    # The only copy left is this one: never call a move finished while the other side may still hold a record of it.
    if not names.same_host(record.migration) and (peer is None or peer["role"] is not None):
        raise MigrationNotReady("the other host still holds a part of the move of %s" % uuid)
    host.store.bury(ticket["op"])
    event = CONFIRMED if record.phase == CONFIRMING else REVERTED_EVENT
    ended = record.replace(
        op=None, phase=ACTIVE, vm_state=record.migration["vm_state_before"], task_state=None, migration=None
    )
    if record.phase == CONFIRMING and names.same_host(record.migration):
        ended = ended.replace(resources=record.migration["new_resources"])
    ended = put(host, record, ended, event)
    host.effects.settle(ended)
    return True


# ---- V1-V6: revert -------------------------------------------------------------------------------------------------


def revert(host, uuid, ticket, peer=None, stop_timeout=60, **dummy):
    """V1 on D: write it, then stop the guest. Needs the source's copy."""
    if is_past(host.store.read(uuid), ticket["op"], (OUT, REVERTED)):
        return False
    if not peer or (peer["role"], peer["op"], peer["phase"]) != (OUT, ticket["op"], KEEP):
        raise InstanceNotResized(uuid, hint="The source holds no copy to go back to")
    take(host, uuid, ticket, (RESIZED, REVERTING), REVERTING, "revert begins")
    host.effects.stop(uuid, stop_timeout)
    return True


def give_back(host, uuid, ticket, peer=None, **dummy):
    """V2 on D: COMMIT of the way back: what the guest wrote since the resize is given up."""
    if is_past(host.store.read(uuid), ticket["op"], (OUT, REVERTED)):
        return False
    record = mine(host, uuid, ticket, (OWN,))
    if record.phase != REVERTING or host.effects.running(uuid):
        raise MigrationNotReady("%s still runs on %s" % (uuid, host.identity["name"]))
    host.effects.hide(record)
    put(host, record, record.replace(role=OUT, phase=REVERTED, generation=next_epoch(record)), "given back")
    return True


def take_back(host, uuid, ticket, peer=None, **dummy):
    """V3 on S: with the destination's receipt own it again, with the old flavor."""
    record = existing(host, uuid)
    if is_past(record, ticket["op"], (OWN, RESTORING)) or (record.role == OWN and record.op is None):
        return False
    if not is_past(record, ticket["op"], (OUT, KEEP)):
        raise MigrationConflict("%s on %s is %s" % (uuid, host.identity["name"], record.role), role=record.role)
    if (
        not peer
        or (peer["role"], peer["op"], peer["phase"]) != (OUT, ticket["op"], REVERTED)
        or peer["generation"][0] != record.generation[0] + 1
    ):
        raise MigrationNotReady("the destination has not given %s back" % uuid)
    old = moved(record, attempt=peer["attempt"], frozen=None)
    host.effects.take_back(record)
    host.effects.define(old)
    put(host, record, old.replace(role=OWN, phase=RESTORING, generation=after(peer["generation"])), "taken back")
    return True


# ---- A1-A3: give up before the commit ------------------------------------------------------------------------------


def abort(host, uuid, ticket, peer=None, **dummy):
    """A1 on S: nobody else may go on with this move; what copies for it is stopped."""
    record = existing(host, uuid)
    if record.role == OWN and record.op is None:
        return False
    if record.op != ticket["op"] or record.role != OWN or record.phase not in (RESIZING, FROZEN, RESTORING):
        raise InstanceInvalidState(uuid, "task_state", record.task_state or record.phase, "abort")
    mine(host, uuid, ticket, (OWN,))
    taken = moved(record, attempt=attempt_of(record) + 1, frozen=None).replace(phase=RESTORING)
    host.effects.stop_transfer(uuid)
    put(host, record, taken, GIVEN_UP)
    return True


# ---- D1-D3: the instance is deleted whatever its move has come to ---------------------------------------------------


def erase(host, uuid, ticket, peer=None, **dummy):
    """D1 on the host that owns the instance, or would next: write it, then remove guest and disks. Nobody can go on
    with the move, and no other step leads out of this phase. The record stays until the other side holds nothing."""
    record = existing(host, uuid)
    seen = (peer.get("role"), peer.get("op"), peer.get("phase")) if peer else None
    let_go = {IN: (OUT, ticket["op"], KEEP), OUT: (OUT, ticket["op"], REVERTED)}
    if record.op != ticket["op"] or (record.role != OWN and seen != let_go[record.role]):
        raise MigrationConflict("%s is not owned by %s" % (uuid, host.identity["name"]), role=record.role)
    last = peer["generation"] if record.role != OWN else record.generation
    attempt = max(attempt_of(record), (peer or {}).get("attempt") or 0) + 1
    doomed = moved(record, attempt=attempt).replace(role=OWN, phase=ERASING, generation=after(last))
    doomed = put(host, record, doomed, "delete")
    host.effects.erase(doomed)
    return True


def forget(host, uuid, ticket, peer=None, **dummy):
    """D3: the record goes last, so that a deletion that was begun is always found."""
    if host.store.read(uuid) is None:
        return False
    record = mine(host, uuid, ticket, (OWN,))
    if record.phase != ERASING:
        raise InstanceInvalidState(uuid, "task_state", record.task_state, "delete")
    if not names.same_host(record.migration) and (peer is None or peer["role"] is not None):
        raise MigrationNotReady("the other host still holds a part of %s" % uuid)
    host.store.bury(ticket["op"])
    host.store.compare_and_swap(record, None)
    return True


# ---- same host: the disks stay, so the copy is a name --------------------------------------------------------------


def resize_here(host, uuid, ticket, peer=None, **dummy):
    """Keep the old disks under another name, grow the new ones, define the new flavor, write RESIZED."""
    if is_past(host.store.read(uuid), ticket["op"], (OWN, RESIZED)):
        return False
    record = mine(host, uuid, ticket, (OWN,))
    if record.migration["frozen"] != ticket["attempt"] or host.effects.running(uuid):
        raise MigrationNotReady("%s is not stopped for this attempt" % uuid)
    new = moved(record, verified=ticket["attempt"], frozen=None)
    window = record.migration["confirm_window"]
    new = moved(new, confirm_by=host.now() + window if window else None)
    new = new.replace(phase=RESIZED, spec=record.migration["new_spec"])
    host.effects.keep_disks(new)
    host.effects.define(new)
    put(host, record, new, "resized on the same host")
    return True


def restore_here(host, uuid, ticket, peer=None, stop_timeout=60, **dummy):
    """Back to the kept disks and the old flavor; also gives up a resize that did not come to its end."""
    record = existing(host, uuid)
    if record.role == OWN and (record.op is None or record.phase == RESTORING):
        return False
    if record.op != ticket["op"] or record.role != OWN or record.phase == CONFIRMING:
        raise InstanceNotResized(uuid)
    if record.phase != REVERTING:
        mine(host, uuid, ticket, (OWN,))
        taken = moved(record, attempt=attempt_of(record) + 1)
        record = put(host, record, taken.replace(phase=REVERTING), "revert begins")
    if host.effects.has_kept_disks(record):
        host.effects.stop(uuid, stop_timeout)
    old = moved(record, frozen=None).replace(
        phase=RESTORING, spec=record.migration["old_spec"], resources=record.migration["old_resources"]
    )
    host.effects.stop_transfer(uuid)
    host.effects.restore_disks(record)
    host.effects.define(old)
    put(host, record, old, "taken back")
    return True


def drop_old(host, uuid, ticket, peer=None, **dummy):
    """F3 on D, and on the same host: the old disks, where they were kept beside the new ones, are not needed any
    more."""
    record = existing(host, uuid)
    if record.role == OWN and record.op is None:
        return False
    record = mine(host, uuid, ticket, (OWN,))
    if record.phase != CONFIRMING:
        raise InstanceNotResized(uuid)
    host.effects.drop_disks(record)
    return True


# ---- L3-L7: live ---------------------------------------------------------------------------------------------------


def inspect_live(host, uuid, ticket, peer=None, **dummy):
    """L2 on D: can this host take the guest that the source described? Tells, and judges nothing."""
    if not peer.get("guest") or is_past(host.store.read(uuid), ticket["op"], (OWN, RESIZED)):
        return False
    return {"seen": host.effects.inspect_live(mine(host, uuid, ticket, (IN,)), peer["guest"])}


def check_live(host, uuid, ticket, peer=None, options=None, **dummy):
    """L2 on S: everything that speaks against the migration at once, before anything is started (R30)."""
    if not peer.get("seen") or is_past(host.store.read(uuid), ticket["op"], (OUT, KEEP)):
        return False
    record = mine(host, uuid, ticket, (OWN,))
    problems = host.effects.check_live(record, peer["seen"], options or {})
    if problems:
        raise MigrationPreCheckError(uuid, problems)
    return False


def receive_seed(host, uuid, ticket, peer=None, key=None, **dummy):
    """L3 on D: a file for the seed, which libvirt does not copy since the guest only reads it."""
    if (
        has_released(peer, ticket)
        or is_past(host.store.read(uuid), ticket["op"], (OWN, RESIZED))
        or host.effects.running(uuid)
    ):
        return False
    record = mine(host, uuid, ticket, (IN,))
    return {"targets": host.effects.receive_seed(record, peer["disks"], key)}


def send_seed(host, uuid, ticket, peer=None, key=None, **dummy):
    """L3 on S: send it."""
    if not peer.get("targets") or is_past(host.store.read(uuid), ticket["op"], (OUT, KEEP)):
        return False
    record = mine(host, uuid, ticket, (OWN,))
    return {"transfer": host.effects.send_seed(record, peer["targets"], key)}


def prepare_live(host, uuid, ticket, peer=None, **dummy):
    """L3 on D: what the guest needs to arrive. -> whether it has arrived already, paused, in an earlier attempt."""
    if has_released(peer, ticket) or is_past(host.store.read(uuid), ticket["op"], (OWN, RESIZED)):
        return False
    record = mine(host, uuid, ticket, (IN,))
    if record.migration["verified"] == ticket["attempt"]:
        return False
    if peer["executing"] and host.effects.arrived(record):
        # It runs on the source, so whatever waits here is worthless.
        host.effects.discard_arrived(record)
    return {"targets": host.effects.prepare_live(record, peer["disks"])}


def migrate_live(host, uuid, ticket, peer=None, options=None, **dummy):
    """L4 on S: hand the guest over, paused. A running job is adopted. Then nobody starts it here any more."""
    if is_past(host.store.read(uuid), ticket["op"], (OUT, KEEP)):
        return False
    record = mine(host, uuid, ticket, (OWN,))
    host.effects.migrate_live(record, peer["targets"], options or {})
    # The lock was not held: the record tells whether this attempt still counts.
    record = mine(host, uuid, ticket, (OWN,))
    put(host, record, moved(record, frozen=ticket["attempt"]), "the guest has left")
    return True


def verify_live(host, uuid, ticket, peer=None, **dummy):
    """L6 on D: the whole guest waits here, paused. If this host crashed since the source let go, its disks are
    whole."""
    record = host.store.read(uuid)
    if is_past(record, ticket["op"], (OWN, RESIZED)):
        return False
    record = mine(host, uuid, ticket, (IN,))
    if record.migration["verified"] == ticket["attempt"]:
        return False
    if not has_released(peer, ticket) and not host.effects.arrived(record):
        raise MigrationNotReady("%s has not arrived on %s" % (uuid, host.identity["name"]))
    host.effects.seal(record)
    put(host, record, moved(record, verified=ticket["attempt"]).replace(phase=VERIFIED), "the guest has arrived")
    return True


def tell(host, uuid, ticket, peer=None, **dummy):
    """L5 on S, right after the release: the receipt goes to who waits on D. Lost, the controller brings it."""
    if is_past(host.store.read(uuid), ticket["op"], (OUT, KEEP)):
        host.effects.tell(uuid, view(host, uuid))
    return False


def take_over(host, uuid, ticket, peer=None, **dummy):
    """L6 L7 on D, beside the migration: wait for the source's receipt, then do what the controller's next task would."""

    def is_wanted():
        record = host.store.read(uuid)
        return is_past(record, ticket["op"], (IN, record and record.phase)) and attempt_of(record) == ticket["attempt"]

    receipt = host.effects.await_receipt(uuid, is_wanted)
    if receipt is None or not has_released(receipt, ticket):
        return False
    for step in ("verify_live", "acquire", "start"):
        run(host, uuid, step, ticket, receipt)
    return True


STEPS = {
    function.__name__: function
    for function in (
        begin, claim, freeze, receive, send, presend, release, acquire, start,
        confirm, purge, finish, revert, give_back, take_back, abort, erase, forget,
        resize_here, restore_here, drop_old,
        inspect_live, check_live, receive_seed, send_seed, prepare_live, migrate_live, verify_live, tell, take_over,
    )
}  # fmt: skip
# These run long and hold no lock; they check the attempt themselves and their effect is fenced by the other host.
UNLOCKED = ("send", "presend", "send_seed", "migrate_live", "tell", "take_over")


def run(host, uuid, step, ticket, peer=None, **options):
    """One step. -> (changed, the view of the record after it with what the step says: disks, targets, transfer)."""
    function = STEPS[step]
    with contextlib.nullcontext() if step in UNLOCKED else host.store.instance_lock(uuid):
        said = function(host, uuid, ticket, peer, **options)
        return bool(said), dict(view(host, uuid), **(said if isinstance(said, dict) else {}))
