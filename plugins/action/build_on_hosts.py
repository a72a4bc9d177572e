# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action build_on_hosts: see plugins/modules/build_on_hosts.py for its documentation."""

from __future__ import annotations

from ansible.errors import AnsibleError
from ansible.module_utils.common.validation import check_type_int

from ..module_utils.conductor.builds_of_hosts import builds_of_hosts
from ..module_utils.model.errors import BerthError
from ..plugin_utils import builds
from ..plugin_utils.asking import answers, ask, warnings
from ..plugin_utils.controller import ControllerAction, current_plan
from ..plugin_utils.host_reply import answer_of
from ..plugin_utils.inventory_variables import variables

NOTHING_SAID = {"changed": False, "reason": "its answer says nothing of this instance"}


class ActionModule(ControllerAction):
    """Always reports "not changed": build_instance reports the changes of each instance."""

    def act(self, args, task_vars):
        plan = current_plan(task_vars)
        planned = {} if self._task.check_mode else builds_of_hosts(plan)
        wanted = {host: self._arguments(instances, task_vars) for host, instances in planned.items()}
        wanted = {host: each for host, each in wanted.items() if each}
        results = ask(self, task_vars, wanted, "build_instances", {}, {"builds": wanted})
        found = answers(results)
        by_host = {
            build["token"]: _answer(found[host], build["uuid"]) for host, asked in wanted.items() for build in asked
        }
        return {**warnings(results), "build": plan["build"], "answers": by_host, "_ansible_verbose_override": True}

    @staticmethod
    def _arguments(instances, task_vars):
        """The arguments of each build. An instance without valid ones is left to its own task, which says why."""
        found = []
        for name, instance in instances.items():
            try:
                values = variables(task_vars, name, ["create_timeout"])
                timeout = check_type_int(values.get("create_timeout", builds.TIMEOUT))
                found.append(builds.arguments(task_vars, name, instance["spec"], instance["token"], timeout))
            except (AnsibleError, BerthError, TypeError):  # the module would refuse all of the host's builds
                continue
        return found


def _answer(answer, uuid):
    """The answer for one instance. If the host gave none, or its module failed, that counts for all its instances."""
    if "builds" not in answer:
        return answer
    return next((answer_of(build["reply"]) for build in answer["builds"] if build["uuid"] == uuid), NOTHING_SAID)
