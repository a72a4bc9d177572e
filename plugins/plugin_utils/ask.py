# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module on the task's host and take silence and failure as answers."""

from __future__ import annotations

from ansible.errors import AnsibleConnectionFailure

from .plain import plain


def ask(action, module, arguments, task_vars):
    """The answer of the task's own host."""
    try:
        return answer_of(action._execute_module(module_name=module, module_args=arguments, task_vars=task_vars))
    except AnsibleConnectionFailure as failure:
        return answer_of({"unreachable": True, "msg": str(failure)})


def answer_of(result):
    """A module's result; with ``reason`` where the host did not answer, with ``error`` where the module failed.

    Neither fails the task: one host that is down or full must not take the instances of others with it, and Ansible
    would count an unreachable delegate against the instance.
    """
    unreachable, failed = result.pop("unreachable", False), result.pop("failed", False)
    if unreachable:
        return {"changed": False, "reason": "UNREACHABLE: %s" % result.get("msg")}
    if failed:
        error = result.get("error") or {
            "code": "ModuleFailed",
            "message": result.get("msg") or "the module failed",
            "retryable": False,
        }
        if result.get("module_stderr"):
            error["message"] += ": " + str(result["module_stderr"]).strip()[-500:]
        return {"changed": bool(result.get("changed")), "error": plain(error)}
    return result
