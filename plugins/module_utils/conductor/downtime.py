# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The downtime of a guest in a move. In a cold move: from the start of the step that stops it to the end of the step
that starts it. Hosts report how long their steps took; between two hosts only the controller's own clock counts. In
a live migration the source measures it (compute/move/live_watch.py).
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence

from .progress import duration

STOPS, STARTS = ("freeze", "revert", "restore_here"), "start"
SINCE, SECONDS = "since", "seconds"


def after(away: Mapping[str, float], steps: Sequence[str], took: Mapping[str, float], now: float) -> Dict[str, float]:
    """What is known after a leg of these steps, answered at ``now``: nothing, since when, or how many seconds."""
    known = dict(away)
    for at, step in enumerate(steps):
        if step in STOPS:
            known = {SINCE: now - sum(took.get(name, 0) for name in steps[at:])}
        elif step == STARTS and SINCE in known:
            known = {SECONDS: now - known[SINCE] - sum(took.get(name, 0) for name in steps[at + 1 :])}
    return known


def measured(view: Mapping[str, Any]) -> Dict[str, float]:
    """What the source of a live migration reports in its view of the record: nothing, or how many seconds."""
    milliseconds = view.get("downtime_ms")
    return {} if milliseconds is None else {SECONDS: milliseconds / 1000}


def described(walked: Mapping[str, Any]) -> Optional[str]:
    """The closing table's text about a guest that runs again, from the result of module move_instances. If source
    and destination ended a live migration between them, that is the source's view, which has no guest any more."""
    seconds, last = walked.get("away"), walked.get("move") or {}
    runs = last.get("executing") or measured(last)
    return "guest was away for %s" % _words(max(seconds, 0)) if runs and seconds is not None else None


def _words(seconds: float) -> str:
    """0.431 -> "431ms", 2.3 -> "2.3s", 75 -> "1m15s"."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 1000:
        return "%dms" % milliseconds
    return "%.1fs" % seconds if seconds < 10 else duration(seconds)
