# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Procedures side by side: what several ask next is asked at once, and each gets its own answers."""

from __future__ import annotations

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.conductor.errors import RegistryUnknown
from ansible_collections.berth.kvm.plugins.module_utils.conductor.procedures.steps import Ask, Say, Scan, side_by_side


def of(name, *modules):
    """It asks h1 and h2 for each module, and returns all answers."""
    found = []
    for module in modules:
        yield None  # a thing that a host did, see procedure_case.py
        yield Say(name, {"leg": module})
        found.append((yield Ask(module, {host: {"of": name} for host in ("h1", "h2")})))
    return found


def played(procedures):
    procedure, asked, said, answer = side_by_side(procedures), [], [], None
    while True:
        try:
            step = procedure.send(answer)
        except StopIteration as ended:
            return ended.value, asked, said
        answer = None
        if not isinstance(step, Ask):
            said += [step.instance] if isinstance(step, Say) else []
            continue
        asked.append((step.module, sorted(step.at.values())))
        answer = {one: (step.host_of(one), given["of"]) for one, given in step.arguments.items()}


def test_what_all_ask_of_one_module_is_asked_at_once_and_each_gets_its_own_answers():
    done, asked, said = played({"a": of("a", "m", "n"), "b": of("b", "m"), "c": of("c")})
    assert asked == [("m", ["h1", "h1", "h2", "h2"]), ("n", ["h1", "h2"])] and said == ["a", "b", "a"]
    own = {name: {"h1": ("h1", name), "h2": ("h2", name)} for name in "ab"}
    assert done == {"a": [own["a"], own["a"]], "b": [own["b"]], "c": []}


def test_two_modules_are_asked_one_after_the_other():
    _done, asked, _said = played({"a": of("a", "m"), "b": of("b", "n")})
    assert [module for module, _hosts in asked] == ["m", "n"]


def test_a_registry_that_gives_no_answer_is_told_to_the_procedure_that_asked():
    def cautious():
        try:
            yield Scan("/berth/")
        except RegistryUnknown:
            return "unknown"

    procedure = side_by_side({"a": cautious(), "b": of("b")})
    assert next(procedure) == Scan("/berth/")
    with pytest.raises(StopIteration) as ended:
        procedure.throw(RegistryUnknown("no majority"))
    assert ended.value.value == {"a": "unknown", "b": []}
