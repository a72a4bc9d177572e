# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action doctor: see plugins/modules/doctor.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.doctor import counted, examine, lines
from ..plugin_utils import doctor_case
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.doctor_case import case_of
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.screen import say, warn


class ActionModule(ControllerAction):
    argument_spec = documented("doctor")

    def reported(self, result):
        return {name: result[name] for name in ("findings", "counts")}

    def act(self, args, task_vars):
        if task_vars.get("ansible_limit"):
            warn("the doctor looks at the whole fleet, also with --limit")
        hosts = kvm_hosts(task_vars, args["hosts"])
        of_registry = doctor_case.registry_findings(self, task_vars, hosts)
        found = examine(case_of(task_vars, hosts, args["asked"], self._loader), of_registry)
        say("", *lines(found), "")
        result = {"findings": [finding.to_dict() for finding in found], "counts": counted(found)}
        changed = any(finding.fixed for finding in found)
        return {**result, "changed": changed, "_ansible_verbose_override": True}
