# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors of several instances as one, which names each instance. No host needs it, so it is not in errors.py."""

from __future__ import annotations

from typing import Dict, Iterable, List, Tuple

from .errors import MOST_NAMED, BerthError, shortened


def of_several(faults: Iterable[Tuple[str, BerthError]]) -> BerthError:
    """One error for several instances, with the code of the first; text that many share appears once. A single one is
    named too: the run may be about more instances."""
    known = list(faults)
    if len(known) == 1:
        name, error = known[0]
        error.message = "%s: %s" % (name, error.message)
        return error
    told = each_once((name, str(error)) for name, error in known)
    parts = told[:MOST_NAMED]
    if len(told) > MOST_NAMED:
        parts.append("and %d more faults" % (len(told) - MOST_NAMED))
    first = known[0][1]
    whole = type(first).__new__(type(first))  # the classes differ in what their __init__ wants
    vars(whole).update(
        vars(first),
        message="%d instances are not valid: %s" % (len(known), "; ".join(parts)),
        details={**first.details, "faults": {name: error.to_dict() for name, error in known}},
        also=[],
        **dict.fromkeys(("field", "value", "rule", "hint")),
    )
    return whole


def each_once(told: Iterable[Tuple[str, str]]) -> List[str]:
    """A line for each text, with all instances that it is about. ``told``: (instance, text)."""
    names: Dict[str, List[str]] = {}
    for name, text in told:
        names.setdefault(text, []).append(name)
    return ["%s: %s" % (shortened(shared), text) for text, shared in names.items()]
