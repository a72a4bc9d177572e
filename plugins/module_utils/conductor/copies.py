# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several hosts own one instance, or its only copy is older than what hosts remember: what a person needs to choose, and what
follows from the choice."""

from __future__ import annotations

from typing import Any, Collection, Dict, Mapping, Optional, Set

from ..model import copy_hints, fleet_hints
from . import notes
from .errors import DuplicateInstance, RecordMissing
from .fleet import Fleet, Place

Copies = Mapping[str, Mapping[str, Any]]  # host -> {generation, power_state of the guest if it is known}
FIELD = "berth_recover_on"  # whose copy continues


def of(places: Collection[Place]) -> Dict[str, Dict[str, Any]]:
    return {place["host"]: {name: place[name] for name in ("generation", "power_state")} for place in places}


def owned_twice(name: str, copies: Copies) -> DuplicateInstance:
    return DuplicateInstance(
        "%s is owned by %s" % (name, told(copies)), hint=copy_hints.find_the_right_copy(name, sorted(copies))
    )


def told(copies: Copies) -> str:
    """Return the hosts, with the state of the guest there, the generation of the record, and which record is newer."""
    generations = {host: notes.generation(copy["generation"] or notes.NEVER) for host, copy in copies.items()}
    newest = [host for host in copies if generations[host] == max(generations.values())]
    parts = []
    for host, copy in sorted(copies.items()):
        age = "" if len(newest) > 1 else "newer " if host in newest else "older "
        record = "%srecord of generation %d.%d" % (age, *generations[host])
        parts.append("%s (%s)" % (host, ", ".join(filter(None, (copy.get("power_state"), record)))))
    return " and ".join(parts)


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
    that answer and have no record, if the copy was ``chosen``. Raise RecordMissing if there are such and it was not.

    Such an owner lost its record, or somebody lies. What it wrote may be in its pool, so no count decides: a person names the host
    whose copy continues. A later owner that does not answer is passed by no word but that its host is lost.
    """
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
