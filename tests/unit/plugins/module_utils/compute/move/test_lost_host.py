# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host of a move is lost for good at every moment of it, and comes back (R13, R16; I1, I3, I4, I5, I11, I12)."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "protocol"))

import memory  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import sequence  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.conductor import moving, sides  # noqa: E402

S, D = memory.S, memory.D
OTHER = {S: D, D: S}
MOVES = {
    "resize, confirm": ("resize", False, "confirm"),
    "resize, revert": ("resize", False, "revert"),
    "resize, delete": ("resize", False, "delete"),
    "one storage": ("resize", True, "revert"),
    "live": ("live-migration", False, "confirm"),
}
KILLS = 9  # durable actions of the longest sequence of one host


class Run(memory.Controller):
    """A playbook run that finds the sides as the real one does. ``gone`` do not answer, ``lost`` are given up."""

    def __init__(self, wish, gone=(), lost=()):
        super().__init__(wish, "again")
        self.gone, self.lost = gone, lost

    def _plan(self, world):
        seen = {name: view for name, view in self.views.items() if name not in self.gone}
        held = {name: {memory.UUID: view} if view["role"] else {} for name, view in seen.items()}
        uuids = {world.host(name).identity["uuid"]: name for name in seen}
        if self.wish == "delete" and all(view["role"] is None for view in seen.values()):
            self.state = "done"
            return
        found = sides.find(memory.UUID, "vm", held, uuids, dict.fromkeys(self.gone, sides.NO_ANSWER), self.lost)
        source, here, destination, there = found
        if destination is None and self.wish == "delete":
            self.views.update({source: here, OTHER[source]: there})
            self.steps = memory.plan_delete(self.views[S], self.views[D])
            self.ticket = {"op": None, "attempt": 0}
            return
        move = moving.plan(self.wish, "resize", memory.UUID, "vm", found, None)
        name, self.reaches, self.ticket = move["sequence"], not move["settles"], move["ticket"]
        self.views = {source: here, OTHER[source]: there}
        self.options = {"lost": name is not None and (name.endswith("_alone") or name == "sweep")}
        at = {sequence.SOURCE: source, sequence.DESTINATION: destination}
        constants = {S: sequence.SOURCE, D: sequence.DESTINATION}
        self.steps = tuple(
            (constants[at[side]], step) for side, names in sequence.SEQUENCES.get(name, ()) for step in names
        )
        if not self.steps:
            self.state = "done"


def walk(world, controller):
    for _turn in range(60):
        if controller.state == "run":
            controller.advance(world)
    return controller


def worlds(kind, shared, then, host):
    """The world at each moment of a move and what follows it, with ``host`` switched off: [(moment, world)]."""
    world, seen = memory.World(kind=kind, shared=shared), set()
    for wish in ("resize", then):
        controller = memory.Controller(wish, "op0")
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
    assert world.guest == {survivor: memory.ON, OTHER[survivor]: memory.OFF}


def check_whole(world, survivor):
    """Back, switched on, and swept: the other host holds nothing."""
    check_one_alone(world, survivor)
    other = OTHER[survivor]
    assert world.records[other] is None and world.parts[other] is None
    assert world.shared or world.disks[other] is None
    world.check()


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("host", [S, D])
@pytest.mark.parametrize("wish", ["revert", "confirm", "delete"])
def test_with_one_host_lost_a_wish_is_reached_by_the_other_alone_or_refused_with_nothing_changed(wish, host, move):
    """And when that host is back, it owns and starts nothing, and the same command removes what it holds."""
    survivor, reached = OTHER[host], 0
    for moment, world in worlds(*MOVES[move], host):
        before = world.key()
        done = walk(world, Run(wish, gone=(host,), lost=(host,)))
        if done.state == "failed":
            # What had no way back was ended first, and then there is nothing left to revert.
            ended = "InstanceNotResized" in done.error and world.records[survivor]["op"] is None
            assert ended or world.key() == before, (moment, done.error)
            continue
        reached += 1
        if wish == "delete":
            assert world.records[survivor] is None
            walk(world, Run("delete"))
            assert not any(world.records.values()) and not any(world.disks.values()), moment
            continue
        check_one_alone(world, survivor)
        before, theirs = world.key(), world.records[host] and world.records[host]["role"]
        back = walk(world, Run(wish))
        if theirs == "OWN":
            assert "InstanceSuperseded" in back.error and world.key() == before
        back = walk(world, Run(wish, lost=(host,)))
        assert back.state == "done", (moment, back.error)
        check_whole(world, survivor)
        assert not walk(world, Run(wish)).changed
    assert reached or (host, wish) in REFUSED_EVERYWHERE


# Without the source there is nothing to go back to.
REFUSED_EVERYWHERE = {(S, "revert"), (D, "confirm")}


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(
    "wish, host, then",
    [
        ("revert", D, "revert"),
        ("confirm", S, "confirm"),
        ("confirm", S, "revert"),
        ("delete", D, "revert"),
        ("delete", S, "revert"),
    ],
)
def test_killed_at_any_write_it_is_ended_by_the_next_run_also_when_the_lost_host_is_back(wish, host, then, back):
    """I4, I12."""
    for moment, start in worlds("resize", False, then, host):
        for fuse in range(KILLS):
            world = copy.deepcopy(start)
            world.fuse = fuse
            done = walk(world, Run(wish, gone=(host,), lost=(host,)))
            world.fuse = None
            if done.state == "failed":
                continue
            again = walk(world, Run(wish, gone=() if back else (host,), lost=(host,)))
            if "HostNotLost" in getattr(again, "error", ""):
                # Nothing that counts was written before the kill: the move is an ordinary one again.
                again = walk(world, Run(wish))
                assert again.state == "done" or "InstanceNotResized" in again.error, (moment, fuse, again.error)
                continue
            assert again.state == "done", (moment, fuse, again.error)
            if wish == "delete":
                walk(world, Run(wish))
                assert not any(world.records.values()) and not any(world.disks.values()), (moment, fuse)
                continue
            check_one_alone(world, OTHER[host])
            walk(world, Run(wish, lost=(host,)))
            check_whole(world, OTHER[host])


def test_who_gets_the_instance_later_knows_too_which_moves_ended_without_a_host():
    """I1: the lost host may be back when the one that gave it up has nothing of the instance any more."""
    world = memory.World()
    walk(world, memory.Controller("resize", "op0"))
    world.crash_host(D)
    walk(world, Run("revert", gone=(D,), lost=(D,)))
    walk(world, Run("revert", lost=(D,)))
    walk(world, memory.Controller("resize", "op1"))
    walk(world, memory.Controller("confirm", "op1"))
    assert (world.records[S], world.records[D]["lost_moves"]) == (None, ["op0"])
