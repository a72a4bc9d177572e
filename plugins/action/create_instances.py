# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action create_instances: see plugins/modules/create_instances.py for its documentation."""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean

from ..module_utils.conductor.procedures.create import Run, create
from ..module_utils.conductor.quotas import after_the_claims
from ..module_utils.model.catalog import Catalog
from ..plugin_utils import end_of_create
from ..plugin_utils.answers_of_hosts import reason_of, replies
from ..plugin_utils.builds import build_of
from ..plugin_utils.controller import ControllerAction, current_plan, new_token, outcomes_reported
from ..plugin_utils.driving import carry_out
from ..plugin_utils.inventory_variables import SHARED_CATALOG, lost_hosts, variables
from ..plugin_utils.together import done_once


class ActionModule(ControllerAction):
    """The first process creates all instances of the plan; each then reports what became of its own."""

    argument_spec = {"may_fail": {"type": "bool", "default": False}}

    def reported(self, result):
        return outcomes_reported(result)

    def act(self, args, task_vars):
        plan = current_plan(task_vars)
        done, is_first = done_once(self, lambda: self._create(plan, task_vars))
        answer = done["answers"].get(task_vars["inventory_hostname"]) or {}
        return {**self._told(answer), **(done["run"] if is_first else {})}

    def _told(self, answer):
        """The answer, which fails the task if nothing was built, unless its playbook tells why in a task of its own."""
        if boolean(self._task.args.get("may_fail", False)) or not answer.keys() & {"error", "reason"}:
            return answer
        return {**answer, "failed": True, "msg": reason_of(answer)}

    def _create(self, plan, task_vars):
        # From any instance: placement has checked that they are the same for all.
        values = variables(task_vars, next(iter(plan["instances"])), ["berth_lost_hosts", *SHARED_CATALOG])
        run = Run(
            new_token=new_token,
            build_of=lambda name, instance: build_of(task_vars, name, instance),
            digests={host: reply.get("digests") for host, reply in replies(task_vars, "__berth_facts").items()},
            lost=lost_hosts(values),
            over_quota=after_the_claims(Catalog.from_variables(values).quotas) if values.get("berth_quotas") else None,
        )
        answers, said = carry_out(self, task_vars, create(plan, run))
        return {"answers": answers, "run": {**end_of_create.end(self, task_vars, plan), "said": said}}
