# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left of a plan"""

from __future__ import annotations

from typing import Collection, Dict, List

from ..module_utils.fleet import plan_file
from ..module_utils.fleet.check import check
from ..module_utils.fleet.plan_file import Written
from ..module_utils.fleet.state import Fleet
from ..module_utils.fleet.waves import Move, batches
from ..module_utils.model.messages import Document
from .known_fleet import Known, waits_for_confirm


def parts(
    written: Written, known: Known, at_once: int, per_host: int, to_end: Collection[str] = ()
) -> List[List[Move]]:
    """In parts that run one after the other, their moves side by side: first what earlier runs have begun, and the instances of
    the names ``to_end``. Raises PlanStale and PlanNotLegal."""
    waves = plan_file.left(written, known.fleet)
    first = [plan_file.begun(written, known.fleet), _unconfirmed(written, known)]
    ends = [(written.moves[uuid]["from"], uuid, host) for part in first for uuid, host in part]
    check(known.fleet, waves, written.goal.closed, ends)
    first.append([(uuid, each.host) for uuid, each in known.fleet.instances.items() if each.name in to_end])
    found = [part for part in first if part]
    return found + [part for wave in waves for part in batches(wave, known.fleet, at_once, per_host)]


def _unconfirmed(written: Written, known: Known) -> List[Move]:
    """What a run has moved while it was off, and did not confirm. A resize, and what runs, waits for people who look at it."""
    uuids, found = known.reported.uuids(), []
    for uuid, move in written.moves.items():
        view = known.views.get(move["to"], {}).get(uuid, {})
        if waits_for_confirm(view) and not view.get("running"):
            if view["migration"]["source"]["uuid"] == uuids.get(move["from"]):
                found.append((uuid, move["to"]))
    return found


def move(written: Written, known: Known, uuid: str, host: str) -> Document:
    """What apply_plan tells of one of them: ``how`` is live, cold or confirm."""
    instance = known.fleet.instances[uuid]
    added = instance.name in known.moving.added
    return {
        "name": instance.name,
        "to": host,
        "how": "confirm" if instance.host == host and not instance.going else instance.how,
        "goes_with": _together(written, known.fleet, uuid, host),
        "drains": written.moves.get(uuid, {}).get("from") in written.goal.closed,
        "project": known.moving.names[instance.name] if added else None,
    }


def _together(written: Written, fleet: Fleet, uuid: str, host: str) -> Dict[str, str]:
    """uuid -> the host that it leaves, of the other members of its affinity group that the plan moves to the same host."""
    group = fleet.instances[uuid].goes_with
    if not group:
        return {}
    there = {
        each: move["from"] for each, move in written.moves.items() if move["to"] == host and each in fleet.instances
    }
    return {each: at for each, at in there.items() if each != uuid and fleet.instances[each].goes_with == group}
