# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action locate_instances: see plugins/modules/locate_instances.py for its documentation."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, NamedTuple

from ..module_utils.conductor import arrived, given_away, locks, older_copy, volume_quotas
from ..module_utils.conductor.errors import InstanceMoving, KvmHostNotFound
from ..module_utils.conductor.fleet import Fleet
from ..module_utils.conductor.keep_one import choose
from ..module_utils.conductor.locate import (
    locate,
    locate_to_delete,
    locate_to_run,
    locate_to_take_back,
    locate_to_unlock,
)
from ..module_utils.conductor.locks import lock_of
from ..module_utils.conductor.operations import NEED_ONE, OPERATIONS, TELL_DIFFERENCES
from ..module_utils.conductor.recovery import to_recover
from ..module_utils.conductor.telling import will_own
from ..module_utils.model import copy_hints, data_disks, fleet_hints, hints, nics
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.model.guest_address import guest_address
from ..module_utils.model.identity import uuid_of
from ..module_utils.model.lifecycle import OUT, OWN
from ..module_utils.model.schema import OneOf, Text
from ..plugin_utils import acting, listed_copies
from ..plugin_utils.answers_of_hosts import read_reports
from ..plugin_utils.controller import ControllerAction, controller_fact
from ..plugin_utils.inventory_differences import InventoryDifferences, by_hand
from ..plugin_utils.inventory_variables import is_true, kvm_hosts, lost_hosts, variables, who_locked
from ..plugin_utils.screen import say
from ..plugin_utils.second_look import after_second_look
from ..plugin_utils.selection import check_explicit, in_inventory, known_hosts, not_found, selected, warn_of_lost
from ..plugin_utils.telling_owners import tell_latest
from ..plugin_utils.wanted_disks import wanted_disks

FIND = {
    **dict.fromkeys(("reboot", "start", "update_disks"), locate_to_run),
    "delete": locate_to_delete,
    "unlock": locate_to_unlock,
}
RUN = (
    "berth_keep_on",
    "berth_keep_on_confirmed",
    "berth_lost_hosts",
    "berth_rebuild_lost",
    older_copy.FIELD,
    "berth_set_aside_on",
)
CHECKED = {"berth_reboot": OneOf("soft", "hard"), "berth_lock_reason": Text(longest=200, empty=True)}


class _Run(NamedTuple):
    """What is the same for all instances. ``variables``: those of the run, in RUN and CHECKED."""

    task_vars: Dict[str, Any]
    method: str
    fleet: Fleet
    inventory: InventoryDifferences
    variables: Dict[str, Any]


