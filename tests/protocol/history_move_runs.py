# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks that move instances in a history: the plan, the walk and the second look of the real conductor."""

from __future__ import annotations

import functools
from typing import ClassVar

from history_runs import Run

from ansible_collections.berth.kvm.plugins.module_utils.conductor.planned_move import Move
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import delete, plan_moves
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures import move as procedure
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry import engine
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.embedded import EmbeddedMoves
from ansible_collections.berth.kvm.plugins.module_utils.conductor.registry.moves import MovesOnEngine
from ansible_collections.berth.kvm.plugins.module_utils.model.errors import BerthError
from ansible_collections.berth.kvm.plugins.plugin_utils import plan_moves as plans


class Moves(Run):
    def resize(self):
        for name in self.names:
            self.world.ask_for_more(name)
        yield from self.move("resize")

    def cold_migrate(self):
        yield from self.move("cold_migrate")

    def live_migrate(self):
        yield from self.move("live_migrate")

    def confirm_resize(self):
        yield from self.move("confirm")

    def revert_resize(self):
        for name in self.names:
            self.world.agrees_to_revert(name)
        yield from self.move("revert")

    def confirm_due(self):
        yield from self.move("confirm_due")

    def delete(self):
        found = yield from self._located("delete")
        for name in [*found.tasks, *found.moving]:
            self.world.gives_up(name)
        for name in found.moving:
            del self.errors[name]
        refused = []

        def plan():
            moves = yield from self._plan("delete", found.moving)
            acts = {name: move for name, move in moves.items() if move["sequence"]}
            return {name: self._procedure("delete", name, move, refused) for name, move in acts.items()}

        def ended():
            return [name for name in found.moving if self.errors.get(name, {}).get("code") in plan_moves.ENDED]

        given = {"changed_disks": bool(self.options.get("berth_delete_changed_disks"))}
        moving = delete.Moving(found.moving, plan, ended)
        procedure = delete.delete(found.tasks, moving, dict.fromkeys(self.names, given), self.inventory, self.removes)
        look = functools.partial(self._found, "delete")
        done, walks = yield from self._play(procedure, look)
        for name, walk in walks.items():
            if name not in done:
                self._note(name, walk, refused)
        self._note_done(done)
        self.gone = [name for name in self.names if name not in self.errors]

    def move(self, action):
        """Plan for all, then carry out the move of each."""
        moves = yield from self._plan(action, list(self.names))
        for name, move in sorted(moves.items()):
            if move["sequence"]:
                yield from self._move_one(action, name, move)

    of_plan: ClassVar = {}  # what apply_plan gives to its moves

    def _plan(self, action, names, goals=None):
        """Those that are planned; of the others why not, as the user reads it."""
        try:
            planned = yield from self._planned(action, names, goals)
        except BerthError as error:
            for name in names:
                self.refused(name, error)
            return {}
        self.errors.update(planned.errors)
        return planned.moves

    def _planned(self, action, names, goals=None):
        known, seen, everywhere = yield from self._read_moves(names)
        wanted = plan_moves.Wanted(
            action=action,
            run=self.run_id,
            subject_of=lambda name: plan_moves.Subject(
                self.world.uuid(name), None, lambda spec, _has_begun: self.world.resized(name, spec)
            ),
            choose=lambda instances, _resized: self.choose(instances, everywhere or seen),
            new_token=lambda: "%032x" % self.world.new_number(),
            lost=self.lost,
            digests=self.digests(),
            same_host=bool(self.options.get("berth_allow_resize_to_same_host")),
            goals=goals,
            known=known,
            everywhere=everywhere,
            **self.of_plan,
        )
        views = plans.views_of(self.reports, seen)
        return (yield from self._play(plan_moves.plan_moves(names, seen, views, wanted)))

    def _read_moves(self, names):
        if not self.world.engine:
            return None, (yield from self.read("moves")), None
        known, live = yield from self.read_engine(names, "moves")
        seen = engine.with_notes(self._fleet_of(known.heard(live)), known)
        live = {host: dict(report) for host, report in self.reports.items()}
        everywhere = yield from self._play(engine.fleet_of(self.inventory, known, live, self._fleet_of))
        return known, seen, everywhere[0]

    def _move_one(self, action, name, move):
        refused = []
        walk = yield from self._play(self._procedure(action, name, move, refused))
        self._note(name, walk, refused)
        return walk

    def _procedure(self, action, name, move, refused):
        """``refused`` gets the name if the second look refuses it."""

        def plan_again():
            self.errors.pop(name, None)
            moves = yield from self._plan(action, [name], {name: move["destination"]})
            planned = moves.get(name) or {}
            refused.extend([name] if name in self.errors else [])
            return Move.from_plan(planned) if planned.get("sequence") else None

        over = MovesOnEngine(self.run_id, {}) if self.world.engine else EmbeddedMoves()
        run = procedure.Run({"confirm_window": 0, "revert_volumes": True, "stop_timeout": 1}, over)
        return procedure.operation(Move.from_plan(move), run, plan_again)

    def _note(self, name, walk, refused):
        if walk.failure is None and name not in refused:
            self.errors.pop(name, None)
        elif walk.failure is not None:
            self.errors[name] = {"hint": None, **walk.error, "message": walk.failure}
