# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action move_instances: see plugins/modules/move_instances.py for its documentation."""

from __future__ import annotations

from ..plugin_utils import end_of_operation
from ..plugin_utils.controller import controller_facts, documented, outcomes_reported
from ..plugin_utils.inventory_variables import instances_among, kvm_hosts
from ..plugin_utils.moving_instances import Asked, MovesInstances, after_second_look, of_one
from ..plugin_utils.plain import plain
from ..plugin_utils.selection import check_play
from ..plugin_utils.shared_task import NO_INSTANCE, done_together, ended_together, failing, noted

# What is done with a plan of the playbook, which no later task carries out again.
CARRIED_OUT = {"id": "", "action": None, "names": [], "moves": {}, "errors": {}}


class ActionModule(MovesInstances):
    """The first process reads the hosts and plans for all that have come, unless the playbook has; each moves its own
    instance then, so that nobody waits for the copy of another. The last of them ends the run."""

    ends_run = True
    argument_spec = documented("move_instances")

    def reported(self, result):
        return outcomes_reported(self, result)

    def act(self, args, task_vars):
        name = task_vars["inventory_hostname"]
        asked = Asked(args["operation"], args["hosts"], task_vars, args["only_prepare"])
        moves = _of_playbook(asked, name) or self._planned(asked)
        if not moves:
            return NO_INSTANCE
        moves = plain(moves)
        done, second, more = self.moved(asked, name, moves["moves"].get(name))
        known = after_second_look(moves, second, [name]) if second else moves
        outcome = end_of_operation.of_move(task_vars, asked.operation, name, known, done, self._task.check_mode)
        part = end_of_operation.part_of_move(asked.operation, outcome, known, done, self._task.check_mode)
        ended = self._ended(
            asked, name, moves, {"plan": second or of_one(moves, name), "late": bool(second), "done": done}
        )
        return {**failing({**part, **more}, args["may_fail"]), **ended}

    def _planned(self, asked):
        """The plan of this instance, made with those of all that have come; {} of what is no instance."""
        check_play(self, asked.task_vars, asked.operation)
        hosts = kvm_hosts(asked.task_vars, asked.hosts)

        def work(names):
            chosen = [each for each in instances_among(asked.task_vars, names) if each not in hosts]
            self.asks_alone = True
            moves = self.read_and_plan(asked, chosen) if chosen else {}
            self.asks_alone = False
            noted(self, dict.fromkeys(moves.get("names", ())))
            return {"parts": {each: of_one(moves, each) if each in chosen else {} for each in names}}

        return done_together(self, asked.task_vars, work)[0]

    def _ended(self, asked, name, moves, part):
        """What the last of those that were planned together returns for the run."""
        there = [each for each in moves["names"] if each in asked.task_vars["ansible_play_hosts"]]
        parts = ended_together(moves["id"], name, there, part)
        if parts is None:
            return {}
        for each, told in sorted(parts.items(), key=lambda entry: entry[1]["late"]):
            moves = after_second_look(moves, told["plan"], [each])
        done = {each: told["done"] for each, told in parts.items()}
        ended = end_of_operation.end(self, asked.task_vars, asked.operation, {}, {}, moves, done)
        ended["ansible_facts"]["berth_moves"] = CARRIED_OUT
        return ended


def _of_playbook(asked, name):
    """The plan that the playbook has made in this run, if it has one that is not carried out yet."""
    moves = controller_facts(asked.task_vars).get("berth_moves") or {}
    return moves if moves.get("action") == asked.operation and name in moves["names"] else None
