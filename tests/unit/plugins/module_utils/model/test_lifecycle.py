# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of states: it is whole, and no other change is legal."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.model import lifecycle
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import CLAIM, FIRST, IN, OUT, OWN, STAGES

PLUGINS = Path(__file__).resolve().parents[5] / "plugins"


def legal(old, new):
    try:
        lifecycle.check_change(old, new)
    except lifecycle.IllegalChange:
        return False
    return True


def test_every_state_can_be_reached_and_every_record_can_go():
    reached, front = set(), set(FIRST)
    while front:
        reached |= front
        front = {after for state in front for after in STAGES[state].after if after} - reached
    assert reached == set(STAGES)
    for state in STAGES:
        ways, front = set(), {state}
        while front:
            ways |= front
            front = {after for entry in front if entry for after in STAGES[entry].after} - ways
        assert None in ways, "a record that is %s could never be removed" % (state,)


def test_every_state_that_follows_is_in_the_table():
    assert {after for stage in STAGES.values() for after in stage.after if after} <= set(STAGES)


@pytest.mark.parametrize("state", sorted(STAGES))
def test_a_state_may_be_written_again(state):
    assert legal(state, state)


@pytest.mark.parametrize(
    "old, new",
    [
        (None, (OWN, "active")),  # nobody owns what was not claimed
        ((OWN, "active"), None),  # nothing is forgotten before its disks are gone
        ((OWN, "active"), (OWN, "building")),  # disks are never made again
        ((OUT, "keep"), (OWN, "active")),  # who has let go does not own it again without the other's word
        ((OUT, "reverted"), (OWN, "resized")),
        ((IN, "incoming"), (OWN, "active")),
        ((OWN, "confirming"), (OWN, "reverting")),  # there is no way back
        ((OWN, "deleting"), (OWN, "active")),
        ((OWN, "erasing"), (OWN, "active")),
        ((CLAIM, "claimed"), (IN, "incoming")),
        ((OWN, "active"), (OWN, "no such phase")),
    ],
)
def test_a_change_that_would_lose_or_double_an_instance_is_refused(old, new):
    assert not legal(old, new)


def test_a_state_that_this_version_does_not_know_may_only_be_removed():
    assert legal((OWN, "migrating"), None)
    assert not any(legal((OWN, "migrating"), state) for state in STAGES)


def test_no_file_writes_a_phase_as_a_text_of_its_own():
    """Phases are the constants of lifecycle.py."""
    phases = {phase for _role, phase in STAGES}
    found = []
    for path in sorted(PLUGINS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "phase" and isinstance(node.value, ast.Constant):
                if node.value.value in phases:
                    found.append("%s:%d" % (path.name, node.value.lineno))
    assert found == []
