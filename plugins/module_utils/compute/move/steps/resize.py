# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a resize or cold migration: stop, copy, let go (volumes first), take over, start. For the claim, see
claim.py. On the same host without a restart a running guest gets CPUs and memory, up to the ceilings of its flavor, and gives
them back in a revert; its disks stay as they are.
"""

from __future__ import annotations

from ....model import adopted_move, host_hints, hot_plug, vm_states
from ....model import migration as guards
from ....model import migration as names
from ....model.lifecycle import CONFIRMING, FROZEN, IN, KEEP, OUT, OWN, RESIZED, RESIZING, RESTORING, REVERTING
from ....model.move_errors import InstanceInvalidState, InstanceNotResized, MigrationConflict, MigrationNotReady
from .claim import claim_beside
from .common import (
    after,
    attempt_of,
    existing,
    fenced,
    has_just_ended,
    has_released,
    is_past,
    is_taken_over,
    moved,
    next_epoch,
    peer_part,
    put,
    share_storage,
    was_on,
)


def begin(
    host,
    uuid,
    token,
    peer=None,
    kind=names.RESIZE,
    spec=None,
    source=None,
    destination=None,
    limits=None,
    confirm_window=0,
    **_ignored,
):
    """On the source: begin or resume the move. Hand out the attempt; nothing else happens to the guest. On the same
    host, claim the room. ``source`` and ``destination`` are {uuid, name}, with their inventory names."""
    op = token["op"]
    record = existing(host, uuid, op)
    if is_past(record, op, (OUT, KEEP), (OWN, RESIZED)):
        return False
    if record.role != OWN:
        raise MigrationConflict("%s is not owned by %s" % (uuid, host.identity["name"]), role=record.role)
    host.effects.check_movable(record)
    host.effects.check_disks(record, kind == names.LIVE)
    if record.op is None:
        if host.store.is_buried(op):
            raise has_just_ended(uuid)
        host.effects.end_left_backup(record)
        found = host.effects.renewed(record)
        migration = _new_migration(host, op, kind, found, spec, source, destination, confirm_window)
        new = record.replace(op=op, phase=RESIZING, migration=migration, spec=found.spec)
        with host.store.host_lock():
            if names.same_host(migration):
                new = claim_beside(host, new, limits)
            put(host, record, new, "%s begins" % kind)
    elif record.op == op and record.phase in (RESIZING, FROZEN):
        _take_up_again(host, record, destination)
    else:
        raise InstanceInvalidState(uuid, "task_state", record.task_state or record.phase, kind, op=record.op)
    record = host.store.read(uuid)
    described = {
        "disks": host.effects.disks(record),
        "volumes": host.effects.tell_volumes(record),
        "history": record.history,
    }
    return dict(described, guest=host.effects.describe_live(record)) if kind == names.LIVE else described


def _new_migration(host, op, kind, record, planned, source, destination, confirm_window):
    """Check that the instance may be moved. A migration keeps the request of the record, whatever was planned."""
    spec = planned if kind == names.RESIZE else record.spec
    guards.check_begin(record, kind, spec, host.effects.power_state(record.uuid))
    guards.check_same_disks(record, planned or spec)
    here = dict(host.identity, name=(source or host.identity)["name"])
    migration = names.new_migration(op, kind, here, destination, record, spec, host.now(), confirm_window)
    if not names.same_host(migration):
        adopted_move.check(record.name, spec)
        guards.check_no_memory(record)
    elif was_on(record.replace(migration=migration)):
        host.effects.check_networks(record, host_hints.bring_network_back(host.identity["name"], record.name))
    return migration


def _take_up_again(host, record, destination):
    """Begin a new attempt, so that a run which is still at work on the last one is fenced."""
    decided = record.migration["destination"]
    if destination and destination["uuid"] != decided["uuid"]:
        raise MigrationConflict("the move of %s goes to %s" % (record.uuid, decided["name"]))
    taken = moved(record, attempt=attempt_of(record) + 1).replace(phase=RESIZING)
    put(host, record, taken, "%s is taken up again" % record.migration["type"])


def freeze(host, uuid, token, peer=None, stop_timeout=60, **_ignored):
    """On the source: write that, THEN stop the guest. Nobody starts it before the move is over or given up."""
    if is_past(host.store.read(uuid), token["op"], (OUT, KEEP), (OWN, RESIZED)):
        return False
    record = fenced(host, uuid, token, (OWN,))
    host.effects.check_disks(record)
    if record.migration["frozen"] != token["attempt"]:
        host.effects.check_asked()
        host.effects.check_movable(record)
        put(host, record, moved(record, frozen=token["attempt"]).replace(phase=FROZEN), "the guest is stopped")
    host.effects.stop(uuid, stop_timeout)
    # Somebody may have made a snapshot until the guest was off.
    host.effects.check_disks(record)
    return True


def thaw(host, uuid, token, peer=None, **_ignored):
    """On the source, if nobody continues the copy for which the guest was stopped: begin a new attempt, which waits for
    the next run while the guest runs again."""
    record = fenced(host, uuid, token, (OWN,))
    if record.phase != FROZEN:
        return False
    taken = moved(record, attempt=attempt_of(record) + 1, frozen=None).replace(phase=RESIZING)
    record = put(host, record, taken, "nobody went on with the copy")
    if was_on(record):
        bring_up(host, record)
    return True


def receive(host, uuid, token, peer=None, key=None, **_ignored):
    """On the destination: make fresh disks beside their final names, open to the source alone. Return where they are
    reached.

    Do all that can fail now, while the guest still runs: room for the disks, the guest's definition.
    """
    if has_released(peer, token) or is_past(host.store.read(uuid), token["op"], (OWN, RESIZED)):
        return False
    record = fenced(host, uuid, token, (IN,))
    host.effects.define(record)
    return {"targets": host.effects.receive(record, peer_part(peer, "disks"), key)}


def _check_stopped(host, record, token):
    if record.migration["frozen"] != token["attempt"] or host.effects.running(record.uuid):
        raise MigrationNotReady("%s is not stopped for this attempt" % record.uuid)


def send(host, uuid, token, peer=None, key=None, options=None, **_ignored):
    """On the source: write every disk to the destination, compare and flush. Hold no lock: it may take hours."""
    if is_past(host.store.read(uuid), token["op"], (OUT, KEEP)):
        return False
    record = fenced(host, uuid, token, (OWN,))
    _check_stopped(host, record, token)
    return {
        "transfer": host.effects.send(record, peer_part(peer, "targets"), key, options or {}),
        "sent": token["attempt"],
    }


def presend(host, uuid, token, peer=None, key=None, options=None, **_ignored):
    """On the source, before the freeze: copy while the guest runs, so that send only has the rest to do."""
    if is_past(host.store.read(uuid), token["op"], (OUT, KEEP)):
        return False
    record = fenced(host, uuid, token, (OWN,))
    host.effects.check_disks(record)
    host.effects.check_beside(moved(record, shared=share_storage(peer)))
    return {"transfer": host.effects.presend(record, peer_part(peer, "targets"), key, options or {})}


def release(host, uuid, token, peer=None, sent=None, **_ignored):
    """On the source: COMMIT. The guest is off for this attempt, and this run has put its disks on the destination: let
    go.

    ``sent`` is the attempt for which ``send`` ended in this run of the module. It is written nowhere: only the run that
    sent the disks releases them.
    """
    if is_past(host.store.read(uuid), token["op"], (OUT, KEEP)):
        return False
    record = fenced(host, uuid, token, (OWN,))
    if record.migration["type"] != names.LIVE:
        # In a live migration, frozen was written after libvirt confirmed that the destination has the whole guest.
        check_sent(record, token, peer, sent)
        host.effects.check_disks(record)
        host.effects.check_asked()
    if record.migration["frozen"] != token["attempt"]:
        raise MigrationNotReady("%s may have run since it was copied" % uuid)
    if host.effects.running(uuid):
        raise MigrationNotReady("%s is not off on %s" % (uuid, host.identity["name"]))
    host.effects.hide(record)
    # From here this host may no longer own the disks, which a purge has to know.
    released = moved(record, shared=share_storage(peer))
    host.effects.let_go_of_volumes(record)
    put(host, record, released.replace(role=OUT, phase=KEEP, generation=next_epoch(record)), "released")
    return True


def check_sent(record, token, peer, sent):
    if (
        not peer
        or sent != token["attempt"]
        or (peer["role"], peer["op"], peer["attempt"]) != (IN, token["op"], token["attempt"])
        or peer["host"]["uuid"] != record.migration["destination"]["uuid"]
    ):
        raise MigrationNotReady("the destination does not hold the whole of %s" % record.uuid)


def acquire(host, uuid, token, peer=None, **_ignored):
    """On the destination: with the source's receipt (OUT of this move, one epoch on), name the disks and own them."""
    record = host.store.read(uuid)
    if is_taken_over(host, record, token["op"]):
        return False
    record = fenced(host, uuid, token, (IN,))
    if (
        not peer
        or (peer["role"], peer["op"], peer["phase"]) != (OUT, token["op"], KEEP)
        or peer["attempt"] != token["attempt"]
        or peer["generation"][0] != record.generation[0] + 1
    ):
        raise MigrationNotReady("the source has not given up %s yet" % uuid)
    if record.migration["type"] == names.LIVE:
        check_arrived(record, token)
    else:
        host.effects.complete(record)
    owned = moved(record, frozen=None, waits_since=host.since_boot())
    host.effects.take_over(record)
    put(host, record, owned.replace(role=OWN, phase=RESIZED, generation=after(peer["generation"])), "acquired")
    return True


