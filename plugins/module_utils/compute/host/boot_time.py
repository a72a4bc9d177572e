# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The id of this host's boot, and its uptime, which continues while the host sleeps and which nobody can set."""

from __future__ import annotations

import time

from ...model.messages import Uptime

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str:
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()


def uptime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def now() -> Uptime:
    """Return boot id and uptime. Two of them can only be compared on one host."""
    return {"boot_id": boot_id(), "uptime": uptime()}
