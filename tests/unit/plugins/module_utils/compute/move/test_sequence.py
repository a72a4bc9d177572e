# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles walk the same lists of steps that the walk of all interleavings proved (architecture, R1-R8, F, V, A,
L)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import sequence, steps

ROOT = Path(__file__).resolve().parents[6]
TASKS = ROOT / "roles" / "move" / "tasks"
SIDES = {"{{ move_plan.source }}": "source", "{{ move_destination }}": "destination"}


def walked(name):
    """The (side, steps) of a task file, neighbours on one side put together."""
    found = []
    for task in yaml.safe_load((TASKS / (name + ".yml")).read_text()):
        if "berth.kvm.migration" not in task:
            continue
        side, names = SIDES[task["delegate_to"]], tuple(task["berth.kvm.migration"]["steps"])
        if found and found[-1][0] == side:
            found[-1] = (side, found[-1][1] + names)
        else:
            found.append((side, names))
    return tuple(found)


@pytest.mark.parametrize("name", sequence.SEQUENCES)
def test_a_role_walks_the_steps_of_its_sequence(name):
    assert walked(name) == sequence.SEQUENCES[name]


def test_every_step_of_a_sequence_exists():
    assert {step for parts in sequence.SEQUENCES.values() for _side, names in parts for step in names} == set(
        steps.STEPS
    )


def view(role, phase=None, kind="resize", here=False):
    if role is None:
        return {"role": None}
    sides = {"source": {"uuid": "s", "name": "s"}, "destination": {"uuid": "s" if here else "d", "name": "d"}}
    return {"role": role, "phase": phase, "migration": {"type": kind, **sides} if phase != "active" else None}


NEXT = {
    "begins": ("resize", view("OWN", "active"), view(None), "resize"),
    "nothing to confirm": ("confirm", view("OWN", "active"), view(None), None),
    "goes on": ("resize", view("OWN", "frozen"), view("IN", "incoming"), "resize"),
    "gives up": ("revert", view("OWN", "frozen"), view("IN", "incoming"), "abort"),
    "no way back": ("abort", view("OUT", "keep"), view("IN", "verified"), "hand_over"),
    "starts again": ("resize", view("OUT", "keep"), view("OWN", "resized"), "hand_over"),
    "confirms": ("confirm", view("OUT", "keep"), view("OWN", "resized"), "confirm"),
    "reverts": ("revert", view("OUT", "keep"), view("OWN", "resized"), "revert"),
    "a confirm is ended before all": ("revert", view("OUT", "keep"), view("OWN", "confirming"), "confirm"),
    "a revert is ended before all": ("confirm", view("OUT", "keep"), view("OUT", "reverted"), "revert"),
    "the rest of a revert": ("resize", view("OWN", "restoring"), view("OUT", "reverted"), "restore"),
    "live goes on": ("resize", view("OWN", "resizing", "live-migration"), view(None), "live_migrate"),
    "live hands over": ("resize", view("OUT", "keep", "live-migration"), view("IN", "incoming", "live-migration"), "live_hand_over"),  # noqa: E501
    "here confirms": ("confirm", view("OWN", "resized", here=True), view(None), "confirm_here"),
    "here reverts": ("revert", view("OWN", "frozen", here=True), view(None), "revert_here"),
}  # fmt: skip


@pytest.mark.parametrize("case", NEXT)
def test_what_is_next_follows_from_what_the_hosts_hold(case):
    wish, source, destination, expected = NEXT[case]
    assert sequence.next_sequence(wish, source, destination) == expected
