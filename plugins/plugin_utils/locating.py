# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances an operation is about, and where they are: see plugins/modules/locate_instances.py."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Dict, NamedTuple

from ..module_utils.conductor import (
    adopting,
    arrived,
    copies,
    keep_one,
    locks,
    renaming,
    updating,
    what_to_operate,
)
from ..module_utils.conductor.errors import InstanceMoving
from ..module_utils.conductor.fleet import Fleet
from ..module_utils.conductor.locks import lock_of
from ..module_utils.conductor.operations import OPERATIONS
from ..module_utils.conductor.procedures.locate import Run, Wanted, locate
from ..module_utils.conductor.registry import which_operations
from ..module_utils.model import (
    adopted_update,
    copy_hints,
    data_disks,
    fleet_hints,
    hints,
    made_images,
    nics,
    snapshot_hints,
    updates,
)
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.identity import IDENTITY, project_of, uuid_of
from ..module_utils.model.lifecycle import OUT, OWN
from ..module_utils.model.nics import guest_address
from ..module_utils.model.vm_states import ACTIVE, CHANGES
from ..module_utils.placement.request import flavor_snapshot
from . import acting, registry_access, wanted_update
from .answers_of_hosts import all_hosts, known_of, read_reports
from .controller import ControllerAction
from .driving import carry_out
from .inventory_differences import InventoryDifferences, by_hand
from .inventory_variables import is_true, kvm_hosts, listed, lost_hosts, variables, who_locked
from .screen import say, warn
from .selection import (
    check_explicit,
    check_new_name,
    in_inventory,
    known_hosts,
    not_found,
    nowhere,
    selected,
    warn_of_lost,
)
from .wanted_update import wanted_disks

IMAGE, SNAPSHOT = "berth_new_image", "berth_snapshot"
RUN = (
    keep_one.FIELD,
    adopting.ON,
    "berth_keep_on_confirmed",
    "berth_lost_hosts",
    IMAGE,
    "berth_rebuild_lost",
    copies.FIELD,
    renaming.FIELD,
    "berth_set_aside_on",
    updates.DISCARDS,
    SNAPSHOT,
)
LEAVES = "%s: %s has taken it over, and %s %s its record and its definition of it if the disks are those of %s, which stay there"


class _Run(NamedTuple):
    """What is the same for all instances. ``variables``: those of the run, in RUN; ``rendered``: those of each
    instance, once they were read."""

    task_vars: Dict[str, Any]
    method: str
    fleet: Fleet
    inventory: InventoryDifferences
    variables: Dict[str, Any]
    rendered: Dict[str, Any]

    def values(self, name):
        if name not in self.rendered:
            named = [*IDENTITY, "berth_flavor", "berth_locked", "berth_state"]
            self.rendered[name] = variables(self.task_vars, name, named)
        return self.rendered[name]

    @property
    def said(self):
        given = self.variables
        return what_to_operate.Said(
            acting.RUN,
            lost_hosts(given),
            given.get(keep_one.FIELD),
            is_true(given, "berth_keep_on_confirmed"),
            given.get(copies.FIELD) or None,
            given.get("berth_set_aside_on"),
            given.get(adopting.ON) or None,
            given.get(renaming.FIELD) or None,
        )


