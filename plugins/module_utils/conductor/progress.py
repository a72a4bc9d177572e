# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress of a copy as one line for people."""

from __future__ import annotations

import json
import math
from typing import Any, Optional

UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
LIMIT = 1 << 63
STOPPED = "the time limit is over, the guest is stopped until it has arrived: "


def line(name: str, text: str) -> Optional[str]:
    """``text`` is the host's progress.json: {state, bytes, total, rate (bytes/s), slowed (percent, or missing)}. Return
    None if it has nothing useful.

    Only its numbers are shown, because it comes from a host.
    """
    try:
        progress = json.loads(text)
        done, total, rate = (_amount(progress[key]) for key in ("bytes", "total", "rate"))
        slowed = min(_amount(progress.get("slowed") or 0), 99)
        state = progress.get("state")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not total:
        return None
    done = min(done, total)
    if state == "comparing":
        return "%s: comparing %s with the copy" % (name, size(total))
    parts = ["%s of %s" % (size(done), size(total)), "%d %%" % (100 * done // total)]
    if rate:
        parts += [size(rate) + "/s", duration((total - done) / rate) + " left"]
    if slowed:
        parts += ["auto-converge slows the guest by %d %%" % slowed]
    return "%s: %scopying %s" % (name, STOPPED if state == "stopped" else "", ", ".join(parts))


def amount_in(line: str) -> str:
    """Return the part of a line that stays the same until more is copied; only the rate and the time left change."""
    return line.partition(" %")[0]


def _amount(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError("no amount")
    return int(min(max(value, 0), LIMIT))


def size(amount: int) -> str:
    """1288490189 -> "1.2 GiB"."""
    unit, name = next((entry for entry in UNITS if amount >= entry[0]), UNITS[-1])
    return "%d %s" % (amount, name) if unit == 1 else "%.1f %s" % (amount / unit, name)


def duration(seconds: float) -> str:
    """75 -> "1m15s"."""
    minutes, seconds = divmod(int(math.ceil(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return "%dh%02dm" % (hours, minutes)
    return "%dm%02ds" % (minutes, seconds) if minutes else "%ds" % seconds
