# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Revert: the source takes back what the destination gives back. Refused if writes to copied volumes would be lost."""

from __future__ import annotations

from ....model import hints, host_hints, state_hints, travelled_history, volume_hints, volumes
from ....model.lifecycle import KEEP, OUT, OWN, RESIZED, RESTORING, REVERTED, REVERTING
from ....model.migration import RESIZE
from ....model.move_errors import InstanceNotResized, MigrationConflict, MigrationNotReady
from ....model.volumes import VolumeWritesLost
from .common import after, attempt_of, existing, fenced, is_past, moved, next_epoch, put, was_on, without_the_other
from .confirm import take


def see_kept(host, uuid, token, peer=None, **_ignored):
    """On the source, before the guest is stopped: check that the kept disks exist, and the guest's networks. On shared
    storage the disks have other names, and the guest runs beside them."""
    record = host.store.read(uuid)
    if is_past(record, token["op"], (OUT, KEEP)):
        host.effects.check_kept(record, state_hints.restore_or_confirm(record.name, host.identity["name"]))
        if not record.migration.get("shared"):
            host.effects.check_disks(record)
        if was_on(record):
            name = host.identity["name"]
            host.effects.check_networks(record, host_hints.bring_network_back_or_confirm(name, record.name))
    return False


def revert(host, uuid, token, peer=None, stop_timeout=60, revert_volumes=False, **_ignored):
    """On the destination: write that, then stop the guest. Needs the source's copy. Copied volumes go back to their old
    content only with ``revert_volumes``: Nova's volumes keep over a revert what was written to them."""
    if is_past(host.store.read(uuid), token["op"], (OUT, REVERTED)):
        return False
    if not peer or (peer["role"], peer["op"], peer["phase"]) != (OUT, token["op"], KEEP):
        raise InstanceNotResized(uuid, hint=hints.no_copy_to_revert_to())
    record = existing(host, uuid, token["op"])
    host.effects.check_disks(record)
    if not revert_volumes:
        _check_no_volume_written(record)
    take(host, uuid, token, (RESIZED, REVERTING), REVERTING, "revert begins")
    host.effects.stop(uuid, stop_timeout)
    return True


def _check_no_volume_written(record):
    """Refuse, unless the guest was never started here, or somebody has already agreed and the revert continues."""
    move, copied = record.migration, [entry["name"] for entry in volumes.of(record.spec)]
    if copied and record.phase == RESIZED and move["started"] and not move.get("shared"):
        raise VolumeWritesLost(
            "the move of %s copied volume %s from %s to %s, and the guest has run with the copy since. A revert goes back to what "
            "%s kept, without what was written since. Nothing was changed"
            % (
                record.name,
                ", ".join(copied),
                move["source"]["name"],
                move["destination"]["name"],
                move["source"]["name"],
            ),
            hint=volume_hints.keep_writes_or_revert(record.name, move["type"] == RESIZE),
            volumes=copied,
        )


def give_back(host, uuid, token, peer=None, **_ignored):
    """On the destination: COMMIT of the way back: what the guest wrote since the resize is lost."""
    if is_past(host.store.read(uuid), token["op"], (OUT, REVERTED)):
        return False
    record = fenced(host, uuid, token, (OWN,))
    if record.phase != REVERTING or host.effects.running(uuid):
        raise MigrationNotReady("%s is not off on %s" % (uuid, host.identity["name"]))
    host.effects.check_disks(record)
    host.effects.hide(record)
    host.effects.let_go_of_volumes(record)
    put(host, record, record.replace(role=OUT, phase=REVERTED, generation=next_epoch(record)), "given back")
    return {"history": host.store.read(uuid).history}


def _has_it_again(host, record, token):
    """Whether the source owns the instance already; MigrationConflict if it never let go of it."""
    if is_past(record, token["op"], (OWN, RESTORING)) or (record.role == OWN and record.op is None):
        return True
    if not is_past(record, token["op"], (OUT, KEEP)):
        raise MigrationConflict("%s on %s is %s" % (record.uuid, host.identity["name"], record.role), role=record.role)
    return False


def take_back(host, uuid, token, peer=None, **_ignored):
    """On the source: with the destination's receipt, own the instance again, with the old flavor."""
    record = existing(host, uuid)
    if _has_it_again(host, record, token):
        return False
    if (
        not peer
        or (peer["role"], peer["op"], peer["phase"]) != (OUT, token["op"], REVERTED)
        or peer["generation"][0] != record.generation[0] + 1
    ):
        raise MigrationNotReady("the destination has not given %s back" % uuid)
    old = moved(record, attempt=peer["attempt"], frozen=None)
    old = travelled_history.told(old, peer.get("history"), record.migration["destination"]["name"])
    host.effects.check_disks(record)
    host.effects.take_back(record)
    host.effects.define(old)
    put(host, record, old.replace(role=OWN, phase=RESTORING, generation=after(peer["generation"])), "taken back")
    return True


# Ends a move whose destination is lost for good after the source has given up the instance: with ``lost``, the steps of
# confirm, revert and delete do it alone.


def reclaim(host, uuid, token, peer=None, lost=False, **_ignored):
    """On the source: own the instance again with what was kept. What the guest wrote on the destination is lost. After a
    confirm without this host the instance may have gone on: the epoch is later than any that it was told of."""
    record = existing(host, uuid, token["op"])
    if _has_it_again(host, record, token):
        return False
    if not lost:
        raise MigrationNotReady("the destination of %s is not given up as lost" % uuid)
    host.effects.check_side(record)
    host.effects.check_kept(record, hints.no_whole_copy(record.name))
    host.effects.check_disks(record)
    old = without_the_other(moved(record, attempt=attempt_of(record) + 1, frozen=None))
    host.effects.take_back(record)
    host.effects.define(old)
    epoch = max(record.generation[0], host.store.latest_epoch(uuid)) + 1
    put(host, record, old.replace(role=OWN, phase=RESTORING, generation=[epoch, 1]), "taken back from a lost host")
    return True
