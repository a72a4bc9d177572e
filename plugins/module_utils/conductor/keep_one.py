# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hosts own one instance, and a person has named the copy to keep: what each host has to do."""

from __future__ import annotations

import dataclasses
from typing import Collection, Dict, List, Optional

from ..model import copy_hints, hints, state_hints
from ..model.errors import InvalidInput
from ..model.lifecycle import ALIVE, DELETING, OWN, SETTING_ASIDE
from . import notes, silence
from .errors import DuplicateRuns, InstanceMoving, InstanceUnknown
from .fleet import Fleet, Place
from .locate import generation_of, is_later, is_moving
from .notes import check_absent

FIELD = "berth_keep_on"


@dataclasses.dataclass(frozen=True)
class Choice:
    """``above``: highest generation of ``others``, which the copy on ``stays`` must pass. No others: nothing to do, unless
    the copy ``comes_back`` since the host of the other is lost; ``listed``: it has no record, only what was set aside."""

    stays: str
    others: List[str]
    above: List[int]
    comes_back: bool = False
    listed: bool = False


def choose(fleet: Fleet, name: str, uuid: str, stays: str, confirmed: bool, lost: Collection[str]) -> Choice:
    """The copy on ``stays`` and the others. Raise DuplicateRuns if several run and nobody ``confirmed`` that, InstanceUnknown
    if there is one copy and a host that is not ``lost`` did not say whether it has another."""
    owners = {place["host"]: place for place in fleet.places.get(uuid, ()) if place["role"] == OWN}
    if set(owners) <= {stays} and _comes_back(fleet, uuid, owners.get(stays), lost):
        return _brought_back(fleet, name, uuid, stays, lost)
    if stays not in owners:
        rule = "one of the hosts that own %s: %s" % (name, ", ".join(sorted(owners)) or "none that answered")
        raise InvalidInput(FIELD, stays, rule)
    others = sorted(set(owners) - {stays})
    if not others:
        _check_all_answered(fleet, name, stays, lost)
        return Choice(stays, [], [])
    _check_still(name, uuid, stays, owners)
    running = sorted(host for host, place in owners.items() if place["power_state"] in ALIVE)
    if len(running) > 1 and not confirmed:
        raise DuplicateRuns(
            "%s runs on %s" % (name, " and on ".join(running)), hint=copy_hints.keep_one_confirmed(name, stays, others)
        )
    above = max(generation_of(owners[host] for host in others), _planned_elsewhere(fleet, uuid, stays))
    return Choice(stays, others, list(above))


def _comes_back(fleet: Fleet, uuid: str, place: Optional[Place], lost: Collection[str]) -> bool:
    """Whether a person gives another copy up, and this one was set aside for it, or counts less."""
    if not lost or place is None or place["phase"] == SETTING_ASIDE:
        return bool(lost)
    known, own = fleet.notes_on(uuid).known, generation_of([place])
    return known is not None and known.generation > own or _planned_elsewhere(fleet, uuid, place["host"])[0] >= own[0]


def _planned_elsewhere(fleet: Fleet, uuid: str, host: str) -> notes.Generation:
    """The generation after which another host was to have the instance: a run that chose that host may have been killed."""
    plans = (plan for plan in fleet.notes_on(uuid).planned if plan.host_uuid != fleet.uuids().get(host))
    return max((plan.generation for plan in plans), default=notes.NEVER)


def _brought_back(fleet: Fleet, name: str, uuid: str, stays: str, lost: Collection[str]) -> Choice:
    """Raise HostNotLost, InstanceUnknown or InstanceMoving unless the other copy can be nowhere but on lost hosts."""
    silence.check_none_answers(lost, {*fleet.documents, *fleet.uuids().values()})
    if not set(lost) & ({*fleet.verdicts} | set(fleet.known_as)):
        raise InvalidInput("berth_lost_hosts", ",".join(lost), "the host of the copy that had stayed")
    _check_all_answered(fleet, name, stays, lost)
    places, answers = fleet.places.get(uuid, ()), fleet.answers(lost)
    for place in places:
        if place["host"] != stays or is_moving(place):
            raise InstanceMoving(
                "%s on %s is in %s" % (name, place["host"], place["phase"]), hint=hints.run_again(), uuid=uuid
            )
    elsewhere = fleet.notes_on(uuid).apart_from(stays, answers)
    check_absent(name, elsewhere, answers)
    epoch = max(elsewhere.latest[0], generation_of(places)[0] + 1)  # nobody may have heard of the copy that had stayed
    return Choice(stays, [], [epoch, 0], True, not places)


def _check_all_answered(fleet: Fleet, name: str, stays: str, lost: Collection[str]) -> None:
    silent = sorted(set(fleet.verdicts) - set(lost))
    if silent:
        told = " and ".join(silence.describe(host, fleet.verdicts) for host in silent)
        raise InstanceUnknown(
            "%s stays on %s; another copy may be on %s" % (name, stays, told),
            hint=silence.hint(silent, fleet.verdicts, lost),
        )


def _check_still(name: str, uuid: str, stays: str, owners: Dict[str, Place]) -> None:
    """Only a copy at rest is set aside. One in a move stays if it is later than all others: nothing is written to it then.
    One that a killed run was putting away may have its disks in two places."""
    if owners[stays]["phase"] in (SETTING_ASIDE, DELETING):
        raise InstanceMoving(
            "The copy of %s on %s is in %s" % (name, stays, owners[stays]["phase"]),
            hint=copy_hints.keep_the_other(name, stays, sorted(set(owners) - {stays})),
        )
    for host, place in sorted(owners.items()):
        others = [other for other in owners.values() if other is not place]
        later = is_later(place, others)
        if is_moving(place) and not (later and host == stays):
            last = max(others, key=lambda other: generation_of([other]))
            raise InstanceMoving(
                "The copy of %s on %s is in %s" % (name, host, place["phase"]),
                hint=copy_hints.keep_what_moves(name, host)
                if later
                else state_hints.forget_old_move(uuid, host, last["host"]),
            )
