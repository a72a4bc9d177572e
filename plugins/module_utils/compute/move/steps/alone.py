# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ends a move whose destination is lost for good after the source has given up the instance: with ``lost``, the steps
of confirm, revert and delete do it alone."""

from __future__ import annotations

from ....model import hints
from ....model.lifecycle import KEEP, OUT, OWN, RESTORING
from ....model.move_errors import MigrationConflict, MigrationNotReady
from .common import attempt_of, existing, is_past, moved, put, without_the_other


def reclaim(host, uuid, token, peer=None, lost=False, **_ignored):
    """On the source: own the instance again with what was kept. What the guest wrote on the destination is lost. After a
    confirm without this host the instance may have gone on: the epoch is later than any that it was told of."""
    record = existing(host, uuid, token["op"])
    if is_past(record, token["op"], (OWN, RESTORING)) or (record.role == OWN and record.op is None):
        return False
    if not is_past(record, token["op"], (OUT, KEEP)):
        raise MigrationConflict("%s on %s is %s" % (uuid, host.identity["name"], record.role), role=record.role)
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
