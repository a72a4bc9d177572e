# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was done in the fleet since a time, from the histories that its hosts keep, for people. Each time is by the clock of
the host where it was: the order across hosts is only as good as their clocks, and nothing depends on it."""

from __future__ import annotations

import datetime
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..model.errors import InvalidInput
from ..model.messages import Document
from ..placement.text import table
from . import show_instance

DAY = 86400
UNITS = {"m": 60, "h": 3600, "d": DAY}
LONGEST = 3650 * DAY
RULE = "a time such as 90m, 2h, 3d, today, yesterday, 2026-11-01 or 2026-11-01T08:00 (UTC), not later than now"
HEADS = ("AT", "INSTANCE", "EVENT", "HOST", "BY", "RUN", "RESULT")
KEYS = ("at", "event", "host", "by", "run", "result")


def seconds_since(text: Any, now: float) -> int:
    """How many seconds before ``now`` (since 1970, by the controller's clock) the events that are asked for begin."""
    said = str(text).strip()
    ago = re.fullmatch(r"([0-9]{1,6})([mhd])", said, re.ASCII)
    midnight = int(now) % DAY
    if ago:
        seconds = int(ago[1]) * UNITS[ago[2]]
    elif said in ("today", "yesterday"):
        seconds = midnight + (DAY if said == "yesterday" else 0)
    else:
        seconds = int(now - _time(said, text))
    if not 0 <= seconds <= LONGEST:
        raise InvalidInput("berth_since", text, RULE)
    return seconds


def _time(said: str, text: Any) -> float:
    for form in ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"):
        try:
            return datetime.datetime.strptime(said, form).replace(tzinfo=datetime.timezone.utc).timestamp()
        except (ValueError, OverflowError):
            continue
    raise InvalidInput("berth_since", text, RULE)


def of(told: Mapping[str, Sequence[Document]], names: Optional[Mapping[str, str]]) -> List[Dict[str, str]]:
    """The events, the oldest first. ``told``: host -> its histories; ``names``: uuid -> the name to be shown of the instances that
    are meant, None for all."""
    held: Dict[str, List] = {}
    for host, histories in told.items():
        for found in histories:
            if names is None or found["uuid"] in names:
                held.setdefault(found["uuid"], []).append((host, found))
    events = []
    for uuid, places in held.items():
        name = (names or {}).get(uuid) or str(places[0][1]["name"])
        for row in show_instance.history(places):
            events.append({"instance": name, "uuid": uuid, **dict(zip(KEYS, row))})
    return sorted(events, key=lambda event: (event["at"], event["instance"]))


def lines(events: Sequence[Mapping[str, str]]) -> List[str]:
    if not events:
        return ["Nothing was done in that time, by what these hosts remember."]
    return table(HEADS, [[event[head.lower()] for head in HEADS] for event in events], indent="")
