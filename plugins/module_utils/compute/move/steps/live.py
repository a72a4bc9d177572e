# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live migration: the source hands the running guest over to the destination."""

from __future__ import annotations

from ....model.lifecycle import CONFIRMING, IN, KEEP, OUT, OWN, RESIZED, VERIFIED
from ....model.move_errors import MigrationNotReady, MigrationPreCheckError
from .common import attempt_of, fenced, has_released, is_past, is_taken_over, moved, peer_part, put, share_storage, view
from .confirm import confirm, finish, purge
from .resize import acquire, start


def inspect_live(host, uuid, token, peer=None, **_ignored):
    """On the destination: report whether this host can take the guest that the source described. Judge nothing."""
    if not (peer or {}).get("guest") or is_past(host.store.read(uuid), token["op"], (OWN, RESIZED)):
        return False
    return {"seen": host.effects.inspect_live(fenced(host, uuid, token, (IN,)), peer["guest"])}


def check_live(host, uuid, token, peer=None, options=None, **_ignored):
    """On the source: report all problems of the migration at once, before anything is started."""
    if not (peer or {}).get("seen") or is_past(host.store.read(uuid), token["op"], (OUT, KEEP)):
        return False
    record = fenced(host, uuid, token, (OWN,))
    problems = host.effects.check_live(record, peer["seen"], options or {}, peer.get("resources"))
    if problems:
        raise MigrationPreCheckError(uuid, problems)
    return False


def receive_seed(host, uuid, token, peer=None, key=None, **_ignored):
    """On the destination: make a file for the seed, which libvirt does not copy since the guest only reads it."""
    if (
        has_released(peer, token)
        or is_past(host.store.read(uuid), token["op"], (OWN, RESIZED))
        or host.effects.running(uuid)
    ):
        return False
    record = fenced(host, uuid, token, (IN,))
    return {"targets": host.effects.receive_seed(record, peer_part(peer, "disks"), key)}


def send_seed(host, uuid, token, peer=None, key=None, **_ignored):
    """On the source: send the seed."""
    if not (peer or {}).get("targets") or is_past(host.store.read(uuid), token["op"], (OUT, KEEP)):
        return False
    record = fenced(host, uuid, token, (OWN,))
    return {"transfer": host.effects.send_seed(record, peer["targets"], key)}


def prepare_live(host, uuid, token, peer=None, **_ignored):
    """On the destination: prepare for the guest. Return whether an earlier attempt already brought it here, paused."""
    if has_released(peer, token) or is_past(host.store.read(uuid), token["op"], (OWN, RESIZED)):
        return False
    record = fenced(host, uuid, token, (IN,))
    if record.migration["verified"] == token["attempt"]:
        return False
    disks = peer_part(peer, "disks")
    if (peer["executing"] or peer["halted"]) and host.effects.arrived(record):
        # The source has the guest, at least as new, so the copy that waits here is worthless.
        host.effects.discard_arrived(record)
    return {"targets": host.effects.prepare_live(record, disks)}


def follow_live(host, uuid, token, peer=None, options=None, **_ignored):
    """On the source, before the destination prepares: wait for the end of a migration that another run began. If it
    fails, the destination may have the whole copy by then, and libvirt takes no second one beside it."""
    if not is_past(host.store.read(uuid), token["op"], (OUT, KEEP)):
        host.effects.follow_live(fenced(host, uuid, token, (OWN,)), options or {})
    return False


def migrate_live(host, uuid, token, peer=None, options=None, **_ignored):
    """On the source: hand the guest over, paused. A migration that a killed run has begun since ``follow_live`` is
    waited for first; if the guest is still here then, this run begins one. Afterwards, nobody starts it here."""
    if is_past(host.store.read(uuid), token["op"], (OUT, KEEP)):
        return False
    if not host.effects.follow_live(fenced(host, uuid, token, (OWN,)), options or {}):
        # While this run waited, another may have given the move up.
        record = fenced(host, uuid, token, (OWN,))
        if host.effects.running(uuid):
            host.effects.check_disks(record, True)
        host.effects.check_beside(moved(record, shared=share_storage(peer)))
        host.effects.migrate_live(record, peer_part(peer, "targets"), options or {}, peer.get("resources"))
    # The lock was not held: the record says whether this attempt still counts.
    record = fenced(host, uuid, token, (OWN,))
    host.effects.hide(record)
    put(host, record, moved(record, frozen=token["attempt"]), "the guest has left")
    return True


def verify_live(host, uuid, token, peer=None, **_ignored):
    """On the destination: check that the whole guest waits here, paused. After the source's release this is not
    required: if this host crashed since, the disks are complete."""
    record = host.store.read(uuid)
    if is_taken_over(host, record, token["op"]):
        return False
    record = fenced(host, uuid, token, (IN,))
    if record.migration["verified"] == token["attempt"]:
        return False
    if not has_released(peer, token) and not host.effects.arrived(record):
        raise MigrationNotReady("%s has not arrived on %s" % (uuid, host.identity["name"]))
    host.effects.hide(record)
    put(host, record, moved(record, verified=token["attempt"]).replace(phase=VERIFIED), "the guest has arrived")
    return True


def tell(host, uuid, token, peer=None, **_ignored):
    """On the source, right after the release: send the receipt to the destination. When that owns the guest for good,
    remove what is kept here and report that. If any of this is lost, the controller's next tasks do it. Return
    ``ended``: they need not; ``downtime_ms``: the guest's downtime, null if it is not known."""
    record = host.store.read(uuid)
    channel = host.effects.channel_to_destination(uuid, token["op"])
    if channel is None or not is_past(record, token["op"], (OUT, KEEP)):
        return False
    owned = channel.ask(view(host, uuid))
    if not owns_for_good(owned, record):
        return False
    with host.store.instance_lock(uuid):
        purge(host, uuid, {"op": token["op"], "attempt": owned["attempt"]}, owned)
    end = channel.ask(view(host, uuid))
    ended = bool(end) and (end["role"], end["op"]) == (OWN, None)
    return {"ended": ended, "downtime_ms": host.effects.downtime_ms()}


def owns_for_good(owned, released):
    """Whether the destination has continued from what this host ``released``, so that there is no way back to it."""
    return (
        owned is not None
        and (owned["role"], owned["phase"], owned["op"]) == (OWN, CONFIRMING, released.op)
        and (owned["attempt"] or 0) > attempt_of(released)
        and (owned["generation"] or [])[:1] == list(released.generation[:1])
    )


def take_over(host, uuid, token, peer=None, **_ignored):
    """On the destination, beside the migration: wait for the source's receipt, then do the controller's next tasks."""

    def is_wanted():
        record = host.store.read(uuid)
        return is_past(record, token["op"], (IN, record and record.phase)) and attempt_of(record) == token["attempt"]

    channel = host.effects.channel_to_source(uuid, token["op"])
    receipt = channel.receive(is_wanted)
    if not has_released(receipt, token):
        return False
    for step in (verify_live, acquire, start, confirm):
        with host.store.instance_lock(uuid):
            step(host, uuid, token, receipt)
            owned = view(host, uuid)
    purged = channel.ask(owned)
    if purged is not None and purged["role"] is None:
        with host.store.instance_lock(uuid):
            finish(host, uuid, {"op": token["op"], "attempt": owned["attempt"]}, purged)
        channel.send(view(host, uuid))
    return True
