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
import memory_controller  # noqa: E402
from move_runs import OTHER, D, Run, S, check_one_alone, check_whole, walk, worlds  # noqa: E402

MOVES = {
    "resize, confirm": ("resize", False, "confirm"),
    "resize, revert": ("resize", False, "revert"),
    "resize, delete": ("resize", False, "delete"),
    "one storage": ("resize", True, "revert"),
    "live": ("live-migration", False, "confirm"),
}
KILLS = 9  # durable actions of the longest sequence of one host


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("host", [S, D])
@pytest.mark.parametrize("action", ["revert", "confirm", "delete"])
def test_with_one_host_lost_a_wish_is_reached_by_the_other_alone_or_refused_with_nothing_changed(action, host, move):
    """And when that host is back, it owns and starts nothing, and the same command removes what it holds."""
    survivor, reached = OTHER[host], 0
    for moment, world in worlds(*MOVES[move], host):
        before = world.key()
        done = walk(world, Run(action, gone=(host,), lost=(host,)))
        if done.state == "failed":
            # What had no way back was ended first, and then there is nothing left to revert.
            ended = "InstanceNotResized" in done.error and world.records[survivor]["op"] is None
            assert ended or world.key() == before, (moment, done.error)
            continue
        reached += 1
        if action == "delete":
            assert world.records[survivor] is None
            walk(world, Run("delete"))
            assert not any(world.records.values()) and not any(world.disks.values()), moment
            continue
        check_one_alone(world, survivor)
        before, theirs = world.key(), world.records[host] and world.records[host]["role"]
        back = walk(world, Run(action))
        if theirs == "OWN":
            assert "InstanceSuperseded" in back.error and world.key() == before
        back = walk(world, Run(action, lost=(host,)))
        assert back.state == "done", (moment, back.error)
        check_whole(world, survivor)
        assert not walk(world, Run(action)).changed
    assert reached or (host, action) in REFUSED_EVERYWHERE


# Without the source there is nothing to go back to.
REFUSED_EVERYWHERE = {(S, "revert"), (D, "confirm")}


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(
    "action, host, then",
    [
        ("revert", D, "revert"),
        ("confirm", S, "confirm"),
        ("confirm", S, "revert"),
        ("delete", D, "revert"),
        ("delete", S, "revert"),
    ],
)
def test_killed_at_any_write_it_is_ended_by_the_next_run_also_when_the_lost_host_is_back(action, host, then, back):
    """I4, I12."""
    for moment, start in worlds("resize", False, then, host):
        for fuse in range(KILLS):
            world = copy.deepcopy(start)
            world.fuse = fuse
            done = walk(world, Run(action, gone=(host,), lost=(host,)))
            world.fuse = None
            if done.state == "failed":
                continue
            again = walk(world, Run(action, gone=() if back else (host,), lost=(host,)))
            if "HostNotLost" in (again.error or ""):
                # Nothing that counts was written before the kill: the move is an ordinary one again.
                again = walk(world, Run(action))
                assert again.state == "done" or "InstanceNotResized" in again.error, (moment, fuse, again.error)
                continue
            assert again.state == "done", (moment, fuse, again.error)
            if action == "delete":
                walk(world, Run(action))
                assert not any(world.records.values()) and not any(world.disks.values()), (moment, fuse)
                continue
            check_one_alone(world, OTHER[host])
            walk(world, Run(action, lost=(host,)))
            check_whole(world, OTHER[host])


def test_who_gets_the_instance_later_knows_too_which_moves_ended_without_a_host():
    """I1: the lost host may be back when the one that gave it up has nothing of the instance any more."""
    world = memory.World()
    walk(world, memory_controller.Controller("resize", "op0"))
    world.crash_host(D)
    walk(world, Run("revert", gone=(D,), lost=(D,)))
    walk(world, Run("revert", lost=(D,)))
    walk(world, memory_controller.Controller("resize", "op1"))
    walk(world, memory_controller.Controller("confirm", "op1"))
    assert (world.records[S], world.records[D]["lost_moves"]) == (None, ["op0"])
