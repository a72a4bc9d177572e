# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every reply of a host enters the controller through this file, which has model/reply.py check it.

Every module of ours that runs on hosts has an action, a HostAction, its own or by meta/runtime.yml; the action host_task runs
Ansible's own modules.
All of them call the functions here. A reply goes through model/reply.py before anything looks at it. Ansible would turn
``ansible_facts`` in a reply into variables, ``add_host`` into hosts, and more: what is not in the module's schema ends
here.
"""

from __future__ import annotations

import contextlib
import functools

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

from ..module_utils.conductor.errors import HostUnknown
from ..module_utils.conductor.silence import NO_ANSWER, unanswered
from ..module_utils.model import fleet_hints, reply
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.safe_text import clean
from . import acting, host_ends, host_limits, known_ansible, screen, sent_code, why_silent
from .answers_of_hosts import reason_if_closed
from .inventory_variables import described
from .plain import plain
from .why_silent import cause

COLLECTION = "berth.kvm."
# Modules that get secrets. Ansible does not mask a secret with line breaks or quotes in the host's system log if it is
# only a part of an argument.
NOT_LOGGED = (
    "backup_store",
    "build_instances",
    "instance",
    "instance_backup",
    "migration",
    "outage_unit",
    "registry_member",
)
# Errors after which it is unknown what the host did.
UNKNOWN = (HostUnknown.__name__, reply.InvalidReply.__name__)


class HostAction(ActionBase):
    """Runs the module with the action's name on the task's host."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False  # the reply of a background task arrives by another path, which nobody checks

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        result = self._asked(host_of(self, task_vars), task_vars)
        host_ends.note(self, task_vars, result)
        silent = bool(result.get("unreachable"))
        if not (silent or result.get("failed")) or not self._is_ours() or known_ansible.delegates().is_apart():
            return result
        known_ansible.without_origin(self._task)
        host = task_vars["inventory_hostname"]
        if not silent:
            return screen.failure_told_once(self._task, result, host)
        text = "host %s left out: %s" % (host, reason_if_closed(task_vars, host, _silent(result)))
        return {"unreachable": True, "changed": False, "msg": screen.tell_once(text)}

    def _is_ours(self):
        """Whether a role of ours has the task; a play or role of somebody's own may read why it failed."""
        role = self._task._role
        return role is not None and role.get_name().startswith(COLLECTION)

    def _asked(self, host, task_vars):
        try:
            if not self._is_ours() and host in task_vars["groups"]["all"]:
                _check_no_instance(host, task_vars)
            result = known_ansible.delegates().apart(self, host, task_vars, lambda: self.on_host(task_vars))
        except BerthError as error:
            return {"failed": True, "changed": False, **error.to_result()}
        return result if host == task_vars["inventory_hostname"] else failed_if_silent(result, host, task_vars)

    def on_host(self, task_vars):
        """Runs in the process that asks."""
        return run_module(self, self._task.action.rpartition(".")[2], dict(self._task.args), task_vars)

    def _configure_module(self, module_name, *args, **how):
        """Return what is sent to the host, and the module's path. Ansible may run modules of its own in between."""
        make = functools.partial(super()._configure_module, module_name, *args, **how)
        return self.sending.made(make, self._task.check_mode) if module_name.startswith(COLLECTION) else make()


def _check_no_instance(host, task_vars):
    """Of a task of somebody's own: in a guest a module of KVM hosts would look for a libvirt of its own."""
    kvm_hosts = task_vars["groups"].get("kvm_hosts")
    if kvm_hosts and host not in kvm_hosts and described(task_vars, [host]):
        hint = fleet_hints.run_on_kvm_host()
        raise InvalidInput("the host of the task", host, "a KVM host; this is an instance", hint=hint)


@contextlib.contextmanager
def temporary_directory(action):
    """A directory of Ansible on the task's host, for files that a module takes from there."""
    directory = action._make_tmp_path()
    try:
        yield directory
    finally:
        action._remove_tmp_path(directory, force=True)


def failed_if_silent(result, host, task_vars):
    """A silent delegate as a failure: Ansible drops an unreachable one's instance, and no rescue or table says why."""
    if not result.get("unreachable"):
        return result
    reason = reason_if_closed(task_vars, host, _silent(result))
    return {"failed": True, "changed": False, **unanswered(host, reason).to_result()}


