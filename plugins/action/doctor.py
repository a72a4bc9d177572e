# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action doctor: see plugins/modules/doctor.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.doctor import SEVERITIES, Case, examine, lines
from ..module_utils.model.errors import BerthError
from ..module_utils.model.identity import uuid_of
from ..plugin_utils.controller import ControllerAction, kvm_hosts, read_reports, replies, variables, with_variable
from ..plugin_utils.plain import plain
from ..plugin_utils.screen import say
from ..plugin_utils.selection import known_hosts


class ActionModule(ControllerAction):
    argument_spec = {"hosts": {"type": "list", "elements": "str"}, "asked": {"type": "list", "elements": "float"}}

    def reported(self, result):
        return {name: result[name] for name in ("findings", "counts")}

    def act(self, args, task_vars):
        hosts = kvm_hosts(task_vars, args["hosts"])
        fleet = read_reports(task_vars, hosts)
        answers = plain(replies(task_vars, "__berth_facts"))
        checkups = {host: answers[host]["checkup"] for host in fleet.documents if "checkup" in answers.get(host, {})}
        fleet.notes = {fleet.documents[host]["uuid"]: checkup["notes"] for host, checkup in checkups.items()}
        case = Case(fleet, checkups, _wished(task_vars), known_hosts(task_vars, hosts), tuple(args["asked"]))
        found = examine(case)
        say("", *lines(found), "")
        counts = {severity: sum(one.severity == severity and not one.fixed for one in found) for severity in SEVERITIES}
        result = {"findings": [one.to_dict() for one in found], "counts": counts}
        return {**result, "changed": any(one.fixed for one in found), "_ansible_verbose_override": True}


def _wished(task_vars):
    """uuid -> name of the instances that the inventory describes."""
    found = {}
    hosts = set(kvm_hosts(task_vars))
    for name in with_variable(task_vars, task_vars["groups"]["all"], "berth_flavor"):
        if name in hosts or name == "localhost":
            continue
        try:
            found[uuid_of(name, variables(task_vars, name, ["berth_project"]))] = name
        except BerthError:
            continue  # create says what is wrong with its name
    return found
