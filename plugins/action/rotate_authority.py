# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action rotate_authority: see plugins/modules/rotate_authority.py for its documentation."""

from __future__ import annotations

from ..plugin_utils import trust
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.screen import say
from ..plugin_utils.selection import known_hosts

MESSAGES = {
    trust.TRUST: "Step 1 of 3: each host trusts the new authorities beside the old ones.",
    trust.SIGN: "Step 2 of 3: the new authorities sign the certificates of each host.",
    trust.DROP: "Step 3 of 3: each host trusts only the new authorities.",
    trust.REST: "The old authorities are dropped. Back up %s.",
}


class ActionModule(ControllerAction):
    argument_spec = documented("rotate_authority")

    def act(self, args, task_vars):
        hosts = known_hosts(task_vars, kvm_hosts(task_vars, args["hosts"]))
        directory = trust.directory_of(task_vars, hosts, args["directory"])
        before = trust.load(directory)
        if self._task.check_mode:
            return {"changed": args["phase"] == trust.TRUST and before.phase == trust.REST, "phase": before.phase}
        now = (
            trust.begin(directory)
            if args["phase"] == trust.TRUST
            else trust.advance(directory, args["phase"], trust.wanted(task_vars, hosts))
        )
        if now.phase != before.phase:
            message = MESSAGES[now.phase]
            say(message % directory if "%s" in message else message)
        return {"changed": now.phase != before.phase, "phase": now.phase}
