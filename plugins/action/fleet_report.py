# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action fleet_report: see plugins/modules/fleet_report.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.errors import NoHostAnswered
from ..module_utils.model import host_state
from ..module_utils.model.catalog import Catalog
from ..module_utils.model.errors import BerthError
from ..module_utils.placement.explain import fleet_lines
from ..plugin_utils import berth_where_hosts
from ..plugin_utils.answers_of_hosts import read_reports, replies
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.documents import write_document
from ..plugin_utils.inventory_variables import kvm_hosts
from ..plugin_utils.plain import plain
from ..plugin_utils.screen import columns, say
from ..plugin_utils.whose_fleet import machines


class ActionModule(ControllerAction):
    argument_spec = documented("fleet_report")

    def reported(self, result):
        return {"report": result["report"], "hosts_left_out": result["verdicts"]}

    def act(self, args, task_vars):
        fleet = read_reports(task_vars, args["hosts"])
        shown = berth_where_hosts.shown(self, task_vars, fleet.documents)
        documents = [fleet.documents[host] for host in shown]
        _blank, *lines, _end = say("", *fleet_lines(documents, fleet.verdicts, columns()), "")
        if args["dest"]:
            known = _instances(fleet, replies(task_vars, "__berth_facts"), self._zones(task_vars))
            addresses = {host: document["host_ip"] for host, document in fleet.documents.items() if document["host_ip"]}
            of = machines(task_vars, kvm_hosts(task_vars, args["hosts"]))
            document = {"hosts": known, "verdicts": fleet.verdicts, "addresses": addresses, "machines": of}
            write_document(args["dest"], document)
        if args["hosts"] is not None and not fleet.documents:
            raise NoHostAnswered("no host answered; why is in the table above")
        return {"report": lines, "verdicts": fleet.verdicts}

    def _zones(self, task_vars):
        """Host -> its availability zone, if this inventory has one for it."""
        try:
            catalog = Catalog.from_variables(self.own_variables(task_vars, ["berth_aggregates"]))
            return host_state.zones(catalog.aggregate_documents(plain(task_vars["groups"])))
        except BerthError:  # the inventory of the KVM hosts may be a part of another
            return {}


def _instances(fleet, answers, zones):
    """Host -> the instances in its checked document, each with the host's zone and what is known about an address."""
    found = {}
    for host, document in fleet.documents.items():
        addresses = (answers.get(host) or {}).get("addresses") or {}
        found[host] = [
            {
                **instance,
                "zone": zones.get(host) or instance.get("availability_zone"),
                "address": addresses.get(instance["uuid"]),
            }
            for instance in document["instances"]
        ]
    return found
