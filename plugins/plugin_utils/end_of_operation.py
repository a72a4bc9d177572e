# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of an operation on existing instances: what became of each reaches people, and what is kept about failed requests."""

from __future__ import annotations

from typing import Any, Dict, List

from ansible.plugins.action import ActionBase

from ..module_utils.conductor import report, report_moves, report_power
from ..module_utils.conductor.procedures.operate import Done
from ..module_utils.conductor.report import Outcome
from ..module_utils.model.identity import IDENTITY, project_of, uuid_of
from . import failed_requests
from .berth_name import addressed
from .controller import results_fact
from .inventory_variables import raw_vars, variables
from .plain import plain
from .screen import say
from .second_look import after_second_look

PLACED = ("resize", "cold_migrate", "live_migrate", "migrate")
FAILURE, MOVED = "__berth_failure", "__move_done"


def end(
    action: ActionBase,
    task_vars: Dict[str, Any],
    operation: str,
    located: Dict[str, Any],
    moves: Dict[str, Any],
    done: Dict[str, Done],
) -> Dict[str, Any]:
    """Show the results, and return them as those of the run's last task. ``located`` and ``moves``: the facts of the run,
    located is empty if the operation moves instances; ``done``: what became of those that were located."""
    moves = _after_the_moves(moves, task_vars)
    names = located["names"] if located else sorted({*moves["moves"], *moves["errors"]})
    moving = [name for name in names if not located or name in located["moving"]]
    check_mode, outcomes, tried = bool(action._task.check_mode), [], []
    for name in names:
        outcome_variables = variables(task_vars, name, ["berth_networks", *IDENTITY])
        walk: Dict[str, Any] = {}
        if name in moving:
            walk = _walk(task_vars, name, moves)
            outcome = report_moves.outcome(operation, name, moves, walk, check_mode)
        else:
            outcome = report_power.outcome(operation, name, located, done.get(name) or Done(), check_mode)
            outcome.address = outcome.address or report.address_of(outcome_variables.get("berth_networks"))
        uuid = uuid_of(name, outcome_variables)
        outcome.error = report.named(outcome.error, uuid, name)
        if outcome.error:
            tried += report.tried(name, uuid, (walk.get("move_walk") or {}).get("attempts") or ())
        outcomes.append(outcome)
    left_out = (located or moves)["left_out"]
    addressed(outcomes, task_vars)
    _keep(action, task_vars, operation, outcomes)
    say("", *report.closing(outcomes, left_out, tried), "")
    moved = [outcome for outcome in outcomes if outcome.instance in moving]
    return results_fact(outcomes, left_out, _would_change(operation, moved, moves) if check_mode and moves else {})


def _would_change(operation: str, outcomes: List[Outcome], moves: Dict[str, Any]) -> Dict[str, Any]:
    """The changes that check mode expects of moves, instance -> diff: made here because it runs no step of a move."""
    diffs = {outcome.instance: report_moves.difference(operation, outcome, moves) for outcome in outcomes}
    return {name: diff for name, diff in diffs.items() if diff}


def _keep(action: ActionBase, task_vars: Dict[str, Any], operation: str, outcomes: List[Outcome]) -> None:
    """Keep the failure of a move until one succeeds; a delete removes what is kept about failed requests."""
    if operation not in PLACED and operation != "delete":
        return
    failures, done = [], []
    for outcome in outcomes:
        name = outcome.instance
        values = variables(task_vars, name, IDENTITY)
        project = project_of(values)
        code = report.error_code(outcome.error)
        if not outcome.error:
            done.append(uuid_of(name, values))
        elif operation in PLACED and code != "InstanceNotFound":
            message = outcome.error.removeprefix(code + ": ")
            failures.append({"name": name, "project": project, "code": code, "message": message})
    failed_requests.settle(action, task_vars, operation, failures, done)


def _walk(task_vars: Dict[str, Any], name: str, moves: Dict[str, Any]) -> Dict[str, Any]:
    """What a move left in the play's variables."""
    values = raw_vars(task_vars, name)
    found = {FAILURE: plain(values[FAILURE])} if FAILURE in values else {}
    found["move_walk"] = registered(_of_plan(values, moves))
    if found["move_walk"].get("failure"):
        found[FAILURE] = found["move_walk"]["failure"]
    found["gone"] = is_gone(task_vars, name)
    return found


def _of_plan(values: Dict[str, Any], moves: Dict[str, Any]) -> Dict[str, Any]:
    """What move_instances did by this plan; nothing if that was of an earlier one."""
    done: Dict[str, Any] = values.get(MOVED) or {}
    return done if done.get("plan") == moves.get("id") else {}


def _after_the_moves(moves: Dict[str, Any], task_vars: Dict[str, Any]) -> Dict[str, Any]:
    """The plan, with what the moves found that looked again."""
    for name in list({**moves.get("moves", {}), **moves.get("errors", {})}):
        second = plain(_of_plan(raw_vars(task_vars, name), moves).get("second"))
        moves = after_second_look(moves, second, [name]) if second else moves
    return moves


def is_gone(task_vars: Dict[str, Any], name: str) -> bool:
    """Whether Ansible has dropped the instance from the play."""
    return name in task_vars["ansible_play_hosts_all"] and name not in task_vars["ansible_play_hosts"]


def registered(value: Any) -> Any:
    """What the table needs of a registered result or a fact, without what Ansible adds, which is not plain data."""
    if not isinstance(value, dict):
        return plain(value)
    needed = (
        "changed",
        "failed",
        "msg",
        "instance",
        "move",
        "attempts",
        "destination",
        "away",
        "failure",
        "unreachable",
    )
    return plain({key: value[key] for key in needed if key in value})
