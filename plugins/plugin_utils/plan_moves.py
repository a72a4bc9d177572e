# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be done about each instance that a run moves: see plugins/modules/plan_moves.py."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from ..module_utils.conductor import (
    adopting,
    bridges,
    commit_move,
    gossip,
    groups,
    maintenance,
    moving,
    placing,
    quotas,
    report,
    report_moves,
    sides,
    unconfirmed,
    what_to_create,
)
from ..module_utils.conductor.errors import HostUnknown, KvmHostNotFound
from ..module_utils.conductor.fleet import Fleet
from ..module_utils.conductor.locate import locate
from ..module_utils.conductor.locks import check_unlocked_there
from ..module_utils.conductor.plan import FAILED
from ..module_utils.model import migration
from ..module_utils.model.errors import BerthError, InstanceIsLocked
from ..module_utils.model.identity import IDENTITY, project_of, uuid_of
from ..module_utils.model.move_errors import MigrationEnded
from ..module_utils.model.schema import OneOf
from ..module_utils.placement.request import resize_request
from . import acting, receipts, seeds
from .answers_of_hosts import read_reports, replies
from .controller import ControllerAction, new_token
from .inventory_differences import InventoryDifferences, owner
from .inventory_variables import kvm_hosts, lost_hosts, variables, who_locked
from .locating import shown
from .plain import plain
from .screen import say, verbosity, warn
from .selection import InstanceNotFound, check_explicit, known_hosts, not_found, selected, warn_of_lost
from .telling_owners import tell_latest, tell_owners
from .whose_variables import Catalogs

KINDS = {"resize": migration.RESIZE, "cold_migrate": migration.COLD, "live_migrate": migration.LIVE, "migrate": None}
# What a delete meets if the move that it was to end has ended: the instance is at rest, or gone.
ENDED = (MigrationEnded.__name__, InstanceNotFound.__name__)
MIGRATION = OneOf("auto", "cold", "live")


class _Run(NamedTuple):
    """What all moves of the run are planned from. ``views``: host -> {instance uuid: the host's view of its move};
    ``goals``: instance -> the destination of its move that has just ended."""

    task_vars: Dict[str, Any]
    catalogs: Catalogs
    fleet: Fleet
    views: Dict[str, Dict[str, Any]]
    lost: List[str]
    action: str
    target: Optional[str]
    migration: str  # berth_migration
    goals: Dict[str, str]


DRAINS = "__berth_drains"  # of the playbook drain: what it moves comes home when the host is returned


