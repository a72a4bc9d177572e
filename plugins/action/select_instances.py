# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action select_instances: see plugins/modules/select_instances.py for its documentation."""

from __future__ import annotations

from ..module_utils.model.errors import shortened
from ..plugin_utils import berth_where
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.fan_out import answers, ask, warnings
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.reading import begin
from ..plugin_utils.screen import say
from ..plugin_utils.selection import instances_alone


class ActionModule(ControllerAction):
    argument_spec = documented("select_instances")

    def act(self, args, task_vars):
        hosts = kvm_hosts(task_vars, args["hosts"])
        begin(self, task_vars, hosts)
        query = berth_where.query_of(self, task_vars)
        names = instances_alone(task_vars, args["instances"], hosts)
        results = ask(self, task_vars, hosts, "instance_info", {})
        replies = answers(results)
        told = berth_where.told_of(replies)
        silent = sorted(host for host, reply in replies.items() if "instances" not in reply)
        documents = berth_where.documents(task_vars, names, told, not silent)
        new = {} if args["selected"] else berth_where.in_no_inventory(task_vars, told)
        chosen = [name for name, document in {**documents, **new}.items() if query.holds(document)]
        known = [*documents.values(), *new.values()]
        say(_line(query.text, chosen, len(known), silent) + ("" if chosen else query.among(known)))
        added = [{"name": name, "project": new[name]["project"]} for name in chosen if name in new]
        fact = {berth_where.FACT: {"names": chosen, "in_no_inventory": added}}
        return {**warnings(results), "ansible_facts": fact, "_ansible_verbose_override": True}


def _line(text, chosen, known, silent):
    which = "%d of %d instances: %s" % (len(chosen), known, shortened(chosen))
    which = which if chosen else "none of %d instances" % known
    unknown = ". What %s has was not asked: no answer" % shortened(silent) if silent else ""
    return "berth_where=%s selects %s%s" % (text, which, unknown)
