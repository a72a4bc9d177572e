# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances a run is about, and where they go: see plugins/modules/placement.py."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ansible.utils.vars import load_extra_vars

from ..module_utils.conductor import approval, cloning, kept_entries, lost_data, placing, take_over, unlisted
from ..module_utils.conductor.fleet import Fleet
from ..module_utils.conductor.locate import holders
from ..module_utils.conductor.plan import CLAIMING, FAILED, MAX_ROUNDS
from ..module_utils.conductor.procedures.plan_create import Request, Wanted, begin, to_place
from ..module_utils.conductor.quotas import after_the_claims
from ..module_utils.conductor.registry.embedded import Embedded
from ..module_utils.conductor.registry.engine import Known, OnEngine, seen_by
from ..module_utils.conductor.registry.hosts import Seen
from ..module_utils.model import address_clash, cloud_init, fleet_hints, nics, ways_in
from ..module_utils.model.catalog import Catalog
from ..module_utils.model.errors import BerthError, InvalidInput, together
from ..module_utils.model.errors_of_instances import each_once, of_several
from ..module_utils.model.identity import IDENTITY, check_name, project_of, uuid_of
from ..module_utils.model.lifecycle import CLAIM
from ..module_utils.placement.filters.query import QueryFilter, check_hint
from ..module_utils.placement.request import build_request
from . import (
    acting,
    backup_runs,
    berth_name,
    beside_catalog,
    end_of_create,
    receipts,
    registry_access,
    remembered_failures,
    uploads,
)
from .answers_of_hosts import FOUND, all_hosts, known_of, none_answered, read_reports, reader, replies
from .controller import ControllerAction, documented, new_token, outcomes_reported, plan_result
from .documents import no_mapping
from .driving import carry_out
from .inventory_variables import (
    CLONE_OF,
    INSTANCE,
    ITS_HOST,
    fenced,
    is_true,
    kvm_hosts,
    listed,
    lost_hosts,
    variables,
    who_locked,
)
from .plain import plain
from .screen import say, verbosity, warn
from .selection import (
    check_hosts,
    check_no_group,
    in_inventory,
    known_hosts,
    names_by_uuid,
    not_found,
    selected,
    warn_of_lost,
)
from .whose_variables import Catalogs, fixed_addresses

MOST_NAMED = 10  # instances without a place in the task's message
RUN = (
    "berth_approved",
    "berth_count",
    "berth_disks_of",
    "berth_evacuate_from_backup",
    "berth_lost_hosts",
    "berth_mend",
    "berth_min_count",
    "berth_name",
    "berth_rebuild_lost",
    receipts.SEED,
    "berth_strict_uniqueness",
    "berth_without_majority",
)


class _Registry(NamedTuple):
    """``known``: what it knew of the instances, ``seen``: of the hosts."""

    access: registry_access.Access
    known: Known
    seen: Mapping[str, Seen]


class _Run(NamedTuple):
    """What is the same for all instances. ``variables``: those of the run, in RUN and of the catalog."""

    task_vars: Dict[str, Any]
    variables: Dict[str, Any]
    catalogs: Catalogs
    fleet: Fleet
    lost: List[str]
    takes_over: bool
    is_plan: bool
    registry: Optional["_Registry"]

    def least(self) -> int:
        """How many instances of a batch (berth_count) are created at least, or none; 0 where it is no batch."""
        count = self.variables.get("berth_count")
        return int(self.variables.get("berth_min_count") or count) if count else 0

    @property
    def needs_majority(self):
        """The owner of disks that are taken over is in a file beside them, which two runs cannot both change."""
        return not (self.takes_over or is_true(self.variables, "berth_without_majority"))


def _request(run, name, values, catalog, hosts):
    """(its Request, what ways_in.lacks() of it)."""
    check_no_group("inventory_hostname", name, run.task_vars["groups"] if "berth_name" in run.task_vars else ())
    source = values.pop(CLONE_OF, None)
    cloned = None if source is None else _uuid_of_source(run, source)
    places, unsaid = _places(run.fleet, name, values), berth_name.unsaid(run.task_vars, name, values)
    if berth_name.is_only_requested(run.task_vars, name):
        if not places and "berth_flavor" not in values:
            holders(run.fleet, name, uuid_of(name, values), run.lost)  # raises where it may be, if that is known
        its = places or (run.fleet.places.get(cloned, ()) if cloned else places)
        if cloned and not its and "berth_flavor" not in values:
            holders(run.fleet, source, cloned, run.lost)
            raise not_found(run.task_vars, run.fleet, source)
        values = cloning.as_source(values, its) if cloned else values
        values, catalog = kept_entries.as_it_is(catalog, values, its)
    catalog, kept = kept_entries.with_kept(catalog, values, places)
    spec, seed = build_request({**values, "inventory_hostname": name}, catalog)
    if cloned:
        spec = cloning.with_source(spec, run.fleet, source, cloned, run.lost)
    check_hosts(spec, str(values.get("berth_availability_zone") or ""), hosts)
    if any(str(name).endswith(QueryFilter.__name__) for name in catalog.placement.get("enabled_filters") or ()):
        check_hint(spec["scheduler_hints"])
    # checked before anything is claimed: hosts use it only later
    after_the_build = {"mend": True} if is_true(values, "berth_mend") else {}
    if "berth_state" in values:
        after_the_build["berth_state"] = values["berth_state"]
    spec["batch_id"] = acting.RUN if run.variables.get("berth_count") else None
    faults = [*ways_in.lacks(spec, seed), *_unread_configs(seed)]
    return Request(spec, who_locked(values), after_the_build, kept, unsaid), faults


