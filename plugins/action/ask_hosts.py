# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action ask_hosts: see plugins/modules/ask_hosts.py for its documentation."""

from __future__ import annotations

from ..plugin_utils.answers_of_hosts import FACT
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.fan_out import MODULES, answers, ask, warnings


class ActionModule(ControllerAction):
    argument_spec = documented("ask_hosts", module=list(MODULES))

    def act(self, args, task_vars):
        results = ask(self, task_vars, args["hosts"], args["module"], args["arguments"], args["host_arguments"])
        return {**warnings(results), **summary(answers(results), task_vars)}


def summary(found, task_vars):
    """The task's result. If the task's own host was asked, it keeps its facts, as from any other module."""
    result = {"changed": any(answer.get("changed") for answer in found.values()), "answers": found}
    if not found:
        result["skipped"] = True
    own = (found.get(task_vars["inventory_hostname"]) or {}).get("ansible_facts") or {}
    if FACT in own:
        result["ansible_facts"] = {FACT: own[FACT]}
    return result
