# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells the hosts of the fleet which hosts belong to it."""

from __future__ import annotations

from typing import Any, Dict

from ..module_utils.conductor import majority
from ..module_utils.conductor.fleet import Fleet
from ..module_utils.model.messages import Document
from .fan_out import ask


def tell_members(action: Any, task_vars: Dict[str, Any], fleet: Fleet, news: Document, apart: str = "") -> None:
    """``news``: the entries of the list of the fleet that change, see conductor/majority.py. All prepared hosts that answer
    take them, ``apart`` from one. A host that does not answer learns it from them."""
    if news and not action._task.check_mode:
        told = {"members": {**majority.agreed(fleet.member_lists), **news}}
        ask(
            action,
            task_vars,
            sorted(set(fleet.documents) - set(fleet.unprepared()) - {apart}),
            "rescan",
            {"told": told},
        )
