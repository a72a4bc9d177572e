# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action build_instance: see plugins/modules/build_instance.py for its documentation."""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean

from ..module_utils.conductor.builds_of_hosts import to_upload
from ..module_utils.conductor.errors import KvmHostNotFound
from ..module_utils.model.errors import BerthError
from ..module_utils.model.safe_text import visible_all
from ..plugin_utils import builds, uploads
from ..plugin_utils.answers_of_hosts import reason_of
from ..plugin_utils.host_reply import HostAction, answer_of, ask_module, host_of
from ..plugin_utils.inventory_variables import kvm_hosts, power_state, variables


class ActionModule(HostAction):
    """Returns the host's answer if it already built all its new instances at once, otherwise has it build this one."""

    def run(self, tmp=None, task_vars=None):
        built = builds.built_already(task_vars, self._task.args.get("token"))
        return self._told(built or self._refused(task_vars) or answer_of(super().run(tmp, task_vars)))

    def _told(self, answer):
        """The answer, which fails the task if nothing was built, unless its playbook looks at it and goes on."""
        if boolean(self._task.args.get("may_fail", False)) or not answer.keys() & {"error", "reason"}:
            return answer
        return {**answer, "failed": True, "msg": reason_of(answer)}

    def _refused(self, task_vars):
        """The failure if the role was given a host that is not in the inventory; Ansible would invent such a host."""
        host = host_of(self, task_vars)
        if host in (*task_vars["groups"]["all"], "localhost"):
            return None
        error = KvmHostNotFound.of("create_host", host, kvm_hosts(task_vars))
        return {"failed": True, "changed": False, **visible_all(error.to_result())}

    def on_host(self, task_vars):
        _result, args = self.validate_argument_spec(
            argument_spec={
                "spec": {"type": "dict", "required": True},
                "token": {"type": "str"},
                "timeout": {"type": "int", "default": builds.TIMEOUT},
                "take_over": {"type": "str"},
                "may_fail": {"type": "bool", "default": False},
            }
        )
        if self._task.check_mode and args.get("token"):
            return {"changed": True}  # nothing was claimed, so the host does not know the instance yet
        if args.get("take_over"):
            return ask_module(self, "instance", _taken_over(args, task_vars), task_vars)
        name = task_vars["inventory_hostname"]
        try:
            arguments = builds.arguments(task_vars, name, args["spec"], args.get("token"), args["timeout"])
        except BerthError as error:
            return {"changed": False, "error": error.to_dict()}
        for image, size_gb in to_upload(args["spec"]):
            trouble = uploads.bring(self, image, args["spec"].get("pool"), size_gb, task_vars)
            if trouble:
                return {"changed": False, **trouble}
        return ask_module(self, "instance", arguments, task_vars)


def _taken_over(args, task_vars):
    """No seed: the guest keeps the one beside its disks."""
    values = variables(task_vars, task_vars["inventory_hostname"], ("berth_state", "berth_locked"))
    return {
        "state": "taken_over",
        "uuid": args["spec"]["uuid"],
        "token": args["token"],
        "disks_of": args["take_over"],
        "timeout": args["timeout"],
        **({"power_state": power_state(values)} if power_state(values) else {}),
    }