def _unread_configs(seed):
    """A sentence for each cloud-config that cloud-init, which reads YAML as we do, would pass over."""
    for text in cloud_init.cloud_configs(seed.get("user_data") or ""):
        fault = None if text.startswith("## template:") else no_mapping(text)
        if fault:
            yield "cloud-init will pass over its berth_user_data, which is %s. %s" % (
                fault,
                fleet_hints.check_cloud_config(),
            )


def _staying(extra_vars, existing):
    """A line for each option of -e that says on which host an instance is made, of those of ``existing`` that are on another."""
    for option in sorted(ITS_HOST & extra_vars.keys()):
        hosts, wanted = listed(extra_vars, option), option != "berth_ignore_hosts"
        names = [name for name, host in sorted(existing.items()) if hosts and (host in hosts) is not wanted]
        if names:
            where = ", ".join("%s on %s" % (name, existing[name]) for name in names[:MOST_NAMED])
            hint = fleet_hints.move_existing(names[0], hosts[0] if option == "berth_target_host" else None)
            yield "-e: %s does nothing to what exists, which stays: %s. %s" % (option, where, hint)


def _uuid_of_source(run, name):
    """The inventory need not have the instance that was copied any more."""
    check_name(name, CLONE_OF)
    return uuid_of(name, variables(run.task_vars, name, IDENTITY) if name in run.task_vars["hostvars"] else {})


def _places(fleet, name, values):
    """Where the hosts have the instance; nowhere if its name is wrong, which its request tells."""
    with contextlib.suppress(BerthError):
        return fleet.places.get(uuid_of(name, values), ())
    return ()


def _was_on(run, name):
    """Whether a lost host was the last to own it, or an earlier run of this has begun with it."""
    with contextlib.suppress(BerthError):
        uuid = uuid_of(name, variables(run.task_vars, name, IDENTITY))
        known = run.fleet.notes_on(uuid).known
        places = run.fleet.places.get(uuid, ())
        begun = any(place["role"] == CLAIM or take_over.is_being_restored(place) for place in places)
        return begun or known is not None and known.host in run.lost
    return True  # what is wrong with its name is told


def _is_owned(fleet, uuid):
    return any(place["role"] != CLAIM for place in fleet.places.get(uuid, ()))


def _beside_disks(run):
    """uuid -> what each host sees beside the disks of an instance to take over."""
    found = {}
    for host, answer in replies(run.task_vars, FOUND).items() if run.takes_over else ():
        for told in plain(answer.get("attached") or ()):
            found.setdefault(told["uuid"], []).append((host, told))
    return found


def _say_unlisted(run, selected_uuids):
    """Name the instances that the whole inventory lacks, whatever is selected. With berth_name the run is not about it."""
    if run.takes_over or "berth_name" in run.task_vars or not unlisted.names(run.fleet, selected_uuids):
        return
    names = unlisted.names(run.fleet, names_by_uuid(run.task_vars))
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


def told_of(error):
    """Of a failed instance of a plan, whose message has all parts."""
    return "%s: %s" % (error["code"], error["message"])


def no_place(failures):
    first = next(iter(failures.values()))
    named = list(failures.items())[:MOST_NAMED]
    parts = ["%s: %s" % (name, told_of(error)) for name, error in named]
    parts += ["and %d more" % (len(failures) - MOST_NAMED)] if len(failures) > MOST_NAMED else []
    return {"failed": True, "error": first, "error_code": first["code"], "msg": "; ".join(parts)}


