# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JsonFilter."""

from __future__ import annotations

import json
import operator

from ..base import PASS, Filter, fail
from ..nova_names import HOST_STATE_ATTRIBUTES

_COMPARE = {"=": operator.eq, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


class JsonFilter(Filter):
    """A host passes when the hint ``query`` holds: JSON in prefix form, ["and", [">=", "$free_ram_mb", 1024], ...].

    Operators: = < > <= >= (the first with all others), in (the first is one of the others), and, or, not.
    ``$name.key`` is an attribute of HostState, then keys; one that is not there is left out of the arguments, and a
    comparison of fewer than two arguments fails. As in Nova, ``not`` gives a list, which counts as true inside ``and``
    and ``or`` whatever it holds.
    Options: none. Aggregate metadata: none. Runs for every instance.
    Source: nova.scheduler.filters.json_filter.JsonFilter.
    """

    def about(self, spec):
        return None if spec.get_scheduler_hint("query") else ()

    def check(self, host_state, spec):
        query = spec.get_scheduler_hint("query")
        if not query:
            return PASS
        parsed = json.loads(query) if isinstance(query, str) else query
        result = _evaluate(parsed, host_state)
        if any(result) if isinstance(result, list) else result:
            return PASS
        return fail("does not satisfy %s" % json.dumps(parsed), query=parsed)


def _evaluate(query, host_state):
    if not query:
        return True
    command, arguments = query[0], []
    for argument in query[1:]:
        if isinstance(argument, list):
            argument = _evaluate(argument, host_state)
        elif isinstance(argument, str):
            argument = _value(argument, host_state)
        if argument is not None:
            arguments.append(argument)
    if command == "and":
        return all(arguments)
    if command == "or":
        return any(arguments)
    if command == "not":
        return [not argument for argument in arguments]
    if command != "in" and command not in _COMPARE:
        raise ValueError("JsonFilter has no operator %r" % (command,))
    if len(arguments) < 2:
        return False
    if command == "in":
        return arguments[0] in arguments[1:]
    # Each is compared, so that what cannot be compared raises wherever it stands.
    return False not in [_COMPARE[command](arguments[0], other) for other in arguments[1:]]


def _value(text, host_state):
    if not text:
        return None
    if not text.startswith("$"):
        return text
    names = text[1:].split(".")
    found = getattr(host_state, names[0], None) if names[0] in HOST_STATE_ATTRIBUTES else None
    for name in names[1:]:
        if found is None:
            return None
        found = found.get(name)
    return found
