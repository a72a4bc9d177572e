# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two moves of one instance at once, over two hosts in memory: what the later one is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "protocol"))

import memory  # noqa: E402
import memory_controller  # noqa: E402
from move_runs import D, S, walk  # noqa: E402

from ansible_collections.berth.kvm.plugins.module_utils.model import hints  # noqa: E402


@pytest.mark.follows("another_run")
@pytest.mark.parametrize("kind", ["resize", "live-migration"])
def test_of_two_moves_at_once_the_later_is_told_that_another_run_works_on_it_and_then_finds_it_done(kind):
    world = memory.World(kind=kind)
    first, later = memory_controller.Controller("resize", "op0"), memory_controller.Controller("resize", "op1")
    for run in (first, later):
        while not run.walk:
            run.advance(world)
    while not world.records[S]["op"]:
        first.advance(world)
    walk(world, later)
    assert later.state == "failed" and hints.another_run() in later.error, getattr(later, "error", later.state)
    for run in (first, memory_controller.Controller("resize", "op2")):
        assert walk(world, run).state == "done", run.error
    assert world.records[D]["role"] == "OWN"