class PlaceInstances(ControllerAction):
    argument_spec = documented("placement")

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
        fleet, registry = self._fleet(task_vars, hosts)
        places = functools.partial(_places, fleet)
        with beside_catalog.told_with_all(task_vars, names, places):
            catalogs = Catalogs(task_vars, names, hosts, self._loader)
        run_variables.update(catalogs.run)
        catalog = catalogs.shared
        options = {**catalog.placement, **plain(args["options"])}
        lost = [*lost_hosts(run_variables), *fenced(task_vars)["hosts"]]
        warn_of_lost(lost, known_hosts(task_vars, hosts), fleet)
        run = _Run(task_vars, run_variables, catalogs, fleet, lost, args["take_over"], args["plan"], registry)
        if args["take_over"] and fenced(task_vars)["hosts"]:
            names = [name for name in names if _was_on(run, name)]
        (requests, lacks), aggregates = together(
            [
                lambda: self._requests(run, names, known_hosts(task_vars, hosts)),
                lambda: placing.aggregates_of(catalog, plain(task_vars["groups"]), options),
            ]
        )
        wanted = self._wanted(run, requests)
        if args["take_over"]:
            wanted = dataclasses.replace(wanted, backups=self._backups(run, wanted))
        placed = to_place(wanted, fleet)
        if placed.reduced:
            say("The number of instances is %s" % placed.reduced)
        instances = placed.instances
        approved = _approved(run_variables)
        decision = placing.place(
            instances,
            fleet,
            options,
            aggregates,
            seed=receipts.seed(run_variables, args["seed"], approval.seed_of(approved or {})),
            explained=bool(keeping.most_bytes or verbosity() or not args["plan"]),
        )
        for line in (
            *catalog.unknown_hosts(known_hosts(task_vars, hosts)),
            *self._warnings(run, instances, lacks, decision),
        ):
            warn(line)
        if approved is not None:
            approval.hold_to(instances, approved)
        return self._result_of(run, wanted, placed, decision, keeping)

    def _warnings(self, run, instances, lacks, decision):
        """Of images to upload only where nothing is built: otherwise the build tells it."""
        new = [name for name, each in instances.items() if each["state"] == CLAIMING]
        existing = {name: each["host"] for name, each in instances.items() if each.get("existing")}
        builds = run.is_plan and not self._task.check_mode
        files = () if builds else uploads.missing(instances[name]["spec"] for name in new)
        lines = (*decision.forced(instances), *decision.unread(instances), *lost_data.warnings(instances))
        stay = () if run.takes_over else _staying(load_extra_vars(self._loader), existing)
        return (*lines, *files, *stay, *ways_in.warnings({name: lacks[name] for name in new}))

    def _backups(self, run, wanted):
        """uuid -> the backups of each instance to take over whose disks no host sees."""
        answers = replies(run.task_vars, FOUND)
        asked = all("attached" in answers.get(host, ()) for host in run.fleet.documents)
        uuids = {
            name: request.spec["uuid"]
            for name, request in wanted.requests.items()
            if asked and request.spec["uuid"] not in wanted.seen and not _is_owned(run.fleet, request.spec["uuid"])
        }
        if not uuids or not run.fleet.documents:
            return {}
        return backup_runs.of_lost(self, run.task_vars, list(uuids), uuids, min(run.fleet.documents))

    def _fleet(self, task_vars, hosts):
        """All hosts, and what the registry of this run knows if it has one. Raises NoHostAnswered if nothing is known of any."""
        access, known = registry_access.of_run(self, task_vars, hosts), known_of(task_vars)
        if not access:
            fleet = read_reports(task_vars, hosts)
            if fleet.verdicts and not fleet.documents:
                raise none_answered(fleet.verdicts)
            return fleet, None
        if known is None:
            raise InvalidInput(FOUND, None, "what read_hosts returns for operation: place, over a registry")
        fleet, seen = carry_out(self, task_vars, all_hosts(task_vars, hosts, known), engine=access)[0]
        return fleet, _Registry(access, known, seen)

    def _result_of(self, run, wanted, placed, decision, keeping):
        instances, is_plan = placed.instances, run.is_plan
        result = self._result(instances, run.fleet)
        if result["failures"] or verbosity() or not is_plan:
            result["explanation"] = decision.explanation()
        self._say(result, shown=not is_plan)
        result.update(_kept(keeping, run.task_vars, "create" if is_plan else "place", decision))
        if run.least() and is_plan and result["selections"]:
            say("Requested together: %d, reservation %s" % (len(result["selections"]), acting.RUN))
        if is_plan:
            _say_unlisted(run, {instance["uuid"] for instance in instances.values()})
            return {**result, **self._plan(run, wanted, placed, decision.max_attempts)}
        result.update(_to_approve(instances, decision.seed))
        if result["failures"]:
            result.update(no_place(result["failures"]))
        return result

    def _wanted(self, run, requests):
        given = run.variables
        return Wanted(
            run=acting.RUN,
            requests=requests,
            lost=run.lost,
            strict=is_true(given, "berth_strict_uniqueness"),
            needs_majority=run.needs_majority,
            rebuilt=listed(given, "berth_rebuild_lost"),
            takes_over=run.takes_over,
            disks_of=given.get("berth_disks_of"),
            from_backup=is_true(given, "berth_evacuate_from_backup"),
            seen=_beside_disks(run),
            quotas=run.catalogs.shared.quotas,
            least=run.least(),
            fixed=lambda: fixed_addresses(run.catalogs.instances, run.catalogs),
            dry=run.is_plan and self._task.check_mode,
            used=run.registry.known.used_beside(run.lost) if run.registry else None,
            ended=run.registry.known.ended() if run.registry else {},
        )

    def _requests(self, run, names, hosts):
        """({name: its request}, {name: what it lacks}). All errors in the input are reported together, before anything is done."""
        requests, lacks, faults, held = {}, {}, [], {}
        for name in names:
            with beside_catalog.told_with_all(run.task_vars, names, functools.partial(_places, run.fleet)):
                catalog = run.catalogs.of(name)
            try:
                values = variables(run.task_vars, name, (*INSTANCE, "berth_locked", "berth_mend", CLONE_OF))
                request, lacks[name] = _request(run, name, values, catalog, hosts)
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
            remembered_failures.settle(self, run.task_vars, "create", _refused(faults, run.task_vars))
        if faults:
            raise of_several(faults)
        return requests, lacks

    def _taken_elsewhere(self, requests, names, catalogs):
        """[(name, error)]: addresses of instances that are not selected count too: those may be on a silent host."""
        others = sorted(set(catalogs.instances) - set(names))
        if "berth_networks" in catalogs.given or not others or not fixed_addresses(requests, catalogs):
            return []
        held = fixed_addresses(others, catalogs)
        errors = ((name, address_clash.clash(request.spec, held)) for name, request in requests.items())
        return [(name, error) for name, error in errors if error]

    def _plan(self, run, wanted, placed, max_attempts):
        if max_attempts > MAX_ROUNDS:
            raise InvalidInput(
                "berth_placement.max_attempts", max_attempts, "at most %d, the rounds of playbook create" % MAX_ROUNDS
            )
        answers = replies(run.task_vars, FOUND)
        digests = {host: answer.get("digests") for host, answer in answers.items()}
        settled = {host: plain(answer.get("looks", ())) for host, answer in answers.items() if not run.registry}
        planning = begin(wanted, placed, run.fleet, max_attempts, new_token, digests, settled)
        plan = carry_out(self, run.task_vars, planning)[0]
        if run.registry:
            plan["registry"] = seen_by(run.registry.known, plan["hosts"], run.registry.seen, run.lost)
        goes_on = plan["claims"] or plan["build"] or not plan["instances"]
        if goes_on:
            return plan_result(plan)
        registry, access = self.registry_of(run.task_vars, run.variables)
        carry_out(self, run.task_vars, registry.release(plan), engine=access)
        results = end_of_create.end(self, run.task_vars, plan)
        results["ansible_facts"].update(plan_result(plan)["ansible_facts"])
        return results

    def registry_of(self, task_vars, values):
        """(who decides over the claims of a plan, its engine if it has one). ``values``: the variables of the run."""
        catalog, hosts = Catalog.from_variables(values), kvm_hosts(task_vars, self._task.args.get("hosts"))
        access = registry_access.of_run(self, task_vars, hosts)
        lost = [*lost_hosts(values), *fenced(task_vars)["hosts"]]
        if access:
            place = functools.partial(self._place_again, task_vars, catalog)
            left = [host for host in hosts if host not in lost]
            return OnEngine(catalog.quotas, place, left, reader(task_vars, hosts)), access
        digests = {host: reply.get("digests") for host, reply in replies(task_vars, FOUND).items()}
        return Embedded(digests, lost, after_the_claims(catalog.quotas) if values.get("berth_quotas") else None), None

    def _place_again(self, task_vars, catalog, instances, fleet):
        """Other hosts for instances whose hosts other runs have filled meanwhile; none that nobody approved."""
        given = self.own_variables(task_vars, RUN)
        approved = _approved(given)
        seed = receipts.seed(given, None, approval.seed_of(approved or {}))
        aggregates = catalog.aggregate_documents(plain(task_vars["groups"]))
        placing.place(instances, fleet, catalog.placement, aggregates, seed=seed, explained=False)
        if approved is not None:
            approval.hold_again(instances, approved)

    def _say(self, result, shown):
        for name, reason in sorted(result["verdicts"].items() if shown else ()):
            warn("Host %s is left out: %s" % (name, reason))
        if result["failures"] or verbosity() or shown:
            say(*result["explanation"].splitlines())
        others = [
            (name, told_of(error)) for name, error in result["failures"].items() if error["code"] != "NoValidHost"
        ]
        say(*(each_once(others) if shown else ()))  # no host was asked about these, so nothing above explains them
        for name, host in sorted(result["existing"].items() if shown else ()):
            say("%s is on %s already: berth.kvm.why says why" % (name, host))

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
