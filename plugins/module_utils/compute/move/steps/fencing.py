# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fencing: after another run has taken over a move, the old run can do no further step of it.

``attempt`` identifies the run that works on the move now. The owner hands it out, it only grows, and a step with an
older one is fenced (MigrationFenced). A deleted or abandoned move leaves a tombstone, which stops a late claim.
"""

from __future__ import annotations

from ....model import hints
from ....model.move_errors import MigrationConflict, MigrationFenced
from .common import attempt_of, existing, has_just_ended, is_at_rest_since


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
