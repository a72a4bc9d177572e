# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action operate_instances: see plugins/modules/operate_instances.py for its documentation."""

from __future__ import annotations

import contextlib
import functools
import time

from ansible.errors import AnsibleError

from ..module_utils.conductor import adopting, renaming, show_backup, show_instance
from ..module_utils.conductor.closing_table import error_of, text_of
from ..module_utils.conductor.operations import OPERATIONS
from ..module_utils.conductor.procedures import backup_host, update
from ..module_utils.conductor.procedures.backup import back_up
from ..module_utils.conductor.procedures.copies import counts_at, keep_one, recover, recover_record
from ..module_utils.conductor.procedures.delete import Moving, and_forget, delete
from ..module_utils.conductor.procedures.operate import Done, adopt, look, operate, over, rename
from ..module_utils.conductor.procedures.rebuild import rebuild, rescue
from ..module_utils.conductor.procedures.shelve import Elsewhere, shelve, unshelve
from ..module_utils.conductor.procedures.update_disks import Run, update_disks
from ..module_utils.conductor.registry.adopts import AdoptsOnEngine
from ..module_utils.conductor.registry.changes import ChangesOnEngine
from ..module_utils.conductor.registry.embedded import Embedded
from ..module_utils.conductor.registry.engine import Known, RemovesOnEngine, chosen
from ..module_utils.conductor.registry.shelves import RoomOnEngine
from ..module_utils.conductor.registry.which_operations import CHANGES
from ..module_utils.model import copy_hints, made_images
from ..module_utils.model.errors import BerthError
from ..module_utils.model.identity import ADOPTED, IDENTITY, project_of
from ..plugin_utils import acting, backup_runs, end_of_operation, fleet_filters, registry_access, wanted_update
from ..plugin_utils.answers_of_hosts import FOUND
from ..plugin_utils.berth_name import selected_by_name
from ..plugin_utils.controller import controller_facts, documented, new_token, outcomes_reported
from ..plugin_utils.driving import carry_out
from ..plugin_utils.inventory_differences import InventoryDifferences
from ..plugin_utils.inventory_variables import kvm_hosts, lost_hosts, raw_vars, variables
from ..plugin_utils.locating import LocateInstances
from ..plugin_utils.moving_instances import (
    Legs,
    MovesInstances,
    MovesToDelete,
    MovesToUnshelve,
    after_second_look,
    states_of,
)
from ..plugin_utils.plain import plain
from ..plugin_utils.reading import read
from ..plugin_utils.screen import say
from ..plugin_utils.selection import check_play, in_inventory
from ..plugin_utils.shared_task import own_part
from ..plugin_utils.whose_variables import fixed_addresses

MINUTES = "berth_backup_minutes"
SHELVES = ("shelve", "unshelve")
CHOICES = ("keep_one", "recover_record")  # of the copy, or the record, that counts
CARRIED_OUT = {"operation": None, "names": [], "found": [], "moving": [], "instances": {}, "errors": {}}


