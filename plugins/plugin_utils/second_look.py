# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run found, after it has looked again for some of its instances: those that it met in a move that had ended."""

from __future__ import annotations

from typing import Any, Collection, Dict

WHOLE = ("operation", "left_out")  # neither is about single instances


def after_second_look(first: Dict[str, Any], second: Dict[str, Any], names: Collection[str]) -> Dict[str, Any]:
    """What the second look found of ``names`` counts, of all others what the first did. Each part lists names, or maps
    them. Who did not answer (``left_out``) is as the second look has it."""

    def part(key):
        old, new = first[key], second[key]
        if isinstance(old, dict):
            return {**{name: value for name, value in old.items() if name not in names}, **new}
        return [name for name in old if name not in names] + new

    return {key: second[key] if key in WHOLE else part(key) for key in second}
