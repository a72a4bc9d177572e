# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of a move in the world of tests/protocol/memory.py, up to a step or to their end."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "protocol"))

import memory  # noqa: E402
import memory_controller  # noqa: E402
import memory_names  # noqa: E402

S, D = memory_names.S, memory_names.D


def walk(world, action):
    controller = memory_controller.Controller(action, "op-" + action)
    while controller.state == "run":
        controller.advance(world)
    return controller


def come_to(world, action, step):
    """The run that does ``step`` next."""
    controller = memory_controller.Controller(action, "op-" + action)
    while not controller.is_before(step):
        controller.advance(world)
        assert controller.state == "run", (step, controller.state)
    return controller


def come_past(kind, before, action, step):
    world = memory.World(kind=kind)
    for each in before:
        assert walk(world, each).state == "done"
    return world, come_to(world, action, step)
