# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time since this host booted: it goes on while the host sleeps, and nobody can set it."""

from __future__ import annotations

import time

from ..guest import gate


def now():
    """{boot_id, uptime in s}. Two of them compare on one host only."""
    return {"boot_id": gate.boot_id(), "uptime": time.clock_gettime(time.CLOCK_BOOTTIME)}
