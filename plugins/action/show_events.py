# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action show_events: see plugins/modules/show_events.py for its documentation."""

from __future__ import annotations

import time

from ..module_utils.conductor import closing_table, fleet_events
from ..module_utils.model.errors import joined
from ..module_utils.model.identity import IDENTITY, uuid_of
from ..plugin_utils.answers_of_hosts import read_reports, reason_of
from ..plugin_utils.controller import ControllerAction, documented, results_fact
from ..plugin_utils.fan_out import answers, ask
from ..plugin_utils.inventory_variables import instances_among, kvm_hosts, variables
from ..plugin_utils.screen import columns, say
from ..plugin_utils.selection import in_inventory, not_found


class ActionModule(ControllerAction):
    argument_spec = documented("show_events")

    def reported(self, result):
        return {"events": result["events"]}

    def act(self, args, task_vars):
        seconds = fleet_events.seconds_since(args["since"], time.time())
        fleet = read_reports(task_vars, kvm_hosts(task_vars, args["hosts"]))
        only = self._names(args, task_vars)
        asked = {"events_seconds": seconds, "uuids": sorted(only or ())}
        replies = answers(ask(self, task_vars, list(fleet.documents), "instance_info", asked))
        silent = {host: reason_of(reply) for host, reply in replies.items() if "histories" not in reply}
        told = {host: reply["histories"] for host, reply in replies.items() if host not in silent}
        events = fleet_events.of(told, only)
        left_out = {**fleet.verdicts, **silent}
        if not left_out:
            _check_known(task_vars, fleet, only or {}, {event["uuid"] for event in events})
        say("", *fleet_events.lines(events), *closing_table.hosts_left_out(left_out, columns()), "")
        return {**results_fact([], left_out), "events": events}

    @staticmethod
    def _names(args, task_vars):
        """{uuid: name in the inventory} of the selected instances, or None for all."""
        if args["instances"] is None:
            return None
        names = instances_among(task_vars, args["instances"])
        return {uuid_of(name, variables(task_vars, name, IDENTITY)): name for name in names}


def _check_known(task_vars, fleet, only, seen):
    """Raise InstanceNotFound for what was asked for by a name that no inventory, no host and no event has."""
    unknown = [
        name
        for uuid, name in only.items()
        if uuid not in seen and uuid not in fleet.places and not in_inventory(task_vars, name)
    ]
    if unknown:
        raise joined(not_found(task_vars, fleet, name) for name in unknown)
