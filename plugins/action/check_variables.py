# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action check_variables: see plugins/modules/check_variables.py for its documentation."""

from __future__ import annotations

from ..module_utils.model import registry_hints
from ..module_utils.model.errors import InvalidInput
from ..plugin_utils import authority, run_report, trust
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.selection import hosts_selected
from ..plugin_utils.variables import check_settings, check_variables


class ActionModule(ControllerAction):
    argument_spec = documented("check_variables")

    def act(self, args, task_vars):
        run_report.begin(self, task_vars)
        check_variables(self, task_vars, kvm_hosts(task_vars, args["hosts"]))
        if args["hosts"] is not None:
            check_settings(task_vars, hosts_selected(task_vars, args["hosts"]))
            if trust.wanted(task_vars, args["hosts"]):
                authority.check()
        if args["members"] == []:
            hint = registry_hints.name_members()
            raise InvalidInput("group berth_registry_hosts", None, "the members of the registry", hint=hint)
        return {}
