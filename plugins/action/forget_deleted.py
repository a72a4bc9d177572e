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
        gone, after = {}, {}
        for name, instance in located["instances"].items():
            done = raw_vars(task_vars, name).get("__delete_done")
            deleted = bool(done) and not (done.get("failed") or done.get("unreachable"))
            nothing_left = instance.get("given_up") and not instance["hosts"]
            if instance.get("owner") and (nothing_left or (name in located["found"] and deleted)):
                gone.setdefault(instance["owner"], {})[instance["uuid"]] = instance["after"]
                if instance.get("given_up"):
                    # the lost host, if it is back, does not know that it is gone: the next owner counts on from there
                    after[instance["uuid"]] = instance["after"][0]
        if gone:
            hosts = list(replies(task_vars, "__berth_facts"))
            # nothing is lost if one does not take it: what it knows still counts, and can only have a later create refused
            ask(self, task_vars, hosts, "rescan", {"told": {"gone": gone, **({"after": after} if after else {})}})
            fleet_filters.follow(self, task_vars, hosts)
        return {}
