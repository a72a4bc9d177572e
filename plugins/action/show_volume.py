# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action show_volume: see plugins/modules/show_volume.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor import closing_table, show_instance, show_volume, volume_hosts
from ..module_utils.conductor.errors import HostUnknown
from ..module_utils.model import hints
from ..module_utils.model.catalog_schema import PROJECT, VOLUMES
from ..module_utils.model.volumes import volume_uuid
from ..plugin_utils.answers_of_hosts import read_reports, reason_of
from ..plugin_utils.controller import ControllerAction, documented, results_fact
from ..plugin_utils.fan_out import answers, ask
from ..plugin_utils.inventory_variables import kvm_hosts, lost_hosts
from ..plugin_utils.screen import columns, events_shown, say


class ActionModule(ControllerAction):
    argument_spec = documented("show_volume")

    def reported(self, result):
        return {
            "volumes": result["volumes"],
            "deleted": result["deleted"],
            "hosts_left_out": result["ansible_facts"]["berth_results"]["left_out"],
        }

    def act(self, args, task_vars):
        name, project = VOLUMES.name.check(args["name"], "berth_volume"), args["project"]
        if project is not None:
            PROJECT.check(project, "berth_project")
        fleet = read_reports(task_vars, kvm_hosts(task_vars, args["hosts"]))
        values = self.own_variables(task_vars, ["berth_lost_hosts", "berth_volumes_defined"])
        found, gone = show_volume.held(fleet, name, project), []
        if not found:
            volume_hosts.check_none_silent(name, fleet.verdicts, lost_hosts(values))
            gone = self._deleted(task_vars, fleet, volume_uuid(project or "default", name))
            if not gone:
                volume_hosts.check_known(fleet, name, values.get("berth_volumes_defined") or {})
            say("", "volume %s is on no host" % name, *show_instance.lines_of_deleted(name, gone, events_shown()))
        shown = self._described(task_vars, found)
        for parts in shown:
            say("", *show_volume.lines(parts, events_shown()))
        say("", *closing_table.hosts_left_out(fleet.verdicts, columns()), "")
        described = {name: [dict(part, host=host) for parts in shown for host, part in parts]} if shown else {}
        deleted = {name: [dict(part, host=host) for host, part in gone]} if gone else {}
        return {**results_fact([], fleet.verdicts), "volumes": described, "deleted": deleted}

    def _deleted(self, task_vars, fleet, uuid):
        """[(host that deleted the volume, what it keeps of it)]"""
        wanted = dict.fromkeys(fleet.documents, [uuid])
        replies = self._ask(task_vars, wanted)
        return [(host, part) for host, reply in replies.items() for part in reply["deleted"]]

    def _described(self, task_vars, found):
        """[[(host, volume)]], each volume with its image and history. HostUnknown if a host does not tell them."""
        wanted = {}
        for uuid, pairs in found.items():
            for host, _told in pairs:
                wanted.setdefault(host, []).append(uuid)
        replies = self._ask(task_vars, wanted)
        more = {(host, part["uuid"]): part for host, reply in replies.items() for part in reply["volumes"]}
        return [
            [(host, {**volume, **more.get((host, uuid), {})}) for host, volume in pairs]
            for uuid, pairs in found.items()
        ]

    def _ask(self, task_vars, wanted):
        """What the hosts tell of the volumes ``wanted`` of each. HostUnknown if one does not tell it."""
        replies = answers(ask(self, task_vars, wanted, "volume_info", {}, {"uuids": wanted})) if wanted else {}
        silent = {host: reason_of(reply) for host, reply in replies.items() if "volumes" not in reply}
        if silent:
            silent_hosts = ", ".join("%s (%s)" % entry for entry in sorted(silent.items()))
            raise HostUnknown("%s gave no details of the volume" % silent_hosts, hint=hints.run_again())
        return replies
