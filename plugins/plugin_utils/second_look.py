# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run found, after it has looked again for some of its instances: those that it met in a move that had ended.

Each part lists names, or maps them; SHARED are of the whole.
"""

from __future__ import annotations

from typing import Any, Collection, Dict

SHARED = ("id", "action", "names", "operation", "left_out", "run")  # none is about single instances


def after_second_look(first: Dict[str, Any], second: Dict[str, Any], names: Collection[str]) -> Dict[str, Any]:
    """What the second look found of ``names`` counts, of all others what the first did. Who did not answer
    (``left_out``) is as the second look has it."""

    def part(key: str) -> Any:
        old, new = first[key], second[key]
        if isinstance(old, dict):
            return {**{name: value for name, value in old.items() if name not in names}, **new}
        return [name for name in old if name not in names] + new

    kept = {key: first[key] for key in SHARED if key in first}
    return {**kept, **{key: part(key) for key in second if key not in SHARED}, "left_out": second["left_out"]}


def of_one(found: Dict[str, Any], name: str) -> Dict[str, Any]:
    """The part of it that is about one instance."""

    def part(known: Any) -> Any:
        if isinstance(known, dict):
            return {name: known[name]} if name in known else {}
        return [each for each in known if each == name]

    return {key: known if key in SHARED else part(known) for key, known in found.items()}
