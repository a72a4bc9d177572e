# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action audit_registry: see plugins/modules/audit_registry.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.registry.audit import audit
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.driving import carry_out
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.registry_runs import run_of
from ..plugin_utils.screen import say


class ActionModule(ControllerAction):
    argument_spec = documented("audit_registry")

    def reported(self, result):
        return {part: result[part] for part in ("differences", "opened")}

    def act(self, args, task_vars):
        run, engine = run_of(self, task_vars, kvm_hosts(task_vars, args["hosts"]))
        ended, _said = carry_out(self, task_vars, audit(run), engine=engine)
        say("", *lines(ended, run.dry), "")
        return {
            "changed": ended.changed,
            "differences": [each._asdict() for each in ended.differences],
            "left": sum(not each.mends for each in ended.differences),
            "opened": ended.opened,
        }


def lines(ended, dry):
    done = "would be mended" if dry else "mended"
    found = [
        "%s: %s. %s" % (each.what, each.text, done.capitalize() if each.mends else "Left to you")
        for each in ended.differences
    ]
    if ended.busy:
        found.append("%d keys were changed by other runs meanwhile, and left to those." % len(ended.busy))
    if ended.opened:
        found.append("The registry %s." % ("would be opened" if dry else "is open now"))
    return found or ["The registry says what the hosts say."]
