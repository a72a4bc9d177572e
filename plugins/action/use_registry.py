# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action use_registry: see plugins/modules/use_registry.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.registry import enrol
from ..module_utils.model import registry_hints
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.driving import carry_out
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.registry_runs import run_of
from ..plugin_utils.screen import say, warn


class ActionModule(ControllerAction):
    argument_spec = documented("use_registry")

    def reported(self, result):
        return {part: result[part] for part in ("hosts", "instances")}

    def act(self, args, task_vars):
        run, engine = run_of(self, task_vars, kvm_hosts(task_vars, args["hosts"]))
        procedure = enrol.leave_registry if args["leave"] else enrol.use_registry
        ended, _said = carry_out(self, task_vars, procedure(run), engine=engine)
        for each in ended.differences:
            warn("%s: %s" % (each.what, each.text))
        say("", told(ended, args["leave"], run.dry), "")
        return {"changed": ended.changed, "hosts": ended.hosts, "instances": ended.instances}


def told(ended, leave, dry):
    state = "are without a registry" if leave else "belong to the registry"
    if ended.changed:
        state = "would " + state.replace("are", "be") if dry else state + " now"
    line = "%d hosts, with %d instances, %s." % (ended.hosts, ended.instances, state)
    return "%s %s." % (line, registry_hints.take_registry_out()) if leave and not dry else line
