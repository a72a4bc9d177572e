# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances an operation is about, and where they are: see plugins/modules/locate_instances.py."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, NamedTuple

from ..module_utils.conductor import (
    adopting,
    arrived,
    given_away,
    keep_one,
    locks,
    new_volumes,
    older_copy,
    updating,
    what_to_operate,
)
from ..module_utils.conductor.errors import HostUnknown, InstanceMoving
from ..module_utils.conductor.fleet import Fleet
from ..module_utils.conductor.locks import lock_of
from ..module_utils.conductor.operations import OPERATIONS
from ..module_utils.model import (
    adopted,
    copy_hints,
    data_disks,
    fleet_hints,
    hints,
    nics,
    snapshot_hints,
    snapshots,
)
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.identity import IDENTITY, instance_uuid, project_of, uuid_of
from ..module_utils.model.lifecycle import OUT, OWN
from ..module_utils.model.nics import guest_address
from ..module_utils.model.schema import OneOf, Text
from ..module_utils.model.vm_states import ACTIVE, CHANGES
from ..module_utils.placement.request import flavor_snapshot
from . import acting, wanted_update
from .answers_of_hosts import read_reports, reason_of
from .controller import ControllerAction
from .fan_out import answers, ask
from .inventory_differences import InventoryDifferences, by_hand
from .inventory_variables import is_true, kvm_hosts, lost_hosts, variables, who_locked
from .plain import plain
from .screen import say, warn
from .selection import check_explicit, in_inventory, known_hosts, not_found, selected, warn_of_lost
from .wanted_disks import wanted_disks

RUN = (
    keep_one.FIELD,
    adopting.ON,
    "berth_keep_on_confirmed",
    "berth_lost_hosts",
    "berth_rebuild_lost",
    older_copy.FIELD,
    "berth_set_aside_on",
)
SNAPSHOT = "berth_snapshot"
CHECKED = {
    "berth_reboot": OneOf("soft", "hard"),
    "berth_lock_reason": Text(longest=200, empty=True),
    SNAPSHOT: Text(snapshots.NAME + r"\Z", snapshots.NAME_RULE, longest=snapshots.LONGEST_NAME),
}


class _Run(NamedTuple):
    """What is the same for all instances. ``variables``: those of the run, in RUN and CHECKED."""

    task_vars: Dict[str, Any]
    method: str
    fleet: Fleet
    inventory: InventoryDifferences
    variables: Dict[str, Any]

    @property
    def said(self):
        given = self.variables
        return what_to_operate.Said(
            acting.RUN,
            lost_hosts(given),
            given.get(keep_one.FIELD),
            is_true(given, "berth_keep_on_confirmed"),
            given.get(older_copy.FIELD) or None,
            given.get("berth_set_aside_on"),
        )


