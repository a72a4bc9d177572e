# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the moves of a run, from what all hosts said: between which hosts each goes, what is done about it, and why not.

Hosts that missed who owns an instance are told first, and before a host takes an instance back from a lost one all hosts are.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Collection, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ...model import hints, migration
from ...model.errors import BerthError, InstanceIsLocked
from ...model.identity import DEFAULT_PROJECT
from ...model.messages import Document, View
from ...model.move_errors import InstanceNotFound, MigrationEnded
from ...model.quota import Amounts
from .. import (
    adopting,
    bridges,
    closing_table,
    commit_move,
    gossip,
    groups,
    maintenance,
    moving,
    own_uuids,
    quotas,
    sequences,
    sides,
    unconfirmed,
)
from ..errors import HostUnknown
from ..fleet import Fleet
from ..locate import locate
from ..locks import check_unlocked_there
from ..moving import PlannedMove
from ..plan import FAILED, Instance
from ..registry.engine import Known
from ..what_to_create import unplaced
from .steps import Procedure
from .telling import tell_latest, tell_owners

KINDS = {"resize": migration.RESIZE, "cold_migrate": migration.COLD, "live_migrate": migration.LIVE, "migrate": None}
ENDED = (MigrationEnded.__name__, InstanceNotFound.__name__)
Views = Mapping[str, Mapping[str, View]]  # host -> {instance uuid: what the host says of its record}
Moves = Dict[str, PlannedMove]


