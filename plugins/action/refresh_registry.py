# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action refresh_registry: see plugins/modules/refresh_registry.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.registry.enrol import refresh
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.driving import carry_out
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.registry_runs import run_of
from ..plugin_utils.screen import say
from ..plugin_utils.selection import hosts_selected


class ActionModule(ControllerAction):
    argument_spec = documented("refresh_registry")

    def reported(self, result):
        return {part: result[part] for part in ("written", "newer", "failed")}

    def act(self, args, task_vars):
        hosts = hosts_selected(task_vars, kvm_hosts(task_vars, args["hosts"]))
        run, engine = run_of(self, task_vars, hosts)
        done, _said = carry_out(self, task_vars, refresh(run), engine=engine)
        say("", *lines(done, run.dry), "")
        return {"changed": bool(done.written), **done._asdict()}


def lines(done, dry):
    read = "%d hosts %s the registry." % (len(done.written), "would be read into" if dry else "were read into")
    newer = "%d hosts are there already as another run has read them later." % len(done.newer)
    left_out = ["%s was not read: %s" % pair for pair in sorted(done.failed.items())]
    return [read, *([newer] if done.newer else []), *left_out]
