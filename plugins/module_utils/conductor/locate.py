# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the instances of a run are: on a host, nowhere, in a move, on two hosts, in libvirt without a record, or unknown
because a host is silent. And which host may take back a record that was lost."""

from __future__ import annotations

import functools
from typing import Any, Collection, Iterable, List, Mapping, Optional, Tuple

from ..model import copy_hints, fleet_hints, hints, state_hints, vm_states
from ..model.errors import BerthError
from ..model.lifecycle import ACTIVE, ALIVE, CLAIM, DELETING, MOVING, OWN, SETTING_ASIDE, SHELVING_OFFLOADING, SPAWNING
from ..model.record import RecordInvalid
from . import arrived, copies, notes, silence, unconfirmed
from .errors import DomainWithoutRecord, DuplicateInstance, InstanceMoving, InstanceUnknown, RecordOutdated
from .fleet import STATE_FAULT, Fleet, Place, Stray
from .locks import lock_of
from .notes import check_absent


def locate(fleet: Fleet, name: str, uuid: str, lost_hosts: Collection[str] = ()) -> List[str]:
    """Return the hosts that hold a part of the instance, its owner last; [] if there are none.

    Raises InstanceMoving during a move and until it is confirmed; InstanceUnknown if the instance was not found and a
    host did not answer, unless that host is given up as lost; and what ``holders`` raises.
    """
    check_no_stray(fleet, name, uuid)
    claims, owners = holders(fleet, name, uuid, lost_hosts)
    if not owners:
        check_none_silent(fleet, name, lost_hosts)
    return claims + owners


def locate_to_run(fleet: Fleet, name: str, uuid: str, lost_hosts: Collection[str] = ()) -> List[str]:
    """As ``locate``, for what may start the guest."""
    hosts = locate(fleet, name, uuid, lost_hosts)
    check_latest(fleet, name, uuid, lost_hosts)
    return hosts


def check_latest(fleet: Fleet, name: str, uuid: str, lost_hosts: Collection[str]) -> None:
    """Raise RecordOutdated if a lost host has, or may have, a later record than the owner that answers: when it is back
    while this one is silent, it would count as the owner, and a second guest would be started."""
    owners = [place for place in fleet.places.get(uuid, ()) if place["role"] == OWN]
    here, noted, answers = generation_of(owners), fleet.notes_on(uuid), fleet.answers(lost_hosts)
    later = notes.later_lost(here, noted, answers) if owners else None
    if not later or owners[0]["phase"] == SETTING_ASIDE:  # that one starts only by keep_one
        return
    host, at_rest = owners[0]["host"], owners[0]["phase"] == ACTIVE
    hint = state_hints.make_latest if at_rest else fleet_hints.delete_older
    raise RecordOutdated(
        "%s has a record of %s of generation %d.%d, and %s, which is given up as lost, has or may have %d.%d%s"
        % (host, name, *here, later.host, *later.generation, answers.by_notes(later)),
        hint=hint(name, host, sorted(lost_hosts)),
        host=host,
    )


def locate_to_delete(fleet: Fleet, name: str, uuid: str, lost_hosts: Collection[str] = ()) -> List[str]:
    """As ``locate``, for a delete, which also removes what is left on a host that has no record of the instance."""
    left = [stray["host"] for stray in fleet.strays.get(uuid, ()) if stray["managed"]]
    answers, known = fleet.answers(lost_hosts), fleet.notes_on(uuid).known
    places = fleet.places.get(uuid, [])
    if known and answers.has(known) and not any(place["role"] == OWN for place in places):
        left.append(answers.names[known.host_uuid])
    if not left or any(is_moving(place) for place in places):
        return locate(fleet, name, uuid, lost_hosts)
    check_none_silent(fleet, name, [*lost_hosts, *left])
    held = [place["host"] for place in places]
    return sorted(set(left) - set(held)) + held


def locate_to_take_back(
    fleet: Fleet, name: str, uuid: str, lost_hosts: Collection[str] = (), chosen: Optional[str] = None
) -> List[str]:
    """The host whose record of the instance was lost, or is older than what others have seen there, or than what a lost
    host may have; or [].

    All hosts have to answer, and no other host may have the instance or have had it later, unless a person has ``chosen`` the
    copy of this one: see copies.py.
    """
    check_none_silent(fleet, name, lost_hosts)
    places = [place for place in fleet.places.get(uuid, ()) if place["role"] != CLAIM]
    strays = [stray["host"] for stray in fleet.strays.get(uuid, ()) if stray["managed"]]
    if any(is_moving(place) for place in places):
        source = arrived.source_of(fleet, uuid, strays[0]) if len(strays) == 1 else None
        if source:
            arrived.check(fleet, name, uuid, strays[0], source, lost_hosts, chosen)
            return strays
        raise _moving_without_record(fleet, name, uuid, strays) if strays else _moving_behind(fleet, name, uuid, places)
    later = _later_than_all_records(fleet, uuid, strays[0]) if len(strays) == 1 else None
    if later:
        return _older_or_later(fleet, name, uuid, strays[0], later, lost_hosts, chosen)
    here = [place["host"] for place in places] + strays
    if len(here) > 1:
        if not strays:
            raise copies.owned_twice(name, copies.of(places))
        hint = state_hints.undefine_copies(uuid, sorted(strays), bool(places))
        raise DuplicateInstance("%s is on %s" % (name, " and ".join(sorted(here))), hint=hint)
    answers = fleet.answers(lost_hosts)
    if not here:
        check_absent(
            name, fleet.notes_on(uuid), answers, hint=functools.partial(fleet_hints.delete_without_record, uuid)
        )
        return []
    noted = copies.agreed(fleet, name, uuid, here[0], generation_of(places), chosen, answers)
    noted = noted.apart_from(here[0], answers)
    if not places:
        check_absent(name, noted, answers)
        return here
    notes.check_owner(name, here[0], generation_of(places), noted, answers)
    remembered, reached = fleet.notes_on(uuid), generation_of(places)
    known, latest = remembered.known, notes.latest_with_lost(remembered, answers)
    is_rival = known is not None and known.host_uuid != fleet.uuids().get(here[0]) and known.generation == reached
    return here if reached < latest or is_rival and reached == latest else []


def _later_than_all_records(fleet: Fleet, uuid: str, host: str) -> Optional[notes.Note]:
    """What hosts remember of ``host`` as the owner, if that is later than all who own the instance by their records, at rest."""
    known, places = fleet.notes_on(uuid).known, fleet.places.get(uuid, [])
    if known is None or not places or known.host_uuid != fleet.uuids().get(host):
        return None
    return known if known.generation > generation_of(places) else None


def _older_or_later(
    fleet: Fleet,
    name: str,
    uuid: str,
    host: str,
    later: notes.Note,
    lost_hosts: Collection[str],
    chosen: Optional[str],
) -> List[str]:
    """The host whose copy a person has ``chosen``: that of an older record, or ``host``, whose guest has none and which, as
    others remember, had the instance later. Raise DuplicateInstance without that word, since a single host that lies is enough,
    and while the instance runs by the older record: a second guest could start while the host of the first is silent."""
    answers = fleet.answers(lost_hosts)
    places = fleet.places[uuid]
    owners = sorted(place["host"] for place in places)
    running = sorted(place["host"] for place in places if place["power_state"] in ALIVE)
    if [chosen] == owners:
        reached = generation_of(places)
        noted = copies.agreed(fleet, name, uuid, owners[0], reached, chosen, answers)
        notes.check_owner(name, owners[0], reached, noted, answers)
        return owners
    if chosen == host and not running:
        return [host]
    raise DuplicateInstance(
        "%s %s on %s, and %s, which has no record of it, had it later%s"
        % (name, "runs" if running else "is", " and ".join(running or owners), host, answers.by_notes(later)),
        hint=fleet_hints.older_or_later(name, uuid, owners, running, host),
    )


def holders(fleet: Fleet, name: str, uuid: str, lost_hosts: Collection[str] = ()) -> Tuple[List[str], List[str]]:
    """Return ([hosts with a claim of the instance], [its owner, if it answered]).

    Raises what notes.check_owner and check_absent raise: all that is known about the instance decides who owns it.
    """
    places = fleet.places.get(uuid, [])
    owners = [place["host"] for place in places if place["role"] == OWN]
    claims = [place["host"] for place in places if place["role"] == CLAIM]
    moving = [place for place in places if is_moving(place)]
    if moving:
        raise _moving(name, uuid, places)
    if len(owners) > 1:
        raise copies.owned_twice(name, copies.of([place for place in places if place["role"] == OWN]))
    known, answers = fleet.notes_on(uuid), fleet.answers(lost_hosts)
    if owners:
        notes.check_owner(name, owners[0], generation_of(places), known, answers)
    else:
        check_absent(name, known, answers)
    return claims, owners


def generation_of(places: Iterable[Place]) -> notes.Generation:
    return max((notes.generation(place["generation"] or notes.NEVER) for place in places), default=notes.NEVER)


def check_none_silent(fleet: Fleet, name: str, lost_hosts: Collection[str]) -> None:
    silence.check_lost(lost_hosts, fleet.verdicts)
    silent = sorted(set(fleet.verdicts) - set(lost_hosts))
    if silent:
        raise InstanceUnknown(
            "%s is on no host that answered. It may be on %s"
            % (name, "; ".join(silence.describe(host, fleet.verdicts) for host in silent)),
            hint=silence.hint(silent, fleet.verdicts, lost_hosts),
        )


def check_no_stray(fleet: Fleet, name: str, uuid: str) -> None:
    """Raise DomainWithoutRecord if libvirt has a guest with this uuid on a host without a record of it: whatever other
    hosts say, a second guest may run then."""
    strays = fleet.strays.get(uuid)
    if strays:
        first = strays[0]
        if first.get("damaged"):
            raise RecordInvalid(
                "%s cannot read its record of %s: %s" % (first["host"], name, first["damaged"]),
                hint=stray_hint(fleet, name, uuid, first),
                host=first["host"],
            )
        raise DomainWithoutRecord(
            "%s has the domain %s (%s) with the uuid of %s and no record of it"
            % (first["host"], first["name"], first["power_state"], name),
            hint=stray_hint(fleet, name, uuid, first),
            host=first["host"],
            domain=first["name"],
        )


def stray_hint(fleet: Fleet, name: str, uuid: str, stray: Stray) -> str:
    if stray.get("damaged"):
        return state_hints.restore_damaged_record(uuid, stray["host"])
    verdict = fleet.verdicts.get(stray["host"])
    if stray["managed"] and verdict:  # its records do not count, so it may have one
        if silence.has_code(verdict, STATE_FAULT):
            return state_hints.mount_state_directory("the state directory of %s" % stray["host"])
        return silence.hint([stray["host"]], fleet.verdicts)
    if stray["managed"] and not _is_elsewhere(fleet, uuid, stray["host"]):
        if name == uuid:
            return fleet_hints.restore_unlisted_record(uuid, stray["host"])
        return state_hints.restore_record(name, stray["host"])
    return state_hints.undefine_copies(uuid, [stray["host"]], True) if fleet.places.get(uuid) else hints.another_name()


def _is_elsewhere(fleet: Fleet, uuid: str, host: str) -> bool:
    """Whether other hosts than this one, which has a guest without a record, have the instance by all that is known: a
    record that is taken back here would be of no use."""
    known, document, places = fleet.notes_on(uuid).known, fleet.documents.get(host), fleet.places.get(uuid, [])
    holding = [place for place in places if place["role"] == OWN] or _handed_over(fleet, places)
    was_here = bool(known and document and known.host_uuid == document["uuid"])
    return bool(holding) and not (was_here and known and known.generation >= generation_of(holding))


def _handed_over(fleet: Fleet, places: Iterable[Place]) -> List[Place]:
    """The sources of moves whose destination has a record, too: one of the two has the instance."""
    held = {fleet.documents[place["host"]]["uuid"] for place in places}
    return [place for place in places if place["moved_to"] and place["moved_to"]["host_uuid"] in held]


def locate_to_unlock(fleet: Fleet, name: str, uuid: str, lost_hosts: Collection[str] = ()) -> List[str]:
    """The hosts where it is locked: both if two own it, since a lock would block keep_one. Otherwise its owner."""
    locked = [place["host"] for place in fleet.places.get(uuid, ()) if lock_of([place])]
    return locked or locate(fleet, name, uuid, lost_hosts)[-1:]


def is_moving(place: Mapping[str, Any]) -> bool:
    """Whether the instance is in a move there: from its start until it is confirmed, reverted or given up."""
    return place["role"] not in (OWN, CLAIM) or place["phase"] in MOVING


def _moving_without_record(fleet: Fleet, name: str, uuid: str, hosts: List[str]) -> InstanceMoving:
    """A side of the move has a guest and no record, and what its definition has was written before the move."""
    elsewhere = all(_is_elsewhere(fleet, uuid, host) for host in hosts)
    return InstanceMoving(
        "%s is in a move, and %s has its guest and no record of it" % (name, " and ".join(sorted(hosts))),
        hint=state_hints.undefine_copies(uuid, hosts, True)
        if elsewhere
        else state_hints.restore_backup_of_record(uuid),
        uuid=uuid,
    )


def _moving_behind(fleet: Fleet, name: str, uuid: str, places: List[Place]) -> BerthError:
    """The record is in a move that others have seen to go on or end there: its state directory came from a backup."""
    latest = fleet.notes_on(uuid).latest
    owning = places if len(places) == 1 else [place for place in places if place["role"] == OWN]
    if len(owning) != 1 or generation_of(owning) >= latest:
        return _moving(name, uuid, places)
    host, numbers = owning[0]["host"], (*generation_of(owning), *latest)
    return InstanceMoving(
        "%s on %s is moving at generation %d.%d, but another host reports %d.%d" % (name, host, *numbers),
        hint=state_hints.restore_damaged_record(uuid, host),
        uuid=uuid,
    )


def is_later(place: Place, others: Iterable[Place]) -> bool:
    """Whether it had an owner after all that ``others`` know of."""
    return generation_of([place])[0] > generation_of(others)[0]


def left_of_ended_move(name: str, uuid: str, places: List[Place]) -> Optional[InstanceMoving]:
    """A host that was given up as lost is back, with its part of a move that ended without it."""
    at_rest, moving = _at_rest(places), [place for place in places if is_moving(place)]
    if not at_rest or not moving:
        return None
    place = _first_to_move(moving)
    if place["role"] == OWN and is_later(place, at_rest):
        return None
    hosts = ", ".join(sorted(other["host"] for other in places))
    return InstanceMoving(
        "the move of %s has ended, but %s still holds a part of it (%s)" % (name, place["host"], hosts),
        hint=hints.confirm_or_revert_left(name, place["host"]),
        uuid=uuid,
    )


def _at_rest(places: List[Place]) -> List[Place]:
    return [place for place in places if place["role"] == OWN and not is_moving(place)]


def _first_to_move(moving: List[Place]) -> Place:
    return next((place for place in moving if place["role"] == OWN), moving[0])


def _moving(name: str, uuid: str, places: List[Place]) -> BerthError:
    """In Nova's words: the attribute that is in the way, and its state."""
    place = _first_to_move([place for place in places if is_moving(place)])
    hosts = ", ".join(sorted(other["host"] for other in places))
    at_rest = _at_rest(places)
    if at_rest and place["role"] == OWN and is_later(place, at_rest):
        # The move goes on: the copy at rest is from a backup, or of a host that was given up as lost.
        return copies.owned_twice(name, copies.of([place, *at_rest]))
    left = left_of_ended_move(name, uuid, places)
    if left:
        return left
    attr = "task_state" if place["task_state"] else "vm_state"
    state = place["task_state"] or place["vm_state"]
    return InstanceMoving(
        "Instance %s is in %s %s (%s)" % (name, attr, state, hosts),
        hint=unconfirmed.to_end(place, name) if unconfirmed.is_at(place) else hints.finish_move(name),
        uuid=uuid,
        attr=attr,
        state=state,
    )


def to_end(place: Mapping[str, Any], name: str) -> str:
    """The hint that ends a change which a run began and did not finish."""
    if is_moving(place):
        return hints.finish_move(name)
    if place["phase"] == SETTING_ASIDE:
        return copy_hints.keep_one_again(name)
    if place["phase"] != ACTIVE or place["task_state"] == SPAWNING:
        return fleet_hints.end_it(name, "delete" if place["phase"] == DELETING else "create")
    if place.get("vm_state") == vm_states.RESCUED:
        return fleet_hints.end_it(name, "unrescue")
    if place.get("vm_state") == vm_states.SHELVED:
        return fleet_hints.end_it(name, "shelve" if place["task_state"] == SHELVING_OFFLOADING else "unshelve")
    left = {
        change.task: operation for operation, change in vm_states.CHANGES.items() if change.after != vm_states.ACTIVE
    }
    return fleet_hints.end_it(name, left.get(place["task_state"], "start"))
