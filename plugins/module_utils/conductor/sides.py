# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Between which two hosts an instance moves, and what they hold; what of it counts if a host is lost, or back; and
which contradictions stop a move.

If a host does not answer, its state is unknown, and nothing is done. Only a person can say that it is lost for good.
"""

from __future__ import annotations

from typing import Collection, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple

from ..model import fleet_hints, hints, state_hints
from ..model.lifecycle import CLAIM, OUT, OWN
from ..model.messages import Side, View
from ..model.move_errors import InstanceNotFound
from . import copies, notes, silence
from .errors import (
    HostLibvirtTimeout,
    HostNameAmbiguous,
    HostNotLost,
    HostUnknown,
    InstanceSuperseded,
    MoveContradicted,
)
from .fleet import Fleet
from .locate import check_latest, check_no_stray

NOTHING: View = {"role": None}
LOST: View = {"role": None, "lost": True}
Sides = Tuple[str, View, Optional[str], View]


def find(
    uuid: str,
    name: str,
    views: Mapping[str, Mapping[str, View]],
    host_names: Mapping[str, str],
    silent: Mapping[str, str],
    lost: Collection[str] = (),
) -> Sides:
    """Return the sides of an instance: (source, view there, destination, view there); destination None if it does not
    move.

    ``views``: inventory name -> {instance uuid: view}; ``host_names``: host uuid -> inventory name; ``silent``: hosts
    that did not answer, and why; ``lost``: names of hosts that are gone for good. A view has ``lost`` if its host is
    lost, ``left`` if it is of a move that the owner, here the source, has ended without that host.
    """
    found = {host: seen[uuid] for host, seen in views.items() if uuid in seen and seen[uuid]["role"] != CLAIM}
    left = _left_of_ended_moves(name, found, host_names, lost)
    current = {host: view for host, view in found.items() if host not in left}
    owners = [host for host, view in current.items() if view["role"] == OWN]
    if len(owners) > 1:
        raise copies.owned_twice(name, {host: {"generation": current[host].get("generation")} for host in owners})
    if owners and left and not current[owners[0]].get("migration"):
        first = left[0]
        return owners[0], current[owners[0]], first, {**found[first], "left": True}
    _check_of_one_move(name, uuid, current, owners, host_names)
    ordered = [current[host] for host in owners] + list(current.values())
    move = next((view["migration"] for view in ordered if view.get("migration")), None)
    if move is None:
        if not owners:
            _check_no_hung_libvirt(name, silent)
            where = " on the hosts that answered (silent: %s)" % ", ".join(sorted(silent)) if silent else ""
            raise InstanceNotFound("Instance %s could not be found%s" % (name, where))
        return owners[0], current[owners[0]], None, NOTHING
    known = _Known(name, uuid, current, host_names, silent, lost)
    source, here = _side(move["source"], known)
    if move["source"]["uuid"] == move["destination"]["uuid"]:
        return source, here, source, NOTHING
    destination, there = _side(move["destination"], known)
    if not owners and None in (here["role"], there["role"]):
        _check_no_third(name, silent, lost)
    return source, here, destination, there


def check(fleet: Fleet, uuid: str, name: str, found: Sides, lost: Collection[str] = ()) -> None:
    """Raise what forbids moving the instance: a guest with that uuid without a record somewhere (DomainWithoutRecord),
    or a known owner of a higher generation than any record that answered (RecordOutdated)."""
    check_no_stray(fleet, name, uuid)
    source, here, destination, there = found
    views = [
        (view["generation"], view["role"] == OWN, host)  # both sides may have counted as far
        for host, view in ((source, here), (destination, there))
        if host and view.get("generation")
    ]
    if views:
        generation, _owns, host = max(views)
        answers = fleet.answers(lost)
        _check_lost_sides(name, (here, there), answers)
        noted = fleet.notes_on(uuid)
        if not _has_lost_its_part(noted.known, here, there, answers):  # moving.plan says what is left then
            notes.check_owner(name, host, notes.generation(generation), noted, answers)
        if len(views) == 1 and here.get("role") == OWN and not here.get("op"):
            check_latest(fleet, name, uuid, lost)


def _has_lost_its_part(known: Optional[notes.Note], here: View, there: View, answers: notes.Answers) -> bool:
    """Whether the last owner that is ``known`` is a side of the move that answers and has no record of it, also if a person gives
    its part up, and the other side does not own the instance."""
    move = here.get("migration") or there.get("migration")
    if not (move and known and answers.has(known)) or OWN in (here["role"], there["role"]):
        return False
    sides = ((move["source"], here), (move["destination"], there))
    return any(known.host_uuid == side["uuid"] and view["role"] is None for side, view in sides)


def _check_lost_sides(name: str, views: Iterable[View], answers: notes.Answers) -> None:
    """A lost name gives up no side of a move that is another machine than the one other hosts know by that name."""
    for move in filter(None, (view.get("migration") for view in views)):
        for side in (move["source"], move["destination"]):
            host, uuid = side["name"], side["uuid"]
            if host in answers.lost and uuid not in answers.names and not answers.gives_up(host, uuid):
                others = sorted({uuid, *answers.silent_called(host)})
                raise HostNameAmbiguous(
                    "%s is in a move with %s (host uuid %s), but other hosts know another machine by that name"
                    % (name, host, uuid),
                    hint=fleet_hints.lost_by_uuid(host, others),
                )


def _left_of_ended_moves(
    name: str, found: Mapping[str, View], host_names: Mapping[str, str], lost: Collection[str]
) -> List[str]:
    """The hosts that hold a part of a move that ended without them. Raise InstanceSuperseded if one of them, that nobody
    named as lost, may run the instance."""
    ended = {host: _ended_by(host, found) for host in sorted(found)}
    left = {host: enders for host, enders in ended.items() if enders}
    for host, enders in left.items():
        if host not in lost and (found[host]["role"] == OWN or not enders & _parties(found[host], host_names)):
            raise InstanceSuperseded(
                "%s holds an old copy of %s, from a move that ended without that host" % (host, name),
                hint=fleet_hints.superseded_copy(host, " and ".join(sorted(enders))),
            )
    return list(left)


def _ended_by(host: str, found: Mapping[str, View]) -> Set[str]:
    """The hosts that say that they, or an earlier owner of the instance, ended this host's move without it."""
    op, generation = found[host].get("op"), found[host].get("generation") or []
    return {
        name
        for name, other in found.items()
        if op and name != host and op in (other.get("lost_moves") or ()) and other["generation"] > generation
    }


