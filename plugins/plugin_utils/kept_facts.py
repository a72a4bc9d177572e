# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of hosts that Ansible keeps, also in a fact cache between runs: when they were read, and which are newer.

The time is this controller's, and only this controller compares it: the age of facts that another controller put into a
shared cache is unknown.
"""

from __future__ import annotations

import platform
import time
from typing import Any, Dict, Mapping, Optional

from ..module_utils.model import host_document, host_hints
from ..module_utils.model.errors import BerthError

FACT, READ = "berth_host", "berth_facts_read"


def stamped(result: Dict[str, Any]) -> Dict[str, Any]:
    """The result of host_facts with the time at which this controller received it."""
    facts = result.get("ansible_facts") or {}
    if FACT in facts:
        result["ansible_facts"] = {**facts, READ: {"at": int(time.time()), "by": platform.node()}}
    return result


def too_old(read: Any, most: Optional[int]) -> Optional[str]:
    """Why kept facts do not count if they may be at most ``most`` seconds old, or None. ``read``: their stamp."""
    if most is None:
        return None
    age = int(time.time()) - read["at"] if _is_own(read) else None
    if age is not None and 0 <= age <= most:
        return None
    text = "are %d s old" % age if age is not None and age >= 0 else "are of an unknown age"
    return "its cached facts %s, and only facts of at most %d s are used: %s" % (
        text,
        most,
        host_hints.read_facts_first(),
    )


def newer(answered: Mapping[str, Any], kept: Mapping[str, Any]) -> Dict[str, Any]:
    """The newer document: that of this run's first answer, or that of the facts that Ansible has. The host's own
    counters decide; what cannot be compared is not newer. Facts read before the answer are not newer either: a host
    that was restored as a whole continues counting from its backup."""
    answer, other = answered[FACT], kept.get(FACT)
    if not isinstance(other, Mapping) or not _is_read_since(answered, kept) or not _is_later(other, answer):
        return answer
    try:
        return host_document.check(dict(other))
    except BerthError:
        return answer


def _is_read_since(answered: Mapping[str, Any], kept: Mapping[str, Any]) -> bool:
    """Compare by this controller's own clock only."""
    first, second = answered.get(READ), kept.get(READ)
    return _is_own(first) and _is_own(second) and second["at"] >= first["at"]


def _is_own(read: Any) -> bool:
    return isinstance(read, Mapping) and read.get("by") == platform.node() and isinstance(read.get("at"), int)


def _is_later(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether both are of one host and one state directory, and ``first`` has higher counters: ``serial`` counts
    changes of owners, ``generation`` all changes."""
    states = [document.get("state") for document in (first, second)]
    if first.get("uuid") != second.get("uuid") or not all(isinstance(state, Mapping) for state in states):
        return False
    if not states[0].get("id") or states[0]["id"] != states[1].get("id"):
        return False
    counts = [(state.get("serial"), document.get("generation")) for state, document in zip(states, (first, second))]
    whole = all(type(count) is int for pair in counts for count in pair)  # pylint: disable=unidiomatic-typecheck
    return whole and counts[0][1] > counts[1][1] and counts[0][0] >= counts[1][0]
