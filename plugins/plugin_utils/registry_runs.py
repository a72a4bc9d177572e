# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbooks about the registry itself have in common: their run, by the inventory, and the engine that they change."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Tuple

from ..module_utils.conductor.registry import enrol
from ..module_utils.model import registry_hints
from ..module_utils.model.errors import InvalidInput
from ..module_utils.model.identity import project_of
from . import reading, registry_access
from .answers_of_hosts import read_reports
from .controller import new_token
from .etcd import Etcd
from .inventory_variables import lost_hosts, variables
from .selection import instances_by_uuid


def run_of(action: Any, task_vars: Dict[str, Any], hosts: List[str]) -> Tuple[enrol.Run, Etcd]:
    """Raise InvalidInput where the run names no registry, or its variables are wrong."""
    reading.begin(action, task_vars, hosts)
    engine = registry_access.engine_of_run(action, task_vars, hosts)
    if engine is None:
        raise InvalidInput(
            registry_access.VARIABLE, None, registry_access.WHERE.rule, hint=registry_hints.name_registry()
        )
    run = enrol.Run(
        kind=registry_access.KIND,
        hosts=hosts,
        about=_instances(task_vars, hosts),
        read=lambda answers: read_reports({**task_vars, "__berth_facts": {"answers": answers}}, list(answers)),
        new_incarnation=new_token,
        now=time.time,
        lost=lost_hosts(action.own_variables(task_vars, ["berth_lost_hosts"])),
        dry=action._task.check_mode,
    )
    return run, engine


def _instances(task_vars: Dict[str, Any], hosts: List[str]) -> Dict[str, Tuple[str, str]]:
    found = instances_by_uuid(task_vars, hosts)
    return {uuid: (name, project_of(variables(task_vars, name, ["berth_project"]))) for uuid, name in found.items()}
