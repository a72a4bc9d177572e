# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action show_instances: see plugins/modules/show_instances.py for its documentation."""

from __future__ import annotations

from ansible.utils.vars import load_extra_vars

from ..module_utils.conductor import show_instance, unlisted, volume_hosts
from ..module_utils.conductor.closing_table import FAILED, Outcome, address_of, closing
from ..module_utils.conductor.errors import HostUnknown, InstanceMoving
from ..module_utils.conductor.locate import left_of_ended_move, locate
from ..module_utils.model import fleet_hints
from ..module_utils.model.errors import BerthError
from ..module_utils.model.identity import IDENTITY, project_of, uuid_of
from ..plugin_utils import guest_addresses, remembered_failures
from ..plugin_utils.answers_of_hosts import read_reports, reason_of, replies
from ..plugin_utils.berth_name import addressed, check_given, selected_by_name
from ..plugin_utils.controller import ControllerAction, documented, outcomes_reported, results_fact
from ..plugin_utils.fan_out import answers, ask
from ..plugin_utils.inventory_differences import InventoryDifferences, by_hand
from ..plugin_utils.inventory_variables import instances_among, kvm_hosts, lost_hosts, variables
from ..plugin_utils.known_fleet import known_fleet, moves_live
from ..plugin_utils.locating import shown as shown_of
from ..plugin_utils.screen import columns, events_shown, say
from ..plugin_utils.selection import check_nothing_selected, in_inventory, names_by_uuid, not_found, nowhere
from ..plugin_utils.whose_fleet import Fleet, machines


class ActionModule(ControllerAction):
    argument_spec = documented("show_instances")

    def reported(self, result):
        return {**outcomes_reported(self, result), **{part: result[part] for part in ("instances", "free_volumes")}}

    def act(self, args, task_vars):
        check_given(task_vars, load_extra_vars(self._loader), "berth_volume")
        hosts, names = kvm_hosts(task_vars, args["hosts"]), instances_among(task_vars, args["instances"])
        if not names:
            check_nothing_selected(task_vars, [name for name in args["instances"] if name not in hosts])
        fleet, lost = read_reports(task_vars, hosts), lost_hosts(self.own_variables(task_vars, ["berth_lost_hosts"]))
        uuids, outcomes, shown = {}, [], {}
        for name in names:
            try:
                uuids[name] = uuid_of(name, variables(task_vars, name, IDENTITY))
            except BerthError as error:
                outcomes.append(_failed(name, error))
        others = {} if _some_are_asked_for(task_vars) else _others(task_vars, fleet, uuids)
        options = {name: unlisted.selection(uuid, place, uuids) for name, (uuid, place) in others.items()}
        uuids.update({name: uuid for name, (uuid, _place) in others.items()})
        failed = remembered_failures.known(Fleet(machines(task_vars, hosts)))
        reported, silent, live = self._ask(task_vars, fleet, uuids, hosts)
        inventory = InventoryDifferences(task_vars, names, hosts, self._loader)
        for name, uuid in uuids.items():
            held = reported.get(uuid) or []
            problem = _problem(fleet, name, uuid, lost) or _not_told(name, _holders(fleet, uuid), silent)
            if held:
                shown[name] = [dict(found, host=host) for host, found in held]
            if held and all(found.get("vm_state") == show_instance.DELETED for _host, found in held):
                say("", *show_instance.lines_of_deleted(name, held, events_shown(), not problem))
                held = []
            if held:
                places = fleet.places.get(uuid, ())
                if name in others:
                    differs = [fleet_hints.select_unlisted(options[name]), *by_hand(name, places)]
                else:
                    differs = inventory.all_differences(name, places)
                outcomes.append(_of_held(name, held, problem, differs))
                said = problem and unlisted.selected(selected_by_name(str(problem), task_vars), options)
                say("", *show_instance.lines(name, held, said, events_shown(), live.get(uuid)))
            elif problem:
                outcomes.append(_failed(name, problem, **shown_of(fleet, uuid)))
            elif name in others:
                outcomes.append(_of_other(name, others[name][1], options[name]))
            else:
                outcomes.append(_of_none(task_vars, fleet, name, uuid, failed.get(uuid)))
            if uuid in failed:
                say("", "%s: %s" % (name, remembered_failures.line(failed[uuid])))
        guest_addresses.add(outcomes, uuids, replies(task_vars, "__berth_facts"))
        free = [] if _some_are_asked_for(task_vars) else volume_hosts.free_volumes(fleet)
        addressed(outcomes, task_vars, options)
        say("", *closing(outcomes, fleet.verdicts, acts=False, width=columns()), *volume_hosts.free_lines(free), "")
        volumes = [dict(volume, host=host) for host, volume in free]
        return {**results_fact(outcomes, fleet.verdicts), "instances": shown, "free_volumes": volumes}

    def _ask(self, task_vars, fleet, uuids, hosts):
        """Return (instance uuid -> [(host, what it reports about it)], host -> why it reports nothing, uuid -> whether it would
        move live, or why not)."""
        wanted = {}
        for uuid in uuids.values():
            for host in _holders(fleet, uuid) or _removed_by(fleet, uuid):
                wanted.setdefault(host, []).append(uuid)
        replies = answers(ask(self, task_vars, wanted, "instance_info", {}, {"uuids": wanted})) if wanted else {}
        found, silent = {}, {}
        for host, reply in replies.items():
            if "instances" not in reply:
                silent[host] = reason_of(reply)
            for instance in reply.get("instances") or ():
                found.setdefault(instance["uuid"], []).append((host, instance))
        return found, silent, _live(self, task_vars, hosts, found) if found else {}


