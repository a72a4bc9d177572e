# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles walk the same lists of steps that the walk of all interleavings proved (architecture, R1-R8, F, V, A,
L)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.berth.kvm.plugins.module_utils.conductor import sequences

ROOT = Path(__file__).resolve().parents[5]
TASKS = ROOT / "roles" / "move" / "tasks"
SIDES = {"{{ move_plan.source }}": "source", "{{ move_destination }}": "destination"}


def tasks_of(name):
    """The tasks of a file and of those that it names."""
    for part in yaml.safe_load((TASKS / (name + ".yml")).read_text()):
        other = part.get("ansible.builtin.import_tasks") or part.get("ansible.builtin.include_tasks")
        yield from tasks_of(other[: -len(".yml")]) if other else part.get("block", [part])


def walked(name):
    """The (side, steps) of a task file, neighbours on one side put together."""
    found = []
    for task in tasks_of(name):
        if "berth.kvm.migration" not in task:
            continue
        side, names = SIDES[task["delegate_to"]], tuple(task["berth.kvm.migration"]["steps"])
        if found and found[-1][0] == side:
            found[-1] = (side, found[-1][1] + names)
        else:
            found.append((side, names))
    return tuple(found)


def of_the_table(name):
    found = []
    for leg in sequences.SEQUENCES[name].legs:
        if found and found[-1][0] == leg.side:
            found[-1] = (leg.side, found[-1][1] + leg.steps)
        elif leg.steps:
            found.append((leg.side, leg.steps))
    return tuple(found)


@pytest.mark.parametrize("name", sequences.SEQUENCES)
def test_a_role_walks_the_steps_of_its_sequence(name):
    assert walked(name) == of_the_table(name)
