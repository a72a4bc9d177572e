# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Suggestions for an unknown name."""

from __future__ import annotations

from typing import Any, Iterable, Optional


def nearest(name: Any, names: Iterable[str], cutoff: float = 0.6) -> Optional[str]:
    """Return the one of ``names`` that is most similar to ``name``, or None if none is similar. ``cutoff``: how
    similar, from 0 to 1, which is equal."""
    import difflib  # slow, and most runs have no unknown name

    by_lower = {known.lower(): known for known in sorted(names)}
    near = difflib.get_close_matches(str(name), by_lower.values(), n=1, cutoff=cutoff)
    lower = difflib.get_close_matches(str(name).lower(), by_lower, n=1, cutoff=cutoff)
    return near[0] if near else by_lower[lower[0]] if lower else None


def meant(name: str) -> str:
    return "Did you mean %s?" % name


def did_you_mean(name: Any, names: Iterable[Any], kind: Optional[str] = None) -> str:
    """A hint for the unknown ``name``: the nearest of ``names``, else all of them if they are few. ``kind`` is what has
    these names, such as "flavor"."""
    known = sorted(str(entry) for entry in names)
    near = nearest(name, known)
    if near:
        return meant(near)
    if not known:
        if not kind:
            return "There are none"
        return "No %ss are defined: do so where every instance inherits it, such as in group_vars/all.yml" % kind
    if len(known) <= 8:
        return "Known: %s" % ", ".join(known)
    return "Known: %s and %d more" % (", ".join(known[:8]), len(known) - 8)