class ActionModule(LocateInstances, MovesInstances):
    """One process acts on the instances of all that wait, where the run has found them or finds them now; each reports its
    own."""

    asks_alone = True
    ends_run = True
    argument_spec = documented("operate_instances", operation=list(OPERATIONS))

    def reported(self, result):
        return outcomes_reported(self, result)

    def act(self, args, task_vars):
        located = controller_facts(task_vars).get("berth_located") or CARRIED_OUT
        if located["operation"] != args["operation"]:  # no playbook has selected them
            check_play(self, task_vars, args["operation"])
        work = functools.partial(self._operate, args=args, task_vars=task_vars)
        return own_part(self, task_vars, work, args["may_fail"])

    def _operate(self, names, args, task_vars):
        operation, facts = args["operation"], plain(controller_facts(task_vars))
        hosts = kvm_hosts(task_vars, args["hosts"])
        located = facts.get("berth_located") or CARRIED_OUT
        if located["operation"] != operation or task_vars["inventory_hostname"] not in located["names"]:
            located, facts = self._found(operation, names, hosts, task_vars), {}

        def look(names):
            if names is None:
                located.update(self._found(operation, located["names"], hosts, task_vars))
                return _tasks(located)
            with contextlib.suppress(BerthError, AnsibleError):  # who is not found again keeps the error of its plan
                found = self._found(operation, list(names), hosts, task_vars, again=True)
                located.update(after_second_look(located, found, names))
            return {name: task for name, task in _tasks(located).items() if name in names}

        moving = MovesToDelete(self, located, hosts, task_vars)
        registry = registry_access.of_run(self, task_vars, hosts)
        tasks = _tasks(located)
        inventory = InventoryDifferences(task_vars, list(tasks), hosts, self._loader)
        changes = self._changes(operation, located, inventory)

        def carry_out_some(tasks):
            return self._procedure(operation, tasks, located, moving, hosts, task_vars, changes, inventory)

        procedure = over(changes, tasks, carry_out_some, self._task.check_mode) if changes else carry_out_some(tasks)
        if registry and operation in CHOICES and not self._task.check_mode:
            procedure = chosen(procedure, counts_at(tasks))
        done, said = carry_out(self, task_vars, procedure, look, Legs().hear, registry)
        done, walked = done if operation == "delete" else (done, {})
        moves, walks = moving.moves, moving.told(walked)
        lines = [*_where_set_aside(located, done, self._task.check_mode), *_looked_at(located, done)]
        lines += _backups(operation, located, done) if operation != made_images.OPERATION else _images(located, done)
        say(*(selected_by_name(line, task_vars) for line in lines))
        if operation in ("delete", "update") and any(each.changed for each in done.values()):
            fleet_filters.follow(self, task_vars, hosts)
        if operation == renaming.OPERATION and not self._task.check_mode:
            say(*_new_names(located, done))
        if operation == "adopt":
            say(*self._for_the_inventory(located, done, task_vars))
        parts = {name: _part(located["errors"].get(name), done.get(name) or Done()) for name in located["names"]}
        for name in located["moving"]:
            outcome = end_of_operation.of_move(task_vars, operation, name, moves, walks[name], self._task.check_mode)
            parts[name] = end_of_operation.part_of_move(operation, outcome, moves, walks[name], self._task.check_mode)
        ended = end_of_operation.end(self, task_vars, operation, located, done, moves, walks)
        ended["ansible_facts"]["berth_located"] = CARRIED_OUT  # no later task carries it out again
        return {"parts": parts, "run": {**ended, "said": states_of(said)}}

    def _for_the_inventory(self, located, done, task_vars):
        """The lines that make each adopted guest an instance like others, where the inventory lacks them."""
        for name, each in done.items():
            told = variables(task_vars, name, [ADOPTED])
            if each.errors or "flavor" not in each.instance or told.get(ADOPTED) and in_inventory(task_vars, name):
                continue
            task = located["instances"][name]
            yield from adopting.inventory_lines(name, task["project_id"], each.instance, task["flavor"] is not None)

    def _found(self, operation, names, hosts, task_vars, again=False):
        """As the playbooks find them."""
        about = {"instances": names, "hosts": hosts}
        task_vars = {**task_vars, FOUND: read(self, {**about, "operation": operation}, task_vars)}
        return self.located({**about, "method": operation, "selected": True}, task_vars, again)

    def _changes(self, operation, located, inventory):
        """What the engine of this run decides in place of the hosts; None without one."""
        if "known" not in located or operation not in (*CHANGES, *SHELVES):
            return None
        if operation == "adopt":
            return AdoptsOnEngine(acting.RUN, new_token)
        tasks, known = _tasks(located), Known(**located["known"])
        if operation in SHELVES:
            return None if self._task.check_mode else RoomOnEngine(known if operation == "unshelve" else None)
        kept = _kept(tasks, inventory) if operation == "update" else {}
        return ChangesOnEngine(acting.RUN, known, new_token, _quotas(tasks, inventory), kept)

    def _procedure(self, operation, tasks, located, moving, hosts, task_vars, changes, inventory):
        given = {name: self._given(operation, task_vars, name) for name in [*tasks, *moving.names]}
        if operation == "keep_one":
            return keep_one(tasks, given, self._task.check_mode)
        if operation == "recover":
            return recover(tasks, given, self._task.check_mode)
        if operation == "recover_record":
            return recover_record(tasks, given, self._task.check_mode)
        if operation in ("console", "snapshots"):
            return look(operation, tasks, given)
        if operation == "adopt":
            return adopt(tasks, given, () if changes else hosts)
        if operation == renaming.OPERATION:
            return rename(tasks, given, self._task.check_mode, changes)
        if operation == "unshelve":
            return self._unshelve(tasks, located, hosts, task_vars)
        if operation in (*backup_host.ORDERS, "shelve"):
            return self._backup(operation, tasks, given, task_vars)
        lost = lost_hosts(self.own_variables(task_vars, ["berth_lost_hosts"]))
        removes = RemovesOnEngine(Known(**located["known"]), lost) if "known" in located else Embedded()
        if operation == "delete":
            return delete(tasks, Moving(moving.names, moving.plan, moving.ended), given, hosts, removes)
        if operation == "leave":
            return and_forget(operation, tasks, given, hosts, removes)
        if operation == "update_disks":
            return update_disks(tasks, given, self._makes(tasks, hosts, task_vars, changes, inventory))
        if operation == "update":
            makes = self._makes(tasks, hosts, task_vars, changes, inventory)
            seeds = functools.partial(wanted_update.seed_of, inventory, task_vars)
            return update.update(tasks, given, update.Run(makes, seeds, {} if changes else _kept(tasks, inventory)))
        if operation == "rebuild":
            seed_of = functools.partial(wanted_update.seed_of, inventory, task_vars)
            return rebuild(tasks, given, seed_of, self._task.check_mode)
        if operation == "rescue":
            return rescue(tasks, given, self._task.check_mode)
        return operate(operation, tasks, given)

    def _backup(self, operation, tasks, given, task_vars):
        run, tasks = backup_runs.run_of(self, task_vars), _with_projects(tasks, task_vars)
        if operation == "shelve":
            return shelve(tasks, given, run)
        without_disks = [name for name in tasks if tasks[name].get("shelved")]
        say(*("%s is shelved: its disks are in a backup already" % name for name in without_disks))
        tasks = {name: task for name, task in tasks.items() if name not in without_disks}
        minutes = self.own_variables(task_vars, [MINUTES]).get(MINUTES) if operation == "backup" else None
        if minutes:
            return back_up(tasks, given, run, int(minutes), time.monotonic)
        if operation == "backups":
            return backup_host.list_backups(tasks, given, run)
        return backup_host.operate_anywhere(operation, tasks, given, run)

    def _unshelve(self, tasks, located, hosts, task_vars):
        run = backup_runs.run_of(self, task_vars)
        if "known" in located:  # over a registry it stays on its host
            return unshelve(_with_projects(tasks, task_vars), run)
        moving, located["moving"] = located["moving"], []  # their moves are no end of their own
        tasks = _with_projects({**tasks, **{name: {"hosts": []} for name in moving}}, task_vars)
        elsewhere = Elsewhere(moving, MovesToUnshelve(self, hosts, task_vars).plan)
        return unshelve(tasks, run, elsewhere)

    def _makes(self, tasks, hosts, task_vars, changes, inventory):
        lost = lost_hosts(self.own_variables(task_vars, ["berth_lost_hosts"]))
        return Run(new_token, hosts, lost, {} if changes else _quotas(tasks, inventory), self._task.check_mode, changes)

    def _given(self, operation, task_vars, name):
        found = {}
        for argument, names in OPERATIONS[operation].given.items():
            values = self.values_of(task_vars, name, names)
            # a survey sends no answer as ""
            said = [values[each] for each in names if values.get(each) not in ("", None)]
            found.update({argument: said[0]} if said else {})
        return found

    def values_of(self, task_vars, name, names):
        """What the variables of the instance say, or else those of the play."""
        of_play = [each for each in names if each not in raw_vars(task_vars, task_vars["inventory_hostname"])]
        return {**self.own_variables(task_vars, of_play), **variables(task_vars, name, names)}


