# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans moves and carries them out: what the actions of moves and of a delete do with an instance in a move."""

from __future__ import annotations

import functools
import secrets
import time
from typing import Any, Collection, Dict, List, NamedTuple, Optional

from ansible.errors import AnsibleError

from ..module_utils.conductor import downtime
from ..module_utils.conductor.closing_table import error_of, text_of
from ..module_utils.conductor.planned_move import Move, Walk
from ..module_utils.conductor.procedures.move import Run, operation
from ..module_utils.conductor.procedures.steps import Procedure
from ..module_utils.conductor.registry.embedded import EmbeddedMoves
from ..module_utils.conductor.registry.moves import MovesOnEngine
from ..module_utils.model import migration
from ..module_utils.model.catalog import Catalog
from ..module_utils.model.errors import BerthError
from ..module_utils.model.messages import BESIDE_FACTS
from . import acting, move_options, registry_access
from .driving import carry_out
from .inventory_variables import CATALOG, is_true, kvm_hosts
from .plain import plain
from .plan_moves import PlanMoves
from .reading import read
from .screen import say

FACTS = "__berth_facts"
READ = {**dict.fromkeys(BESIDE_FACTS, False), "digests": True, "moves": True, "must_answer": True, "most": None}
# The role of an operation, where it has another name: whose options of old count.
ROLES = {("resize", True): "prep_resize", ("revert", False): "revert_resize"}
# Variables of the inventory that say yes to what is lost.
CONSENT = {
    "changed_disks": "berth_delete_changed_disks",
    "crashed": "berth_confirm_crashed",
    "revert_volumes": "berth_revert_volumes",
}
# The parts of what a run found that are about no single instances; each other one lists names, or maps them.
OF_THE_WHOLE = ("id", "action", "names", "operation", "left_out", "run")


class Asked(NamedTuple):
    """What the moves of a task have in common. ``hosts``: of the KVM hosts, None for all."""

    operation: str
    hosts: Optional[List[str]]
    task_vars: Dict[str, Any]
    only_prepare: bool = False


class MovesInstances(PlanMoves):
    def read_and_plan(self, asked, names, goals=None):
        """``goals``: the run looks a second time, see PlanMoves.plan."""
        about = {"instances": names, "hosts": asked.hosts, "operation": asked.operation}
        seen = {**asked.task_vars, FACTS: read(self, {**READ, **about}, asked.task_vars)}
        wanted = self.own_variables(asked.task_vars, ["berth_target_host", "berth_allow_resize_to_same_host"])
        choice = {
            "action": asked.operation,
            "allow_same_host": is_true(wanted, "berth_allow_resize_to_same_host"),
            "target": wanted.get("berth_target_host"),
            "selected": True,
        }
        return self.plan({**about, **choice}, seen, goals)

    def move_of(self, asked, name, plan, second) -> Procedure[Walk]:
        """The procedure that carries a plan out. ``second`` gets the plan of a second look, if there is one. Raises
        InvalidInput if a setting is wrong."""
        run = self._run(asked, name, plan)

        def plan_again():
            moves = self.read_and_plan(asked, [name], {name: plan["destination"]})
            second.update(plain(of_one(moves, name)))
            move = moves["moves"].get(name) or {}
            return Move.from_plan(move) if move.get("sequence") else None
            yield  # a procedure, though it asks by itself

        return operation(Move.from_plan(plan), run, plan_again)

    def moved(self, asked, name, plan):
        """Carry a plan out. Return (what became of the instance, the plan of a second look, what else the task tells)."""
        if not (plan and plan["sequence"]):
            return {"changed": False}, {}, {"said": [], "legs": []}
        second, legs = {}, Legs()
        try:
            move = self.move_of(asked, name, plan, second)
            engine = registry_access.of_run(self, asked.task_vars, kvm_hosts(asked.task_vars, asked.hosts))
            walk, said = carry_out(self, asked.task_vars, move, hear=legs.hear, engine=engine)
        except (BerthError, AnsibleError) as error:  # the others go on, and the table says it
            return refused(error), {}, {"said": [], "legs": legs.ended}
        return told_of(walk), second, {"said": states_of(said), "legs": legs.ended}

    def values_of(self, task_vars, _name, names):
        """The variables of an instance: its own task moves it."""
        return self.own_variables(task_vars, names)

    def _run(self, asked, name, plan):
        """What every leg gets to know. Nobody sees the key."""
        options = (*move_options.CHECKED, *move_options.RENAMED)
        values = self.values_of(asked.task_vars, name, [*options, *CONSENT.values(), *CATALOG])
        does = asked.operation
        if does == "migrate":
            does = "live_migrate" if plan["kind"] == migration.LIVE else "cold_migrate"
        # A host would refuse a wrong one only after others have changed something.
        given = move_options.settings_of(ROLES.get((does, asked.only_prepare), does), values)
        consent = {name: is_true(values, variable) for name, variable in CONSENT.items()}
        settings = {**consent, **given, "key": new_key()}
        quotas, registry = Catalog.from_variables(values).quotas, EmbeddedMoves
        if registry_access.members_of_run(self, asked.task_vars):
            registry = functools.partial(MovesOnEngine, acting.RUN, dry=self._task.check_mode)
        return Run(settings, registry(quotas), asked.only_prepare)


