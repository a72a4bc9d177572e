# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a resize on one host are not for a move to another."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from memory_walks import come_past, walk

sys.path.insert(0, str(Path(__file__).resolve().parents[5] / "protocol"))

import memory  # noqa: E402
import memory_controller  # noqa: E402
import memory_names  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.compute.move.steps import table  # noqa: E402
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import MigrationConflict  # noqa: E402

S = memory_names.S


@pytest.mark.parametrize("step, before", [("resize_here", "send"), ("restore_here", "presend")])
def test_a_move_to_another_host_is_not_ended_on_its_source_as_if_it_were_one_host(step, before):
    world, controller = memory.World(), memory_controller.Controller("resize", "op0")
    while not controller.is_before(before):
        controller.advance(world)
    held = world.key()
    with pytest.raises(MigrationConflict, match="vm is moved from S to D: that is no resize on one host"):
        table.run(world.host(S), memory_names.UUID, step, controller.token)
    assert world.key() == held


def test_a_run_that_planned_before_another_one_had_resized_the_instance_finds_it_resized():
    """Its controller was killed while the host went on: the run after it is no reason to revert the resize."""
    world = memory.World(kind="here")
    first, second = (memory_controller.Controller("resize", "op%d" % at) for at in range(2))
    while not first.is_before("resize_here"):
        first.advance(world)
    while not second.is_before("begin"):
        second.advance(world)
    while not first.is_before("start"):
        first.advance(world)
    while second.state == "run":
        second.advance(world)
    assert (second.state, second.error) == ("done", None)
    assert (world.host(S).store.read(memory_names.UUID).phase, world.guest[S]) == ("resized", memory_names.ON)


@pytest.mark.follows("make_room")
def test_a_guest_is_not_stopped_for_a_revert_on_its_host_that_cannot_write_beside_its_disks_and_is_once_it_can():
    world, controller = come_past("here", ["resize"], "revert", "restore_here")
    held, world.unwritable = world.key(), S
    controller.advance(world)
    assert controller.error.startswith("StateNotWritten") and "Make room" in controller.error
    assert world.guest[S] == memory_names.ON and world.key() == held
    world.unwritable = None
    assert walk(world, "revert").state == "done" and world.guest[S] == memory_names.ON