def _tasks(located):
    return {name: task for name, task in located["instances"].items() if name not in located["errors"]}


def _kept(tasks, inventory):
    """The addresses that the inventory gives to instances."""
    return fixed_addresses(inventory.catalogs.instances, inventory.catalogs) if tasks else {}


def _quotas(tasks, inventory):
    """No catalog is read where there are no volumes to make."""
    makes = any(task.get("new_volumes") or task.get("grown_volumes") for task in tasks.values())
    return inventory.catalogs.shared.quotas if makes else {}


def _with_projects(tasks, task_vars):
    return {
        name: {"project_id": project_of(variables(task_vars, name, IDENTITY)), **task} for name, task in tasks.items()
    }


def _where_set_aside(located, done, dry):
    """The line about each copy that was set aside."""
    for name, each in done.items():
        for host, paths in each.set_aside.items() if not each.errors else ():
            where = ", ".join(paths)
            yield "%s stays on %s. The copy on %s %s in %s on that host. %s" % (
                name,
                located["instances"][name]["stays"],
                host,
                "would be" if dry else "is now",
                where,
                copy_hints.remove_set_aside(name, host),
            )


def _new_names(located, done):
    """The lines with which the inventory has the new name, also after a run that changed nothing: the one before may have died."""
    for name, each in done.items():
        if not each.errors and name != located["instances"][name]["new_name"]:
            yield from renaming.inventory_lines(name, located["instances"][name])


def _looked_at(located, done):
    """The lines about each console, or about the snapshots."""
    if located["operation"] == "snapshots":
        yield from show_backup.snapshot_lines(
            {name: each.instance.get("snapshots") or [] for name, each in done.items()}
        )
    for name, each in done.items() if located["operation"] == "console" else ():
        if "console" in each.instance:
            yield from show_instance.console_lines(name, located["instances"][name]["hosts"][-1], each.instance)


def _backups(operation, located, done):
    """The lines about the backups that were made, listed or restored."""
    for name, each in done.items():
        if "backups" in each.instance:
            host = each.instance.get("backup_host") or each.host or located["instances"][name]["hosts"][-1]
            yield from show_backup.lines(operation, name, host, each.instance["backups"])


def _images(located, done):
    """The lines about each image that was made, with those that make it one of the catalog."""
    for name, each in done.items():
        if "made_image" in each.instance:
            yield from show_backup.image_lines(
                name, located["instances"][name]["hosts"][-1], each.instance["made_image"]
            )


def _part(refused, done):
    """What the task of one instance returns. ``refused``: why nothing was done."""
    part = {"changed": done.changed, "warnings": done.warnings, "diff": done.diff, "instance": done.instance}
    part = {name: value for name, value in part.items() if value or name == "changed"}
    errors = [*([error_of(refused)] if refused else []), *done.errors]
    return {**part, "error": errors[0], "msg": refused or "; ".join(map(text_of, errors))} if errors else part
