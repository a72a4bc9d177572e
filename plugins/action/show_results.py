# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action show_results: see plugins/modules/show_results.py for its documentation."""

from __future__ import annotations

from ..module_utils.conductor import report, report_moves, report_power
from ..module_utils.model.identity import instance_uuid, project_of
from ..plugin_utils import failed_requests
from ..plugin_utils.controller import ControllerAction, controller_facts, outcomes_reported, results_fact
from ..plugin_utils.inventory_variables import raw_vars, variables
from ..plugin_utils.plain import plain
from ..plugin_utils.screen import say
from ..plugin_utils.second_look import after_second_look

PLACED = ("resize", "cold_migrate", "live_migrate", "migrate")
DONE = ("__berth_done", "__delete_done", "__berth_failure")
MOVED = "__move_done"


class ActionModule(ControllerAction):
    argument_spec = {"operation": {"type": "str", "required": True}}

    def reported(self, result):
        return outcomes_reported(result)

    def act(self, args, task_vars):
        facts, operation = plain(controller_facts(task_vars)), args["operation"]
        moves = _after_the_moves(facts.get("berth_moves") or {}, task_vars)
        located = facts["berth_located"] if operation in report_power.WORDS else {}
        names = located["names"] if located else sorted({*moves["moves"], *moves["errors"]})
        self._tried = []
        outcomes = [self._outcome(operation, name, located, moves, task_vars) for name in names]
        left_out = (located or moves)["left_out"]
        self._keep(operation, outcomes, task_vars)
        say("", *report.closing(outcomes, left_out, self._tried), "")
        moved = [outcome for outcome in outcomes if not located or outcome.instance in located["moving"]]
        return results_fact(outcomes, left_out, self._would_change(operation, moved, moves))

    def _would_change(self, operation, outcomes, moves):
        """The changes that check mode expects, instance -> diff: made here because it runs no step of a move."""
        if not self._task.check_mode or not moves:
            return {}
        diffs = {outcome.instance: report_moves.difference(operation, outcome, moves) for outcome in outcomes}
        return {name: diff for name, diff in diffs.items() if diff}

    def _keep(self, operation, outcomes, task_vars):
        """Keep the failure of a move until one succeeds; a delete removes what is kept about failed requests."""
        if operation not in PLACED and operation != "delete":
            return
        failures, done = [], []
        for outcome in outcomes:
            name = outcome.instance
            project = project_of(variables(task_vars, name, ["berth_project"]))
            code = report.error_code(outcome.error)
            if not outcome.error:
                done.append(instance_uuid(project, name))
            elif operation in PLACED and code != "InstanceNotFound":
                message = outcome.error.removeprefix(code + ": ")
                failures.append({"name": name, "project": project, "code": code, "message": message})
        failed_requests.settle(self, task_vars, operation, failures, done)

    def _outcome(self, operation, name, located, moves, task_vars):
        values = raw_vars(task_vars, name)
        done = {key: registered(values[key]) for key in DONE if key in values}
        done["move_walk"] = registered(of_plan(values, moves))
        if done["move_walk"].get("failure"):
            done["__berth_failure"] = done["move_walk"]["failure"]
        done["gone"] = name in task_vars["ansible_play_hosts_all"] and name not in task_vars["ansible_play_hosts"]
        instance_variables = variables(task_vars, name, ["berth_networks", "berth_project"])
        if not located or name in located["moving"]:
            outcome = report_moves.outcome(operation, name, moves, done, self._task.check_mode)
        else:
            outcome = report_power.outcome(operation, name, located, done, self._task.check_mode)
            outcome.address = outcome.address or report.address_of(instance_variables.get("berth_networks"))
        uuid = instance_uuid(project_of(instance_variables), name)
        outcome.error = report.named(outcome.error, uuid, name)
        if outcome.error:
            self._tried += report.tried(name, uuid, (done.get("move_walk") or {}).get("attempts") or ())
        return outcome


def of_plan(values, moves):
    """What move_instances did by this plan; nothing if that was of an earlier one."""
    done = values.get(MOVED) or {}
    return done if done.get("plan") == moves.get("id") else {}


def _after_the_moves(moves, task_vars):
    """The plan, with what the moves found that looked again."""
    for name in list({**moves.get("moves", {}), **moves.get("errors", {})}):
        second = plain(of_plan(raw_vars(task_vars, name), moves).get("second"))
        moves = after_second_look(moves, second, [name]) if second else moves
    return moves


def registered(value):
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
    found = plain({key: value[key] for key in needed if key in value})
    items = value.get("results")
    return {**found, "results": [registered(item) for item in items]} if isinstance(items, list) else found
