# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action build_instance: see plugins/modules/build_instance.py for its documentation."""

from __future__ import annotations

from ..module_utils.model.catalog import Catalog
from ..module_utils.model.errors import BerthError
from ..module_utils.placement.request import build_request
from ..module_utils.placement.request_nics import network_config
from ..plugin_utils import uploads
from ..plugin_utils.controller import CATALOG, INSTANCE, is_true, power_state, variables
from ..plugin_utils.host_reply import HostAction, answer_of, ask_module


class ActionModule(HostAction):
    """Adds the seed to the module's arguments here, so that nothing secret is ever in the plan or in a task's arguments."""

    def run(self, tmp=None, task_vars=None):
        return answer_of(super().run(tmp, task_vars))

    def on_host(self, task_vars):
        _result, args = self.validate_argument_spec(
            argument_spec={
                "spec": {"type": "dict", "required": True},
                "token": {"type": "str"},
                "timeout": {"type": "int", "default": 600},
                "take_over": {"type": "str"},
            }
        )
        if self._task.check_mode and args.get("token"):
            return {"changed": True}  # nothing was claimed, so the host knows nothing of it yet
        if args.get("take_over"):
            return ask_module(self, "instance", _taken_over(args), task_vars)
        name = task_vars["inventory_hostname"]
        given = variables(task_vars, name, (*CATALOG, *INSTANCE, "berth_locked", "berth_mend"))
        try:
            _spec, seed = build_request({**given, "inventory_hostname": name}, Catalog.from_variables(given))
            mends = is_true(given, "berth_mend")
        except BerthError as error:
            return {"changed": False, "error": error.to_dict()}
        seed["network_config"] = network_config(args["spec"]["networks"])  # with the addresses of pools
        if args["spec"]["image"].get("upload"):
            trouble = uploads.bring(self, args["spec"], task_vars)
            if trouble:
                return {"changed": False, **trouble}
        arguments = {
            "state": "present",
            "uuid": args["spec"]["uuid"],
            "spec": args["spec"],
            "seed": seed,
            "timeout": args["timeout"],
        }
        if mends:
            arguments["mend"] = True
        if power_state(given):
            arguments["power_state"] = power_state(given)
        if args.get("token"):
            arguments["token"] = args["token"]
        return ask_module(self, "instance", arguments, task_vars)


def _taken_over(args):
    """No seed: the guest keeps the one that it has beside its disks."""
    return {
        "state": "taken_over",
        "uuid": args["spec"]["uuid"],
        "token": args["token"],
        "disks_of": args["take_over"],
        "timeout": args["timeout"],
    }
