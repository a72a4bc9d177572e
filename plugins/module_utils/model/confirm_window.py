# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The confirm window: the time after which confirm_due confirms a resize, by the host's uptime and no wall clock. A
reboot of the host restarts it."""

from __future__ import annotations

import math
from typing import Optional

from .messages import Migration, Uptime


def confirm_in(migration: Migration, now: Uptime) -> Optional[int]:
    """Seconds until a resize is confirmed automatically, 0 if it is due, None for never. ``now`` is {boot_id, uptime} of the
    host that took over: no other clock is used, and setting a clock changes nothing. A reboot restarts the window, because
    nobody knows how long the host was off.
    """
    window, since = migration["confirm_window"], migration.get("waits_since")
    if not window or not since:
        return None
    began = since["uptime"] if since["boot_id"] == now["boot_id"] else 0
    return max(0, math.ceil(began + window - now["uptime"]))
