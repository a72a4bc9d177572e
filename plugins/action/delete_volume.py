# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action delete_volume: see plugins/modules/delete_volume.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor import volume_hosts
from ..module_utils.conductor.errors import HostUnknown
from ..module_utils.model import disk_words, hints, input_hints
from ..module_utils.model.catalog_schema import PROJECT, VOLUMES
from ..module_utils.model.errors import InvalidInput
from ..module_utils.model.volumes import volume_uuid
from ..plugin_utils.answers_of_hosts import read_reports
from ..plugin_utils.controller import ControllerAction, documented
from ..plugin_utils.fan_out import answers, ask
from ..plugin_utils.inventory_variables import kvm_hosts, lost_hosts
from ..plugin_utils.screen import say


class ActionModule(ControllerAction):
    argument_spec = documented("delete_volume")

    def reported(self, result):
        return {"volume": result["volume"], "host": result["host"]}

    def act(self, args, task_vars):
        if not args["name"]:
            raise InvalidInput("berth_volume", None, "the name of a volume", hint=input_hints.give_volume())
        name = VOLUMES.name.check(args["name"], "berth_volume")
        uuid = volume_uuid(PROJECT.check(args["project"], "berth_project"), name)
        fleet = read_reports(task_vars, kvm_hosts(task_vars, args["hosts"]))
        values = self.own_variables(task_vars, ["berth_lost_hosts", "berth_volumes_defined"])
        host = volume_hosts.to_delete(fleet, name, uuid, values.get("berth_volumes_defined") or {}, lost_hosts(values))
        result = {"volume": name, "project": args["project"], "host": host}
        if host is None:
            say("volume %s is on no host: nothing to remove" % name)
            return result
        reply = answers(ask(self, task_vars, [host], "volume", {"uuid": uuid}))[host]
        if "reason" in reply:
            raise HostUnknown(
                "it is not known whether %s removed volume %s: %s" % (host, name, reply["reason"]),
                hint=hints.run_again(),
            )
        if "error" in reply:
            reason = ". ".join(filter(None, (reply["error"].get("message"), reply["error"].get("hint"))))
            return {**result, "failed": True, "msg": "%s: %s" % (host, reason), "error": reply["error"]}
        verb, (gone,) = "would be" if self._task.check_mode else "is", disk_words.of_volumes([_on(fleet, host, uuid)])
        say("%s on %s %s removed" % (gone, host, verb))
        diff = {"before": "%s on %s\n" % (gone, host), "after": ""}
        return {**result, "changed": reply["changed"], "diff": diff}


def _on(fleet, host, uuid):
    return next(volume for name, volume in fleet.volumes() if (name, volume["uuid"]) == (host, uuid))
