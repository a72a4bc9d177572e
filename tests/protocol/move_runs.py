# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of the playbooks of a move over the two hosts in memory, as the real conductor decides them, with hosts lost or silent."""

from __future__ import annotations

import copy

import memory
import memory_controller
import memory_names

from ansible_collections.berth.kvm.plugins.module_utils.conductor import locate, moving, sides, silence
from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import InstanceMoving
from ansible_collections.berth.kvm.plugins.module_utils.conductor.fleet import read_fleet
from ansible_collections.berth.kvm.plugins.module_utils.conductor.planned_move import Move

S, D = memory_names.S, memory_names.D
OTHER = {S: D, D: S}


class Run(memory_controller.Controller):
    """A playbook run that finds the sides as the real one does. ``gone`` do not answer, for ``reason``, ``lost`` are given
    up; ``flavor`` is what the inventory asks for."""

    def __init__(self, action, gone=(), lost=(), flavor="new", reason=silence.NO_ANSWER):
        super().__init__(action, "again")
        self.gone, self.lost, self.reason = gone, lost, reason
        self.wanted = {"flavor": dict(memory_names.NEW["flavor"], name=flavor)}

    def _plan(self, world):
        seen = {name: view for name, view in self.views.items() if name not in self.gone}
        held = {name: {memory_names.UUID: view} if view["role"] else {} for name, view in seen.items()}
        uuids = {world.host(name).identity["uuid"]: name for name in seen}
        if self.action == "delete" and all(view["role"] is None for view in seen.values()):
            self.state = "done"
            return
        found = sides.find(memory_names.UUID, "vm", held, uuids, dict.fromkeys(self.gone, self.reason), self.lost)
        source, here, destination, there = found
        if destination is None and self.action == "delete":
            self.views.update({source: here, OTHER[source]: there})
            self._plan_delete()
            return
        move = moving.plan(self.action, world.kind, memory_names.UUID, "vm", found, self.wanted)
        self.reaches = not move["settles"]
        if move["sequence"] is None:
            self.state = "done"
        else:
            self.begin(Move.from_plan({"id": "plan", **move, "again": bool(self.looks)}))


def walk(world, controller):
    for _turn in range(60):
        if controller.state == "run":
            controller.advance(world)
    return controller


def worlds(kind, shared, then, host):
    """The world at each moment of a move and what follows it, with ``host`` switched off: [(moment, world)]."""
    world, seen = memory.World(kind=kind, shared=shared), set()
    for action in ("resize", then):
        controller = memory_controller.Controller(action, "op0")
        while controller.state == "run":
            controller.advance(world)
            here = copy.deepcopy(world)
            here.write()
            here.crash_host(host)
            if here.key() not in seen and any(record and record["op"] for record in here.records.values()):
                seen.add(here.key())
                yield len(seen), here


def check_one_alone(world, survivor):
    record = world.records[survivor]
    assert (record["role"], record["phase"], record["op"]) == ("OWN", "active", None), record
    assert world.guest == {survivor: memory_names.ON, OTHER[survivor]: memory_names.OFF}


def check_whole(world, survivor):
    """Back, switched on, and swept: the other host holds nothing."""
    check_one_alone(world, survivor)
    other = OTHER[survivor]
    assert world.records[other] is None and world.parts[other] is None
    assert world.shared or world.disks[other] is None
    world.check()


def fleet(world):
    """The hosts as they report themselves."""
    reports = {}
    for name in (S, D):
        view = memory_controller.common.view(world.host(name), memory_names.UUID)
        held = [dict(view, foreign=False, group=None)] if view["role"] else []
        reports[name] = {"document": {"uuid": "host-" + name, "instances": held}}
    return read_fleet(reports, dict)


def said_to_others(world):
    """The hint of an operation that is no move, such as a start; None where nothing moves."""
    try:
        locate.locate(fleet(world), memory_names.NAME, memory_names.UUID)
    except InstanceMoving as error:
        return error.hint
    return None