class MovesBeside:
    """The moves that another operation makes. ``moves``: their plan."""

    def __init__(self, action, asked):
        self.action, self.asked = action, asked
        self.moves, self.seconds, self.failed = {}, {}, {}

    def carried_out(self, names) -> Dict[str, Procedure[Walk]]:
        """Read the hosts and plan. Return what moves each that is to be moved; ``failed`` has those whose variables are wrong."""
        self.moves = self.action.read_and_plan(self.asked, names)
        procedures, moves = {}, self.moves["moves"]
        for name, plan in [(name, plan) for name, plan in moves.items() if plan["sequence"]]:
            try:
                procedures[name] = self.action.move_of(self.asked, name, plan, self.seconds.setdefault(name, {}))
            except (BerthError, AnsibleError) as error:
                self.failed[name] = refused(error)
        return procedures


class MovesToUnshelve(MovesBeside):
    """Of shelved instances whose own host cannot take them back."""

    def __init__(self, action, hosts, task_vars):
        super().__init__(action, Asked("cold_migrate", hosts, task_vars))

    def plan(self, names):
        """As procedures/shelve.Elsewhere says."""
        try:
            procedures = self.carried_out(names)
        except (BerthError, AnsibleError) as error:
            return {}, dict.fromkeys(names, error_of(refused(error)["failure"]))
        failed = {name: error_of(known["failure"]) for name, known in self.failed.items()}
        return procedures, {**{name: error_of(text) for name, text in self.moves["errors"].items()}, **failed}
        yield  # a procedure, though it asks by itself


class MovesToDelete(MovesBeside):
    """The instances of a delete that are in a move. ``names``: of those not known to be at rest."""

    def __init__(self, action, located, hosts, task_vars):
        super().__init__(action, Asked("delete", hosts, task_vars))
        self.located = located

    @property
    def names(self):
        return self.located["moving"]

    def plan(self) -> Procedure[Dict[str, Procedure[Walk]]]:
        try:
            return self.carried_out(self.names)
        except (BerthError, AnsibleError) as error:
            self.located["errors"].update(dict.fromkeys(self.names, refused(error)["failure"]))
            self.located["moving"] = []
            return {}
        yield  # a procedure, though it asks by itself

    def ended(self) -> List[str]:
        for name, second in self.seconds.items():
            self.moves = after_second_look(self.moves, second, [name]) if second else self.moves
        return self.moves.get("ended", [])

    def told(self, walked: Dict[str, Walk]) -> Dict[str, Dict[str, Any]]:
        """What became of each that is still in a move."""
        known = {**self.failed, **{name: told_of(walk) for name, walk in walked.items()}}
        return {name: known.get(name, {"changed": False}) for name in self.names}


def new_key():
    """By which the two hosts of one transfer know each other."""
    return secrets.token_hex(32)


def told_of(walk: Walk) -> Dict[str, Any]:
    """How far a move has come, for the table and the result of the task."""
    return {
        "changed": walk.changed,
        "failure": walk.failure,
        "move": None if walk.failure or walk.prepared else plain(walk.last),
        "attempts": plain(walk.attempts),
        "destination": walk.destination(),
        "away": walk.away.get(downtime.SECONDS),
    }


def refused(error: Exception) -> Dict[str, Any]:
    """The same of a move that was not begun."""
    if not isinstance(error, BerthError):
        return {"changed": False, "failure": str(error)}
    told = error.to_dict()
    return {"changed": False, "failure": text_of(told), "error": told}


class Legs:
    """Tells people which leg begins, and keeps which have ended: [{label, changed, took: {step: s}, seconds}]."""

    def __init__(self):
        self.ended, self.began = [], 0.0

    def hear(self, said):
        if "leg" in said:
            self.began = time.monotonic()
            say("%s: %s" % (said["instance"], said["leg"]))
        elif "ended" in said:
            seconds = round(time.monotonic() - self.began, 3)
            parts = {part: said[part] for part in ("changed", "took")}
            self.ended.append({"label": said["ended"], **parts, "seconds": seconds})


def states_of(said: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Of what a procedure said the states that its instances had, without the legs of their moves."""
    changes = [event for event in said if "leg" not in event and event.get("changed", True)]
    return [
        {part: value for part, value in event.items() if part not in ("ended", "changed", "took")} for event in changes
    ]


def after_second_look(first: Dict[str, Any], second: Dict[str, Any], names: Collection[str]) -> Dict[str, Any]:
    """What a run found, after it has looked again for ``names``, which it met in a move that had ended: of them counts what the
    second look found, of all others what the first did. Who did not answer (``left_out``) is as the second look has it."""

    def part(key: str) -> Any:
        old, new = first[key], second[key]
        if isinstance(old, dict):
            return {**{name: value for name, value in old.items() if name not in names}, **new}
        return [name for name in old if name not in names] + new

    kept = {key: first[key] for key in OF_THE_WHOLE if key in first}
    return {**kept, **{key: part(key) for key in second if key not in OF_THE_WHOLE}, "left_out": second["left_out"]}


def of_one(found: Dict[str, Any], name: str) -> Dict[str, Any]:
    """The part of it that is about one instance."""

    def part(known: Any) -> Any:
        if isinstance(known, dict):
            return {name: known[name]} if name in known else {}
        return [each for each in known if each == name]

    return {key: known if key in OF_THE_WHOLE else part(known) for key, known in found.items()}