class PlanMoves(ControllerAction):
    argument_spec = {
        "instances": {"type": "list", "elements": "str", "required": True},
        "hosts": {"type": "list", "elements": "str"},
        "action": {
            "type": "str",
            "required": True,
            "choices": [
                "resize",
                "cold_migrate",
                "live_migrate",
                "migrate",
                "confirm",
                "revert",
                "abort",
                "delete",
                "confirm_due",
            ],
        },
        "allow_same_host": {"type": "bool", "default": False},
        "target": {"type": "str"},
        "selected": {"type": "bool", "default": True},
    }

    def reported(self, result):
        moves = result["ansible_facts"]["berth_moves"]
        return None if moves["moves"] or moves["errors"] else {"outcomes": [], "hosts_left_out": moves["left_out"]}

    def act(self, args, task_vars):
        return {"ansible_facts": {"berth_moves": self.plan(args, task_vars)}, "_ansible_verbose_override": True}

    def plan(self, args, task_vars, goals=None):
        """The plan for ``args["instances"]``. ``goals``: the run looks a second time; instance -> the destination of its
        move that has just ended."""
        args["target"] = args["target"] or None  # a survey sends an omitted answer as empty text
        hosts = kvm_hosts(task_vars, args["hosts"])
        if args["target"] and args["target"] not in hosts:
            raise KvmHostNotFound.of("berth_target_host", args["target"], hosts)
        fleet = read_reports(task_vars, hosts)
        views = self._views(task_vars, hosts, fleet)
        tell_owners(self, task_vars, gossip.whereabouts(fleet), list(fleet.documents))
        action, run_variables = args["action"], self.own_variables(task_vars, ["berth_migration"])
        wanted = MIGRATION.check(run_variables.get("berth_migration", "auto"), "berth_migration")
        names = selected(task_vars, args["instances"], hosts)
        check_explicit(self, task_vars, names, args["selected"], action)
        catalogs = Catalogs(task_vars, names, hosts, self._loader)
        catalog = catalogs.shared
        lost = lost_hosts(catalogs.run)
        warn_of_lost(lost, known_hosts(task_vars, hosts), fleet)
        run = _Run(task_vars, catalogs, fleet, views, lost, action, args["target"], wanted, goals or {})
        moves, errors, uuids = self._plan_all(run, names)
        if action == "confirm_due":
            moves, errors = self._due(moves), self._due_but_refused(errors, uuids, views)
        again = goals is not None
        drains = bool(self.own_variables(task_vars, [DRAINS]).get(DRAINS))
        self._place(moves, errors, {**args, "again": again, "drains": drains}, catalog, fleet, task_vars)
        if again:
            _only_once(moves, errors)
        for move in moves.values():
            move["look"] = sorted(fleet.documents) if commit_move.needs_a_look(move, catalog.quotas) else []
        self._tell_who_takes_back(task_vars, fleet, moves, errors)
        facts = self._facts(moves, errors, fleet, action)
        inventory = InventoryDifferences(task_vars, names, hosts, self._loader)
        left = {name: _as_left(action, move, fleet.places.get(move["uuid"], ())) for name, move in moves.items()}
        facts["shown"] = {name: shown(fleet, uuids[name]) for name in errors if name in uuids}
        facts["differs"] = {name: inventory.all_differences(name, places) for name, places in left.items()}
        return facts

    def _tell_who_takes_back(self, task_vars, fleet, moves, errors):
        """What is to be taken back is an error, and stays as it is, unless every host has taken that."""
        of_each = {name: gossip.will_take_back(fleet, move, acting.RUN) for name, move in moves.items()}
        told = {name: told for name, told in of_each.items() if told}
        if not told or self._task.check_mode:
            return
        try:
            tell_latest(self, task_vars, fleet, ", ".join(sorted(told)), gossip.together(told.values()))
        except HostUnknown as error:
            for name in told:
                errors[name] = error.to_dict()
                del moves[name]

    def _views(self, task_vars, hosts, fleet):
        return {
            host: {view["uuid"]: view for view in plain(reply["moves"])}
            for host, reply in replies(task_vars, "__berth_facts").items()
            if host in fleet.documents and "moves" in reply
        }

    def _plan_all(self, run, names):
        """({name: move}, {name: error}, {name: uuid})."""
        moves, errors, uuids = {}, {}, {}
        for name in names:
            try:
                values = variables(run.task_vars, name, ("berth_flavor", "berth_locked", *IDENTITY))
                uuids[name] = uuid_of(name, values)
                moves[name] = self._plan(run, name, uuids[name], values)
            except InstanceNotFound as error:
                nowhere = error if run.fleet.verdicts else not_found(run.task_vars, run.fleet, name)
                errors[name] = nowhere.to_dict()
            except BerthError as error:
                errors[name] = error.to_dict()
        return moves, errors, uuids

    def _plan(self, run, name, uuid, values):
        check_unlocked_there(name, run.fleet.places.get(uuid, ()))
        both = _source, here, destination, there = self._sides(run, name, uuid)
        adopting.check_told(name, project_of(values), (here, there))
        request = None
        if run.action == "resize":
            spec = here.get("spec") or there["spec"]
            request = resize_request(spec, values, run.catalogs.of(name), allow_disabled=destination is not None)
        kind = KINDS.get(run.action, migration.RESIZE) or moving.kind_to_migrate(run.migration, both)
        plain_action = "move" if run.action in KINDS else "confirm" if run.action == "confirm_due" else run.action
        move = moving.plan(plain_action, kind, uuid, name, both, request, who_locked(values), run.target)
        move["request"] = request
        if move["place"] and kind != migration.RESIZE and move["source"] in (run.target, run.goals.get(name)):
            move.update(place=False, why="is on %s already" % move["source"])
        return move

    @staticmethod
    def _sides(run, name, uuid):
        """Source and destination of a move, with what they report. A delete also accepts an instance that is nowhere."""
        fleet, views, lost = run.fleet, run.views, run.lost
        host_names = {document_uuid: host for host, document_uuid in fleet.uuids().items() if host in views}
        silent = {**dict.fromkeys(set(fleet.documents) - set(views), "did not tell its records"), **fleet.verdicts}
        try:
            both = sides.find(uuid, name, views, host_names, silent, lost)
        except InstanceNotFound:
            if run.action != "delete":
                locate(fleet, name, uuid, lost)  # raises an error with where it may be, and why that host is silent
            raise
        if run.action != "delete":
            sides.check(fleet, uuid, name, both, lost)
        return both

    @staticmethod
    def _due(moves):
        """The moves to confirm now. For the others that wait, show until when."""
        due = {name: dict(move, when_due=True) for name, move in moves.items() if unconfirmed.is_due(move)}
        for name, move in sorted(moves.items()):
            if name not in due and unconfirmed.is_unconfirmed(move):
                say(
                    "%s: not due, it %s"
                    % (name, unconfirmed.described(unconfirmed.owner(move).get("phase"), move["confirm_in"]))
                )
        return due

    @staticmethod
    def _due_but_refused(errors, uuids, views):
        """The errors of confirms that are due. A lock is meant, so a timer's run tells it and does not fail."""
        failed = {}
        for name, error in sorted(errors.items()):
            records = [by_uuid[uuids.get(name)] for by_uuid in views.values() if uuids.get(name) in by_uuid]
            if not any(map(unconfirmed.view_is_due, records)):
                continue
            if error["code"] == InstanceIsLocked.__name__:
                say("%s: due, but not confirmed: %s" % (name, _text(error)))
            else:
                failed[name] = error
        return failed

    @staticmethod
    def _waiting(moves, errors, args, fleet):
        """Name -> the request of each move without a destination; what cannot leave its host is an error."""
        waiting = {}
        for name, move in moves.items():
            if not move["place"]:
                continue
            try:
                ignored = moving.hosts_to_leave_out(move, fleet.documents, args["target"], args["allow_same_host"])
            except BerthError as error:
                errors[name] = error.to_dict()
                continue
            source, view = fleet.documents[move["source"]], move["views"]["source"]
            home = maintenance.home(view["spec"], source["uuid"], args["drains"])
            waiting[name] = moving.request(view, move.pop("request"), move["kind"], ignored, source.get("cell"), home)
        for name in errors.keys() & moves.keys():
            del moves[name]
        return waiting

    def _place(self, moves, errors, args, catalog, fleet, task_vars):
        """Choose a destination for each move without one; each instance is placed as if it were new, so its old and new
        room both count."""
        waiting = self._waiting(moves, errors, args, fleet)
        if not waiting:
            return
        instances = what_to_create.unplaced(waiting)
        groups.set_members(instances, fleet)
        for instance in instances.values():
            group = instance["spec"].get("group")
            if group:
                group["members"] = [member for member in group["members"] if member != instance["uuid"]]
        # A migration uses nothing twice for long: only a resize counts twice, until it is confirmed.
        resized = {name: instance for name, instance in instances.items() if moves[name]["kind"] == migration.RESIZE}
        for name, instance in resized.items():
            instance["old_flavor"] = moving.old_flavor(moves[name])
        quotas.before_placement(resized, fleet, catalog.quotas)
        keeping = receipts.settings(self, task_vars)
        decision = placing.place(
            instances,
            fleet,
            catalog.placement,
            catalog.aggregate_documents(plain(task_vars["groups"])),
            seed=seeds.seed(self.own_variables(task_vars, [seeds.SEED])),
            explained=bool(keeping.most_bytes or verbosity()),
        )
        if verbosity() or any(instance.get("state") == FAILED for instance in instances.values()):
            may_stay = () if args["target"] else resized
            say(*decision.explanation(moves=True, may_stay=may_stay).splitlines())
        receipts.keep(keeping, args["action"], decision, args["again"])
        for name, instance in instances.items():
            if instance.get("state") == FAILED:
                errors[name] = instance["error"]
                del moves[name]
                continue
            _set_destination(moves[name], instance, fleet)
            _warn_of_bridges(name, moves[name], fleet)

    def _facts(self, moves, errors, fleet, action):
        """The plan that the playbook follows; also shows a line for each instance."""
        for name, move in sorted(moves.items()):
            move.pop("request", None)
            move["id"] = new_token()
            if move["sequence"]:
                say(report_moves.plan_line(name, action, move))
        return {
            "id": new_token(),
            "action": action,
            "names": sorted({*moves, *errors}),
            "left_out": fleet.verdicts,
            "moves": moves,
            "settle": [name for name, move in moves.items() if move["settles"]],
            "act": [name for name, move in moves.items() if move["sequence"] and not move["settles"]],
            "errors": {name: _text(error) for name, error in errors.items()},
            "error_details": {name: report.details_of(error) for name, error in errors.items()},
            "ended": [name for name, error in errors.items() if action == "delete" and error["code"] in ENDED],
        }


