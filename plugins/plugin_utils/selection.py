# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances a run is about, and what was probably meant where there is none of that name."""

from __future__ import annotations

from typing import Any, Dict, List

from ..module_utils.conductor.fleet import Fleet
from ..module_utils.conductor.sides import InstanceNotFound
from ..module_utils.model import hints
from ..module_utils.model.suggest import did_you_mean
from .controller import raw_vars, with_variable


def selected(task_vars: Dict[str, Any], names: List[str]) -> List[str]:
    """Those of the names that are instances. Raises InstanceNotFound where the pattern berth_instances matches none."""
    found = with_variable(task_vars, names, "berth_flavor", unless="berth_name")
    if not found and "berth_instances" in task_vars:
        pattern = str(task_vars["berth_instances"])
        known = with_variable(task_vars, task_vars["groups"]["all"], "berth_flavor")
        raise InstanceNotFound("no instance matches %s" % pattern, hint=did_you_mean(pattern, known, "instance"))
    return found


def in_inventory(task_vars: Dict[str, Any], name: str) -> bool:
    """Whether the inventory describes the instance; one of berth_name is described on the command line, if at all."""
    return "berth_flavor" in raw_vars(task_vars, name)


def not_found(task_vars: Dict[str, Any], fleet: Fleet, name: str) -> InstanceNotFound:
    """The error for an instance that no host holds."""
    if in_inventory(task_vars, name):
        return InstanceNotFound("%s is on no host" % name, hint=hints.create_it(name))
    described = with_variable(task_vars, task_vars["groups"]["all"], "berth_flavor")
    held = [str(place["name"]) for places in fleet.places.values() for place in places if place.get("name")]
    known = {*described, *held} - {name}
    hint = did_you_mean(name, known, "instance")
    return InstanceNotFound("%s is in no inventory and on no host" % name, hint=hint)
