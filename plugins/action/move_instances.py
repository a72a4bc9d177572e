# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action move_instances: see plugins/modules/move_instances.py for its documentation."""

from __future__ import annotations

import secrets
import time

from ..module_utils.conductor import downtime, report, report_moves
from ..module_utils.conductor.procedures.move import Run, operation
from ..module_utils.conductor.walk import Move
from ..module_utils.model.catalog import Catalog
from ..module_utils.model.messages import BESIDE_FACTS
from ..plugin_utils import move_options
from ..plugin_utils.controller import controller_facts
from ..plugin_utils.driving import carry_out
from ..plugin_utils.inventory_variables import CATALOG, instances_among, is_true, kvm_hosts, raw_vars
from ..plugin_utils.plain import plain
from ..plugin_utils.plan_moves import PlanMoves
from ..plugin_utils.reading import read
from ..plugin_utils.screen import columns, say
from ..plugin_utils.second_look import of_one
from ..plugin_utils.together import done_together

FACTS, DONE = "__berth_facts", "__move_done"
READ = {**dict.fromkeys(BESIDE_FACTS, False), "digests": True, "moves": True, "must_answer": True, "most": None}
# What is done with a plan of the playbooks migrate and confirm_due, too.
ALSO = {"live_migrate": ("migrate",), "cold_migrate": ("migrate",), "confirm": ("confirm_due",)}
# The role of an operation, where it has another name: whose options of old count.
ROLES = {("resize", True): "prep_resize", ("revert", False): "revert_resize"}
# Variables of the inventory that say yes to what is lost.
CONSENT = {
    "changed_disks": "berth_delete_changed_disks",
    "crashed": "berth_confirm_crashed",
    "revert_volumes": "berth_revert_volumes",
}


