# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances a run is about, and where they go: see plugins/modules/placement.py."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, List, NamedTuple

from ansible.errors import AnsibleError

from ..module_utils.conductor import (
    addressing,
    approval,
    gossip,
    groups,
    kept_entries,
    locks,
    lost_data,
    placing,
    quotas,
    take_over,
    unlisted,
    what_to_create,
)
from ..module_utils.conductor.fleet import Fleet
from ..module_utils.conductor.plan import CLAIMING, FAILED, MAX_ROUNDS, PLANNED, new_plan, prepare_round
from ..module_utils.conductor.procedures.create import close
from ..module_utils.conductor.unchanged import pass_over_unchanged
from ..module_utils.model import address_clash, catalog_schema, nics, ways_in
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.errors_of_instances import of_several
from ..module_utils.model.identity import project_of, uuid_of
from ..module_utils.placement.filters.query import QueryFilter, check_hint
from ..module_utils.placement.request import build_request
from . import acting, berth_name, end_of_create, failed_requests, receipts, seeds
from .answers_of_hosts import read_reports, replies
from .controller import ControllerAction, new_token, outcomes_reported, plan_result
from .driving import carry_out
from .inventory_variables import INSTANCE, is_true, kvm_hosts, listed, lost_hosts, variables, who_locked
from .plain import plain
from .screen import say, verbosity, warn
from .selection import check_hosts, check_own_name, in_inventory, known_hosts, names_by_uuid, selected, warn_of_lost
from .telling_owners import tell_owners
from .whose_variables import Catalogs

MOST_NAMED = 10  # instances without a place in the task's message
RUN = (
    "berth_approved",
    "berth_count",
    "berth_disks_of",
    "berth_lost_hosts",
    "berth_mend",
    "berth_min_count",
    "berth_name",
    "berth_rebuild_lost",
    seeds.SEED,
    "berth_strict_uniqueness",
    "berth_without_majority",
)


class _Run(NamedTuple):
    """What is the same for all instances. ``variables``: those of the run, in RUN and of the catalog."""

    task_vars: Dict[str, Any]
    variables: Dict[str, Any]
    catalogs: Catalogs
    fleet: Fleet
    lost: List[str]
    takes_over: bool
    is_plan: bool
    kept_addresses: Dict[str, Dict[str, str]]

    def least(self) -> int:
        """How many instances of a batch (berth_count) are created at least, or none; 0 where it is no batch."""
        count = self.variables.get("berth_count")
        return int(self.variables.get("berth_min_count") or count) if count else 0

    @property
    def needs_majority(self):
        """The owner of disks that are taken over is in a file beside them, which two runs cannot both change."""
        return not (self.takes_over or is_true(self.variables, "berth_without_majority"))


class _Request(NamedTuple):
    """``after_the_build``: what the plan says beside the request, {berth_state, mend}, each only if it is asked for.
    ``lacks``: ways_in.lacks(); ``kept``: what only its record has, see conductor/kept_entries.py;
    ``unsaid``: berth_name.unsaid()."""

    spec: Dict[str, Any]
    locked_by: Any  # berth_locked: true, or a name
    after_the_build: Dict[str, Any]
    lacks: List[str]
    kept: List[str]
    unsaid: List[str]


def _request(run, name, values, catalog, hosts):
    check_own_name(name, run.task_vars)
    places, unsaid = _places(run, name, values), berth_name.unsaid(run.task_vars, name, values)
    if berth_name.is_only_requested(run.task_vars, name):
        values, catalog = kept_entries.as_it_is(catalog, values, places)
    catalog, kept = kept_entries.with_kept(catalog, values, places)
    spec, seed = build_request({**values, "inventory_hostname": name}, catalog)
    check_hosts(spec, str(values.get("berth_availability_zone") or ""), hosts)
    if any(str(name).endswith(QueryFilter.__name__) for name in catalog.placement.get("enabled_filters") or ()):
        check_hint(spec["scheduler_hints"])
    # checked before anything is claimed: hosts use it only later
    after_the_build = {"mend": True} if is_true(values, "berth_mend") else {}
    if "berth_state" in values:
        after_the_build["berth_state"] = values["berth_state"]
    spec["batch_id"] = acting.RUN if run.variables.get("berth_count") else None
    return _Request(spec, who_locked(values), after_the_build, ways_in.lacks(spec, seed), kept, unsaid)


