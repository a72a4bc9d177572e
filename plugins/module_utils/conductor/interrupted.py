# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ends a change of an instance that a run began and did not finish: the doctor says it, and a move that meets it."""

from __future__ import annotations

from typing import Any, Mapping

from ..model import copy_hints, fleet_hints, hints, vm_states
from ..model.lifecycle import ACTIVE, DELETING, SETTING_ASIDE, SHELVING_OFFLOADING, SPAWNING
from .locate import is_moving


def to_end(place: Mapping[str, Any], name: str) -> str:
    """The hint that ends a change which a run began and did not finish."""
    if is_moving(place):
        return hints.finish_move(name)
    if place["phase"] == SETTING_ASIDE:
        return copy_hints.keep_one_again(name)
    if place["phase"] != ACTIVE or place["task_state"] == SPAWNING:
        return fleet_hints.end_it(name, "delete" if place["phase"] == DELETING else "create")
    if place.get("vm_state") == vm_states.RESCUED:
        return fleet_hints.end_it(name, "unrescue")
    if place.get("vm_state") == vm_states.SHELVED:
        return fleet_hints.end_it(name, "shelve" if place["task_state"] == SHELVING_OFFLOADING else "unshelve")
    left = {
        change.task: operation for operation, change in vm_states.CHANGES.items() if change.after != vm_states.ACTIVE
    }
    return fleet_hints.end_it(name, left.get(place["task_state"], "start"))