def check_arrived(record, token):
    if record.migration["verified"] != token["attempt"]:
        raise MigrationNotReady("%s has not arrived" % record.uuid)


def start(host, uuid, token, peer=None, **_ignored):
    """Start the guest on its present owner if it was on before the move; a stopped instance stays stopped."""
    record = existing(host, uuid)
    if record.role != OWN or record.op != token["op"] or record.phase not in (RESIZED, RESTORING):
        return False
    if not was_on(record):
        return False
    changed = bring_up(host, record)
    if record.phase == RESIZED and not record.migration["started"]:
        record = existing(host, uuid)
        put(host, record, moved(record, started=True), "started")
    return changed


def bring_up(host, record):
    if host.effects.executing(record.uuid):
        return False
    if host.effects.running(record.uuid):
        # It is on and paused: it arrived so, or an interrupted migration has left it so.
        host.effects.resume(record)
        return True
    if vm_states.is_meant_paused(record):
        # Its memory is lost, so it boots, and is not paused any more.
        active = moved(record, vm_state_before=vm_states.ACTIVE).replace(**vm_states.said(vm_states.ACTIVE))
        record = put(host, record, active, "the memory of the paused guest is lost")
    host.effects.start(record)
    return True


# Resize on the same host: the disks stay, and the old ones are only renamed. The confirm drops them, see confirm.py and
# disks.py.


