# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All steps of a move by name, and how one is run: on one host, with a compare-and-swap on the record and an effect."""

from __future__ import annotations

import contextlib

from ....model import hints
from ....model.move_errors import MigrationConflict
from ...connection import LibvirtTimeout
from ...errors import file_not_usable
from . import claim, confirm, delete, live, resize, revert
from .common import checked_view, view

STEPS = {
    function.__name__: function
    for function in (
        resize.begin, claim.claim, resize.receive, resize.presend, resize.freeze, resize.thaw, resize.send, resize.release,
        resize.acquire, resize.start,
        confirm.confirm, confirm.purge, confirm.drop_old, confirm.finish,
        revert.see_kept, revert.revert, revert.give_back, revert.take_back,
        delete.abort, revert.reclaim,
        delete.erase, delete.forget,
        resize.grow, resize.resize_here, resize.restore_here,
        live.inspect_live, live.check_live, live.follow_live, live.receive_seed, live.send_seed, live.prepare_live,
        live.migrate_live, live.verify_live, live.tell, live.take_over,
    )
}  # fmt: skip
# These run long and hold no lock; they check the attempt themselves, and the other host fences their effect.
UNLOCKED = ("send", "presend", "send_seed", "follow_live", "migrate_live", "tell", "take_over")


def run(host, uuid, step, token, peer=None, **options):
    """Run one step. Return (changed, the new view of the record with the step's reply: disks, targets, transfer)."""
    function = STEPS[step]
    if token["op"] is None:
        # At rest there is no operation, and a token without one belongs to no move: two nulls do not match.
        raise MigrationConflict(
            "step %s of %s was requested without the id of an operation, so it belongs to no move" % (step, uuid)
        )
    with contextlib.nullcontext() if step in UNLOCKED else host.store.instance_lock(uuid):
        try:
            peer_view = checked_view(peer)
            reply = function(host, uuid, token, peer_view, **options)
        except LibvirtTimeout as error:
            raise LibvirtTimeout(
                "%s of %s on %s: %s. It is unknown whether it was done" % (step, uuid, host.identity["name"], error),
                hint=hints.run_again(),
                **error.details,
            )
        except OSError as error:
            raise file_not_usable(error, host.identity["name"], "%s of %s" % (step, uuid))
        return bool(reply), dict(view(host, uuid), **(reply if isinstance(reply, dict) else {}))
