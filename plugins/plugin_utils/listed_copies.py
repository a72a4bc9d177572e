# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks a host which addresses a copy has that was set aside there: no record says so any more."""

from __future__ import annotations

from typing import Any, Dict, List

from .asking import answers, ask


def addresses(action: Any, task_vars: Dict[str, Any], host: str, uuid: str) -> List[str]:
    """As model/nics.py writes them; [] if the host has no such copy, which it says when the copy is to come back."""
    told = answers(ask(action, task_vars, [host], "instance_copy", {"uuid": uuid, "state": "listed"}))[host]
    return (told.get("instance_copy") or {}).get("nics") or []
