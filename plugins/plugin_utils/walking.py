# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move between two of its tasks: the fact of the instance with what was answered so far.

A fact, because a leg that failed registers its failure alone. The procedure is carried out up to there anew each time.
"""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ..module_utils.conductor import downtime
from ..module_utils.conductor.procedures.move import Run, move
from ..module_utils.conductor.procedures.steps import Ask
from ..module_utils.conductor.walk import Move, Walk
from ..module_utils.model.catalog import Catalog
from .inventory_variables import CATALOG
from .plain import plain

FACT = "berth_walk"


class At(NamedTuple):
    """How far a move has come: its next question, what people are told about it, and the answers so far."""

    walk: Walk
    step: Optional[Ask]
    label: str
    answers: List[Dict[str, Any]]


def after(plan: Mapping[str, Any], answers: List[Dict[str, Any]], run: Run) -> At:
    walk, label = Walk(Move.from_plan(plan)), ""
    procedure, left, answer = move(walk, run), list(answers), None
    while True:
        try:
            step = procedure.send(answer)
        except StopIteration:
            return At(walk, None, "", answers)
        answer = None
        if isinstance(step, Ask):
            if not left:
                return At(walk, step, label, answers)
            answer = left.pop(0)
        else:
            label = step.event.get("leg", label)


def answers_of(plan: Mapping[str, Any], at: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Those of this plan: those of another one are from an earlier play, or an earlier run."""
    known = at.get("walk") or {}
    return known["answers"] if known.get("plan") == plan["id"] else []


def of_plan(variables: Mapping[str, Any], plan: Optional[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What the fact among an instance's variables says of this move; nothing if it is of another one."""
    at = (variables.get("ansible_facts") or {}).get(FACT) or {}
    return at if plan and at.get("walk", {}).get("plan") == plan.get("id") else {}


def has_met_end(variables: Mapping[str, Any], plan: Optional[Mapping[str, Any]]) -> bool:
    """Whether the walk of this plan found the move ended, and the run has to look again."""
    at = of_plan(variables, plan)
    return bool(at and at["walk"]["met_end"] and at["failure"] is not None)


def answer_to(step: Ask, result: Mapping[str, Any]) -> Dict[str, Any]:
    """The answer to the procedure's question, from the result of the task that asked it."""
    if step.module == "rescan":
        return plain(result.get("answers") or {})
    [host] = step.arguments
    if result.get("failed"):
        error = result.get("error") or {"code": "ModuleFailed", "message": str(result.get("msg"))}
        return {host: {"error": plain(error)}}
    parts = {name: plain(result[name]) for name in ("move", "token", "took", "changed") if name in result}
    return {host: {**parts, "at": time.monotonic()}}


def run_of(action: Any, task_vars: Dict[str, Any], at: Mapping[str, Any], key: Optional[str] = None) -> Run:
    catalog = Catalog.from_variables(action.own_variables(task_vars, CATALOG))
    return Run({**at["settings"], "key": key}, catalog.quotas, at["only_prepare"])


def fact(plan: Mapping[str, Any], found: At, number: int, run: Run) -> Dict[str, Any]:
    """The result of a task that knows how far the move has come."""
    walk, step = found.walk, found.step
    settings = {name: value for name, value in run.settings.items() if name != "key"}
    shown: Dict[str, Any] = {
        "walk": {"plan": plan["id"], "answers": found.answers, "met_end": walk.met_end},
        "number": number,
        "only_prepare": run.only_prepare,
        "settings": settings,
        "labels": [],
        "tasks": None,
        "host": None,
        "failure": None,
        "attempts": [],
        "destination": None,
        "away": None,
        "move": None if step or walk.failure or walk.prepared else walk.last,
    }
    if step:
        looks = step.module == "rescan"
        shown.update(labels=[found.label], tasks="look.yml" if looks else "leg.yml")
        shown["host"] = walk.destination() if looks else list(step.arguments)[0]
    else:
        shown.update(failure=walk.failure, attempts=walk.attempts, destination=walk.destination())
        shown["away"] = walk.away.get(downtime.SECONDS)
    if shown["failure"] is not None and walk.met_end:
        shown.update(labels=["Look again, since the move has just ended"], tasks="look_again.yml")
    elif shown["failure"] is not None:
        shown.update(labels=["Fail, since the move failed"], tasks="failed.yml")
    return {"ansible_facts": {FACT: shown}}
