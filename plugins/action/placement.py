# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action placement: see plugins/modules/placement.py for its documentation."""

from __future__ import annotations

import contextlib

from ansible.errors import AnsibleError

from ..module_utils.conductor import (
    addressing,
    approval,
    groups,
    locks,
    placing,
    quotas,
    take_over,
    telling,
    volumes,
    what_to_create,
)
from ..module_utils.conductor.plan import CLAIMING, FAILED, MAX_ROUNDS, PLANNED, new_plan, prepare_round
from ..module_utils.conductor.unchanged import pass_over_unchanged
from ..module_utils.model import address_clash, catalog_schema, nics
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.errors_of_instances import of_several
from ..module_utils.model.identity import project_of, uuid_of
from ..module_utils.placement.options import oldest_facts
from ..module_utils.placement.request import build_request
from ..plugin_utils import acting, failed_requests, receipts
from ..plugin_utils.answers_of_hosts import read_reports, replies
from ..plugin_utils.berth_name import check_counts
from ..plugin_utils.controller import ControllerAction, new_token, plan_result
from ..plugin_utils.inventory_variables import INSTANCE, is_true, kvm_hosts, lost_hosts, variables, who_locked
from ..plugin_utils.plain import plain
from ..plugin_utils.screen import say, verbosity, warn
from ..plugin_utils.selection import check_hosts, check_own_name, in_inventory, known_hosts, selected, warn_of_lost
from ..plugin_utils.telling_owners import tell_owners
from ..plugin_utils.whose_variables import Catalogs

TOLD = 10  # instances without a place, of which the task's own line tells
RUN = (
    "berth_approved",
    "berth_count",
    "berth_disks_of",
    "berth_lost_hosts",
    "berth_mend",
    "berth_min_count",
    "berth_name",
    "berth_strict_uniqueness",
)


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


def _kept(keeping, operation, decision):
    """The parts of the task's result about the receipt."""
    path = receipts.keep(keeping, operation, decision)
    told = {"receipt": decision.receipt()} if keeping.directory and decision.result else {}
    return {**told, "receipt_file": path} if path else told


def _to_approve(instances):
    """The approval, also in the form of set_stats for the next job of a workflow."""
    found = approval.approval(instances)
    return {
        "approval": found,
        "ansible_stats": {"data": {"berth_approved": found}, "per_host": False, "aggregate": True},
    }


def no_place(failures):
    """The failure of the task if instances have no place."""
    first = next(iter(failures.values()))
    told = ["%s: %s: %s" % (name, error["code"], error["message"]) for name, error in list(failures.items())[:TOLD]]
    told += ["and %d more" % (len(failures) - TOLD)] if len(failures) > TOLD else []
    return {"failed": True, "error": first, "error_code": first["code"], "msg": "; ".join(told)}