class ActionModule(ControllerAction):
    argument_spec = {
        "instances": {"type": "list", "elements": "str", "required": True},
        "hosts": {"type": "list", "elements": "str"},
        "selected": {"type": "bool", "default": True},
        "method": {"type": "str", "required": True, "choices": list(OPERATIONS)},
        "again": {"type": "bool", "default": False},
    }

    def reported(self, result):
        located = result["ansible_facts"]["berth_located"]
        return None if located["names"] else {"outcomes": [], "hosts_left_out": located["left_out"]}

    def act(self, args, task_vars):
        hosts, method = kvm_hosts(task_vars, args["hosts"]), args["method"]
        names = selected(task_vars, args["instances"], hosts)
        check_explicit(self, task_vars, names, args["selected"], method)
        fleet, run_variables = read_reports(task_vars, hosts), self.own_variables(task_vars, (*RUN, *CHECKED))
        warn_of_lost(lost_hosts(run_variables), known_hosts(task_vars, hosts), fleet)
        for field in [field for field in CHECKED if field in run_variables]:
            CHECKED[field].check(run_variables[field], field)
        found, moving, errors, notes = {}, [], {}, {}
        inventory = InventoryDifferences(task_vars, names, hosts, self._loader)
        run = _Run(task_vars, method, fleet, inventory, run_variables)
        for name in names:
            try:
                values = variables(task_vars, name, ["berth_project", "berth_locked", "berth_state"])
                found[name] = self._task_of(run, name, values)
                _check_found(run, name, found[name])
                notes[name] = _notes(run, name, values, found[name])
            except BerthError as error:
                if isinstance(error, InstanceMoving) and method == "delete" and not args["again"]:
                    moving.append(name)
                else:
                    errors[name] = _text(error, method)
        errors.update(_over_quota(found, fleet, inventory))
        skipped = {name: task.pop("skipped") for name, task in found.items() if "skipped" in task}
        located = {
            "names": names,
            "left_out": fleet.verdicts,
            "skipped": {name: why for name, why in skipped.items() if why},
            "shown": {name: _shown(fleet, task["uuid"], task.get("stays")) for name, task in found.items()},
            "notes": notes,
            "by_hand": _by_hand(fleet, found if method in TELL_DIFFERENCES else {}),
            "instances": found,
            "found": [name for name in found if found[name]["hosts"]],
            "moving": moving,
            "listed": [name for name, task in found.items() if task.get("listed")],
            "errors": errors,
        }
        if args["again"]:
            first = controller_fact(task_vars, "berth_located")
            located = {**after_second_look(first, located, names), "names": first["names"]}
        return {"ansible_facts": {"berth_located": located}, "verdicts": fleet.verdicts}

    def _task_of(self, run, name, values):
        """What the playbook should do about one instance: {uuid, hosts, ...}; nothing if there are no hosts."""
        fleet, uuid = run.fleet, uuid_of(name, values)
        locks.check(run.method, name, who_locked(values), fleet.places.get(uuid, ()))
        task = {"uuid": uuid, **self._what_to_do(run, name, uuid)}
        if run.method != "update_disks":
            return task
        return {**task, **wanted_disks(run.task_vars, fleet, name, task, values, run.variables)}

    def _what_to_do(self, run, name, uuid):
        method, fleet, run_variables = run.method, run.fleet, run.variables
        if method == "recover":
            return to_recover(fleet, name, uuid, lost_hosts(run_variables))
        if method == "keep_one":
            return self._keep_one(run, name, uuid)
        if method == "remove_set_aside":
            return {"hosts": [_answering(fleet, "berth_set_aside_on", run_variables.get("berth_set_aside_on"))]}
        if method == "recover_record":
            return self._take_back(run, name, uuid)
        hosts, noted = FIND.get(method, locate)(fleet, name, uuid, lost_hosts(run_variables)), fleet.notes_on(uuid)
        known, answers = noted.known, fleet.answers(lost_hosts(run_variables))
        given_up = known is not None and not answers.counts(known)
        owner = known.host_uuid if known else None
        if method == "delete" or not hosts:  # another host may have made since what one of these failed to build
            hosts = fleet.failed_on(uuid) + hosts
        return {"hosts": hosts, "after": list(noted.latest), "owner": owner, "given_up": given_up}

    def _take_back(self, run, name, uuid):
        """``after``: the generation after which the record begins; a host that was lost and is back must not count as the
        owner. ``moved_by``: the move that brought the guest here, if its source has a record of it."""
        chosen = run.variables.get(older_copy.FIELD) or None
        if chosen:
            _answering(run.fleet, older_copy.FIELD, chosen)
        hosts = locate_to_take_back(run.fleet, name, uuid, lost_hosts(run.variables), chosen)
        if not hosts:
            return {"hosts": []}
        host = hosts[0]
        latest = arrived.latest(run.fleet, uuid, host, lost_hosts(run.variables))
        given_away.check(run.fleet, name, uuid, host)
        if not self._task.check_mode:
            told = will_own(run.fleet, uuid, host, latest[0], acting.RUN)
            tell_latest(self, run.task_vars, run.fleet, name, told)
        return {"hosts": hosts, "after": list(latest), **arrived.move_of(arrived.source_of(run.fleet, uuid, host))}

    def _keep_one(self, run, name, uuid):
        fleet, stays = run.fleet, _answering(run.fleet, "berth_keep_on", run.variables.get("berth_keep_on"))
        confirmed = is_true(run.variables, "berth_keep_on_confirmed")
        choice = choose(fleet, name, uuid, stays, confirmed, lost_hosts(run.variables))
        dry = self._task.check_mode
        if choice.comes_back:
            given_away.check(fleet, name, uuid, stays)
            if choice.listed:
                listed = listed_copies.addresses(self, run.task_vars, stays, uuid)
                given_away.check_addresses(fleet, name, uuid, stays, listed)
            say("%s: the copy on %s %s back" % (name, stays, "would come" if dry else "comes"))
        for host in choice.others:
            verb = "would be" if dry else "is"
            say("%s: the copy on %s stays, that on %s %s stopped and set aside" % (name, stays, host, verb))
        if not dry and (choice.others or (choice.comes_back and not choice.listed)):
            # once the other copy is gone, nobody else may know of the one that stays
            told = will_own(fleet, uuid, stays, choice.above[0], acting.RUN)
            tell_latest(self, run.task_vars, fleet, name, told)
        return {**dataclasses.asdict(choice), "hosts": [stays] if choice.comes_back else choice.others}


