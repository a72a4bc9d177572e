# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""berth_where, a query in JMESPath that selects instances by what their hosts tell of them.

playbooks/read_where.yml asks all hosts before anything else is read, and the names that it finds are a fact of the run: what
it did not choose is no instance of the run.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from ..module_utils.conductor import dynamic_inventory
from ..module_utils.conductor.dynamic_inventory import NotListed
from ..module_utils.conductor.instance_document import FORM, of, of_none
from ..module_utils.model import input_hints
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.identity import IDENTITY, project_of, uuid_of
from ..module_utils.model.lifecycle import OWN
from ..module_utils.model.messages import Document
from ..module_utils.placement.jmespath_query import Query
from .controller import controller_facts
from .inventory_variables import described, kvm_hosts, variables
from .screen import warn

VARIABLE, FACT = "berth_where", "berth_chosen"
Told = Mapping[str, List[Tuple[str, Document]]]  # uuid -> [(host, what it tells of the instance)]


def query_of(action: Any, task_vars: Dict[str, Any]) -> Query:
    """Raises InvalidInput for a query that cannot be meant."""
    if "berth_name" in task_vars:
        raise InvalidInput(VARIABLE, task_vars[VARIABLE], "not beside berth_name, which names the instance itself")
    return Query(action.own_variables(task_vars, [VARIABLE])[VARIABLE], VARIABLE, FORM)


def check_chosen(task_vars: Dict[str, Any], names: List[str]) -> None:
    """Raise InvalidInput if there is a query that did not choose all these instances."""
    if VARIABLE not in task_vars:
        return
    chosen = controller_facts(task_vars).get(FACT)
    if chosen is None or not set(names) <= set(chosen["names"]):
        rule = "a selection for berth.kvm's own playbooks about instances"
        raise InvalidInput(VARIABLE, task_vars[VARIABLE], rule, hint=input_hints.where_in_playbooks())


def told_of(replies: Mapping[str, Mapping[str, Any]]) -> Dict[str, List[Tuple[str, Document]]]:
    """``replies``: host -> its answer to instance_info."""
    found: Dict[str, List[Tuple[str, Document]]] = {}
    for host, reply in replies.items():
        for instance in reply.get("instances") or ():
            found.setdefault(instance["uuid"], []).append((host, instance))
    return found


def documents(task_vars: Dict[str, Any], names: List[str], told: Told, all_told: bool) -> Dict[str, Document]:
    """Name -> document of instances of the inventory. ``all_told``: whether each host answered."""
    found = {}
    for name in names:
        values = variables(task_vars, name, IDENTITY)
        try:
            held = told.get(uuid_of(name, values))
            found[name] = of(name, held) if held else of_none(name, project_of(values), _nowhere(all_told))
        except BerthError:
            found[name] = of_none(name, "", _nowhere(all_told))  # what is wrong with its name is told where it is used
    return found


def _nowhere(all_told: bool) -> str:
    return "absent" if all_told else "unknown"


def in_no_inventory(task_vars: Dict[str, Any], told: Told) -> Dict[str, Document]:
    """Name -> document of the instances that hosts have and the inventory does not describe. One whose name is taken or
    doubtful is left out with a warning."""
    hosts: Dict[str, List[Document]] = {}
    for held in told.values():
        for host, instance in held:
            if instance.get("role") == OWN:
                hosts.setdefault(host, []).append({**instance, "flavor": None})
    found, left_out = dynamic_inventory.listed(hosts, lambda name: _known(task_vars, name))
    for error in left_out:
        warn(str(error))
    new = [name for name in found if _known(task_vars, name) is None]
    return {name: of(name, told[found[name]["berth_uuid"]]) for name in new}


def _known(task_vars: Dict[str, Any], name: str) -> Any:
    """As dynamic_inventory.listed asks: the variables of an instance of the inventory, None for a name that it does not have."""
    if name in task_vars["groups"]:
        raise NotListed("a group of the inventory has that name")
    if name in kvm_hosts(task_vars):
        raise NotListed("a KVM host has that name")
    if name not in task_vars["groups"]["all"]:
        return None
    if not described(task_vars, [name]):
        raise NotListed("a host of the inventory without berth_flavor has that name")
    return variables(task_vars, name, IDENTITY)