class Subject(NamedTuple):
    """An instance to move. ``request_of``: (its record's request, whether its move has begun) -> the one to resize it to."""

    uuid: str
    locked: Any
    request_of: Callable[[Document, bool], Document]
    project: str = DEFAULT_PROJECT


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a run asks for. ``subject_of``: name -> Subject, or raises what is wrong with it; ``choose``: finds hosts for the
    instances of a plan, those that are resized come with the hosts where they are; ``targets``: name -> the only host that it
    may go to, ``target`` that of all others; ``together``: name -> {uuid: where it was} of the members of its affinity group
    that a plan moves to the same host; ``drains``: names of those that come home when their host is returned; ``goals``: of a second plan,
    name -> the destination of its move that has just ended; ``nowhere``: (name, error) -> what is said of an instance that no host
    has; ``known``: what the registry knows of them, None where the hosts are alone; ``everywhere``: all hosts as that has them,
    where one is to be chosen; ``dry``: in check mode."""

    action: str
    run: str
    subject_of: Callable[[str], Subject]
    choose: Callable[[Dict[str, Instance], Mapping[str, str]], None]
    new_token: Callable[[], str]
    migration: str = "auto"
    target: Optional[str] = None
    targets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    together: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    lost: Collection[str] = ()
    quotas: Mapping[str, Amounts] = dataclasses.field(default_factory=dict)
    digests: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    same_host: bool = False
    drains: Collection[str] = ()
    goals: Optional[Mapping[str, Optional[str]]] = None
    nowhere: Callable[[str, BerthError], BerthError] = lambda _name, error: error
    known: Optional[Known] = None
    everywhere: Optional[Fleet] = None
    dry: bool = False

    @property
    def alone(self) -> bool:
        """Whether the hosts have no registry beside them."""
        return self.known is None

    def target_of(self, name: str) -> Optional[str]:
        return self.targets.get(name, self.target)


@dataclasses.dataclass
class Planned:
    """``moves`` and ``errors`` by name, no name in both; ``uuids``: of all that have one; ``notes``: lines for people."""

    moves: Moves = dataclasses.field(default_factory=dict)
    errors: Dict[str, Document] = dataclasses.field(default_factory=dict)
    uuids: Dict[str, str] = dataclasses.field(default_factory=dict)
    notes: List[str] = dataclasses.field(default_factory=list)
    warnings: List[str] = dataclasses.field(default_factory=list)

    def refuse(self, name: str, error: Document) -> None:
        self.moves.pop(name, None)
        self.errors[name] = error

    def ended(self) -> List[str]:
        """Those whose move has ended: the instance is at rest, or gone."""
        return [name for name, error in self.errors.items() if error["code"] in ENDED]


def plan_moves(names: Iterable[str], fleet: Fleet, views: Views, wanted: Wanted) -> Procedure[Planned]:
    """``fleet``: the hosts that were asked; ``views``: of those that told their records."""
    if wanted.alone and not wanted.dry:
        yield from tell_owners(gossip.whereabouts(fleet), {host: wanted.digests.get(host) for host in fleet.documents})
    planned, requests = Planned(), {}
    for name in names:
        try:
            subject = wanted.subject_of(name)
            planned.uuids[name] = subject.uuid
            move, requests[name] = _plan(name, subject, fleet, views, wanted)
            move["goes_with"] = _goes_with(name, fleet, wanted)
            planned.moves[name] = move
        except InstanceNotFound as error:
            planned.errors[name] = wanted.nowhere(name, error).to_dict()
        except BerthError as error:
            planned.errors[name] = error.to_dict()
    if wanted.action == "confirm_due":
        _keep_due(planned, views)
    _place(planned, requests, wanted.everywhere or fleet, wanted)
    for name, move in list(planned.moves.items()):
        move["id"] = wanted.new_token()
        move["look"] = sorted(fleet.documents) if wanted.alone and commit_move.needs_a_look(move, wanted.quotas) else []
        move["machines"], move["version"] = _machines(move, fleet), _version(move, wanted.known)
        if wanted.goals is None:
            continue
        move["again"] = True
        if move["settles"]:  # that would need a third plan
            planned.refuse(name, moving.busy(move).to_dict())
    if wanted.alone:
        yield from _tell_who_takes_back(planned, fleet, wanted)
    return planned


def _machines(move: PlannedMove, fleet: Fleet) -> Dict[str, str]:
    """The uuids of its two hosts, also of one that is lost."""
    begun = move["views"]["source"].get("migration") or move["views"]["destination"].get("migration")
    sides = {side["name"]: side["uuid"] for side in (begun["source"], begun["destination"])} if begun else {}
    uuids = {**sides, **fleet.uuids()}
    return {host: uuids[host] for host in (move["source"], move["destination"]) if host and host in uuids}


def _version(move: PlannedMove, known: Optional[Known]) -> int:
    return known.versions.get(move["uuid"], 0) if known else 0


def _plan(
    name: str, subject: Subject, fleet: Fleet, views: Views, wanted: Wanted
) -> Tuple[PlannedMove, Optional[Document]]:
    """(the move of one instance, the request to resize it to)."""
    places, action = fleet.places.get(subject.uuid, ()), wanted.action
    own_uuids.check_name(name, subject.project, subject.uuid, places)
    check_unlocked_there(name, places)
    both = _source, here, destination, there = _sides(name, subject.uuid, fleet, views, wanted)
    adopting.check_told(name, subject.project, (here, there))
    request = None
    if action == "resize":
        request = subject.request_of(here.get("spec") or there["spec"], destination is not None)
    kind = KINDS.get(action, migration.RESIZE) or moving.kind_to_migrate(wanted.migration, both)
    plain_action = "move" if action in KINDS else "confirm" if action == "confirm_due" else action
    move = moving.plan(plain_action, kind, subject.uuid, name, both, request, subject.locked, wanted.target_of(name))
    goal = (wanted.goals or {}).get(name)
    if move["place"] and kind != migration.RESIZE and move["source"] in (wanted.target_of(name), goal):
        move["place"], move["why"] = False, "is on %s already" % move["source"]
    return move, request


def _sides(name: str, uuid: str, fleet: Fleet, views: Views, wanted: Wanted) -> sides.Sides:
    """Source and destination of a move, with what they report. A delete also accepts an instance that is nowhere."""
    hosts = {host_uuid: host for host, host_uuid in fleet.uuids().items() if host in views}
    silent = {**dict.fromkeys(set(fleet.documents) - set(views), "did not tell its records"), **fleet.verdicts}
    try:
        both = sides.find(uuid, name, views, hosts, silent, wanted.lost)
    except InstanceNotFound:
        if wanted.action != "delete":
            locate(fleet, name, uuid, wanted.lost)  # raises where it may be, and why that host is silent
        raise
    if wanted.action != "delete":
        sides.check(fleet, uuid, name, both, wanted.lost)
    return both


def _goes_with(name: str, fleet: Fleet, wanted: Wanted) -> Dict[str, str]:
    """Those that are still where the plan has them."""
    return {
        uuid: host
        for uuid, host in wanted.together.get(name, {}).items()
        if host in fleet.documents and any(each["uuid"] == uuid for each in fleet.documents[host]["instances"])
    }


def _keep_due(planned: Planned, views: Views) -> None:
    """Keep the moves to confirm now, and the errors of those. A lock is meant, so a timer's run tells it and does not fail."""
    for name, move in sorted(planned.moves.items()):
        if unconfirmed.is_due(move):
            move["when_due"] = True
            continue
        del planned.moves[name]
        if unconfirmed.is_unconfirmed(move):
            waits = unconfirmed.described(unconfirmed.owner(move).get("phase"), move["confirm_in"])
            planned.notes.append("%s: not due, it %s" % (name, waits))
    for name, error in sorted(planned.errors.items()):
        of_it = [seen[planned.uuids[name]] for seen in views.values() if planned.uuids.get(name) in seen]
        is_due = any(map(unconfirmed.view_is_due, of_it))
        if not is_due or error["code"] == InstanceIsLocked.__name__:
            del planned.errors[name]
        if is_due and error["code"] == InstanceIsLocked.__name__:
            planned.notes.append("%s: due, but not confirmed: %s" % (name, closing_table.text_of(error)))
    if not (planned.moves or planned.errors or planned.notes):
        planned.notes.append(
            "Nothing is due: on the hosts that answered no resize or cold migration waits to be confirmed"
        )