def check_one_host(host, record):
    """Raise MigrationConflict if the move goes to another host: the disks here must stay as they are."""
    move = record.migration
    if move is not None and not names.same_host(move):
        raise MigrationConflict(
            "%s is moved from %s to %s: that is no resize on one host"
            % (record.name, move["source"]["name"], move["destination"]["name"]),
            role=record.role,
        )


def resize_here(host, uuid, token, peer=None, **_ignored):
    """Keep the old disks under another name, grow the new ones, define the new flavor, write RESIZED."""
    if is_past(host.store.read(uuid), token["op"], (OWN, RESIZED)):
        return False
    record = fenced(host, uuid, token, (OWN,))
    check_one_host(host, record)
    _check_stopped(host, record, token)
    host.effects.check_disks(record)
    new = moved(record, verified=token["attempt"], frozen=None, grown=False)
    new = moved(new, waits_since=host.since_boot())
    new = new.replace(phase=RESIZED, spec=record.migration["new_spec"])
    host.effects.keep_disks(new)
    host.effects.define(new)
    put(host, record, new, "resized on the same host")
    return True


def restore_here(host, uuid, token, peer=None, stop_timeout=60, **_ignored):
    """Go back to the kept disks and the old flavor; also gives up an unfinished resize."""
    record = existing(host, uuid, token["op"])
    if record.role == OWN and (record.op is None or record.phase == RESTORING):
        return False
    if record.op != token["op"] or record.role != OWN or record.phase == CONFIRMING:
        raise InstanceNotResized(uuid)
    check_one_host(host, record)
    on_new = is_on_new(host, record)
    if on_new:
        host.effects.check_disks(record)
        host.effects.check_restorable(record)
    if on_new and host.effects.running(uuid):
        hint = host_hints.bring_network_back_or_confirm(host.identity["name"], record.name)
        host.effects.check_networks(record, hint)
    if record.phase != REVERTING:
        fenced(host, uuid, token, (OWN,))
        taken = moved(record, attempt=attempt_of(record) + 1)
        record = put(host, record, taken.replace(phase=REVERTING), "revert begins")
    if on_new and not shrinks(host, record):
        host.effects.stop(uuid, stop_timeout)
    old = moved(record, frozen=None).replace(
        phase=RESTORING, spec=record.migration["old_spec"], resources=record.migration["old_resources"]
    )
    host.effects.stop_transfer(uuid)
    host.effects.restore_disks(record)
    host.effects.define_unless_changed(old)
    put(host, record, old, "taken back")
    return True


def is_on_new(host, record):
    """Whether the guest may have the new flavor or disks. One that boots from a volume may have no kept disk."""
    differs = record.spec["flavor"] != record.migration["old_spec"]["flavor"] or record.migration["grown"]
    return differs or host.effects.has_kept_disks(record)


def grow(host, uuid, token, peer=None, **_ignored):
    """If the new flavor takes no restart and the guest runs: write that it grows, THEN let it, then write RESIZED. Else change
    nothing: the next leg restarts it. From here the room of the new flavor is enough for both."""
    if is_past(host.store.read(uuid), token["op"], (OWN, RESIZED)):
        return False
    record = fenced(host, uuid, token, (OWN,))
    if not (record.phase == RESIZING and needs_no_restart(record.migration) and host.effects.executing(uuid)):
        return False
    host.effects.check_asked()
    record = put(host, record, moved(record, grown=True), "the guest grows")
    new = moved(record, started=True, waits_since=host.since_boot())
    new = new.replace(phase=RESIZED, spec=record.migration["new_spec"], resources=record.migration["new_resources"])
    host.effects.grow(new)
    put(host, record, new, "resized without a restart")
    return {"ended": True}


def needs_no_restart(move):
    return hot_plug.restart_needed(move["old_spec"], move["new_spec"]) is None


def shrinks(host, record):
    """Whether the guest has what the old flavor has, without a restart. Its disks are those of before, whatever happened."""
    if not (record.migration["grown"] and was_on(record) and host.effects.executing(record.uuid)):
        return False
    return host.effects.shrink(record.replace(spec=record.migration["old_spec"]))