def _warn_of_bridges(name, move, fleet):
    source, destination = (fleet.documents[move[side]] for side in ("source", "destination"))
    for text in bridges.lost_by_a_move(move["views"]["source"]["spec"], source, destination):
        warn("%s moves from %s to %s: %s" % (name, move["source"], move["destination"], text))


def _as_left(action, move, places):
    """The places of an instance as the move leaves them, to compare with the inventory; none after a delete."""
    if not move["sequence"] or not places:
        return places
    return [] if action == "delete" else [report_moves.afterwards(action, move, owner(places) or places[0])]


def _set_destination(move, instance, fleet):
    move.update(spec=instance["spec"], candidates=moving.candidates(instance, new_token), why=instance.get("why"))
    move["destination"] = instance["host"]
    move["source_host"] = {"name": move["source"], "uuid": fleet.documents[move["source"]]["uuid"]}
    begin = {migration.LIVE: "live_migrate"}.get(move["kind"], "resize")
    move["sequence"] = "resize_here" if move["destination"] == move["source"] else begin
    if move["sequence"] != "resize_here":
        move["candidates"] = [candidate for candidate in move["candidates"] if candidate["host"] != move["source"]]


def _text(error):
    text = "%(code)s: %(message)s" % error
    return "%s. %s" % (text, error["hint"]) if error.get("hint") else text


def _only_once(moves, errors):
    """Mark the moves of the second plan, and refuse those that would need a third."""
    for name, move in list(moves.items()):
        move["again"] = True
        if move["settles"]:
            errors[name] = moving.busy(moves.pop(name)).to_dict()
