# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that one task does at once for many of its hosts, though each of them reports its own part.

Ansible runs a task in one process for each host, as many at a time as it has forks, and says what changed and what failed
host by host. The first of these processes does the work of all that have come, while they wait; each then returns its own
part. Who has not come may never come: conditions, rescues and earlier failures decide that, and nobody can ask Ansible.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Tuple

from ansible import constants
from ansible.plugins.action import ActionBase

from ..module_utils.conductor.errors import WorkEnded
from ..module_utils.model import fleet_hints
from ..module_utils.model.errors import InvalidInput
from . import acting
from .answers_of_hosts import reason_of

Results = Dict[str, Any]  # {parts: {host: what it reports}, ...}
NO_INSTANCE = {"skipped": True, "msg": "has no berth_flavor"}
PAUSE, SETTLED = 0.02, 0.25  # seconds between two looks at who has come, and after which nobody else is waited for
OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


def done_together(
    action: ActionBase, task_vars: Dict[str, Any], work: Callable[[List[str]], Results]
) -> Tuple[Any, Results]:
    """Return this host's part of what ``work(hosts)`` returned, which is plain data, {} if it has none, and all of it in the
    process that did it, else {}.

    Raises what it raised, in that process; in those that waited WorkEnded: nobody does again what ended halfway.
    """
    if action._task.run_once and len(task_vars["ansible_play_batch"]) > 1:
        rule = "only where the play has one host: the others would be left out"
        raise InvalidInput("run_once", True, rule, hint=fleet_hints.leave_run_once_out())
    name, path = str(task_vars["inventory_hostname"]), _path(action._task._uuid)
    with open(os.open(path + ".come", OPEN | os.O_APPEND, 0o600), "a+", encoding="utf-8") as come:
        come.write(name + "\n")
        come.flush()
        with _locked(path) as file:
            parts = json.loads(file.read() or "{}")
            if name in parts:
                if parts[name] is None:
                    raise WorkEnded(
                        "the process that did this task for %s, too, ended. Its error is shown above" % name
                    )
                return parts[name], {}
            hosts = _waiting(come, parts, task_vars)
            _write(file, {**parts, **dict.fromkeys(hosts)})
            results = work(hosts)
            done = {host: results["parts"].get(host, {}) for host in hosts}
            _write(file, {**parts, **done, **results["parts"]})
            return done.get(name), results


def own_part(
    action: ActionBase, task_vars: Dict[str, Any], work: Callable[[List[str]], Results], may_fail: bool
) -> Dict[str, Any]:
    """What the task of this host returns: its part of what ``done_together`` did, and in one process also what it has for the
    run. A part with an ``error`` fails the task, unless it ``may_fail`` since its playbook tells why in a task of its own."""
    own, done = done_together(action, task_vars, work)
    return {**failing(own or NO_INSTANCE, may_fail), **done.get("run", {})}


def failing(part: Dict[str, Any], may_fail: bool) -> Dict[str, Any]:
    """The part, which fails its task if it has an ``error`` and not ``may_fail``."""
    failed = "error" in part and not may_fail
    return {**part, "failed": True, "msg": part.get("msg") or reason_of(part)} if failed else part


def ended_together(work: str, name: str, names: Collection[str], part: Dict[str, Any]) -> Optional[Results]:
    """Note the part, plain data, of a host that has ended its own share of ``work``, a token. The last of ``names`` to end
    gets all parts, each other one None."""
    with _locked(_path(work)) as file:
        parts = {**json.loads(file.read() or "{}"), name: part}
        _write(file, parts)
    return parts if parts.keys() >= set(names) else None


def noted(action: ActionBase, outcomes: Mapping[str, Optional[Dict[str, Any]]]) -> Dict[str, Any]:
    """Note what became of hosts in the action's task, None of who has begun. Return that of all that it has worked for
    until now: of a play with more hosts than Ansible has forks, one process after another works for some of them. With it what
    other tasks of the play did: of a plan that is carried out, one moves and one confirms."""
    known = _added("%s.outcomes" % action._task._uuid, outcomes)
    ended = {name: outcome for name, outcome in outcomes.items() if outcome is not None}
    of_play = _added("%s.outcomes" % action._task.get_play()._uuid, ended)
    return {**known, **{name: outcome for name, outcome in of_play.items() if name not in known}}


def _added(work: str, outcomes: Mapping[str, Optional[Dict[str, Any]]]) -> Dict[str, Any]:
    with _locked(_path(work)) as file:
        known = {**json.loads(file.read() or "{}"), **outcomes}
        _write(file, known)
    return known


def _path(work: str) -> str:
    """Ansible removes the directory, which only its user can read, at the end of the run."""
    return os.path.join(constants.DEFAULT_LOCAL_TMP, "berth-%s-%s" % (acting.RUN, work))


def _locked(path: str) -> Any:
    """The file, locked until it is closed."""
    file = open(os.open(path, OPEN, 0o600), "r+", encoding="utf-8")  # pylint: disable=consider-using-with
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def _waiting(come: Any, parts: Results, task_vars: Dict[str, Any]) -> List[str]:
    """The hosts whose processes wait. Those that Ansible starts together come within moments. Each batch of a play with
    ``serial`` carries out the same task."""
    most = min(int(task_vars["ansible_forks"]), len(set(task_vars["ansible_play_batch"]) - set(parts)))
    hosts: List[str] = []
    changed = time.monotonic()
    while len(hosts) < most and time.monotonic() < changed + SETTLED:
        come.seek(0)
        found = [name for name in dict.fromkeys(come.read().split("\n")) if name and name not in parts]
        if len(found) > len(hosts):
            hosts, changed = found, time.monotonic()
        else:
            time.sleep(PAUSE)
    return hosts


def _write(file: Any, value: Any) -> None:
    file.seek(0)
    file.truncate()
    json.dump(value, file)
    file.flush()