def _places(run, name, values):
    """Where the hosts have the instance; nowhere if its name is wrong, which its request tells."""
    with contextlib.suppress(BerthError):
        return run.fleet.places.get(uuid_of(name, values), ())
    return ()


def _silent(run):
    """The hosts that do not report what they hold, except lost ones, and why."""
    return {host: why for host, why in run.fleet.verdicts.items() if host not in run.lost}


def _say_unlisted(run, selected_uuids):
    """Name the instances that the whole inventory lacks, whatever is selected. With berth_name the run is not about it."""
    if run.takes_over or "berth_name" in run.task_vars or not unlisted.unlisted(run.fleet, selected_uuids):
        return
    names = [place["name"] for _uuid, place in unlisted.unlisted(run.fleet, names_by_uuid(run.task_vars))]
    if names:
        say(unlisted.line(names))


def _is_wanted(task_vars, name):
    """Whether the inventory describes the instance. One that only the inventory plugin knows exists: nothing to do."""
    return "berth_name" in task_vars or in_inventory(task_vars, name)


def _refused(faults, task_vars):
    """The invalid requests whose instance can be identified."""
    for name, error in faults:
        with contextlib.suppress(BerthError):
            project = project_of(variables(task_vars, name, ["berth_project"]))
            uuid_of(name, {"berth_project": project})
            yield {"name": name, "project": project, "code": error.code, "message": str(error)}


def _kept(keeping, task_vars, operation, decision):
    """The parts of the task's result about the receipt."""
    path = receipts.keep(keeping, task_vars, operation, decision)
    receipt = {"receipt": decision.receipt()} if keeping.directory and decision.result else {}
    return {**receipt, "receipt_file": path} if path else receipt


def _approved(run_variables):
    """berth_approved, checked; None where it is not given."""
    given = run_variables.get("berth_approved")
    return None if given is None else approval.APPROVED.check(plain(given), "berth_approved")


def _to_approve(instances, seed):
    """The approval, also in the form of set_stats for the next job of a workflow."""
    approved = approval.approval(instances, seed)
    return {
        "approval": approved,
        "ansible_stats": {"data": {"berth_approved": approved}, "per_host": False, "aggregate": True},
    }


def no_place(failures):
    first = next(iter(failures.values()))
    named = list(failures.items())[:MOST_NAMED]
    parts = ["%s: %s: %s" % (name, error["code"], error["message"]) for name, error in named]
    parts += ["and %d more" % (len(failures) - MOST_NAMED)] if len(failures) > MOST_NAMED else []
    return {"failed": True, "error": first, "error_code": first["code"], "msg": "; ".join(parts)}