def _check_of_one_move(
    name: str, uuid: str, current: Mapping[str, View], owners: List[str], host_names: Mapping[str, str]
) -> None:
    """A host cannot report a move that it has no part in, and cannot contradict an owner that knows of no move. Nobody but a
    person can tell whose record is right: a host that lies would have the good one removed."""
    for host, view in sorted(current.items()):
        if not view.get("migration"):
            continue
        if host not in _parties(view, host_names):
            raise MoveContradicted(
                "%s reports a move of %s in which it has no part" % (host, name),
                hint=fleet_hints.which_record(name, uuid, sorted({host, *owners})),
            )
        if owners and not current[owners[0]].get("migration"):
            old = view["generation"] < current[owners[0]]["generation"]
            both = sorted((host, owners[0]))
            raise MoveContradicted(
                "%s says that %s is in a move, but its owner %s says that it is in none" % (host, name, owners[0]),
                hint=state_hints.forget_old_move(uuid, host, owners[0])
                if old
                else fleet_hints.which_record(name, uuid, both),
            )
    _check_no_other_move(name, uuid, current)


def _check_no_other_move(name: str, uuid: str, current: Mapping[str, View]) -> None:
    """Hosts that had the instance must not be in different moves, unless the owner's is the last: what others kept of earlier ones
    is no part of it."""
    had = {host: view for host, view in current.items() if view["role"] in (OWN, OUT) and view.get("migration")}
    if len({view["op"] for view in had.values()}) < 2:
        return
    last = max(had.values(), key=lambda view: (view["generation"][0], view["role"] == OWN))
    if last["role"] != OWN:
        raise MoveContradicted(
            "%s is in different moves by what these hosts say: %s"
            % (name, ", ".join(_told(host, view) for host, view in sorted(had.items()))),
            hint=fleet_hints.which_record(name, uuid, sorted(had)),
        )


