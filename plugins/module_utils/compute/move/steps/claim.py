# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The room of a move, on the destination or beside the old one on the same host.

The controller says what the instance is, who owns it and where it goes: what placement decided. The destination takes
from the source only what nobody else knows, and none of that decides what it builds or for whom:

- ``generation`` and ``lost_moves``: the chain of owners. The destination takes over only from the source that counted
  on from it; a source that lies about it lies about its own instance alone.
- its history, for people.
- how much there is to copy: one that lies has its own move fail, or be refused.
- ``power_state`` and whether the guest was on: one of two values, and with both the destination may run the guest.
- the old flavor and its amounts: which disks arrive, in the decided format and no larger than decided.
"""

from __future__ import annotations

from ....model import adopted, adopted_move, hints, shelves, travelled_history, vm_states, volumes
from ....model import migration as guards
from ....model import migration as names
from ....model.errors import InvalidInput
from ....model.identity import check_name
from ....model.lifecycle import CLAIM, CLAIMED, IN, INCOMING, OWN, RESIZED
from ....model.move_errors import MigrationConflict, MigrationEnded, MigrationFenced, MigrationNotReady, SourceDiffers
from ....model.record import Record
from ...record import claim as claims
from .. import storage
from .common import attempt_of, has_released, is_past, moved, put

# The parts of a request that define the guest; the others concern the choice of a host.
MAKES_THE_GUEST = (
    "uuid",
    "name",
    "project_id",
    "flavor",
    "image",
    "networks",
    "disks",
    "volumes",
    adopted.KEY,
    shelves.KEY,
    "pool",
    "numa_topology",
    "pci_requests",
    "metadata",
)


def claim(host, uuid, token, peer=None, spec=None, **decided):
    """On the destination: set the room aside, by the checks of every claim. A later attempt takes the claim over."""
    op, attempt = token["op"], token["attempt"]
    record = host.store.read(uuid)
    if is_past(record, op, (OWN, RESIZED)):
        return False
    if host.store.is_buried(op):
        raise MigrationEnded("the move %s of %s was given up" % (op, uuid))
    if record is not None and is_left_over(record) and is_source(peer, op):
        return claim_room(host, uuid, token, peer, spec, left_over=record, **decided)
    if record is not None and (record.role != IN or record.op != op):
        raise MigrationConflict("%s already holds a record of %s" % (host.identity["name"], uuid), role=record.role)
    if record is not None and has_released(peer, token):
        return False  # an earlier run's source let go while this one planned: the claim is no longer needed
    if not is_source(peer, op):
        raise MigrationNotReady("the source has not begun the move of %s" % uuid)
    if record is None:
        return claim_room(host, uuid, token, peer, spec, **decided)
    check_source(peer, record.spec, record.migration["source"])
    if attempt < attempt_of(record):
        raise MigrationFenced("attempt %d of the move of %s is over" % (attempt, uuid))
    with host.store.host_lock():
        host.effects.reserve_volumes(record)
        host.effects.expect_volumes(record, peer.get("volumes") or ())
    if attempt > attempt_of(record):
        put(host, record, moved(record, attempt=attempt, verified=None).replace(phase=INCOMING))
        return True
    return False


def is_left_over(record):
    """Whether a create that was killed left the claim, if the source has the instance: nothing is built from it then."""
    return record.state() == (CLAIM, CLAIMED) and not volumes.of(record.spec)


def is_source(peer, op):
    return bool(peer and (peer["role"], peer["op"]) == (OWN, op) and peer["migration"])


def claim_room(host, uuid, token, peer, spec, kind=names.RESIZE, source=None, destination=None, limits=None,
               confirm_window=0, left_over=None, **_ignored):  # fmt: skip
    """Decide capacity, limits and group and write the claim, instead of one that is ``left_over``, under one hold of the
    host's lock."""
    _check_decided(host, uuid, spec, source, destination)
    check_source(peer, spec, source)
    spec = adopted_move.moved_in(spec)
    guards.check_grow_only(peer["migration"]["old_spec"]["flavor"], spec["flavor"])
    before = _record_on_source(host, token, peer, spec)
    migration = names.new_migration(token["op"], kind, source, destination, before, spec, host.now(), confirm_window)
    incoming = before.replace(spec=spec, resources={}, migration=dict(migration, attempt=token["attempt"]))
    incoming = travelled_history.told(incoming, peer.get("history"), source["name"])
    shared = host.effects.check_destination(incoming, peer.get("disks"))
    incoming = moved(incoming, shared=shared, arriving=0 if shared else storage.arriving_bytes(peer.get("disks")))
    arriving = spec if incoming.migration["shared"] else volumes.arriving(spec)
    with host.store.host_lock():
        if left_over is not None:
            host.store.compare_and_swap(left_over, None)
        host.effects.check_room(incoming, peer.get("disks"))
        resources = claims.without_volumes(host.effects.allocate(arriving, limits), arriving)
        claimed = put(host, None, incoming.replace(resources=resources), "%s is claimed" % kind)
        host.effects.expect_volumes(claimed, peer.get("volumes") or ())
    return True


