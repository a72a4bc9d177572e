# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to say of a name that no instance or volume has. None of the others is said to be meant: who follows that with a
delete loses it."""

from __future__ import annotations

import re
from typing import Iterable, List

from ..model import input_hints
from ..model.errors import shortened
from ..model.unknown_names import known_names, nearest


def similar_instances(name: object, names: Iterable[str]) -> str:
    """A hint for the unknown ``name``: those that berth_count made of it, else the similar ones of ``names``, else all."""
    known = sorted(set(names))
    counted = _counted(str(name), known)
    return input_hints.select_counted(str(name), counted) if counted else similar(name, known)


def similar(name: object, names: Iterable[str]) -> str:
    known = sorted(set(names))
    near = [each for each in known if nearest(name, [each])]
    return "Similar names: %s" % shortened(near) if near else known_names(known)


def _counted(name: str, names: Iterable[str]) -> List[str]:
    """Those of ``names`` that are ``name`` with a number, by that: app-2 of app, app-2.example.org of app.example.org."""
    host, dot, domain = map(re.escape, name.partition("."))
    matches = (re.fullmatch("%s-([1-9][0-9]*)%s" % (host, dot + domain), each) for each in names)
    return [found[0] for found in sorted(filter(None, matches), key=lambda found: int(found[1]))]
