# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of an operation on existing instances: what became of each reaches people, and what is kept about failed requests."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from ansible.plugins.action import ActionBase

from ..module_utils.conductor import closing_table, outcome_of_move, outcome_of_operation
from ..module_utils.conductor.closing_table import Outcome
from ..module_utils.conductor.procedures.operate import Done
from ..module_utils.model.errors import BerthError
from ..module_utils.model.identity import IDENTITY, project_of, uuid_of
from . import remembered_failures
from .berth_name import addressed
from .controller import results_fact
from .inventory_variables import variables
from .screen import columns, say

PLACED = ("resize", "cold_migrate", "live_migrate", "migrate")
Walks = Mapping[str, Dict[str, Any]]  # instance -> what became of its move


def end(
    action: ActionBase,
    task_vars: Dict[str, Any],
    operation: str,
    located: Dict[str, Any],
    done: Mapping[str, Done],
    moves: Dict[str, Any],
    walks: Walks,
) -> Dict[str, Any]:
    """Show the results, and return them as those of the run's last task. ``located``: those of ``done``, empty if the
    operation moves instances; ``moves``: the plan of ``walks``, empty if none is moved."""
    names = located["names"] if located else moves["names"]
    outcomes, tried = [], []
    for name in names:
        if located and name not in located["moving"]:
            outcome = _of_located(
                task_vars, operation, name, located, done.get(name) or Done(), action._task.check_mode
            )
        else:
            walk = walks.get(name, {"gone": True})
            outcome = of_move(task_vars, operation, name, moves, walk, action._task.check_mode)
            attempts = (walk.get("attempts") or ()) if outcome.error else ()
            tried += closing_table.tried(name, _uuid(task_vars, name), attempts)
        outcomes.append(outcome)
    left_out = (located or moves)["left_out"]
    addressed(outcomes, task_vars)
    _keep(action, task_vars, operation, outcomes)
    say("", *closing_table.closing(outcomes, left_out, tried, width=columns()), "")
    return results_fact(outcomes, left_out)


def _of_located(
    task_vars: Dict[str, Any], operation: str, name: str, located: Dict[str, Any], done: Done, check_mode: bool
) -> Outcome:
    outcome = outcome_of_operation.outcome(operation, name, located, done, check_mode)
    networks = variables(task_vars, name, ["berth_networks"]).get("berth_networks")
    outcome.address = outcome.address or closing_table.address_of(networks)
    outcome.error = closing_table.named(outcome.error, _uuid(task_vars, name), name)
    return outcome


def of_move(
    task_vars: Dict[str, Any], operation: str, name: str, moves: Dict[str, Any], walk: Dict[str, Any], check_mode: bool
) -> Outcome:
    outcome = outcome_of_move.outcome(operation, name, moves, walk, check_mode)
    outcome.error = closing_table.named(outcome.error, _uuid(task_vars, name), name)
    return outcome


def part_of_move(
    operation: str, outcome: Outcome, moves: Dict[str, Any], walk: Dict[str, Any], check_mode: bool
) -> Dict[str, Any]:
    """What the task of one instance returns of its move. Its legs make no diff, so check mode tells the whole move."""
    diff = outcome_of_move.difference(operation, outcome, moves) if check_mode else None
    part = {
        **walk,
        "outcome": outcome.to_dict(),
        "changed": walk["changed"] or bool(diff),
        **({"diff": [diff]} if diff else {}),
    }
    if not outcome.error:
        return part
    error = walk.get("error") or closing_table.error_of(outcome.error)
    return {**part, "error": error, "error_code": error["code"], "msg": outcome.error}


def _uuid(task_vars: Dict[str, Any], name: str) -> str:
    """The name itself where no uuid follows from it, which is told as the instance's error."""
    try:
        return uuid_of(name, variables(task_vars, name, IDENTITY))
    except BerthError:
        return name


def _keep(action: ActionBase, task_vars: Dict[str, Any], operation: str, outcomes: List[Outcome]) -> None:
    """Keep the failure of a move until one succeeds; a delete removes what is kept about failed requests."""
    if operation not in PLACED and operation != "delete":
        return
    failures, done = [], []
    for outcome in outcomes:
        name, uuid = outcome.instance, _uuid(task_vars, outcome.instance)
        code = closing_table.error_code(outcome.error)
        if not outcome.error:
            done.append(uuid)
        elif operation in PLACED and code != "InstanceNotFound" and uuid != name:
            project = project_of(variables(task_vars, name, IDENTITY))
            message = outcome.error.removeprefix(code + ": ")
            failures.append({"name": name, "project": project, "code": code, "message": message})
    remembered_failures.settle(action, task_vars, operation, failures, done)