def _told(host: str, view: View) -> str:
    move, (epoch, n) = view["migration"], view["generation"]
    sides = "from %s to %s, " % (move["source"]["name"], move["destination"]["name"]) if move else ""
    return "%s (%sgeneration %d.%d)" % (host, sides, epoch, n)


def _parties(view: View, host_names: Mapping[str, str]) -> Set[Optional[str]]:
    """The hosts that may speak for this move: what a third host says never gets anything removed."""
    move = view.get("migration")
    return {host_names.get(side["uuid"]) for side in (move["source"], move["destination"])} if move else set()


class _Known(NamedTuple):
    """What is known of the instance ``name`` with that ``uuid``: ``current``: host -> its view; the others as in ``find``."""

    name: str
    uuid: str
    current: Mapping[str, View]
    host_names: Mapping[str, str]
    silent: Mapping[str, str]
    lost: Collection[str]


def _side(side: Side, known: _Known) -> Tuple[str, View]:
    """Return (inventory name, view) of one side of a move."""
    host = known.host_names.get(side["uuid"])
    if host is None:
        return side["name"], _unanswered(side, known)
    if host in known.lost and host not in known.current:
        return host, LOST
    if host in known.lost:
        raise HostNotLost(
            "%s answers, and has the role %s in the move of %s" % (host, known.current[host]["role"], known.name),
            hint=hints.not_lost(host),
        )
    return host, known.current.get(host, NOTHING)


def _unanswered(side: Side, known: _Known) -> View:
    name, silent = known.name, known.silent
    if side["name"] not in known.lost and side["name"] in known.host_names.values():
        # One host says that another is gone, and a host of that name answers: nobody should give that one up as lost.
        raise HostUnknown(
            "%s is in a move from or to %s with the host uuid %s, but %s now answers with another uuid"
            % (name, side["name"], side["uuid"], side["name"]),
            hint=fleet_hints.replaced_in_move(side["name"], known.uuid, sorted(silent)),
        )
    if side["name"] not in known.lost:
        listed = side["name"] in silent
        raise HostUnknown(
            "%s is in a move from or to the host with uuid %s: %s"
            % (name, side["uuid"], silence.describe(side["name"], silent) if listed else _unlisted(side["name"])),
            hint=silence.hint([side["name"]], silent, known.lost)
            if listed
            else fleet_hints.unlisted(side["name"], sorted(silent)),
        )
    silence.check_lost([side["name"]], silent)
    return LOST


def _unlisted(host: str) -> str:
    """Nobody asked it: it was taken out of the inventory, or has another name there by now."""
    return "%s, which is not in this inventory" % host


def _check_no_hung_libvirt(name: str, silent: Mapping[str, str]) -> None:
    """A host that answers but whose libvirt hangs may be the one with the instance."""
    hung = sorted(host for host, reason in silent.items() if silence.has_code(reason, silence.HUNG))
    if hung:
        raise HostLibvirtTimeout(
            "libvirt on %s does not answer, so it is unknown whether %s is there" % (", ".join(hung), name),
            hint=hints.restart_hung_libvirt(),
            hosts=hung,
        )


def _check_no_third(name: str, silent: Mapping[str, str], lost: Collection[str]) -> None:
    """The remains of a move may be all there is, unless the instance went on to a host that is silent."""
    others = sorted(set(silent) - set(lost))
    if others:
        raise HostUnknown(
            "%s may be on %s" % (name, "; ".join(silence.describe(host, silent) for host in others)),
            hint=silence.hint(others, silent, lost),
        )
