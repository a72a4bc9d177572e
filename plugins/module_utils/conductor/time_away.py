# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The downtime of a guest in a cold move: from the beginning of the step that stops it to the end of the step that
starts it.

Hosts say how long their steps took; between two hosts the controller's own clock counts, and no other.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence

from .progress import duration

STOPS, STARTS = ("freeze", "revert", "restore_here"), "start"
SINCE, SECONDS = "since", "seconds"


def after(away: Mapping[str, float], steps: Sequence[str], took: Mapping[str, float], now: float) -> Dict[str, float]:
    """What is known after a leg of these steps, which a host answered ``now``: nothing, since when, or how many seconds."""
    known = dict(away)
    for at, step in enumerate(steps):
        if step in STOPS:
            known = {SINCE: now - sum(took.get(name, 0) for name in steps[at:])}
        elif step == STARTS and SINCE in known:
            known = {SECONDS: now - known[SINCE] - sum(took.get(name, 0) for name in steps[at + 1 :])}
    return known


def said(walked: Mapping[str, Any]) -> Optional[str]:
    """What the closing table says about a guest that runs again, from the last message of the module walk_move."""
    seconds = walked.get("away")
    runs = (walked.get("move") or {}).get("executing")
    return "guest was away for %s" % duration(max(seconds, 0)) if runs and seconds is not None else None
