# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions of one task to several KVM hosts at once: what each host is asked, how many at a time, and which is asked
again after its connection broke.
"""

from __future__ import annotations

import re
import time
from typing import Any, Dict, Iterable, List, Mapping, Optional

from ansible.plugins.action import ActionBase

from . import known_ansible, sent_code
from .answers_of_hosts import answer
from .host_limits import task_seconds
from .host_reply import answer_of

MODULES = ("host_facts", "claim", "rescan", "volume")
WARNINGS = ("warnings", "deprecations")
TRIES, PAUSE = 3, 1  # attempts of a question that only reads, and seconds between them
# What ssh says if sshd is full or restarts, or the connection broke.
BROKEN = re.compile(r"connection (refused|reset|closed)|closed by remote|broken pipe|lost connection", re.IGNORECASE)


def ask(
    action: ActionBase,
    task_vars: Dict[str, Any],
    hosts: Iterable[str],
    module: str,
    arguments: Dict[str, Any],
    host_arguments: Optional[Dict[str, Dict[str, Any]]] = None,
) -> Dict[str, Dict[str, Any]]:
    """Host -> the raw result of the module there. ``host_arguments``: argument -> host -> value, where they differ."""
    each = {host: arguments_of(host, arguments, host_arguments or {}) for host in hosts}
    return ask_each(action, task_vars, module, each)


def ask_each(
    action: ActionBase,
    task_vars: Dict[str, Any],
    module: str,
    host_args: Dict[str, Dict[str, Any]],
    at: Optional[Mapping[str, str]] = None,
    check: bool = False,
) -> Dict[str, Dict[str, Any]]:
    """Host -> the raw result of the module with the host's own arguments. ``at`` and ``check``: as of procedures' Ask."""
    names = list(host_args)
    if not names:
        return {}
    if sent_code.packs_as_known():
        sent_code.of_files()  # once for all the processes that ask
    at_a_time = at_once(task_vars, getattr(action, "asks_alone", bool(action._task.run_once)))
    hosts = {name: (at or {}).get(name, name) for name in names}
    seconds = {name: task_seconds(task_vars, hosts[name], module, host_args[name].get("state")) for name in names}
    task, more = action._task, {"at": at} if at else {}
    if check:
        task = task.copy()
        task.check_mode = True

    def run_on(several: List[str]) -> Dict[str, Dict[str, Any]]:
        delegates = known_ansible.delegates((action, task_vars))
        return delegates.run_on(several, "berth.kvm." + module, host_args, task, at_a_time, seconds, **more)

    results = run_on(names)
    for _again in range(TRIES - 1 if _only_read(module, host_args) else 0):
        broken = [host for host in names if _broke(results[host])]
        if not broken:
            break
        time.sleep(PAUSE)
        results.update(run_on(broken))
    return results


def _only_read(module: str, host_args: Dict[str, Dict[str, Any]]) -> bool:
    """Whether the hosts can be asked twice: a write is never sent again, since the first may have arrived."""
    return module == "host_facts" and not any(arguments.get("fix") for arguments in host_args.values())


def _broke(result: Dict[str, Any]) -> bool:
    """Whether something answered but the connection ended. A host that is down would only cost the same time again."""
    return bool(result.get("unreachable")) and bool(BROKEN.search(str(result.get("msg"))))


def answers(results: Dict[str, Dict[str, Any]]) -> Dict[str, Dict[str, Any]]:
    """Host -> its answer: the result of the action of its module, which has checked it."""
    return {host: answer(answer_of(result)) for host, result in results.items()}


def warnings(results: Dict[str, Dict[str, Any]]) -> Dict[str, list]:
    """The warnings of all hosts, as warnings of the task: Ansible shows them once, below it."""
    return {kind: [warning for result in results.values() for warning in result.get(kind) or ()] for kind in WARNINGS}


def arguments_of(host: str, arguments: Dict[str, Any], host_arguments: Dict[str, Dict[str, Any]]) -> Dict[str, Any]:
    """The module's arguments on this host: ``arguments``, and the host's own values from ``host_arguments``."""
    own = {name: values[host] for name, values in host_arguments.items() if host in values}
    return {**arguments, **own}


def at_once(task_vars: Dict[str, Any], alone: bool) -> int:
    """How many hosts a process asks at a time, so that it and those of the task's other hosts stay within Ansible's forks.
    ``alone``: none of those asks at the same time."""
    forks = int(task_vars["ansible_forks"])
    return forks if alone else forks // min(forks, len(task_vars["ansible_play_hosts_all"]))