def _check_decided(host, uuid, spec, source, destination):
    """Raise unless placement decided that this instance comes to this host."""
    if spec is None or source is None or destination is None:
        raise MigrationNotReady(
            "nothing was placed on %s for %s" % (host.identity["name"], uuid), hint=hints.run_again()
        )
    check_name(spec.get("name"), "spec.name")  # the uuid of one that was renamed does not follow from it
    if spec["uuid"] != uuid:
        raise InvalidInput("spec.uuid", spec["uuid"], "the instance that is moved, %s" % uuid)
    if destination["uuid"] != host.identity["uuid"]:
        raise MigrationConflict("%s goes to %s, this is %s" % (uuid, destination["name"], host.identity["name"]))


def _record_on_source(host, token, peer, spec):
    """Return the record before the move. From the source it has only what the top of this file lists."""
    migration = peer["migration"]
    return Record(
        uuid=spec["uuid"],
        name=spec["name"],
        project_id=spec["project_id"],
        role=IN,
        generation=list(peer["generation"]),
        token=host.nonce(),
        phase=INCOMING,
        spec=adopted_move.moved_in(migration["old_spec"]),
        resources=migration["old_resources"],
        op=token["op"],
        lost_moves=[op for op in peer["lost_moves"] if op != token["op"]],
        **vm_states.said(vm_states.before(migration["vm_state_before"])),
    )


def check_source(peer, spec, source):
    """Raise SourceDiffers if the source would have another guest made than was decided, or is another host."""
    wanted, told = adopted_move.moved_in(spec), adopted_move.moved_in(peer["migration"].get("new_spec") or {})
    reported = {part: told.get(part) for part in MAKES_THE_GUEST}
    reported.update(uuid=peer["uuid"], name=peer["name"], project_id=peer["project_id"])
    differing = [part for part in MAKES_THE_GUEST if reported[part] != wanted.get(part)]
    if peer["host"]["uuid"] != source["uuid"]:
        differing.append("host")
    if differing:
        raise SourceDiffers(
            "%s reports another %s of %s than was decided: nothing was moved"
            % (source["name"], " and ".join(differing), spec["name"]),
            field=differing[0],
            rule="what placement decided",
            hint=hints.source_differs(source["name"], spec["name"]),
            parts=differing,
        )


def claim_beside(host, record, limits=None):
    """Claim a resize on one host. Old and new both count until a confirm or revert, as in Nova: a revert needs the old
    room, and the old disks lie beside the new ones. Needs the host's lock."""
    old, new = record.resources, host.effects.allocate(record.migration["new_spec"], limits)
    guards.check_same_host(record.uuid, old, new)
    return moved(record, new_resources=new).replace(resources=added(old, new))


def added(old, new):
    """Return the sum of two allocations. What is not an amount comes from the new one."""
    result = dict(new)
    for name, amount in old.items():
        if isinstance(amount, dict):
            result[name] = added(amount, new.get(name) or {})
        elif isinstance(amount, (int, float)):
            result[name] = amount + (new.get(name) or 0)
    return result
