# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action ask_hosts: see plugins/modules/ask_hosts.py for its documentation."""

from __future__ import annotations

from ..plugin_utils import known_ansible
from ..plugin_utils.controller import ControllerAction, answer
from ..plugin_utils.host_reply import answer_of
from ..plugin_utils.limits import host_timeouts

MODULES = ("host_facts", "claim", "rescan")


class ActionModule(ControllerAction):
    argument_spec = {
        "hosts": {"type": "list", "elements": "str", "required": True},
        "module": {"type": "str", "required": True, "choices": list(MODULES)},
        "arguments": {"type": "dict", "default": {}},
        "host_arguments": {"type": "dict", "default": {}},
    }

    def act(self, args, task_vars):
        hosts = list(dict.fromkeys(args["hosts"]))
        arguments = {host: arguments_of(host, args["arguments"], args["host_arguments"]) for host in hosts}
        module = "berth.kvm." + args["module"]
        seconds = host_timeouts(task_vars, hosts)
        results = known_ansible.delegates().run_on(hosts, module, arguments, self._task, at_once(task_vars), seconds)
        return {**warned(results), **summary({host: told(result) for host, result in results.items()}, task_vars)}


def arguments_of(host, arguments, host_arguments):
    """What the module gets on this host: ``arguments``, and of each of ``host_arguments`` what it has for the host."""
    own = {name: values[host] for name, values in host_arguments.items() if host in values}
    return {**arguments, **own}


def at_once(task_vars):
    """How many hosts one task asks at a time, so that the tasks that Ansible runs beside it keep to its forks."""
    forks = int(task_vars["ansible_forks"])
    return forks // min(forks, len(task_vars["ansible_play_hosts_all"]))


def warned(results):
    """The warnings of all as those of the task: Ansible shows them once, below it."""
    kinds = ("warnings", "deprecations")
    return {kind: [warning for result in results.values() for warning in result.get(kind) or ()] for kind in kinds}


def told(result):
    """The host's answer: the result of the action of its module, which has checked it."""
    return answer(answer_of(result))


def summary(answers, task_vars):
    """The task's result. A host that asks for itself keeps its facts, as from any other module."""
    result = {"changed": any(answer.get("changed") for answer in answers.values()), "answers": answers}
    if not answers:
        result["skipped"] = True
    own = answers.get(task_vars["inventory_hostname"]) or {}
    if "berth_host" in own.get("ansible_facts", {}):
        result["ansible_facts"] = {"berth_host": own["ansible_facts"]["berth_host"]}
    return result
