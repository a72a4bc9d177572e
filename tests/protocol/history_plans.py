# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans for the whole fleet in a history: made by the real planner, kept as a person keeps the file, carried out move by move, and
gone on with by the next run after one that was killed or failed.

P1 a plan that nothing befell any more is carried out to its end, or is outdated since something else moved.
"""

from __future__ import annotations

from history_move_runs import Moves
from history_runs import sent
from memory_names import Violation

from ansible_collections.berth.kvm.plugins.module_utils.conductor import maintenance
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import InstanceMoving
from ansible_collections.berth.kvm.plugins.module_utils.conductor.plan import fail
from ansible_collections.berth.kvm.plugins.module_utils.fleet import make_plan, plan_file, propose
from ansible_collections.berth.kvm.plugins.module_utils.fleet.check import PlanNotLegal
from ansible_collections.berth.kvm.plugins.module_utils.fleet.goals import (
    BALANCE,
    DRAIN,
    OF_HOSTS,
    REPAIR,
    RETURN,
    Goal,
)
from ansible_collections.berth.kvm.plugins.module_utils.fleet.plan_file import PlanStale
from ansible_collections.berth.kvm.plugins.module_utils.fleet.state import Fleet
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import RESIZED
from ansible_collections.berth.kvm.plugins.plugin_utils import known_fleet, rest_of_plan
from ansible_collections.berth.kvm.plugins.plugin_utils.plan_moves import views_of

EFFORT = 0.2  # of the solver
OUTDATED = (PlanStale, PlanNotLegal)


class Plans(Moves):
    """``world.plan``: the file that a person has, None once it is carried out or outdated, of which ``outdated`` says why."""

    outdated = ""

    def apply_plan(self):
        try:
            known = yield from self._known_fleet()
            if self.world.plan is None:
                made = make_plan.make(known.fleet, self._goal(known.fleet), EFFORT)
                self.world.plan = sent(plan_file.to_document(known.fleet, made))
                known = yield from self._known_fleet()
            written = plan_file.read(self.world.plan, "plan.yml")
            parts = rest_of_plan.parts(written, known, 2, 1)
        except OUTDATED as error:
            self.world.plan, self.outdated = None, str(error)
            return
        except BerthError as error:
            for name in self.names:
                self.refused(name, error)
            return
        for part in parts:
            yield from self._carry_out_part([rest_of_plan.move(written, known, *move) for move in part])
            if self.errors:
                return
        self.world.plan = None

    def _goal(self, fleet):
        name = self.dice.choice([DRAIN, DRAIN, RETURN, BALANCE, REPAIR])
        name = name if name in OF_HOSTS or propose.is_there() else DRAIN
        used = sorted({instance.host for instance in fleet.instances.values()})
        hosts = {DRAIN: self.dice.sample(used, min(1, len(used))), RETURN: fleet.documents}.get(name, ())
        return Goal(name, frozenset(hosts), max_moves=3 if name == BALANCE else None)

    def _known_fleet(self):
        """As known_fleet() has it from the hosts' answers."""
        reported, inventory, specs = (yield from self.read("moves")), self.world.by_uuid, {}
        moving = maintenance.all_of(reported, inventory, set(inventory.values()))
        owned = [each for document in reported.documents.values() for each in maintenance.owned_by(document)]
        names = maintenance.names_of(owned, inventory, set(inventory.values()))
        views = views_of(self.reports, reported)

        def choose(instances, _seen):
            for name, instance in instances.items():
                specs[name] = instance["spec"]
                fail(instance, InstanceMoving("a plan chooses its host"))

        self.choose, self.of_plan = choose, {"dry": True}
        try:
            planned = yield from self._planned("migrate", sorted({*names.values()} & moving.names.keys()))
        finally:
            del self.choose, self.of_plan
        instances = known_fleet.instances_of(reported, names, moving, views, planned, specs)
        return known_fleet.Known(Fleet(reported.documents, instances), reported, moving, views, {})

    def _carry_out_part(self, moves):
        """As playbooks/internal/moves_of_plan.yml does it."""
        self.of_plan = {
            "targets": {move["name"]: move["to"] for move in moves},
            "together": {move["name"]: move["goes_with"] for move in moves},
            "drains": [move["name"] for move in moves if move["drains"]],
        }
        confirms = [move["name"] for move in moves if move["how"] == "confirm"]
        ended = yield from self._carry_out_moves(
            "migrate", [each["name"] for each in moves if each["how"] != "confirm"]
        )
        del self.of_plan
        confirms += [name for name, walk in ended.items() if walk.failure is None and walk.last.get("phase") == RESIZED]
        yield from self._carry_out_moves("confirm", confirms)

    def _carry_out_moves(self, action, names):
        planned = (yield from self._plan(action, names)) if names else {}
        ended = {}
        for name, move in sorted(planned.items()):
            if move["sequence"]:
                ended[name] = yield from self._move_one(action, name, move)
        return ended


def goes_on(player):
    """The same command again, while everything works. -> its run"""
    world = player.world
    plan = plan_file.read(world.plan, "plan.yml")
    run = player.play_alone("apply_plan", world.names)
    if world.plan is None and not run.outdated:
        elsewhere = [uuid for uuid, move in plan.moves.items() if not world.machines[move["to"]].owns(uuid)]
        if elsewhere:
            raise Violation("P1 the plan has ended, and these are not where it says: %s" % elsewhere)
    return run
