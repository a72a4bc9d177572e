# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays the playbooks that ship, with Ansible's own loader and templates, on a controller in memory: each task runs for one host
after the other, as with one fork."""

from __future__ import annotations

import sys
from pathlib import Path

from ansible.errors import AnsibleError
from ansible.playbook import Playbook
from ansible.playbook.block import Block
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.utils.collection_loader import AnsibleCollectionConfig

COLLECTION = "ansible_collections.berth.kvm"
PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"


class Failed(Exception):
    """A task failed for all hosts of its play, so no later play runs."""


def play(controller, name, extra_vars, heard):
    """Play the playbook with these variables. ``heard``: called with the result of each task of the collection."""
    _find_the_collection()
    controller.variable_manager._extra_vars = extra_vars
    path = str(PLAYBOOKS / ("%s.yml" % name))
    loaded = Playbook.load(path, variable_manager=controller.variable_manager, loader=controller.loader)
    try:
        for each in loaded.get_plays():
            _play(controller, each.copy(), heard)
    except Failed:
        pass


def _find_the_collection():
    """Ansible's own loader finds the collection, although Python has imported packages of it before."""
    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader()
        sys.modules[COLLECTION]._collection_meta = {}
        for name, module in list(sys.modules.items()):
            if name.startswith(COLLECTION) and getattr(module, "__file__", None) is None:
                module.__path__ = list(module.__path__)[:1]
                module.__file__ = "%s/__synthetic__" % module.__path__[0]


def _play(controller, play, heard):
    controller.play = play
    play.post_validate(Templar(loader=controller.loader, variables=_values(controller, "localhost")))
    failed = set()
    for task in _tasks(play.tasks):
        hosts = [host.name for host in controller.inventory.get_hosts(play.hosts)]
        for host in [host for host in hosts if host not in failed][: 1 if task.run_once else None]:
            if not _carry_out(controller, task, host, heard):
                failed.update(hosts if task.run_once else [host])
    if failed and failed >= {host.name for host in controller.inventory.get_hosts(play.hosts)}:
        raise Failed


def _tasks(entries):
    for entry in entries:
        if isinstance(entry, Block):
            yield from _tasks(entry.block)
        else:
            yield entry


def _carry_out(controller, task, host, heard):
    """Whether the task did not fail on the host."""
    values, task_uuid = _values(controller, host, task), task._uuid
    templar = Templar(loader=controller.loader, variables=values)
    if not _applies(task, templar, values):
        return True
    task = task.copy()
    task._uuid = task_uuid  # of which one process does the work for all hosts
    task.args = templar.template(task.args)
    task.args = {name: value for name, value in task.args.items() if "omit" not in values or value != values["omit"]}
    if task.action.endswith("meta"):
        return True
    result = _result(controller, task, values)
    heard(result)
    if "ansible_facts" in result:
        controller.variable_manager.set_host_facts("localhost", result["ansible_facts"])
    if task.register:
        controller.register(host, **{task.register: result})
    return not result.get("failed")


def _result(controller, task, values):
    try:
        return controller.carry_out(task, values)
    except AnsibleError as error:
        return {"failed": True, "msg": str(error)}


def _applies(task, templar, values):
    if hasattr(task, "evaluate_conditional"):  # ansible-core 2.18 and before
        return task.evaluate_conditional(templar, values)
    return task._resolve_conditional(task.when, values)


def _values(controller, host, task=None):
    of_host = controller.inventory.get_host(host)
    values = controller.variable_manager.get_vars(play=controller.play, host=of_host, task=task)
    return {**values, "ansible_forks": 1, "hostvars": controller.hostvars}
