# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hints about the registry. See hints.py."""

from __future__ import annotations


def run_again_later() -> str:
    """No majority of the registry's members answers, or an answer was lost."""
    return (
        "Run it again when a majority of the members answers: it goes on where it ended. berth.kvm.doctor tells of them"
    )


def see_doctor() -> str:
    """The registry says no: it is full, or does not know the controller."""
    return "berth.kvm.doctor tells what is wrong with the registry. Then run it again"