def _silent(result):
    """The reason of a host that did not answer."""
    return "%s: %s" % (NO_ANSWER, cause(str(result.get("msg"))))


def host_of(action, task_vars):
    """The inventory name of the host that a task is for."""
    return action._task.delegate_to or task_vars["inventory_hostname"]


def run_module(action, name, arguments, task_vars):
    """The reply of our module ``name`` from the task's host. Ansible itself reports a host that cannot be reached."""
    if name in acting.NOTING:
        arguments = {"by": acting.by(), **arguments}
    if name in NOT_LOGGED:
        task_vars = {**task_vars, "ansible_no_target_syslog": True}
    return _checked(
        action,
        name,
        arguments,
        task_vars,
        lambda: _execute(action, module_name=COLLECTION + name, module_args=arguments, task_vars=task_vars),
    )


def _execute(action, **module):
    action.sending = sent_code.Sending(module["module_name"])
    result = action._execute_module(**module)
    return action._execute_module(**module) if action.sending.has_to_have_code(result) else result


def run_builtin(action, name, arguments, task_vars):
    """Return the reply of Ansible's own module ``name``; for some of them Ansible has an action."""
    full = "ansible.builtin." + name

    def run():
        task = action._task.copy()
        task.action, task.args = full, arguments
        loader = action._shared_loader_obj.action_loader
        other = loader.get(
            full if loader.has_plugin(full) else "ansible.builtin.normal",
            task=task,
            connection=action._connection,
            play_context=action._play_context,
            loader=action._loader,
            templar=action._templar,
            shared_loader_obj=action._shared_loader_obj,
        )
        return other.run(task_vars=task_vars)

    return _checked(action, name, arguments, task_vars, run)


def answer_of(result):
    """Turn a result of this file into an answer: with ``reason`` if the host did not answer, ``error`` if the module
    failed.

    Neither fails the task: one host that is down or full must not take the instances of others with it, and Ansible
    would count an unreachable delegate against the instance.
    """
    if result.get("error_code") in UNKNOWN:
        return {"changed": False, "reason": result["msg"]}  # what the host did is unknown, as if it were silent
    if result.get("unreachable"):
        return {"changed": False, "reason": _silent(result)}
    if result.get("failed"):
        return {"changed": bool(result.get("changed")), "error": result.get("error") or _of_ansible(result)}
    return {name: part for name, part in result.items() if name != "failed" and not name.startswith("_ansible_")}


def _of_ansible(result):
    """The error of a task that ended before the module ran."""
    message = clean(str(result.get("msg")), reply.LONGEST)
    not_asked = why_silent.not_asked(message)
    return not_asked.to_dict() if not_asked else {"code": "ModuleFailed", "message": message, "retryable": False}


def _checked(action, name, arguments, task_vars, run):
    host = host_of(action, task_vars)
    try:
        checked = reply.check(name, _read(name, host, run), host, arguments)
        return why_silent.explained(getattr(action._connection, "become", None), host, checked)
    except BerthError as error:
        return {"failed": True, "changed": False, **error.to_result()}


def _read(name, host, run):
    """What the host sent, as plain data. A reply that is too deep or too odd for Ansible fails only itself."""
    try:
        return _plain_reply(name, host, run())
    except (AnsibleConnectionFailure, reply.InvalidReply):
        raise
    except AnsibleError as error:
        return {"failed": True, "msg": str(error)}
    except Exception as error:  # pylint: disable=broad-exception-caught
        raise reply.invalid(name, host, "all of it", type(error).__name__, "a reply that can be read") from error


def _plain_reply(name, host, result):
    """The parts of a reply that are in its schema, without Ansible's tagged types."""
    if not isinstance(result, dict):
        return result
    parts = {key: result[key] for key in reply.wanted(name) if key in result}
    ended = getattr(result.get("exception"), "event", None)
    if ended is not None and not parts.get("msg"):
        parts["msg"] = "the module failed: %s" % ended.msg
    if isinstance(parts.get("warnings"), (list, tuple)):
        parts["warnings"] = [_text_of(warning) for warning in parts["warnings"]]
    much = host_limits.excess(parts)
    if much:
        raise reply.invalid(name, host, "the whole", much, host_limits.RULE)
    return plain(parts)


def _text_of(warning):
    """A warning as text; Ansible may have turned it into an object by now."""
    event = getattr(warning, "event", None)
    return warning if event is None else event.msg