class LocateInstances(ControllerAction):
    def located(self, args, task_vars, again=False):
        """The fact berth_located. ``args``: as of module locate_instances; one in a move is an error if ``again``."""
        hosts, method = kvm_hosts(task_vars, args["hosts"]), args["method"]
        names = selected(task_vars, args["instances"], hosts)
        check_explicit(self, task_vars, names, args["selected"], method)
        fleet, run_variables = read_reports(task_vars, hosts), self.own_variables(task_vars, (*RUN, *CHECKED))
        warn_of_lost(lost_hosts(run_variables), known_hosts(task_vars, hosts), fleet)
        _check_variables(method, run_variables)
        found, moving, errors, notes, uuids = {}, [], {}, {}, {}
        inventory = InventoryDifferences(task_vars, names, hosts, self._loader)
        run = _Run(task_vars, method, fleet, inventory, run_variables)
        if method == "adopt":
            self._hear_of(run, names)
        for name in names:
            try:
                values = variables(task_vars, name, [*IDENTITY, "berth_flavor", "berth_locked", "berth_state"])
                uuids[name] = uuid_of(name, values)
                found[name] = self._task_of(run, name, uuids[name], values)
                uuids[name] = found[name]["uuid"]
                if _only_listed(run, name, project_of(values), found[name], args["selected"]):
                    del found[name], uuids[name]
                else:
                    notes[name] = joined(found[name].get("gives_up"), _notes(run, name, values, found[name]))
            except BerthError as error:
                if isinstance(error, InstanceMoving) and method == "delete" and not again:
                    moving.append(name)
                else:
                    errors[name] = _text(error, method)
        errors.update({**_without_addresses(run, found), **_over_quota(found, fleet, inventory)})
        _warn_of_given_up(found)
        guests = found if method == "adopt" else ()
        skipped = {name: task.pop("skipped") for name, task in found.items() if "skipped" in task}
        return {
            "operation": method,
            "names": [name for name in names if name in {**uuids, **errors}],
            "left_out": fleet.verdicts,
            "skipped": {name: why for name, why in skipped.items() if why},
            "shown": {
                name: shown(
                    fleet, uuid, found.get(name, {}).get("stays"), found[name]["hosts"] if name in guests else ()
                )
                for name, uuid in uuids.items()
            },
            "notes": notes,
            "by_hand": _by_hand(fleet, found if OPERATIONS[method].differences else {}),
            "instances": found,
            "found": [name for name in found if found[name]["hosts"]],
            "moving": moving,
            "errors": errors,
        }

    def _hear_of(self, run, names):
        """Have the fleet know what hosts remember of the guests to adopt, and of the instances of their names."""
        about = []
        for name in names:
            with contextlib.suppress(BerthError):
                values = variables(run.task_vars, name, IDENTITY)
                about += [_guest(run, name, values).uuid, instance_uuid(project_of(values), name)]
        told = answers(ask(self, run.task_vars, list(run.fleet.documents), "rescan", {"about": about})) if about else {}
        for host, answer in told.items():
            if "notes" not in answer:
                raise HostUnknown("%s does not say what it remembers: %s" % (host, reason_of(answer)))
            run.fleet.notes[run.fleet.uuids()[host]].update(plain(answer["notes"]))

    def _task_of(self, run, name, uuid, values):
        """What the playbook should do about one instance: {uuid, hosts, ...}; nothing if there are no hosts."""
        fleet = run.fleet
        if run.method == "adopt":
            locks.check(run.method, name, who_locked(values), ())
            task = adopting.where(fleet, name, project_of(values), _guest(run, name, values), run.said.lost)
            return {**task, "flavor": _flavor(run, name, values)}
        if run.method != "leave":
            adopting.check_adopted(fleet, name, project_of(values), uuid)
        if run.method in adopted.ONLY_OF_CREATED:
            adopting.check_created(name, fleet.places.get(uuid, ()), run.method)
        locks.check(run.method, name, who_locked(values), fleet.places.get(uuid, ()))
        task = self._where(run, name, uuid)
        if run.method not in ("update", "update_disks"):
            return task
        disks = wanted_disks(run.task_vars, fleet, name, task, values, run.variables)
        more = wanted_update.wanted_update(run, name, task) if run.method == "update" and task["hosts"] else {}
        return {**task, **disks, **more}

    def _where(self, run, name, uuid):
        task = what_to_operate.where(run.method, run.fleet, name, uuid, run.said)
        if run.method == "keep_one":
            self._say_what_stays(run, name, task)
        return task

    def _say_what_stays(self, run, name, task):
        dry, stays = self._task.check_mode, task["stays"]
        if task["listed"]:
            given_away.check_addresses(run.fleet, name, task["uuid"], stays, addresses(self, run.task_vars, task))
        if task["comes_back"]:
            say("%s: the copy on %s %s back" % (name, stays, "would come" if dry else "comes"))
        for host in task["others"]:
            verb = "would be" if dry else "is"
            say("%s: the copy on %s stays, that on %s %s stopped and set aside" % (name, stays, host, verb))


def _warn_of_given_up(found):
    for name in [name for name, task in found.items() if task.get("gives_up")]:
        warn("%s %s" % (name, found[name]["gives_up"]))


def _check_variables(method, given):
    for field in [field for field in CHECKED if field in given]:
        CHECKED[field].check(given[field], field)
    if SNAPSHOT in OPERATIONS[method].given.get("snapshot", ()) and SNAPSHOT not in given:
        raise InvalidInput(SNAPSHOT, None, "the name of the snapshot", hint=snapshot_hints.name_snapshot())


