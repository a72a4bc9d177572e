# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run that makes, lists or restores backups knows: the backup hosts of the inventory, and how many it asks at once."""

from __future__ import annotations

from ..module_utils.conductor.procedures.backup_host import Run
from .inventory_variables import variables
from .moving_instances import new_key

BACKUP_HOSTS, ADDRESS = "berth_backup_hosts", "berth_host_migration_address"


def run_of(action, task_vars):
    """What a procedure about backups knows of the run."""
    group = [str(name) for name in task_vars["groups"].get(BACKUP_HOSTS, ())]
    hosts = {name: variables(task_vars, name, [ADDRESS]).get(ADDRESS) for name in group}
    return Run(hosts, int(task_vars["ansible_forks"]), new_key, action._task.check_mode)
