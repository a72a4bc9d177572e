# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be done about each instance that a run moves: see plugins/modules/plan_moves.py."""

from __future__ import annotations

from ..module_utils.conductor import closing_table, outcome_of_move, placing
from ..module_utils.conductor.errors import KvmHostNotFound
from ..module_utils.conductor.plan import FAILED
from ..module_utils.conductor.procedures.plan_moves import KINDS, Subject, Wanted, plan_moves
from ..module_utils.model.identity import IDENTITY, project_of, uuid_of
from ..module_utils.placement.request import resize_request
from . import acting, move_options, receipts, registry_access
from .answers_of_hosts import all_hosts, known_of, read_reports, replies
from .controller import ControllerAction, documented, new_token
from .driving import carry_out
from .inventory_differences import InventoryDifferences, owner
from .inventory_variables import kvm_hosts, lost_hosts, raw_vars, variables, who_locked
from .locating import shown
from .plain import plain
from .screen import say, verbosity, warn
from .selection import check_explicit, known_hosts, not_found, selected, warn_of_lost
from .whose_variables import Catalogs

GOES_TO = "__berth_goes_to"  # of an instance: the host that a plan sends it to
# Of an instance in a plan: uuids of the others of its affinity group that go there, too; whether a return brings it home.
GOES_WITH, DRAINS = "__berth_goes_with", "__berth_drains"


class PlanMoves(ControllerAction):
    argument_spec = documented("plan_moves")

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
        fleet, told = read_reports(task_vars, hosts), replies(task_vars, "__berth_facts")
        names = selected(task_vars, args["instances"], hosts)
        check_explicit(self, task_vars, names, args["selected"], args["action"])
        catalogs = Catalogs(task_vars, names, hosts, self._loader)
        warn_of_lost(lost_hosts(catalogs.run), known_hosts(task_vars, hosts), fleet)
        everywhere = self._everywhere(args["action"], task_vars, hosts)
        wanted = self._wanted(args, task_vars, (fleet, everywhere), told, catalogs, goals)
        planned = carry_out(self, task_vars, plan_moves(names, fleet, views_of(told, fleet), wanted))[0]
        for line in planned.notes:
            say(line)
        for text in planned.warnings:
            warn(text)
        facts = self._facts(planned, fleet, args["action"])
        inventory = InventoryDifferences(task_vars, names, hosts, self._loader)
        left = {
            name: _as_left(args["action"], move, fleet.places.get(move["uuid"], ()))
            for name, move in planned.moves.items()
        }
        facts["shown"] = {name: shown(fleet, planned.uuids[name]) for name in planned.errors if name in planned.uuids}
        facts["differs"] = {name: inventory.all_differences(name, places) for name, places in left.items()}
        return facts

    def _everywhere(self, action, task_vars, hosts):
        """Over a registry all hosts as it has them, if one may be chosen."""
        known = known_of(task_vars)
        if known is None or action not in KINDS:
            return None
        access = registry_access.of_run(self, task_vars, hosts)
        return carry_out(self, task_vars, all_hosts(task_vars, hosts, known), engine=access)[0][0]

    def _wanted(self, args, task_vars, fleets, told, catalogs, goals):
        fleet, everywhere = fleets
        own = self.own_variables(task_vars, ["berth_migration"])

        def subject_of(name):
            values = variables(task_vars, name, ("berth_flavor", "berth_locked", *IDENTITY))

            def request_of(spec, has_begun):
                return resize_request(spec, values, catalogs.of(name), allow_disabled=has_begun)

            return Subject(uuid_of(name, values), who_locked(values), request_of, project_of(values))

        def choose(instances, resized):
            self._choose(instances, resized, args, task_vars, everywhere or fleet, catalogs.shared, goals is not None)

        def nowhere(name, error):
            return error if fleet.verdicts else not_found(task_vars, fleet, name)

        return Wanted(
            action=args["action"],
            run=acting.RUN,
            subject_of=subject_of,
            choose=choose,
            nowhere=nowhere,
            new_token=new_token,
            migration=move_options.MIGRATION.check(own.get("berth_migration") or "auto", "berth_migration"),
            target=args["target"],
            targets=_targets(task_vars, catalogs.instances) if args["action"] == "migrate" else {},
            together=_given(task_vars, catalogs.instances, GOES_WITH),
            lost=lost_hosts(catalogs.run),
            quotas=catalogs.shared.quotas,
            digests={host: answer.get("digests") for host, answer in told.items()},
            same_host=args["allow_same_host"],
            drains=_given(task_vars, catalogs.instances, DRAINS),
            goals=goals,
            known=known_of(task_vars),
            everywhere=everywhere,
            dry=self._task.check_mode,
        )

    def _choose(self, instances, resized, args, task_vars, fleet, catalog, again):
        """Have placement choose a host for each, and say why where one has none."""
        keeping = receipts.settings(self, task_vars)
        decision = placing.place(
            instances,
            fleet,
            catalog.placement,
            catalog.aggregate_documents(plain(task_vars["groups"])),
            seed=receipts.seed(self.own_variables(task_vars, [receipts.SEED])),
            explained=bool(keeping.most_bytes or verbosity()),
        )
        if verbosity() or any(instance.get("state") == FAILED for instance in instances.values()):
            may_stay = {name: host for name, host in resized.items() if args["target"] in (None, host)}
            say(*decision.explanation(moves=True, may_stay=may_stay).splitlines())
        receipts.keep(keeping, task_vars, args["action"], decision, again)

    def _facts(self, planned, fleet, action):
        """The plan that the playbook follows; also shows a line for each instance."""
        moves, errors = planned.moves, planned.errors
        for name, move in sorted(moves.items()):
            if move["sequence"]:
                say(outcome_of_move.plan_line(name, action, move))
        return {
            "id": new_token(),
            "action": action,
            "names": sorted({*moves, *errors}),
            "left_out": fleet.verdicts,
            "moves": moves,
            "settle": [name for name, move in moves.items() if move["settles"]],
            "act": [name for name, move in moves.items() if move["sequence"] and not move["settles"]],
            "errors": {name: closing_table.text_of(error) for name, error in errors.items()},
            "error_details": {name: closing_table.details_of(error) for name, error in errors.items()},
            "ended": planned.ended() if action == "delete" else [],
        }


def _targets(task_vars, names):
    """name -> the host that a plan of the run sends it to."""
    return {name: str(host) for name, host in _given(task_vars, names, GOES_TO).items()}


def _given(task_vars, names, variable):
    """name -> what a plan of the run says of it, where it does."""
    known = {name: raw_vars(task_vars, name).get(variable) for name in names}
    return {name: value for name, value in known.items() if value}


def views_of(told, fleet):
    return {
        host: {view["uuid"]: view for view in plain(answer["moves"])}
        for host, answer in told.items()
        if host in fleet.documents and "moves" in answer
    }


def _as_left(action, move, places):
    """The places of an instance as the move leaves them, to compare with the inventory; none after a delete."""
    if not move["sequence"] or not places:
        return places
    return [] if action == "delete" else [outcome_of_move.afterwards(action, move, owner(places) or places[0])]