class ActionModule(PlanMoves):
    """The first process reads the hosts and plans for all that have come, unless the playbook has; each moves its own
    instance then, so that nobody waits for the copy of another."""

    argument_spec = {
        "operation": {
            "type": "str",
            "required": True,
            "choices": ["resize", "cold_migrate", "live_migrate", "confirm", "revert", "delete"],
        },
        "hosts": {"type": "list", "elements": "str"},
        "only_prepare": {"type": "bool", "default": False},
    }

    def reported(self, result):
        return None

    def act(self, args, task_vars):
        name = task_vars["inventory_hostname"]
        run = self._run(args, task_vars)
        planned = _of_playbook(args["operation"], name, task_vars)
        moves = planned or self._planned(args, task_vars)
        if not moves:
            return {"skipped": True, "msg": "has no berth_flavor"}
        args["operation"] = moves["action"]  # what a second look plans for
        plan = moves["moves"].get(name)
        found = {"changed": False, "plan": moves["id"], "failure": None, "second": None, "said": [], "legs": []}
        if plan and plan["sequence"]:
            found.update(self._moved(name, plan, run, args, task_vars))
        return found if planned else self._told(name, moves, found)

    def _run(self, args, task_vars):
        """What every leg gets to know. Nobody sees the key."""
        options = (*move_options.CHECKED, *move_options.RENAMED)
        values = self.own_variables(task_vars, [*options, *CONSENT.values(), *CATALOG])
        role = ROLES.get((args["operation"], args["only_prepare"]), args["operation"])
        # A host would refuse a wrong one only after others have changed something.
        given = move_options.settings_of(role, values)
        consent = {name: is_true(values, variable) for name, variable in CONSENT.items()}
        settings = {**consent, **given, "key": new_key()}
        return Run(settings, Catalog.from_variables(values).quotas, args["only_prepare"])

    def _planned(self, args, task_vars):
        """The plan of this instance, made with those of all that have come; {} of what is no instance."""
        hosts = kvm_hosts(task_vars, args["hosts"])

        def work(names):
            chosen = [each for each in instances_among(task_vars, names) if each not in hosts]
            self.asks_alone = True
            moves = self._read_and_plan(chosen, args, task_vars, None) if chosen else {}
            self.asks_alone = False
            return {"parts": {each: of_one(moves, each) if each in chosen else {} for each in names}}

        return done_together(self, task_vars, work)[0]

    def _read_and_plan(self, names, args, task_vars, goals):
        about = {"instances": names, "hosts": args["hosts"]}
        seen = {**task_vars, FACTS: read(self, {**READ, **about}, task_vars)}
        wanted = self.own_variables(task_vars, ["berth_target_host", "berth_allow_resize_to_same_host"])
        choice = {
            "action": args["operation"],
            "allow_same_host": is_true(wanted, "berth_allow_resize_to_same_host"),
            "target": wanted.get("berth_target_host"),
            "selected": True,
        }
        return self.plan({**about, **choice}, seen, goals)

    def _moved(self, name, plan, run, args, task_vars):
        second = {}

        def plan_again():
            moves = self._read_and_plan([name], args, task_vars, {name: plan["destination"]})
            second.update(of_one(moves, name))
            move = moves["moves"].get(name) or {}
            return Move.from_plan(move) if move.get("sequence") else None
            yield  # a procedure, though it asks by itself

        legs = _Legs(name)
        procedure = operation(Move.from_plan(plan), run, plan_again)
        walk, said = carry_out(self, task_vars, procedure, hear=legs.hear)
        return {
            "changed": walk.changed,
            "failure": walk.failure,
            "second": plain(second) or None,
            "move": None if walk.failure or walk.prepared else walk.last,
            "attempts": walk.attempts,
            "destination": walk.destination(),
            "away": walk.away.get(downtime.SECONDS),
            "said": [_of_states(event) for event in said if event.get("changed")],
            "legs": legs.ended,
        }

    def _told(self, name, moves, found):
        """The result of a task that nothing follows: it says what became of the instance, and fails if that failed."""
        known = {**moves, **(found["second"] or {})}
        done = {"move_walk": found, **({"__berth_failure": found["failure"]} if found["failure"] else {})}
        outcome = report_moves.outcome(known["action"], name, known, done, self._task.check_mode)
        outcome.error = report.named(outcome.error, (known["moves"].get(name) or {}).get("uuid", ""), name)
        say(*report.closing([outcome], known["left_out"], width=columns()))
        result = {**found, "outcome": outcome.to_dict()}
        diff = report_moves.difference(known["action"], outcome, known) if self._task.check_mode else None
        if diff:
            result.update(changed=True, diff=[plain(diff)])
        if outcome.error:
            result.update(failed=True, msg=outcome.error, error_code=report.error_code(outcome.error))
        return result


def new_key():
    """By which the two hosts of one transfer know each other."""
    return secrets.token_hex(32)


class _Legs:
    """Tells people which leg begins, and keeps which have ended: [{label, changed, took: {step: s}, seconds}]."""

    def __init__(self, name):
        self.name, self.ended, self.began = name, [], 0.0

    def hear(self, said):
        if "leg" in said:
            self.began = time.monotonic()
            say("%s: %s" % (self.name, said["leg"]))
        else:
            seconds = round(time.monotonic() - self.began, 3)
            parts = {part: said[part] for part in ("changed", "took")}
            self.ended.append({"label": said["ended"], **parts, "seconds": seconds})


def _of_states(said):
    return {part: value for part, value in said.items() if part not in ("ended", "changed", "took")}


def _of_playbook(wanted, name, task_vars):
    """The plan that the playbook has made in this run, if it has one that is not carried out yet."""
    moves = plain(controller_facts(task_vars).get("berth_moves") or {})
    mine = moves.get("action") in (wanted, *ALSO.get(wanted, ())) and name in {**moves["moves"], **moves["errors"]}
    done = raw_vars(task_vars, name).get(DONE) or {}
    return moves if mine and done.get("plan") != moves["id"] else None
