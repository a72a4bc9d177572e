# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller in memory: a real inventory with variables and facts, in which actions of the collection run."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.block import Block
from ansible.playbook.play import Play
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from ansible_collections.berth.kvm.plugins.plugin_utils import acting


class Controller:
    def __init__(self, groups, variables=None, facts=None):
        """``groups``: group -> host names; ``variables``: host or group -> variables; ``facts``: host -> ansible_facts."""
        self.loader = DataLoader()
        self.inventory = InventoryManager(loader=self.loader, sources=["localhost,"])
        for group, hosts in groups.items():
            self.inventory.add_group(group)
            for host in hosts:
                self.inventory._inventory.add_host(host, group=group)
        for name, values in (variables or {}).items():
            entity = self.inventory.groups.get(name) or self.inventory.hosts[name]
            for key, value in values.items():
                entity.set_variable(key, value)
        self.inventory.reconcile_inventory()
        self.variable_manager = VariableManager(loader=self.loader, inventory=self.inventory)
        for host, values in (facts or {}).items():
            self.variable_manager.set_host_facts(host, acting.stamped({"ansible_facts": values})["ansible_facts"])
        self.hostvars = HostVars(inventory=self.inventory, variable_manager=self.variable_manager, loader=self.loader)
        self.play = Play.load(
            {"hosts": "localhost", "gather_facts": "no"}, variable_manager=self.variable_manager, loader=self.loader
        )

    def register(self, host, **values):
        self.variable_manager.set_nonpersistent_facts(host, values)

    def task_vars(self):
        values = self.variable_manager.get_vars(play=self.play, host=self.inventory.get_host("localhost"))
        play = {
            "ansible_forks": 5,
            "ansible_play_hosts_all": ["localhost"],
            "ansible_play_hosts": ["localhost"],
            "ansible_play_batch": ["localhost"],
        }
        return {"ansible_forks": 5, **play, **values, "hostvars": self.hostvars}

    def run(self, action, args=None, task_vars=None, check_mode=False, uuid=None):
        """``uuid``: of the task; the runs of one task for several hosts have the same."""
        task_vars = task_vars or self.task_vars()
        task = Task()
        task._parent = Block(play=self.play)
        task.check_mode = check_mode or task.check_mode
        task._uuid = uuid or task._uuid
        task.action, task.args = "berth.kvm." + action, args or {}
        return self.carry_out(task, task_vars)

    def carry_out(self, task, task_vars):
        """What the task's action returns. Its arguments are templated already."""
        action = task.action.rpartition(".")[2]
        module = importlib.import_module("ansible_collections.berth.kvm.plugins.action." + action)
        plugin = module.ActionModule(
            task=task,
            connection=SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nowhere")),
            play_context=PlayContext(),
            loader=self.loader,
            templar=Templar(loader=self.loader, variables=task_vars),
            shared_loader_obj=None,
        )
        return plugin.run(task_vars=task_vars)
