# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out a procedure of conductor/procedures/: asks the hosts what it asks, over Ansible's workers."""

from __future__ import annotations

import datetime
import random
import time
from typing import Any, Callable, Collection, Dict, List, Optional, Protocol, Tuple

from ansible.plugins.action import ActionBase

from ..module_utils.conductor.errors import RegistryUnknown
from ..module_utils.conductor.procedures.steps import (
    Ask,
    Look,
    Procedure,
    Result,
    Say,
    Scan,
    Transact,
    Transacted,
    Wait,
)
from ..module_utils.model.messages import Document
from .answers_of_hosts import reason_if_closed
from .berth_name import selected_by_name
from .fan_out import answers, ask_each
from .host_reply import answer_of
from .plain import plain
from .screen import visible_line, warn

# The modules that act only over the registry that their host belongs to.
FENCED = ("build_instances", "claim", "instance", "migration", "volume")
BEHIND = (
    "RegistryBehind"  # code of a host that has seen a newer revision of the registry than the run, and does nothing
)
TRIES = 5  # of such a host: another run may have asked it meanwhile


class Engine(Protocol):
    """The registry of a run, see registry_access.py. The first two raise RegistryUnknown."""

    def transact(self, step: Transact) -> Transacted: ...

    def scan(self, step: Scan) -> Transacted: ...

    def mark(self) -> Optional[Document]: ...


def carry_out(
    action: ActionBase,
    task_vars: Dict[str, Any],
    procedure: Procedure[Result],
    look: Optional[Callable[[Optional[Collection[str]]], Dict[str, Any]]] = None,
    hear: Callable[[Document], None] = lambda _said: None,
    engine: Optional[Engine] = None,
) -> Tuple[Result, List[Document]]:
    """Return the procedure's result, and what it said, which ``hear`` gets at once: [{at, instance, ...}]. ``look`` answers
    a Look, ``engine`` what goes to the registry."""
    said: List[Document] = []
    answer: Any = None
    unknown: Optional[RegistryUnknown] = None
    while True:
        try:
            step = procedure.throw(unknown) if unknown else procedure.send(answer)
        except StopIteration as ended:
            return ended.value, said
        answer, unknown = None, None
        if isinstance(step, (Transact, Scan)):
            if engine is None:
                raise TypeError("a procedure asks a registry that this run does not have")
            try:
                answer = engine.transact(step) if isinstance(step, Transact) else engine.scan(step)
            except RegistryUnknown as error:
                unknown = error
        elif isinstance(step, Wait):
            time.sleep(random.uniform(0, step.longest))
        elif isinstance(step, Say):
            at = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            said.append({"at": at, "instance": step.instance, **step.event})
            hear(said[-1])
        elif isinstance(step, Look):
            answer = look(step.names) if look else {}
        else:
            answer = _asked_over(engine, action, task_vars, step)


def _asked_over(engine: Optional[Engine], action: ActionBase, task_vars: Dict[str, Any], step: Ask) -> Dict[str, Any]:
    """As _asked(), and a host that takes part in a registry is told over which one the run works."""
    if not engine or step.module not in FENCED:
        return _asked(action, task_vars, step)
    found: Dict[str, Any] = {}
    left = step.arguments
    for _again in range(TRIES):
        mark = engine.mark()
        told = {asked: {**given, "registry": mark} if mark else given for asked, given in left.items()}
        found.update(_asked(action, task_vars, step._replace(arguments=told)))
        left = {asked: given for asked, given in left.items() if _is_behind(found[asked])}
        if not left:
            break
    return found


def _is_behind(answer: Dict[str, Any]) -> bool:
    return (answer.get("error") or {}).get("code") == BEHIND


def _asked(action: ActionBase, task_vars: Dict[str, Any], step: Ask) -> Dict[str, Any]:
    results = ask_each(action, task_vars, step.module, step.arguments, step.at, step.check)
    if step.module == "migration":
        found = {host: _of_leg(plain(result), task_vars) for host, result in results.items()}
    else:
        found = _answered(results)
    for asked, answer in found.items():
        if "reason" in answer:
            answer["reason"] = reason_if_closed(task_vars, step.host_of(asked), answer["reason"])
    return found


def _answered(results: Dict[str, Dict[str, Any]]) -> Dict[str, Any]:
    found: Dict[str, Any] = plain(answers(results))
    for asked, answer in found.items():
        if results[asked].get("warnings"):
            answer["warnings"] = list(map(visible_line, results[asked]["warnings"]))
        for build in answer.get("builds", ()):
            build["reply"] = answer_of(build["reply"])
    return found


def _of_leg(result: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
    """The answer of a leg, and when it came. A host whose reply was wrong is not silent: it can be asked to give up."""
    for warning in result.pop("warnings", None) or ():
        warn(selected_by_name(str(warning), task_vars))
    if result.get("failed") and not result.get("unreachable"):
        return {"error": result.get("error") or answer_of(result)["error"]}
    return {**answer_of(result), "at": time.monotonic()}
