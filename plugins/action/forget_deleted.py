# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action forget_deleted: see plugins/modules/forget_deleted.py for its documentation."""

from __future__ import annotations

from ..plugin_utils import fleet_filters
from ..plugin_utils.answers_of_hosts import replies
from ..plugin_utils.asking import ask
from ..plugin_utils.controller import ControllerAction, controller_fact
from ..plugin_utils.inventory_variables import raw_vars


class ActionModule(ControllerAction):
    def act(self, args, task_vars):
        located = controller_fact(task_vars, "berth_located")
        gone = {}
        for name in located["found"]:
            instance, done = located["instances"][name], raw_vars(task_vars, name).get("__delete_done")
            if instance.get("owner") and done and not (done.get("failed") or done.get("unreachable")):
                gone.setdefault(instance["owner"], {})[instance["uuid"]] = instance["after"]
        if gone:
            hosts = list(replies(task_vars, "__berth_facts"))
            ask(self, task_vars, hosts, "rescan", {"told": {"gone": gone}})
            fleet_filters.follow(self, task_vars, hosts)
        return {}