def _check_found(run, name, task):
    """Raise if the instance is nowhere, although the operation needs one or the inventory does not know it either."""
    is_nowhere = not task["hosts"] and not run.fleet.places.get(task["uuid"])
    if is_nowhere and (run.method in NEED_ONE or not in_inventory(run.task_vars, name)):
        raise not_found(run.task_vars, run.fleet, name)


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
    if run.method not in TELL_DIFFERENCES:
        return undone
    return joined(undone, *run.inventory.differences(name, _as_left(run.fleet, task)))


def _over_quota(found, fleet, inventory):
    """Take the instances whose volumes exceed the quota of their project out of ``found``. Return {name: why}."""
    if not any(task.get("new_volumes") or task.get("grown_volumes") for task in found.values()):
        return {}
    over = volume_quotas.before_the_claims(found, fleet, inventory.catalogs.shared.quotas)
    for name in over:
        del found[name]
    return {name: str(error.to_result()["msg"]) for name, error in over.items()}


def _answering(fleet, field, host):
    """The KVM host that a variable names. Raise unless it is in the inventory and answers."""
    if host and host not in fleet.documents and host not in fleet.verdicts:
        raise KvmHostNotFound.of(field, host, [*fleet.documents, *fleet.verdicts])
    if host not in fleet.documents:
        raise InvalidInput(
            field, host, "a KVM host that answers: %s" % (", ".join(sorted(fleet.documents)) or "none does")
        )
    return host


def note(method, name, berth_state, locked, places):
    """What to add to an instance's result: that another playbook will undo it, or who had locked the instance."""
    if (method, berth_state) in (("stop", "active"), ("start", "stopped")):
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
    return [{**place, "disks": None if place["disks"] is None else _larger(place["disks"], wanted)} for place in places]


def _larger(has, wanted):
    """Data disks are added and grow; none is removed or shrinks."""
    return {name: max(has.get(name, 0), wanted.get(name, 0)) for name in {**has, **wanted}}


def joined(*parts):
    return "; ".join(part for part in parts if part) or None


def _shown(fleet, uuid, stays=None):
    """The owner of the instance, its flavor and addresses, for the closing table. Of several the one that ``stays``; none
    that has let go of it."""
    held = [place for place in fleet.places.get(uuid, ()) if place["role"] != OUT]
    places = sorted(held, key=lambda place: (place["host"] == stays, place["role"] == OWN))
    if not places:
        return {}
    place = places[-1]
    networks = [{"address": address} for address in nics.fixed(place["nics"] or ()) if guest_address(address)]
    return {"host": place["host"], "flavor": place["flavor"], "networks": networks}


def _text(error, method):
    text = error.to_result()["msg"]
    return "Cannot %s: %s" % (method, text) if isinstance(error, InstanceMoving) else text
