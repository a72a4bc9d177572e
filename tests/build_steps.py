# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a build, for the tests in memory and those on real hosts."""

from __future__ import annotations

# What a build calls ``observe`` with, in its order; tests end the process there.
BUILD_STEPS = [
    "build begin",
    "build disks",
    "build volumes",
    "build seed",
    "build define",
    "build active",
    "start permit",
    "start guest",
    "start done",
]
