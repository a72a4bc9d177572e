# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot of this host and the time since: it goes on while the host sleeps, and nobody can set it."""

from __future__ import annotations

import time

from ...model.messages import Uptime

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    """Another after each boot."""
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()


def uptime() -> float:
    """Seconds."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def now() -> Uptime:
    """Two of them compare on one host only."""
    return {"boot_id": boot_id(), "uptime": uptime()}
