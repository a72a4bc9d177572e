# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest is not stopped for a host on which it could not start again, since a bridge or network of its NICs is gone there."""

from __future__ import annotations

import pytest
from memory_walks import D, S, come_past, memory, walk

CASES = [
    ("resize", ["resize"], "revert", "see_kept", D),
    ("here", ["resize"], "revert", "restore_here", S),
    ("here", [], "resize", "begin", S),
]


def refused(kind, before, action, step):
    world, controller = come_past(kind, before, action, step)
    world.networkless = S
    while controller.state == "run":
        controller.advance(world)
    assert controller.error.startswith("NetworkNotFound")
    return world


@pytest.mark.parametrize("kind, before, action, step, runs", CASES)
def test_before_the_guest_stops_the_host_that_lacks_a_network_refuses(kind, before, action, step, runs):
    assert refused(kind, before, action, step).guest[runs] == memory.ON


@pytest.mark.follows("bring_network_back_or_confirm")
@pytest.mark.parametrize("kind, step", [("resize", "see_kept"), ("here", "restore_here")])
def test_a_revert_that_a_network_is_missing_for_goes_on_when_it_is_back_or_is_confirmed_instead(kind, step):
    world = refused(kind, ["resize"], "revert", step)
    world.networkless = None
    assert walk(world, "revert").state == "done"
    assert walk(refused(kind, ["resize"], "revert", step), "confirm").state == "done"


@pytest.mark.parametrize("kind, before, action, step, _runs", CASES)
def test_an_instance_that_is_off_needs_no_network_to_move(kind, before, action, step, _runs):
    world = memory.World(kind=kind, vm_state="stopped")
    world.networkless = S
    for each in [*before, action]:
        assert walk(world, each).state == "done"