def _live(action, task_vars, hosts, uuids):
    """uuid -> whether it would move live, or why not; nothing where a fault of the inventory keeps that unknown."""
    try:
        return moves_live(known_fleet(action, task_vars, hosts, only=uuids))
    except BerthError:
        return {}


def _others(task_vars, fleet, uuids):
    """Those that no inventory has: name, with the project where an instance of the inventory has that name -> (uuid, place)."""
    found = unlisted.unlisted(fleet, {*names_by_uuid(task_vars), *uuids.values()})
    return {
        "%s (%s)" % (place["name"], place["project_id"]) if place["name"] in uuids else place["name"]: (uuid, place)
        for uuid, place in found
    }


def _of_other(name, place, options):
    """The line of an instance that no inventory has, and of which its host gave no details: it may be gone by now."""
    state = place["vm_state"] or place["phase"] or "unknown"
    return Outcome(name, state, place["host"], place["flavor"] or "", why=fleet_hints.select_unlisted(options))


def _of_held(name, held, problem, differs):
    """The line of an instance that a host holds, with its differences from the inventory."""
    line = show_instance.outcome(name, held)
    why = problem.code if problem else line.why  # a start is refused, too
    line.why = "; ".join(part for part in (why, *differs) if part)
    return line


def _of_none(task_vars, fleet, name, uuid, failed):
    """The line of an instance that no host holds: its request ``failed``, it was deleted, or it does not exist."""
    if failed:
        return Outcome(name, "error", why="%(code)s: %(message)s" % failed)
    by = _removed_by(fleet, uuid)
    if in_inventory(task_vars, name) or by:
        project = project_of(variables(task_vars, name, IDENTITY))
        return Outcome(name, "absent", why="deleted from %s" % ", ".join(by) if by else nowhere(fleet, name, project))
    return _failed(name, not_found(task_vars, fleet, name))


def _some_are_asked_for(task_vars):
    """Whether the run is about some instances only: free volumes belong to none, so they are not shown then."""
    return any(
        task_vars.get(name) is not None for name in ("ansible_limit", "berth_name", "berth_instances", "berth_where")
    )


def _holders(fleet, uuid):
    """The hosts that hold a part of the instance, or failed to build it."""
    return [place["host"] for place in fleet.places.get(uuid, ())] + fleet.failed_on(uuid)


def _not_told(name, holders, silent):
    """HostUnknown if a host that holds a part of the instance reports no details, otherwise None."""
    reasons = ["%s (%s)" % (host, silent[host]) for host in holders if host in silent]
    return HostUnknown("%s is on %s: the host gave no details" % (name, ", ".join(reasons))) if reasons else None


def _problem(fleet, name, uuid, lost):
    """Why no playbook would act on the instance as it is; being in a move is no problem, but what is left of one is."""
    try:
        locate(fleet, name, uuid, lost)
    except InstanceMoving:
        return left_of_ended_move(name, uuid, fleet.places.get(uuid, []))
    except BerthError as error:
        return error
    return None


def _removed_by(fleet, uuid):
    names = {host_uuid: name for name, host_uuid in fleet.uuids().items()}
    notes = fleet.told_of(uuid)
    return sorted(names[holder] for holder, note in notes.items() if note.get("gone") and holder in names)


def _failed(name, error, host="", flavor="", networks=()):
    address = address_of(networks)
    return Outcome(name, FAILED, host, flavor or "", address, error.code, error.to_result()["msg"])
