# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives up a move before the source has let go."""

from __future__ import annotations

from ....model.lifecycle import FROZEN, OWN, RESIZING, RESTORING
from ....model.move_errors import InstanceInvalidState
from .common import GIVEN_UP, attempt_of, existing, moved, put
from .fencing import fenced


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
