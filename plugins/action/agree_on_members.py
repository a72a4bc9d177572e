# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action agree_on_members: see plugins/modules/agree_on_members.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor import majority
from ..module_utils.model import fleet_hints
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.fan_out import answers, ask
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.screen import warn


class ActionModule(ControllerAction):
    argument_spec = documented("agree_on_members")

    def act(self, args, task_vars):
        hosts = kvm_hosts(task_vars, args["hosts"])
        found = answers(ask(self, task_vars, hosts, "rescan", {}))
        seen = {host: reply for host, reply in found.items() if "host_uuid" in reply}
        names = {reply["host_uuid"]: host for host, reply in seen.items()}
        lists = {reply["host_uuid"]: reply.get("members") or {} for reply in seen.values()}
        if majority.is_missing(lists, names):
            warn(
                "The hosts that belong to the fleet stay as they were: too few answer. %s"
                % fleet_hints.join_the_fleet()
            )
            return {"changed": False, "added": []}
        told = {**majority.agreed(lists), **majority.joined(lists, names)}
        lack = [host for host, reply in seen.items() if lists[reply["host_uuid"]] != told]
        if not self._task.check_mode:
            ask(self, task_vars, lack, "rescan", {"told": {"members": told}})
        added = sorted(names[uuid] for uuid in majority.joined(lists, names) if uuid in names)
        return {"changed": bool(lack), "added": added}