class LocateInstances(ControllerAction):
    def located(self, args, task_vars, again=False):
        """The fact berth_located. ``args``: as of module locate_instances; one in a move is an error if ``again``."""
        hosts, method = kvm_hosts(task_vars, args["hosts"]), args["method"]
        if method == "adopt" and task_vars.get("ansible_limit") in hosts:
            host = task_vars["ansible_limit"]
            raise InvalidInput("--limit", host, "instances, and not a KVM host", hint=fleet_hints.adopt_on(host))
        names = selected(task_vars, args["instances"], hosts)
        check_explicit(self, task_vars, names, args["selected"], method)
        fleet, run_variables = self._fleet(method, task_vars, hosts), self.own_variables(task_vars, RUN)
        warn_of_lost(lost_hosts(run_variables), known_hosts(task_vars, hosts), fleet)
        _check_variables(method, run_variables, names)
        inventory = InventoryDifferences(task_vars, names, hosts, self._loader)
        run = _Run(task_vars, method, fleet, inventory, run_variables, {})
        wanted, errors = _wanted(run, names)
        found, _said = carry_out(self, task_vars, locate(_procedure_run(run), fleet, wanted))
        tasks, notes = found.tasks, {}
        uuids = {name: tasks.get(name, {}).get("uuid", each.uuid) for name, each in wanted.items()}
        errors.update(found.errors)
        for name, task in tasks.items():
            try:
                notes[name] = joined(task.get("gives_up"), _notes(run, name, task))
            except BerthError as error:
                errors[name] = error
        errors.update(_without_addresses(run, tasks))
        self._say_what_is_done(tasks)
        moving = [] if again else found.moving
        gone = {name: each for name, each in wanted.items() if not fleet.places.get(uuids[name])}
        skipped = {name: nowhere(fleet, name, each.project) for name, each in gone.items()}
        skipped.update({name: task.pop("skipped") for name, task in tasks.items() if "skipped" in task})
        known = known_of(task_vars)
        return {
            **({} if known is None else {"known": dataclasses.asdict(known)}),
            "operation": method,
            "names": names,
            "left_out": fleet.verdicts,
            "skipped": {name: why for name, why in skipped.items() if why},
            "shown": {name: _shown_of(run, uuid, tasks.get(name, {})) for name, uuid in uuids.items()},
            "notes": notes,
            "by_hand": _by_hand(fleet, tasks if OPERATIONS[method].differences else {}),
            "instances": tasks,
            "found": [name for name in tasks if tasks[name]["hosts"]],
            "moving": moving,
            "errors": {name: _text(errors[name], method) for name in names if name in errors and name not in moving},
        }

    def _fleet(self, method, task_vars, hosts):
        """Over a registry, what takes something that others may want is chosen by what that has of all hosts."""
        known = known_of(task_vars)
        if known is None or method not in which_operations.CHANGES or which_operations.asks_all(method):
            return read_reports(task_vars, hosts)
        access = registry_access.of_run(self, task_vars, hosts)
        return carry_out(self, task_vars, all_hosts(task_vars, hosts, known), engine=access)[0][0]

    def _say_what_is_done(self, tasks):
        dry = self._task.check_mode
        for name, task in tasks.items():
            if task.get("gives_up"):
                warn("%s %s" % (name, task["gives_up"]))
            if task.get("comes_back"):
                say("%s: the copy on %s %s back" % (name, task["stays"], "would come" if dry else "comes"))
            for host in task.get("outdated", ()):
                say(LEAVES % (name, task["stays"], host, "would remove" if dry else "removes", task["stays"]))
            for host in task.get("others", ()):
                verb = "would be" if dry else "is"
                say("%s: the copy on %s stays, that on %s %s stopped and set aside" % (name, task["stays"], host, verb))


def _wanted(run, names):
    """(what the inventory says of each instance, the errors of the others)"""
    wanted, errors = {}, {}
    for name in names:
        try:
            values = run.values(name)
            told = in_inventory(run.task_vars, name)
            wanted[name] = Wanted(uuid_of(name, values), project_of(values), who_locked(values), told)
        except BerthError as error:
            errors[name] = error
    return wanted, errors


def _procedure_run(run):
    return Run(
        run.method,
        run.said,
        functools.partial(_more, run),
        lambda name: not_found(run.task_vars, run.fleet, name),
        lambda: run.inventory.catalogs.shared.quotas,
        known_of(run.task_vars) is not None,
    )


def _more(run, name, task):
    """What the inventory adds to the task of an instance."""
    if run.method == "adopt":
        guest = adopting.as_shown(run.fleet, task["hosts"][-1], task["uuid"])
        return {"flavor": _flavor(run, name, run.values(name)), "guest": guest}
    if "new_name" in task:
        check_new_name(run.task_vars, task["uuid"], task["new_name"])
    if run.method == "rescue":
        return wanted_update.wanted_rescue(run, name, task) if task["hosts"] else {}
    if run.method == "rebuild":
        return wanted_update.wanted_rebuild(run, name, task) if task["hosts"] else {}
    if run.method not in ("update", "update_disks"):
        return {}
    disks = wanted_disks(run.task_vars, run.fleet, name, task, run.values(name), run.variables)
    if run.method != "update":
        return disks
    found = {**disks, "discards": listed(run.variables, updates.DISCARDS)}
    if any(place.get("adopted") for place in run.fleet.places.get(task["uuid"], ())):
        adopted_update.check_disks(name, found)
    more = wanted_update.wanted_update(run, name, task) if task["hosts"] else {}
    return {**found, **more}


