# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action create_instances: see plugins/modules/create_instances.py for its documentation."""

from __future__ import annotations

import functools
from typing import Any, Dict, Optional

from ansible.module_utils.common.validation import check_type_int

from ..module_utils.conductor import kept_entries
from ..module_utils.conductor.plan import FAILED, Instance
from ..module_utils.conductor.procedures.create import Run, create
from ..module_utils.conductor.procedures.evacuate import evacuate
from ..module_utils.conductor.registry.shelves import RoomOnEngine
from ..module_utils.model import clones, vm_states
from ..module_utils.model.catalog import Catalog
from ..module_utils.model.cloud_init import network_config
from ..module_utils.model.errors import InvalidInput
from ..module_utils.model.messages import Document
from ..module_utils.placement.request import build_request
from ..plugin_utils import backup_runs, end_of_create
from ..plugin_utils.answers_of_hosts import FOUND
from ..plugin_utils.controller import controller_facts, documented, new_token, outcomes_reported
from ..plugin_utils.driving import carry_out
from ..plugin_utils.inventory_variables import (
    CATALOG,
    INSTANCE,
    SHARED_CATALOG,
    fenced,
    is_true,
    power_state,
    raw_vars,
    variables,
    who_locked,
)
from ..plugin_utils.place_instances import PlaceInstances
from ..plugin_utils.plain import plain
from ..plugin_utils.reading import read
from ..plugin_utils.shared_task import own_part

MOST_ASKED_ABOUT = 1000  # instances
READ = {"operation": "place", "looks": True, "digests": True, "most": MOST_ASKED_ABOUT}
PLACE = {"options": {}, "seed": None, "receipt_dir": None, "plan": True, "take_over": False}
ENDED = ("ansible_facts", "outcomes", "_ansible_verbose_override")
CARRIED_OUT = {"instances": {}, "build": [], "claims": {}}


class ActionModule(PlaceInstances):
    """One process creates the instances of all that wait, by the plan that the run has or makes; each reports its own."""

    asks_alone = True
    ends_run = True
    argument_spec = documented("create_instances")

    def reported(self, result):
        return outcomes_reported(self, result)

    def act(self, args, task_vars):
        work = functools.partial(self._create, hosts=args["hosts"], task_vars=task_vars)
        return own_part(self, task_vars, work, args["may_fail"])

    def _create(self, names, hosts, task_vars):
        plan = controller_facts(task_vars).get("berth_plan") or {}
        if task_vars["inventory_hostname"] not in plan.get("instances", {}):
            about = {"instances": names, "hosts": hosts}
            task_vars = {**task_vars, FOUND: read(self, {**READ, **about}, task_vars)}
            placed = super().act({**PLACE, **about}, task_vars)
            plan = placed["ansible_facts"]["berth_plan"]
            if "outcomes" in placed or not plan["instances"]:
                return _done(plan, {}, {part: placed[part] for part in ENDED if part in placed})
        plan = plain(plan)
        run, access = self._run(task_vars, plan)
        creation = create(plan, run)
        if any(instance.get("from_backup") for instance in plan["instances"].values()):
            off = [name for name, each in plan["instances"].items() if each.get("berth_state") == vm_states.STOPPED]
            takes = RoomOnEngine() if access else None
            creation = evacuate(plan, creation, backup_runs.run_of(self, task_vars), off, takes)
        built, said = carry_out(self, task_vars, creation, engine=access)
        return _done(plan, built, {**end_of_create.end(self, task_vars, plan), "said": said})

    def _run(self, task_vars, plan):
        # From any instance: placement has checked that they are the same for all.
        values = variables(task_vars, next(iter(plan["instances"])), ["berth_lost_hosts", *SHARED_CATALOG])
        registry, access = self.registry_of(task_vars, values)
        return Run(new_token, lambda name, instance: build_of(task_vars, name, instance), registry), access


def _done(plan, built, ended):
    """``ended``: what the task of the first instance returns for the run. No later task carries the plan out again."""
    facts = {**ended["ansible_facts"], "berth_plan": CARRIED_OUT}
    parts = {
        name: {"changed": False, "error": instance["error"]}
        if instance["state"] == FAILED
        else built.get(name) or {"changed": False}
        for name, instance in plan["instances"].items()
    }
    return {"parts": parts, "run": {**ended, "ansible_facts": facts}}


TIMEOUTS = ("berth_lock_timeout", "create_timeout")  # the second until 2.0.0
SECONDS = 600


def build_of(task_vars: Dict[str, Any], name: str, instance: Instance) -> Document:
    """``name`` is the inventory name. The seed is made here, so that no secret is in the plan or in a task's arguments.
    BerthError if the instance's variables are wrong."""
    return {
        "uuid": instance["spec"]["uuid"],
        "token": instance.get("token"),
        "timeout": _timeout(task_vars, name),
        **(_taken_over if instance.get("take_over") else _built)(task_vars, name, instance),
    }


def _timeout(task_vars: Dict[str, Any], name: str) -> int:
    """That of the instance in the inventory, else what the role is given, which holds for all."""
    own = raw_vars(task_vars, task_vars["inventory_hostname"])
    given = [task_vars[each] for each in TIMEOUTS if each in task_vars and task_vars[each] != own.get(each)]
    field = next((each for each in TIMEOUTS if each in raw_vars(task_vars, name)), TIMEOUTS[0])
    value = variables(task_vars, name, [field]).get(field, [*given, SECONDS][0])
    try:
        return int(check_type_int(value))
    except TypeError:
        raise InvalidInput(field, plain(value), "whole seconds") from None


def _taken_over(task_vars: Dict[str, Any], name: str, instance: Instance) -> Document:
    """No seed: the guest keeps the one beside its disks. The evidence that its host is off goes into its history."""
    values = variables(task_vars, name, ("berth_state", "berth_locked"))
    evidence = str(fenced(task_vars)["evidence"] or "berth_lost_hosts says that the host is off")
    taken = {"state": "taken_over", "disks_of": instance["take_over"], "evidence": evidence}
    return {**taken, **_power(power_state(values))}


def _power(wanted: Optional[str]) -> Document:
    return {"power_state": wanted} if wanted else {}


def _built(task_vars: Dict[str, Any], name: str, instance: Instance) -> Document:
    values = variables(task_vars, name, (*CATALOG, *INSTANCE, "berth_locked", "berth_mend", "berth_shutdown_timeout"))
    spec, catalog = instance["spec"], Catalog.from_variables(values)
    if instance.get("existing") or clones.of(spec):
        its_own = {"berth_flavor": spec["flavor"]["name"], "berth_image": spec["image"]["name"]}
        values.update({each: name for each, name in its_own.items() if values.get(each) in (None, "")})
        catalog, _kept = kept_entries.with_entries(catalog, values, spec["flavor"], spec["image"])
    _spec, seed = build_request({**values, "inventory_hostname": name}, catalog)
    if not values.get("berth_network_config"):
        seed["network_config"] = network_config(spec["networks"])  # with the addresses from pools
    wanted = {"state": "present", "seed": seed}
    if not instance.get("from_backup"):  # its disks come after the build
        wanted.update(_power(power_state(values)))
    mends = is_true(values, "berth_mend")
    if instance.get("token") or not who_locked(values):  # nobody changes an existing instance that the inventory locks
        wanted.update({"spec": spec, **({"mend": True} if mends else {})})
    if "berth_shutdown_timeout" in values:
        wanted["shutdown_timeout"] = values["berth_shutdown_timeout"]
    return wanted
