# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action show_guests: see plugins/modules/show_guests.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor import adopting
from ..module_utils.conductor.errors import KvmHostNotFound
from ..plugin_utils.answers_of_hosts import read_reports, replies
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.plain import plain
from ..plugin_utils.screen import say, warn


class ActionModule(ControllerAction):
    argument_spec = documented("show_guests")

    def reported(self, result):
        return {"guests": result["guests"], "hosts_left_out": result["verdicts"]}

    def act(self, args, task_vars):
        hosts = kvm_hosts(task_vars, args["hosts"])
        fleet, on = (
            read_reports(task_vars, hosts),
            self.own_variables(task_vars, [adopting.ON]).get(adopting.ON) or None,
        )
        if on and on not in hosts:
            raise KvmHostNotFound.of(adopting.ON, on, hosts)
        answers = replies(task_vars, "__berth_facts")
        guests = {
            host: plain(answers[host].get("domains", []))
            for host in fleet.documents
            if host in answers and on in (None, host)
        }
        lines = list(adopting.lines(fleet, guests)) or ["All guests of the hosts are instances"]
        say("", *lines, "")
        for host, why in sorted(fleet.verdicts.items()):
            warn("Host %s is left out: %s" % (host, why))
        found = [
            {**guest, "host": host, "in_the_way": adopting.in_the_way(fleet, host, guest)}
            for host in sorted(guests)
            for guest in guests[host]
        ]
        return {"guests": found, "verdicts": fleet.verdicts, "_ansible_verbose_override": True}
