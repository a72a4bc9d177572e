# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action locate_instances: see plugins/modules/locate_instances.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor.errors import InstanceMoving, SelectionNotExplicit
from ..module_utils.conductor.locate import check_unlocked, locate, locate_to_delete
from ..module_utils.conductor.recovery import to_recover
from ..module_utils.model.errors import BerthError
from ..module_utils.model.identity import check_name, instance_uuid
from ..plugin_utils.controller import ControllerAction, lost_hosts, read_reports, variables, who_locked, with_variable
from ..plugin_utils.screen import say


class ActionModule(ControllerAction):
    argument_spec = {
        "instances": {"type": "list", "elements": "str", "required": True},
        "hosts": {"type": "list", "elements": "str"},
        "selected": {"type": "bool", "default": True},
        "method": {"type": "str", "required": True, "choices": ["delete", "recover", "start", "stop"]},
    }

    def act(self, args, task_vars):
        names = with_variable(task_vars, args["instances"], "berth_flavor", unless="berth_name")
        if names and not args["selected"]:
            raise SelectionNotExplicit(
                "this would delete all %d instances of the inventory" % len(names),
                hint="Say which with --limit or -e berth_instances=PATTERN, or pass -e berth_delete_all=true",
                instances=names,
            )
        fleet = read_reports(task_vars, args["hosts"])
        lost = lost_hosts(self.own_variables(task_vars, ["berth_lost_hosts"]))
        find = locate_to_delete if args["method"] == "delete" else locate
        found, moving, errors = {}, [], {}
        for name in names:
            try:
                given = variables(task_vars, name, ["berth_project", "berth_locked"])
                if args["method"] != "recover":  # a lock keeps people off; the guest ran when its host lost its power
                    check_unlocked(name, who_locked(given))
                uuid = instance_uuid(given.get("berth_project") or "default", check_name(name))
                if args["method"] == "recover":
                    found[name] = self._to_recover(fleet, name, uuid, lost)
                    continue
                found[name] = {"uuid": uuid, "hosts": fleet.failed_on(uuid) + find(fleet, name, uuid, lost)}
            except BerthError as error:
                if isinstance(error, InstanceMoving) and args["method"] == "delete":
                    moving.append(name)
                else:
                    errors[name] = _told(error, args["method"])
        located = {
            "instances": found,
            "found": [name for name in found if found[name]["hosts"]],
            "moving": moving,
            "errors": errors,
        }
        return {"ansible_facts": {"berth_located": located}, "verdicts": fleet.verdicts}

    def _to_recover(self, fleet, name, uuid, lost):
        due = to_recover(fleet, name, uuid, lost)
        if due["skipped"]:
            say("%s is left alone: %s" % (name, due["skipped"]))
        return {"uuid": uuid, "hosts": due["hosts"]}


def _told(error, method):
    text = error.to_result()["msg"]
    return "Cannot %s: %s" % (method, text) if isinstance(error, InstanceMoving) else text
