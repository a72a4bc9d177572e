# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's names of the task and power states on which something depends."""

from __future__ import annotations

# Of a start or a stop that has begun and not ended.
SPAWNING = "spawning"  # until the guest was first started
POWERING_ON, POWERING_OFF = "powering-on", "powering-off"
STARTING = (SPAWNING, POWERING_ON)
# The power states of a guest with a QEMU.
PAUSED = ("paused", "suspended")
ALIVE = ("running", *PAUSED)
