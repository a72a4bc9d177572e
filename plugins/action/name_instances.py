# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action name_instances: see plugins/modules/name_instances.py for its documentation."""

from __future__ import annotations

from ..module_utils.model.errors import BerthError
from ..module_utils.model.identity import check_name, instance_uuid
from ..plugin_utils.controller import ControllerAction, variables, with_variable


class ActionModule(ControllerAction):
    argument_spec = {
        "instances": {"type": "list", "elements": "str", "required": True},
        "most": {"type": "int"},
    }

    def act(self, args, task_vars):
        uuids, names = [], with_variable(task_vars, args["instances"], "berth_flavor", unless="berth_name")
        for name in names if args["most"] is None or len(names) <= args["most"] else ():
            project = variables(task_vars, name, ["berth_project"]).get("berth_project") or "default"
            try:
                uuids.append(instance_uuid(project, check_name(name)))
            except BerthError:
                continue  # whoever works on the instance says what is wrong with its name
        return {"ansible_facts": {"berth_about": uuids}, "_ansible_verbose_override": True}