class ActionModule(ControllerAction):
    argument_spec = {
        "instances": {"type": "list", "elements": "str", "default": []},
        "hosts": {"type": "list", "elements": "str"},
        "options": {"type": "dict", "default": {}},
        "seed": {"type": "int", "default": 0},
        "receipt_dir": {"type": "path"},
        "plan": {"type": "bool", "default": False},
        "take_over": {"type": "bool", "default": False},
    }

    def reported(self, result):
        """None for a plan, since the run continues, unless the plan is empty."""
        parts = {name: result[name] for name in ("selections", "existing", "failures")}
        return (
            None
            if self._task.args.get("plan") and any(parts.values())
            else {**parts, "hosts_left_out": result["verdicts"]}
        )

    def act(self, args, task_vars):
        given = self.own_variables(task_vars, RUN)
        check_counts(given)
        is_true(given, "berth_mend")  # checked before anything is claimed: hosts use it only later
        keeping = receipts.settings(self, task_vars, args["receipt_dir"])
        hosts = kvm_hosts(task_vars, args["hosts"])
        names = [name for name in selected(task_vars, args["instances"], hosts) if _is_wanted(task_vars, name)]
        catalogs = Catalogs(task_vars, names, hosts, self._loader)
        given.update(catalogs.run)
        catalog = catalogs.shared
        options = {**catalog.placement, **plain(args["options"])}
        fleet = read_reports(task_vars, hosts, oldest_facts(options))
        self._lost = lost_hosts(given)
        warn_of_lost(self._lost, known_hosts(task_vars, hosts), fleet)
        requests = self._requests(
            names, task_vars, catalogs, known_hosts(task_vars, hosts), acting.RUN if given.get("berth_count") else None
        )
        self._takes_over = args["take_over"]
        instances = self._to_place(requests, fleet, catalogs, given)
        decision = placing.place(
            instances,
            fleet,
            options,
            catalog.aggregate_documents(plain(task_vars["groups"])),
            args["seed"],
            explained=bool(keeping.most_bytes or verbosity() or not args["plan"]),
        )
        for line in (*decision.forced(instances), *decision.unread(instances)):
            warn(line)
        if given.get("berth_approved") is not None:
            approval.hold_to(instances, approval.APPROVED.check(plain(given["berth_approved"]), "berth_approved"))
        result = self._result(instances, fleet)
        if result["failures"] or verbosity() or not args["plan"]:
            result["explanation"] = decision.explanation()
        self._say(result, shown=not args["plan"])
        result.update(_kept(keeping, "create" if args["plan"] else "place", decision))
        if args["plan"]:
            result.update(self._plan(task_vars, instances, fleet, decision.max_attempts))
        else:
            result.update(_to_approve(instances))
        if result["failures"] and not args["plan"]:
            result.update(no_place(result["failures"]))
        return result

    def _to_place(self, requests, fleet, catalogs, given):
        """The instances with all that placement needs to know of them; those that fail before it have their error."""
        instances = self._sorted_out(requests, fleet, given)
        groups.set_members(instances, fleet)
        volumes.settle(instances, fleet, self._lost)
        quotas.before_placement(instances, fleet, catalogs.shared.quotas)
        self._give_addresses(instances, fleet, catalogs)
        if given.get("berth_count"):
            _hold_to_count(instances, int(given.get("berth_min_count") or given["berth_count"]))
        return instances

    def _sorted_out(self, requests, fleet, given):
        """The instances of the plan: those that exist, those that cannot be created, and those to place."""
        strict = is_true(given, "berth_strict_uniqueness")
        instances = what_to_create.sort_out(requests, fleet, self._lost, strict)
        if self._takes_over:
            take_over.mark(instances, fleet, self._lost, given.get("berth_disks_of"))
        locks.hold_locked(instances, self._locks, fleet)
        for name in self._states.keys() & instances.keys():
            instances[name]["berth_state"] = self._states[name]
        for name in self._mends & instances.keys():
            instances[name]["mend"] = True
        return instances

    def _requests(self, names, task_vars, catalogs, hosts, batch_id):
        """The request of every instance. All errors in the input are reported together, before anything is done."""
        requests, faults, held = {}, [], {}
        self._locks, self._states, self._mends = {}, {}, set()
        for name in names:
            catalog, given = catalogs.of(name), variables(task_vars, name, (*INSTANCE, "berth_locked", "berth_mend"))
            self._locks[name] = who_locked(given)
            try:
                check_own_name(name, task_vars)
                spec, _seed = build_request({**given, "inventory_hostname": name}, catalog)
                check_hosts(spec, str(given.get("berth_availability_zone") or ""), hosts)
                mends = is_true(given, "berth_mend")  # checked before anything is claimed: hosts use it only later
            except BerthError as error:
                faults.append((name, error))
                continue
            error = address_clash.clash(spec, held)
            if error:
                faults.append((name, error))
                continue
            held.update({nic: {spec["uuid"]: name} for nic in nics.taken(spec["networks"])})
            requests[name] = {**spec, "batch_id": batch_id}
            if "berth_state" in given:
                self._states[name] = given["berth_state"]
            if mends:
                self._mends.add(name)
        faults += self._taken_elsewhere(requests, names, catalogs)
        if faults and self._task.args.get("plan"):
            failed_requests.settle(self, task_vars, "create", _refused(faults, task_vars))
        if faults:
            raise of_several(faults)
        return requests

    def _taken_elsewhere(self, requests, names, catalogs):
        """[(name, error)]: addresses of instances that are not selected count too: those may be on a silent host."""
        others = sorted(set(catalogs.instances) - set(names))
        if "berth_networks" in catalogs.given or not others or not self._fixed(requests, catalogs):
            return []
        held = self._fixed(others, catalogs)
        errors = ((name, address_clash.clash(spec, held)) for name, spec in requests.items())
        return [(name, error) for name, error in errors if error]

    @staticmethod
    def _fixed(names, catalogs):
        """Who has which fixed address and MAC address in the inventory."""
        found = {}
        for name in names:
            try:
                given = catalogs.value(name, "berth_networks") or []
                own = catalog_schema.INSTANCE["berth_networks"].check(given, "berth_networks")
                fixed = addressing.fixed(own, catalogs.of(name).networks, name)
            except (BerthError, AnsibleError):
                continue  # an instance that is not selected here; a run that selects it reports the error
            for word, owner in fixed.items():
                found.setdefault(word, owner)
        return found

    def _give_addresses(self, instances, fleet, catalogs):
        """Choose addresses from pools: never one that a host reports or that the inventory gives to an instance."""
        if not any(nic.get("pool") for instance in instances.values() for nic in instance["spec"]["networks"]):
            return
        told = {host: document["instances"] for host, document in fleet.documents.items()}
        held = addressing.held_by(instances, told)
        for word, owner in self._fixed(catalogs.instances, catalogs).items():
            held.setdefault(word, owner)
        silent = {host: why for host, why in fleet.verdicts.items() if host not in self._lost}
        addressing.give(instances, held, silent)

    def _plan(self, task_vars, instances, fleet, max_attempts):
        if max_attempts > MAX_ROUNDS:
            raise InvalidInput(
                "berth_placement.max_attempts", max_attempts, "at most %d, the rounds of playbook create" % MAX_ROUNDS
            )
        hosts = {name: {"uuid": uuid} for name, uuid in fleet.uuids().items()}
        if self._task.check_mode:
            for instance in instances.values():
                if instance["state"] == CLAIMING:
                    instance.update(state=PLANNED, token=new_token())
        hosts.update({name: {"reason": reason} for name, reason in fleet.verdicts.items()})
        # What a lost host had stays known until another host has it: after a killed run, the next one must find it again.
        lost = () if self._takes_over else self._lost
        plan = new_plan(acting.RUN, instances, hosts, max_attempts, telling.whereabouts(fleet, lost))
        plan["unprepared"] = fleet.unprepared()
        prepare_round(plan, new_token)
        looks = {host: plain(said.get("looks", ())) for host, said in replies(task_vars, "__berth_facts").items()}
        pass_over_unchanged(plan, looks)
        if not plan["claims"]:  # else all hosts are told after the claims
            tell_owners(self, task_vars, plan["told"], plan["reachable"])
        return plan_result(plan)

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
