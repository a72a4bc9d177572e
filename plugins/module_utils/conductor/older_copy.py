# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy of an instance is older than what hosts remember of an owner that answers and has no record of it.

That owner lost its record, or somebody lies. What it wrote may be in its pool, so no count decides: a person names the host
whose copy continues. A later owner that does not answer is passed by no word but that its host is lost.
"""

from __future__ import annotations

from typing import Collection, Optional, Set

from ..model import fleet_hints
from . import notes
from .errors import RecordMissing
from .fleet import Fleet

FIELD = "berth_recover_on"


def agreed(
    fleet: Fleet,
    name: str,
    uuid: str,
    host: str,
    reached: notes.Generation,
    chosen: Optional[str],
    answers: notes.Answers,
) -> notes.Notes:
    """What is remembered of the instance, for its copy on ``host``, which ``reached`` that generation: without the later owners
    that answer and have no record, if the copy was ``chosen``. Raise RecordMissing if there are such and it was not."""
    passed: Set[str] = set()
    while True:
        noted = _without(fleet, uuid, passed)
        later = noted.known
        if not later or later.generation < reached or not _has_no_record(fleet, uuid, host, later, answers):
            return noted
        if chosen != host:
            owner = answers.names[later.host_uuid]
            raise RecordMissing(
                "%s held %s, but has a record neither of it nor of its removal%s"
                % (owner, name, answers.by_notes(later)),
                hint=fleet_hints.continue_with_older(name, uuid, owner, host),
            )
        passed.add(later.host_uuid)


def _has_no_record(fleet: Fleet, uuid: str, host: str, owner: notes.Note, answers: notes.Answers) -> bool:
    """Whether the owner is another than ``host``, and answers without a record."""
    there = answers.names.get(owner.host_uuid)
    return there not in (None, host) and fleet.place_on(uuid, there) is None


def _without(fleet: Fleet, uuid: str, owners: Collection[str]) -> notes.Notes:
    """What is remembered apart from those owners, by their uuids: who had it before them counts then."""
    told = fleet.told_of(uuid)
    for holder, note in told.items():
        known = note.get("known")
        if known and known["host_uuid"] in owners:
            told[holder] = {**note, "known": None}
    return notes.put_together(told)