class PlaceInstances(ControllerAction):
    argument_spec = {
        "instances": {"type": "list", "elements": "str", "default": []},
        "hosts": {"type": "list", "elements": "str"},
        "options": {"type": "dict", "default": {}},
        "seed": {"type": "int"},
        "receipt_dir": {"type": "path"},
        "plan": {"type": "bool", "default": False},
        "take_over": {"type": "bool", "default": False},
    }

    def reported(self, result):
        """The outcomes of a plan; None while the run continues; of no plan, or of an empty one, what was chosen."""
        parts = {name: result[name] for name in ("selections", "existing", "failures")}
        if self._task.args.get("plan") and any(parts.values()):
            return outcomes_reported(self, result)
        return {**parts, "hosts_left_out": result["verdicts"]}

    def act(self, args, task_vars):
        run_variables = self.own_variables(task_vars, RUN)
        berth_name.check_counts(run_variables)
        is_true(run_variables, "berth_mend")  # checked before anything is claimed: hosts use it only later
        keeping = receipts.settings(self, task_vars, args["receipt_dir"])
        hosts = kvm_hosts(task_vars, args["hosts"])
        names = [name for name in selected(task_vars, args["instances"], hosts) if _is_wanted(task_vars, name)]
        catalogs = Catalogs(task_vars, names, hosts, self._loader)
        run_variables.update(catalogs.run)
        catalog = catalogs.shared
        options = {**catalog.placement, **plain(args["options"])}
        fleet, lost = read_reports(task_vars, hosts), lost_hosts(run_variables)
        warn_of_lost(lost, known_hosts(task_vars, hosts), fleet)
        run = _Run(task_vars, run_variables, catalogs, fleet, lost, args["take_over"], args["plan"], {})
        requests = self._requests(run, names, known_hosts(task_vars, hosts))
        instances = self._to_place(run, requests)
        approved = _approved(run_variables)
        decision = placing.place(
            instances,
            fleet,
            options,
            catalog.aggregate_documents(plain(task_vars["groups"])),
            seed=seeds.seed(run_variables, args["seed"], approval.seed_of(approved or {})),
            explained=bool(keeping.most_bytes or verbosity() or not args["plan"]),
        )
        lacking = {name: requests[name].lacks for name, each in instances.items() if each["state"] == CLAIMING}
        lines = (*decision.forced(instances), *decision.unread(instances), *lost_data.warnings(instances))
        for line in (*lines, *ways_in.warnings(lacking)):
            warn(line)
        if approved is not None:
            approval.hold_to(instances, approved)
        return self._result_of(run, args["plan"], instances, decision, keeping)

    def _result_of(self, run, is_plan, instances, decision, keeping):
        result = self._result(instances, run.fleet)
        if result["failures"] or verbosity() or not is_plan:
            result["explanation"] = decision.explanation()
        self._say(result, shown=not is_plan)
        result.update(_kept(keeping, run.task_vars, "create" if is_plan else "place", decision))
        if run.least() and is_plan and result["selections"]:
            say("Requested together: %d, reservation %s" % (len(result["selections"]), acting.RUN))
        if is_plan:
            _say_unlisted(run, {instance["uuid"] for instance in instances.values()})
            return {**result, **self._plan(run, instances, decision.max_attempts)}
        result.update(_to_approve(instances, decision.seed))
        if result["failures"]:
            result.update(no_place(result["failures"]))
        return result

    def _to_place(self, run, requests):
        """The instances with all that placement needs to know of them; those that fail before it have their error."""
        instances = self._sorted_out(run, requests)
        groups.set_members(instances, run.fleet)
        groups.refuse_unseen(instances, run.fleet, _silent(run))
        lost_data.settle(instances, run.fleet, run.lost, listed(run.variables, "berth_rebuild_lost"))
        quotas.before_placement(instances, run.fleet, run.catalogs.shared.quotas)
        self._give_addresses(run, instances)
        if run.least():
            _hold_to_count(instances, run.least())
        return instances

    @staticmethod
    def _sorted_out(run, requests):
        """The instances of the plan: those that exist, those that cannot be created, and those to place."""
        strict = is_true(run.variables, "berth_strict_uniqueness")
        no_majority = not run.needs_majority
        specs = {name: request.spec for name, request in requests.items()}
        unsaid = {name: request.unsaid for name, request in requests.items()}
        instances = what_to_create.sort_out(specs, run.fleet, run.lost, strict, no_majority, unsaid)
        if run.takes_over:
            take_over.mark(instances, run.fleet, run.lost, run.variables.get("berth_disks_of"))
        locks.hold_locked(instances, {name: request.locked_by for name, request in requests.items()}, run.fleet)
        for name in requests.keys() & instances.keys():
            instances[name].update(requests[name].after_the_build)
            kept_entries.tell(instances[name], requests[name].kept)
        return instances

    def _requests(self, run, names, hosts):
        """The request of every instance. All errors in the input are reported together, before anything is done."""
        requests, faults, held = {}, [], {}
        for name in names:
            catalog = run.catalogs.of(name)
            values = variables(run.task_vars, name, (*INSTANCE, "berth_locked", "berth_mend"))
            try:
                request = _request(run, name, values, catalog, hosts)
            except BerthError as error:
                faults.append((name, error))
                continue
            error = address_clash.clash(request.spec, held)
            if error:
                faults.append((name, error))
                continue
            held.update({nic: {request.spec["uuid"]: name} for nic in nics.taken(request.spec["networks"])})
            requests[name] = request
        faults += self._taken_elsewhere(requests, names, run.catalogs)
        if faults and run.is_plan:
            failed_requests.settle(self, run.task_vars, "create", _refused(faults, run.task_vars))
        if faults:
            raise of_several(faults)
        return requests

    def _taken_elsewhere(self, requests, names, catalogs):
        """[(name, error)]: addresses of instances that are not selected count too: those may be on a silent host."""
        others = sorted(set(catalogs.instances) - set(names))
        if "berth_networks" in catalogs.given or not others or not self._fixed(requests, catalogs):
            return []
        held = self._fixed(others, catalogs)
        errors = ((name, address_clash.clash(request.spec, held)) for name, request in requests.items())
        return [(name, error) for name, error in errors if error]

    @staticmethod
    def _fixed(names, catalogs):
        """Who has which fixed address and MAC address in the inventory."""
        owners = {}
        for name in names:
            try:
                value = catalogs.value(name, "berth_networks") or []
                own = catalog_schema.INSTANCE["berth_networks"].check(value, "berth_networks")
                fixed = addressing.fixed(own, catalogs.of(name).networks, name)
            except (BerthError, AnsibleError):
                continue  # an instance that is not selected here; a run that selects it reports the error
            for address, owner in fixed.items():
                owners.setdefault(address, owner)
        return owners

    def _give_addresses(self, run, instances):
        """Choose addresses from pools: never one that a host reports or that the inventory gives to an instance."""
        on_hosts = {host: document["instances"] for host, document in run.fleet.documents.items()}
        guests = addressing.of_guests(on_hosts)
        addressing.refuse_taken(instances, guests)
        silent = _silent(run)
        if not any(nic.get("pool") for instance in instances.values() for nic in instance["spec"]["networks"]):
            addressing.give(instances, {}, silent)
            return
        held = addressing.held_by(instances, on_hosts)
        kept = {**guests, **self._fixed(run.catalogs.instances, run.catalogs)}
        run.kept_addresses.update(addressing.reserved(instances, kept))
        for address, owner in kept.items():
            held.setdefault(address, owner)
        addressing.give(instances, held, silent)

    def _plan(self, run, instances, max_attempts):
        if max_attempts > MAX_ROUNDS:
            raise InvalidInput(
                "berth_placement.max_attempts", max_attempts, "at most %d, the rounds of playbook create" % MAX_ROUNDS
            )
        hosts = {name: {"uuid": uuid} for name, uuid in run.fleet.uuids().items()}
        if self._task.check_mode:
            for instance in instances.values():
                if instance["state"] == CLAIMING:
                    instance.update(state=PLANNED, token=new_token())
        hosts.update({name: {"reason": reason} for name, reason in run.fleet.verdicts.items()})
        plan = new_plan(acting.RUN, instances, hosts, max_attempts, gossip.whereabouts(run.fleet))
        plan["members"] = run.fleet.member_lists if run.needs_majority else {}
        plan["unprepared"], plan["kept_addresses"] = run.fleet.unprepared(), run.kept_addresses
        plan["least"] = run.least()
        prepare_round(plan, new_token)
        answers = replies(run.task_vars, "__berth_facts")
        looks = {host: plain(reply.get("looks", ())) for host, reply in answers.items()}
        pass_over_unchanged(plan, looks)
        if not plan["claims"]:  # else all hosts are told after the claims
            tell_owners(self, run.task_vars, plan["told"], plan["reachable"])
        goes_on = plan["claims"] or plan["build"] or not plan["instances"]
        if goes_on:
            return plan_result(plan)
        carry_out(self, run.task_vars, close(plan))
        results = end_of_create.end(self, run.task_vars, plan)
        results["ansible_facts"].update(plan_result(plan)["ansible_facts"])
        return results

    def _say(self, result, shown):
        for name, reason in sorted(result["verdicts"].items() if shown else ()):
            warn("Host %s is left out: %s" % (name, reason))
        if result["failures"] or verbosity() or shown:
            say(*result["explanation"].splitlines())

    def _result(self, instances, fleet):
        chosen = ("uuid", "host", "host_uuid", "alternates", "allocation", "limits")
        return {
            "selections": {
                name: {key: instance.get(key) for key in chosen}
                for name, instance in instances.items()
                if instance["state"] != FAILED and not instance.get("existing")
            },
            "existing": {name: instance["host"] for name, instance in instances.items() if instance.get("existing")},
            "failures": {
                name: instance["error"] for name, instance in instances.items() if instance["state"] == FAILED
            },
            "verdicts": fleet.verdicts,
            "_ansible_verbose_override": True,
        }


def _hold_to_count(instances, least):
    reduced = quotas.hold_to_count(instances, least)
    if reduced:
        say("The number of instances is %s" % reduced)
