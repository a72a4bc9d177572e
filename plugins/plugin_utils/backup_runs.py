# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run that makes, lists or restores backups knows: the backup hosts of the inventory, and how many it asks at once; and the
newest backups of instances whose disks a lost host alone had, as the backup host lists them, or any KVM host that reads the
directory."""

from __future__ import annotations

import datetime

from ..module_utils.conductor.procedures.backup_host import Run
from ..module_utils.conductor.procedures.evacuate import newest_backups
from ..module_utils.model.identity import IDENTITY, project_of
from .driving import carry_out
from .fleet_options import BACKUP_HOST, BACKUP_HOSTS
from .inventory_variables import variables
from .moving_instances import new_key

TO, ADDRESS = "berth_backup_to", "berth_host_migration_address"


def run_of(action, task_vars):
    """What a procedure about backups knows of the run."""
    group = [str(name) for name in task_vars["groups"].get(BACKUP_HOSTS, ())]
    hosts = {name: variables(task_vars, name, [ADDRESS]).get(ADDRESS) for name in group}
    return Run(hosts, int(task_vars["ansible_forks"]), new_key, action._task.check_mode)


def of_lost(action, task_vars, names, uuids, answering):
    """uuid -> Backups of each. ``uuids``: of the instances; ``answering``: a KVM host."""
    values = {name: variables(task_vars, name, [*IDENTITY, TO, BACKUP_HOST]) for name in names}
    tasks = {
        name: {"uuid": uuids[name], "hosts": [answering], "project_id": project_of(each)}
        for name, each in values.items()
    }
    given = {
        name: {"to": each[TO], **({"host": each[BACKUP_HOST]} if each.get(BACKUP_HOST) else {})}
        for name, each in values.items()
        if each.get(TO)
    }
    now = datetime.datetime.now(datetime.timezone.utc)
    return carry_out(action, task_vars, newest_backups(tasks, given, run_of(action, task_vars), now))[0]
