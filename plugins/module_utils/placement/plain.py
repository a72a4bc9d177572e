# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Converts values to plain JSON: anything else becomes the nearest JSON value, always the same."""

from __future__ import annotations


def plain(value):
    """Plain JSON: tuples and sets become lists (sets sorted), other objects their text, NaN and infinities text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(part) for part in value), key=repr)
    if hasattr(value, "to_document"):
        return plain(value.to_document())
    return str(value)
