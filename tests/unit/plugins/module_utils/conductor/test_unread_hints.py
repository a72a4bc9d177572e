# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scheduler hints that nothing reads."""

from __future__ import annotations

from ansible_collections.berth.kvm.plugins.module_utils.conductor.placing import unread_hints


def test_a_misspelt_hint_is_told_unless_a_filter_of_ones_own_may_read_it():
    hints = {"diferent_host": ["b"], "rack": ["7"]}
    [line] = unread_hints("a", hints, ["ComputeFilter"])
    assert line == "a: berth_hints.diferent_host does nothing: no filter reads it. Did you mean different_host?"
    assert not unread_hints("a", hints, ["ComputeFilter", "my.own.RackFilter"])
    assert not unread_hints("a", {"different_host": ["b"]}, ["DifferentHostFilter"])