def _check_variables(method, given, names):
    if method == "update" and given.get(updates.DISCARDS) and len(names) > 1:  # others may have a disk of that name
        raise InvalidInput(updates.DISCARDS, given[updates.DISCARDS], "given with --limit of one instance")
    if method == renaming.OPERATION:
        renaming.check(given.get(renaming.FIELD), len(names))
    if method == made_images.OPERATION:
        _check_image(made_images.check_name(given.get(IMAGE)), len(names))
    if SNAPSHOT in OPERATIONS[method].given.get("snapshot", ()) and not given.get(SNAPSHOT):
        raise InvalidInput(SNAPSHOT, None, "the name of the snapshot", hint=snapshot_hints.name_snapshot())


def _check_image(name, count):
    """On different hosts each would be another image of that name."""
    if count > 1:
        rule = "the name of an image of one instance, and %d are selected" % count
        raise InvalidInput(IMAGE, name, rule, hint=fleet_hints.name_new(IMAGE))


def _flavor(run, name, values):
    """The flavor that the variables name; None for one of its own."""
    if values.get("berth_flavor") in (None, ""):
        return None
    return flavor_snapshot(run.inventory.catalogs.of(name).flavor(values["berth_flavor"], project_of(values)))


def _notes(run, name, task):
    values, places = run.values(name), run.fleet.places.get(task["uuid"], ())
    if run.method == "recover_record":
        if not task["hosts"]:
            return None
        source = arrived.source_of(run.fleet, task["uuid"], task["hosts"][0])
        left = hints.confirm_or_revert_left(name, source["host"]) if source else None
        # an older record keeps its lock
        return joined(copy_hints.lock_again(name) if source or not places else None, left)
    undone = note(run.method, name, values.get("berth_state"), who_locked(values), places)
    if not OPERATIONS[run.method].differences:
        return undone
    return joined(undone, *run.inventory.differences(name, _as_left(run.fleet, task, run.method)))


def _without_addresses(run, found):
    """Give the new NICs their addresses. Take the instances that get none out of ``found``. Return {name: error}."""
    errors = wanted_update.give_addresses(run, found)
    for name in errors:
        del found[name]
    return errors


def note(method, name, berth_state, locked, places):
    """What to add to an instance's result: that another playbook will undo it, or who had locked the instance."""
    after = CHANGES[method].after
    if berth_state and after and after != berth_state and ACTIVE in (after, berth_state):
        return hints.create_follows(berth_state)
    was = "was locked by %s" % lock_of(places) if method in ("lock", "unlock") and lock_of(places) else None
    if method == "unlock" and locked:
        return joined(was, "still locked by %s" % locks.by_inventory(locked), fleet_hints.unlock_in_inventory(name))
    return was


def _shown_of(run, uuid, task):
    return shown(run.fleet, uuid, task.get("stays"), task["hosts"] if run.method == "adopt" and task else ())


def _by_hand(fleet, found):
    return {name: by_hand(name, _as_left(fleet, task)) for name, task in found.items()}


def _as_left(fleet, task, method=None):
    """The places of an instance as the playbook leaves them: the copy that stays, with the data disks that it gets."""
    places = fleet.places.get(task["uuid"], ())
    places = [place for place in places if task.get("stays") in (None, place["host"])]
    wanted = data_disks.shown(task)
    gone = task.get("discards", ())
    left = [
        {**place, "disks": None if place["disks"] is None else _larger(place["disks"], wanted, gone)}
        for place in places
    ]
    becomes = updating.as_rebuilt if method == "rebuild" else updating.as_left
    return [becomes(place, task["spec"]) for place in left] if "spec" in task else left


def _larger(has, wanted, gone):
    """Data disks are added and grow; none shrinks, and only those go that a person gives up."""
    return {name: max(has.get(name, 0), wanted.get(name, 0)) for name in {**has, **wanted} if name not in gone}


def joined(*parts):
    return "; ".join(part for part in parts if part) or None


def shown(fleet, uuid, stays=None, hosts=()):
    """The owner of the instance, its flavor and addresses, for the closing table. Of several the one that ``stays``; none
    that has let go of it. Of a guest that is no instance yet, its host."""
    held = [place for place in fleet.places.get(uuid, ()) if place["role"] != OUT]
    places = sorted(held, key=lambda place: (place["host"] == stays, place["role"] == OWN))
    if not places:
        return {"host": hosts[-1]} if hosts and fleet.strays.get(uuid) else {}
    place = places[-1]
    networks = [{"address": address} for address in nics.fixed(place["nics"] or ()) if guest_address(address)]
    return {"host": place["host"], "flavor": place["flavor"], "networks": networks}


def _text(error, method):
    text = error.to_result()["msg"]
    if not isinstance(error, InstanceMoving):
        return text
    return "%s: Cannot %s: %s" % (error.code, method, text.removeprefix(error.code + ": "))
