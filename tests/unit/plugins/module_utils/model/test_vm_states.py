# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the states of an instance is whole, and all else reads it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.guest.acts import ACTS
from ansible_collections.berth.kvm.plugins.module_utils.compute.host.doctor import SAID
from ansible_collections.berth.kvm.plugins.module_utils.conductor.doctor import TODO
from ansible_collections.berth.kvm.plugins.module_utils.conductor.operations import OPERATIONS
from ansible_collections.berth.kvm.plugins.module_utils.model.lifecycle import ALIVE
from ansible_collections.berth.kvm.plugins.module_utils.model.migration import KINDS
from ansible_collections.berth.kvm.plugins.module_utils.model.move_errors import InstanceInvalidState
from ansible_collections.berth.kvm.plugins.module_utils.model.vm_states import ALL, CHANGES, OFF, VM_STATES, check

PLUGINS = Path(__file__).resolve().parents[5] / "plugins"
AT_REST = [name for name, state in VM_STATES.items() if state.back or state.recovered]


def test_each_operation_and_each_move_says_in_which_states_it_is_legal_and_there_are_no_others():
    assert set(CHANGES) == {*OPERATIONS, *KINDS, "hard reboot", "clone"}
    for name, change in CHANGES.items():
        assert set(change.legal) <= set(ALL) and change.after in (None, *ALL), name


def test_each_operation_of_the_table_that_a_host_carries_out_is_an_act_of_it():
    for name, row in OPERATIONS.items():
        assert row.state is None or row.module != "instance" or row.state in ACTS, name


@pytest.mark.parametrize("name", AT_REST)
def test_each_state_at_rest_is_reached_by_an_operation_and_left_by_one(name):
    state = VM_STATES[name]
    assert any(change.after == name for change in CHANGES.values())
    assert state.back is None or CHANGES[state.back].after == "active" and name in CHANGES[state.back].legal
    assert bool(state.back) == (name != "active")


@pytest.mark.parametrize("name", VM_STATES)
def test_each_finding_of_a_state_has_words_and_something_to_do(name):
    for shown, code in VM_STATES[name].findings.items():
        assert shown in (*ALIVE, OFF) and "%s" in SAID[code] and TODO[code]("kvm1", "web1", "")


@pytest.mark.parametrize("name", VM_STATES)
@pytest.mark.parametrize("operation", CHANGES)
def test_an_operation_is_refused_where_it_is_not_legal_and_allowed_where_it_has_led(name, operation):
    change = CHANGES[operation]
    if name in change.legal or name == change.after:
        check("web1", name, operation)
        return
    with pytest.raises(InstanceInvalidState, match="'%s' .* vm_state %s" % (operation, name)):
        check("web1", name, operation)


def test_a_state_that_a_later_version_wrote_takes_only_what_every_state_takes():
    check("web1", "rescued", "delete")
    with pytest.raises(InstanceInvalidState, match="vm_state rescued"):
        check("web1", "rescued", "stop")


def test_nothing_else_compares_the_name_of_a_state():
    found = []
    for path in sorted(PLUGINS.rglob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "vm_state" in text else ():
            if isinstance(node, ast.Compare) and "vm_state" in ast.unparse(node):
                words = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)} - {"vm_state"}
                found += ["%s:%d %s" % (path.name, node.lineno, word) for word in words if word in VM_STATES]
    assert found == []
