# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors of several instances as one, which names each instance. No host needs it, so it is not in errors.py."""

from __future__ import annotations

import re
from typing import Collection, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from .errors import MOST_NAMED, BerthError, shortened, worded

LONG_HINT = 60  # characters
Fault = Tuple[str, Optional[str], Optional[str]]  # message, rule, hint


def of_several(faults: Iterable[Tuple[str, BerthError]]) -> BerthError:
    """One error for several instances, with the code of the first; text that many share appears once. A single one is
    named too: the run may be about more instances."""
    known = list(faults)
    if len(known) == 1:
        name, error = known[0]
        error.message = _line((error.message, [name]))
        return error
    texts = _each_hint_once({str(error): error for _name, error in known})
    told = each_once((name, texts[str(error)]) for name, error in known)
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


def worded_all(faults: Iterable[Fault], said: Collection[Optional[str]] = ()) -> str:
    """Each in words. A long hint that several share comes once, after the last of them, and not if it was ``said``; a short one
    such as what was meant stays with what it is about."""
    told: List[str] = []
    others = set(said)
    for message, rule, hint in reversed(list(faults)):
        again = hint is not None and len(hint) > LONG_HINT and hint in others
        told.insert(0, worded(message, rule, None if again else hint))
        others.add(hint)
    return "; ".join(told)


def _each_hint_once(errors: Mapping[str, BerthError]) -> Dict[str, str]:
    """Text of an error -> the same without the long hints of those before it: who has many reads only the first. ``errors``: by
    their texts."""
    found: Dict[str, str] = {}
    said: Set[Optional[str]] = set()
    for text, error in errors.items():
        faults = [error, *error.also]
        found[text] = worded_all(((each.message, each.rule, each.hint) for each in faults), said)
        said.update(each.hint for each in faults)
    return found


def each_once(told: Iterable[Tuple[str, str]]) -> List[str]:
    """A line for each text, with all instances that it is about; of texts that differ in the instance's own name alone the first,
    and whose else there are. ``told``: (instance, text)."""
    names: Dict[str, List[str]] = {}
    for name, text in told:
        names.setdefault(text, []).append(name)
    alike: Dict[str, List[Tuple[str, List[str]]]] = {}
    for text, shared in names.items():
        alike.setdefault(text if shared[1:] else _without(shared[0], text), []).append((text, shared))
    return [_line(*texts) for texts in alike.values()]


def _without(name: str, text: str) -> str:
    return re.sub(r"(?<![\w.-])%s(?![\w-])" % re.escape(name), "\0", text)


def _line(first: Tuple[str, List[str]], *others: Tuple[str, List[str]]) -> str:
    (text, names), more = first, [name for _text, shared in others for name in shared]
    begin = "" if not names[1:] and text.startswith(names[0] + " ") else shortened(names) + ": "
    return "%s%s%s" % (begin, text, ". The same of %s" % shortened(more) if more else "")
