# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of an instance that comes with it from another host, for people: each event says ``on`` which host it was.

What another host says decides nothing: whoever reads events to decide something reads ``own`` ones alone.
"""

from __future__ import annotations

from typing import Any, Dict, List

from .record import HISTORY_LIMIT, Record, bounded
from .safe_text import clean

Event = Dict[str, Any]
ON = "on"
LONGEST = 200  # characters of a text in an event
MOST_PARTS = 20


def own(history: List[Event]) -> List[Event]:
    """The events of this host."""
    return [event for event in history if ON not in event]


def told(record: Record, events: Any, host: str) -> Record:
    """Return the record with the events that the host ``host``, where the instance was before, tells of it, after its own
    and without those that are known here. Only flat events with a name and a time are taken."""
    known = [_content(event) for event in record.history]
    found = []
    for event in (events if isinstance(events, list) else [])[-HISTORY_LIMIT:]:
        checked = _checked(event)
        if checked and _content(checked) not in known:
            found.append({**checked, ON: checked.get(ON, clean(host))})
    return record.replace(history=bounded([*record.history, *found]))


def _content(event: Event) -> Event:
    return {name: value for name, value in event.items() if name != ON}


def _checked(event: Any) -> Event:
    """Return the event with harmless values, or {} if it is none."""
    if not isinstance(event, dict) or not all(isinstance(event.get(part), str) for part in ("event", "at")):
        return {}
    parts = [(name, value) for name, value in event.items() if isinstance(name, str)][:MOST_PARTS]
    return {clean(name, LONGEST): _harmless(value) for name, value in parts}


def _harmless(value: Any) -> Any:
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    return clean(value if isinstance(value, str) else str(value)[:LONGEST], LONGEST)