def addresses(action, task_vars, task):
    """Those that a copy has that was set aside, as model/nics.py writes them: no record says so any more. None if its host has
    no such copy, which it says when the copy is to come back."""
    arguments = {"uuid": task["uuid"], "state": "listed"}
    told = answers(ask(action, task_vars, [task["stays"]], "instance_copy", arguments))[task["stays"]]
    return (told.get("instance_copy") or {}).get("nics") or []


def _guest(run, name, values):
    return adopting.find(
        run.fleet, name, project_of(values), uuid_of(name, values), run.variables.get(adopting.ON) or None
    )


def _flavor(run, name, values):
    """The flavor that the variables name; None for one of its own."""
    if values.get("berth_flavor") in (None, ""):
        return None
    return flavor_snapshot(run.inventory.catalogs.of(name).flavor(values["berth_flavor"], project_of(values)))


def _only_listed(run, name, project, task, is_selected):
    """Whether the instance was not created yet, and nobody selected it for an operation that looks at all. Raise if it is
    nowhere, although the operation needs one or the inventory does not know it either."""
    is_nowhere = not task["hosts"] and not run.fleet.places.get(task["uuid"])
    told = in_inventory(run.task_vars, name) and not adopting.uuid_of_adopted(run.fleet, name, project)
    operation = OPERATIONS[run.method]
    if is_nowhere and told and operation.needs_one and not (is_selected or operation.selected):
        return True
    if is_nowhere and (operation.needs_one or not told):
        raise not_found(run.task_vars, run.fleet, name)
    return False


def _notes(run, name, values, task):
    places = run.fleet.places.get(task["uuid"], ())
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
    return joined(undone, *run.inventory.differences(name, _as_left(run.fleet, task)))


def _without_addresses(run, found):
    """Give the new NICs their addresses. Take the instances that get none out of ``found``. Return {name: why}."""
    errors = wanted_update.give_addresses(run, found)
    for name in errors:
        del found[name]
    return {name: _text(error, run.method) for name, error in errors.items()}


def _over_quota(found, fleet, inventory):
    """Take the instances whose volumes exceed the quota of their project out of ``found``. Return {name: why}."""
    if not any(task.get("new_volumes") or task.get("grown_volumes") for task in found.values()):
        return {}
    over = new_volumes.before_the_claims(found, fleet, inventory.catalogs.shared.quotas)
    for name in over:
        del found[name]
    return {name: str(error.to_result()["msg"]) for name, error in over.items()}


def note(method, name, berth_state, locked, places):
    """What to add to an instance's result: that another playbook will undo it, or who had locked the instance."""
    after = CHANGES[method].after
    if berth_state and after and after != berth_state and ACTIVE in (after, berth_state):
        return hints.create_follows(berth_state)
    was = "was locked by %s" % lock_of(places) if method in ("lock", "unlock") and lock_of(places) else None
    if method == "unlock" and locked:
        return joined(was, "still locked by %s" % locks.by_inventory(locked), fleet_hints.unlock_in_inventory(name))
    return was


def _by_hand(fleet, found):
    return {name: by_hand(name, _as_left(fleet, task)) for name, task in found.items()}


def _as_left(fleet, task):
    """The places of an instance as the playbook leaves them: the copy that stays, with the data disks that it gets."""
    places = fleet.places.get(task["uuid"], ())
    places = [place for place in places if task.get("stays") in (None, place["host"])]
    wanted = data_disks.shown(task)
    left = [{**place, "disks": None if place["disks"] is None else _larger(place["disks"], wanted)} for place in places]
    return [updating.as_left(place, task["spec"]) for place in left] if "spec" in task else left


def _larger(has, wanted):
    """Data disks are added and grow; none is removed or shrinks."""
    return {name: max(has.get(name, 0), wanted.get(name, 0)) for name in {**has, **wanted}}


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
    return "Cannot %s: %s" % (method, text) if isinstance(error, InstanceMoving) else text
