# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many seconds the moves of a plan will take, by the moves that the same hosts have made: their histories say when a host
made room for an instance, and when it had it."""

from __future__ import annotations

import datetime
import statistics
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..model import migration
from ..model.messages import Document
from ..model.travelled_history import ON

DAYS = 30  # moves that are older say little of the hosts as they are now
BEGINS, ENDS = " is claimed", "acquired"  # of a move, on its new host and by the clock of that

Paces = Dict[Tuple[str, str], List[float]]


def paces(told: Mapping[str, Sequence[Document]], documents: Mapping[str, Document]) -> Paces:
    """(host, live or cold) -> the MiB a second of each move to it. ``told``: host -> its histories, ``documents``: host -> what it
    reports, from which the sizes of the instances are taken."""
    sizes = {each["uuid"]: _mib(each) for document in documents.values() for each in document.get("instances") or ()}
    found: Paces = {}
    for host, histories in told.items():
        for history in histories:
            size = sizes.get(history["uuid"], 0)
            here = [event for event in history["history"] if event.get(ON, host) == host]
            for how, seconds in _moves(here) if size else ():
                found.setdefault((host, how), []).append(size / seconds)
    return found


def seconds(found: Paces, move: Document) -> Optional[int]:
    """Of a move of a plan: as fast as those of its kind to the same host, else to all hosts; None if there were none."""
    how = move["how"]
    known = found.get((move["to"], how)) or [
        pace for (_host, kind), all_of in found.items() if kind == how for pace in all_of
    ]
    return max(1, round(_mib(move) / statistics.median(known))) if known else None


def _moves(history: Sequence[Document]) -> Iterator[Tuple[str, float]]:
    """(live or cold, seconds) of each move that has ended."""
    begun: Optional[Tuple[str, datetime.datetime]] = None
    for at, event in sorted(_dated(history)):
        if event.endswith(BEGINS):
            begun = ("live" if event == migration.LIVE + BEGINS else "cold"), at
        elif event == ENDS and begun:
            yield begun[0], max(1.0, (at - begun[1]).total_seconds())
            begun = None


def _dated(history: Sequence[Document]) -> Iterator[Tuple[datetime.datetime, str]]:
    """The events with a time as our hosts write it."""
    for each in history:
        try:
            yield datetime.datetime.strptime(str(each.get("at")), "%Y-%m-%dT%H:%M:%SZ"), str(each.get("event"))
        except ValueError:
            continue


def _mib(each: Document) -> int:
    return int(each.get("memory_mb") or 0) + 1024 * int(each.get("disk_gb") or 0)
