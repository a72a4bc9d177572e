# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The destination of a move has the instance's guest and lost its record, and the source has let go of the instance.

The guest has what was written last, so the destination gets a record again. For it the move has ended without the source,
which then only removes what it kept, as after a host that was lost and is back.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Optional

from ..model.lifecycle import ALIVE, OUT
from . import copies, notes
from .fleet import Fleet, Place


def source_of(fleet: Fleet, uuid: str, host: str) -> Optional[Place]:
    """What the source has, if it let go of the instance for ``host`` and no host has a record of it besides; or None. With a
    guest that runs its record is old, as from a backup: a confirm would remove that guest."""
    places, document = fleet.places.get(uuid, []), fleet.documents.get(host)
    if len(places) != 1 or document is None or places[0]["role"] != OUT or places[0]["power_state"] in ALIVE:
        return None
    moved_to = places[0]["moved_to"]
    return places[0] if moved_to and moved_to["host_uuid"] == document["uuid"] else None


def check(
    fleet: Fleet,
    name: str,
    uuid: str,
    host: str,
    source: Place,
    lost_hosts: Collection[str],
    chosen: Optional[str] = None,
) -> None:
    """Raise what notes.check_owner raises if another host may have had the instance later; RecordMissing if another owner
    answers without a record, however late the source says that it let go, and nobody has ``chosen`` the copy on ``host``."""
    generation, answers = _reached(source), fleet.answers(lost_hosts)
    noted = copies.agreed(fleet, name, uuid, host, notes.NEVER, chosen, answers)
    notes.check_owner(name, source["host"], generation, noted.apart_from(host, answers), answers)


def latest(fleet: Fleet, uuid: str, host: str, lost_hosts: Collection[str]) -> notes.Generation:
    """The generation after which a record that is taken back on ``host`` begins."""
    source = source_of(fleet, uuid, host)
    known = notes.latest_with_lost(fleet.notes_on(uuid), fleet.answers(lost_hosts))
    return max(known, _reached(source)) if source else known


def move_of(source: Optional[Place]) -> Dict[str, Any]:
    """{moved_by: what compute/record/record_copy.py needs to know of the move}, or {} without a source."""
    if source is None or source["moved_to"] is None:
        return {}
    return {"moved_by": {"op": source["moved_to"]["op"], "epoch": _reached(source)[0]}}


def _reached(source: Place) -> notes.Generation:
    return notes.generation(source["generation"] or notes.NEVER)