def _place(planned: Planned, requests: Mapping[str, Optional[Document]], fleet: Fleet, wanted: Wanted) -> None:
    """Choose a destination for each move without one; each instance is placed as if it were new, so its old and new room
    both count."""
    instances = unplaced(_waiting(planned, requests, fleet, wanted))
    groups.set_members(instances, fleet)
    for name, instance in instances.items():
        group, move = instance["spec"].get("group"), planned.moves[name]
        if group:
            leaving = {instance["uuid"], *move["goes_with"]}
            group["members"] = [member for member in group["members"] if member not in leaving]
    # A migration uses nothing twice for long: only a resize counts twice, until it is confirmed.
    resized = {name: each for name, each in instances.items() if planned.moves[name]["kind"] == migration.RESIZE}
    for name, instance in resized.items():
        instance["old_flavor"] = moving.old_flavor(planned.moves[name])
    quotas.before_placement(resized, fleet, wanted.quotas, wanted.known.used if wanted.known else None)
    silent = {host: why for host, why in fleet.verdicts.items() if wanted.alone and host not in wanted.lost}
    groups.refuse_unseen(instances, fleet, silent)
    waiting = {name: each for name, each in instances.items() if each.get("state") != FAILED}
    if waiting:
        wanted.choose(waiting, {name: planned.moves[name]["source"] for name in resized})
    for name, instance in instances.items():
        if instance.get("state") == FAILED:
            planned.refuse(name, instance["error"] or {})
            continue
        move = planned.moves[name]
        _set_destination(move, instance, fleet, wanted.new_token)
        source, destination = fleet.documents[move["source"]], fleet.documents[instance["host"] or ""]
        for text in bridges.lost_by_a_move(move["views"]["source"]["spec"], source, destination):
            planned.warnings.append("%s moves from %s to %s: %s" % (name, move["source"], instance["host"], text))


def _waiting(
    planned: Planned, requests: Mapping[str, Optional[Document]], fleet: Fleet, wanted: Wanted
) -> Dict[str, Document]:
    """Name -> the request of each move without a destination; what cannot leave its host is an error."""
    waiting = {}
    for name, move in list(planned.moves.items()):
        if not move["place"]:
            continue
        if move["source"] not in fleet.documents:  # as where two hosts of the registry have one uuid
            text = "%s, where %s is, does not count: %s"
            told = text % (move["source"], name, fleet.verdicts.get(move["source"]))
            planned.refuse(name, HostUnknown(told, hint=hints.run_again()).to_dict())
            continue
        try:
            ignored = moving.hosts_to_leave_out(move, fleet.documents, wanted.target_of(name), wanted.same_host)
        except BerthError as error:
            planned.refuse(name, error.to_dict())
            continue
        source, view = fleet.documents[move["source"]], move["views"]["source"]
        home = maintenance.home(view["spec"], source["uuid"], name in wanted.drains)
        waiting[name] = moving.request(view, requests[name], move["kind"], ignored, source.get("cell"), home)
    return waiting


def _set_destination(move: PlannedMove, instance: Instance, fleet: Fleet, new_token: Callable[[], str]) -> None:
    move["spec"], move["candidates"] = instance["spec"], moving.candidates(instance, new_token)
    move["destination"], move["why"] = instance["host"], instance.get("why")
    move["source_host"] = {"name": move["source"], "uuid": fleet.documents[move["source"]]["uuid"]}
    stays = move["destination"] == move["source"]
    move["sequence"] = sequences.beginning(move["kind"], move["views"]["source"], stays)
    if move["sequence"] != "resize_here":
        move["candidates"] = [candidate for candidate in move["candidates"] if candidate["host"] != move["source"]]


def _tell_who_takes_back(planned: Planned, fleet: Fleet, wanted: Wanted) -> Procedure[None]:
    """What is to be taken back is an error, and stays as it is, unless every host has taken that."""
    of_each = {name: gossip.will_take_back(fleet, move, wanted.run) for name, move in planned.moves.items()}
    told = {name: document for name, document in of_each.items() if document}
    if not told or wanted.dry:
        return
    try:
        together = gossip.together(told.values())
        yield from tell_latest(", ".join(sorted(told)), together, fleet.documents, fleet.unprepared())
    except HostUnknown as error:
        for name in told:
            planned.refuse(name, error.to_dict())
