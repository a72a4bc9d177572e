# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action create_instances: see plugins/modules/create_instances.py for its documentation."""

from __future__ import annotations

import functools

from ..module_utils.conductor.plan import FAILED
from ..module_utils.conductor.procedures.create import Run, create
from ..plugin_utils import end_of_create
from ..plugin_utils.answers_of_hosts import FOUND
from ..plugin_utils.builds import build_of
from ..plugin_utils.controller import controller_facts, new_token, outcomes_reported
from ..plugin_utils.driving import carry_out
from ..plugin_utils.inventory_variables import SHARED_CATALOG, variables
from ..plugin_utils.place_instances import PlaceInstances
from ..plugin_utils.plain import plain
from ..plugin_utils.reading import read
from ..plugin_utils.together import own_part

MOST_ASKED_ABOUT = 1000  # instances
READ = {"operation": "place", "looks": True, "digests": True, "most": MOST_ASKED_ABOUT}
PLACE = {"options": {}, "seed": None, "receipt_dir": None, "plan": True, "take_over": False}
ENDED = ("ansible_facts", "outcomes", "_ansible_verbose_override")
CARRIED_OUT = {"instances": {}, "build": [], "claims": {}}


class ActionModule(PlaceInstances):
    """One process creates the instances of all that wait, by the plan that the run has or makes; each reports its own."""

    asks_alone = True
    ends_run = True
    argument_spec = {"hosts": {"type": "list", "elements": "str"}, "may_fail": {"type": "bool", "default": False}}

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
            if "outcomes" in placed:
                return _done(plan, {}, {part: placed[part] for part in ENDED})
        plan = plain(plan)
        run, access = self._run(task_vars, plan)
        built, said = carry_out(self, task_vars, create(plan, run), engine=access)
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
