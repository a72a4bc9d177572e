# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The confirm window: the time after which a resize is confirmed by itself. A reboot of the host starts it anew."""

from __future__ import annotations

import math
from typing import Optional

from .messages import Migration, Uptime


def confirm_in(migration: Migration, now: Uptime) -> Optional[int]:
    """Seconds until a resize confirms by itself, 0 where it is due, None for never.

    ``now`` is {boot_id, uptime} of the host that took over: no other clock is asked, and one that is set changes nothing.
    After a reboot the window begins anew, since how long the host was off nobody knows.
    """
    window, since = migration["confirm_window"], migration.get("waits_since")
    if not window or not since:
        return None
    began = since["uptime"] if since["boot_id"] == now["boot_id"] else 0
    return max(0, math.ceil(began + window - now["uptime"]))
