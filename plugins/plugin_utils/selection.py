# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of what is an instance and what a KVM host: that playbooks/vars/run.yml selected instances, and a person named
them where the whole inventory is no default; that none is a KVM host, that no KVM host has a flavor (berth_flavor), that
the hosts that a request names are KVM hosts; and the error for a name that is no instance, with what was probably meant.
"""

from __future__ import annotations

import contextlib
from typing import Any, Collection, Dict, Iterable, List

from ansible.utils.vars import load_extra_vars

from ..module_utils.conductor import own_uuids
from ..module_utils.conductor.errors import KvmHostNotFound, NoHostAnswered, SelectionNotExplicit
from ..module_utils.conductor.fleet import Fleet
from ..module_utils.conductor.operations import PLAYBOOKS, needs_selection
from ..module_utils.conductor.sides import InstanceNotFound
from ..module_utils.conductor.similar_names import similar_instances
from ..module_utils.model import fleet_hints, hints
from ..module_utils.model.errors import BerthError, InvalidInput, joined, shortened
from ..module_utils.model.identity import IDENTITY, RESERVED, project_of, uuid_of
from ..module_utils.model.messages import hosts_named
from ..module_utils.model.unknown_names import did_you_mean, nearest
from .berth_name import is_only_requested
from .inventory_variables import described, instances_among, is_true, kvm_hosts, raw_vars, variables, with_variable
from .screen import warn
from .selection_patterns import selects_anything

CHOOSE_OTHERS = ("--limit", "berth_instances", "berth_name", "berth_where", "berth_target_host")


def selected(task_vars: Dict[str, Any], names: List[str], hosts: List[str]) -> List[str]:
    """Return the names that are instances. Raises InstanceNotFound if a selection was given and selects none, and
    InvalidInput if one is a KVM host."""
    instances = instances_alone(task_vars, names, hosts)
    if not instances and "berth_where" not in task_vars:  # a query that chooses none has said so
        check_nothing_selected(task_vars, [str(name) for name in names if name not in hosts])
        asked = ": " + shortened(sorted(map(str, names))) if names else ""
        warn(
            "No instance is selected: no host of the inventory in question has the variable berth_flavor%s. %s"
            % (asked, fleet_hints.look_above())
        )
    return instances


def instances_alone(task_vars: Dict[str, Any], names: List[str], hosts: List[str]) -> List[str]:
    """The names that are instances. Raises InvalidInput if one is a KVM host."""
    instances = instances_among(task_vars, names)
    both = [name for name in dict.fromkeys([*instances, *_meant(task_vars, hosts)]) if name in hosts]
    given = [field for field in ("berth_new_name", "berth_name") if task_vars.get(field) in both]
    if given:
        rule = "the name of an instance, and not of a KVM host"
        name = task_vars[given[0]]
        hint = fleet_hints.select_on_host(name) if given[0] == "berth_name" else None
        raise InvalidInput(given[0], name, rule, hint=hint)
    if both:
        hint = fleet_hints.name_of_no_host(shortened(both))
        raise InvalidInput("inventory_hostname", shortened(both), "a name that no KVM host has", hint=hint)
    return instances


def check_explicit(action: Any, task_vars: Dict[str, Any], names: List[str], given: bool, operation: str) -> None:
    """Raise SelectionNotExplicit if an operation that needs a selection is about the whole inventory, because none was
    ``given``, or one that names nothing but all. A person says berth_all=true where all are meant."""
    if not names or not needs_selection(operation) or _all_meant(action, task_vars, operation):
        return
    if not given or _all_by_pattern(task_vars, names):
        raise _not_explicit(names, given, operation, hints.select_instances())


def _not_explicit(names: List[str], given: bool, operation: str, hint: str) -> SelectionNotExplicit:
    return SelectionNotExplicit(
        "%s %s is about all instances of the inventory (%d)"
        % ("with this selection" if given else "without a selection", PLAYBOOKS.get(operation, operation), len(names)),
        hint=hint,
        instances=names,
    )


def check_none_chosen(action: Any, task_vars: Dict[str, Any], why: str, *more: str) -> None:
    """Raise InvalidInput for what would choose other instances than those of a host or a plan, or another way for them. -e would
    give it to the plays that move them. ``more``: further variables."""
    given = {"--limit": task_vars.get("ansible_limit"), **load_extra_vars(action._loader)}
    errors = [
        InvalidInput(name, given[name], "nothing here: %s" % why)
        for name in (*CHOOSE_OTHERS, *more)
        if given.get(name) not in (None, "")
    ]
    if errors:
        raise joined(errors)


def check_play(action: Any, task_vars: Dict[str, Any], operation: str) -> None:
    """Of a role in a play of somebody's own, whose hosts are the selection: raise SelectionNotExplicit if those are all
    instances, and neither the play nor the run names one of them or a group."""
    pattern = action._templar.template(action._task.get_play().hosts)
    patterns = [pattern, task_vars.get("ansible_limit") or "all"]
    if (
        "berth_name" in task_vars
        or not all(map(selects_anything, patterns))
        or _all_meant(action, task_vars, operation)
    ):
        return
    hosts = kvm_hosts(task_vars)
    names = [name for name in described(task_vars, task_vars["ansible_play_hosts_all"]) if name not in hosts]
    if len(names) > 1 and set(_every(task_vars)) <= set(names):
        raise _not_explicit(names, "ansible_limit" in task_vars, operation, hints.select_in_play())


def _all_meant(action: Any, task_vars: Dict[str, Any], operation: str) -> bool:
    variables_of_all = ("berth_all", *(["berth_delete_all"] if operation == "delete" else []))
    values = action.own_variables(task_vars, variables_of_all)
    return any(is_true(values, name) for name in variables_of_all)


def _all_by_pattern(task_vars: Dict[str, Any], names: List[str]) -> bool:
    """Whether ``names`` are all instances, and no name or group in the selection says so: all, * or only exclusions."""
    given = [task_vars[name] for name in ("ansible_limit", "berth_instances") if task_vars.get(name) is not None]
    named = any(task_vars.get(name) is not None for name in ("berth_name", "berth_where"))
    if not given or named or not all(map(selects_anything, given)):
        return False
    return set(_every(task_vars)) <= set(names)


def _every(task_vars: Dict[str, Any]) -> List[str]:
    """All instances of the inventory."""
    hosts = kvm_hosts(task_vars)
    return [name for name in described(task_vars, task_vars["groups"]["all"]) if name not in hosts]


def check_nothing_selected(task_vars: Dict[str, Any], names: List[str]) -> None:
    """Raise if a selection was given: no instance matches it. ``names``: what matches it and is no instance."""
    selecting = [name for name in ("ansible_limit", "berth_name", "berth_instances") if task_vars.get(name) is not None]
    selections = ["%s=%s" % (name.replace("ansible_", "--"), task_vars[name]) for name in selecting]
    if selections and names:
        raise InstanceNotFound(
            "%s selects %s, without berth_flavor"
            % (" and ".join(selections), " and ".join([*names[:3], *(["more"] if names[3:] else [])]))
        )
    if len(selections) > 1 and selecting[0] == "ansible_limit":
        raise InstanceNotFound(
            "%s together select no instance" % " and ".join(selections), hint=fleet_hints.select_in_one_place()
        )
    if selections:
        given = task_vars[selecting[0]]
        as_text = isinstance(given, str) and given.lstrip().startswith("[")
        known = names_by_uuid(task_vars).values()
        hint = fleet_hints.select_with_pattern() if as_text else similar_instances(given, known)
        hint = fleet_hints.select_on_host(given) if given in kvm_hosts(task_vars) else hint
        raise InstanceNotFound("%s selects no instance" % selections[0], hint=hint)


def _meant(task_vars: Dict[str, Any], hosts: List[str]) -> List[str]:
    """The KVM hosts that are also described as instances: if only some of them have a flavor, it is their own."""
    found = with_variable(task_vars, hosts, "berth_flavor")
    return found if len(found) < len(hosts) else []


def hosts_selected(task_vars: Dict[str, Any], hosts: List[str]) -> List[str]:
    """For a playbook about KVM hosts: those that --limit selects. Raise if the inventory has none or it selects none of them."""
    if not hosts:
        raise no_kvm_hosts(task_vars)
    limit = task_vars.get("ansible_limit")
    of_play = set(task_vars["ansible_play_hosts_all"]) if limit is not None else set(hosts)
    found = [host for host in hosts if host in of_play]
    if not found:
        raise KvmHostNotFound("--limit=%s selects no KVM host" % limit, hint=did_you_mean(limit, hosts))
    return found


def no_kvm_hosts(task_vars: Dict[str, Any]) -> NoHostAnswered:
    """The error for an inventory whose group of KVM hosts is missing, empty or has another name."""
    groups = [str(group) for group in task_vars["groups"] if group not in ("all", "ungrouped", "kvm_hosts")]
    pattern = task_vars.get("berth_kvm_hosts")
    if not any(task_vars["groups"].values()):
        return NoHostAnswered("the inventory has no KVM host: it is empty", hint=fleet_hints.give_inventory())
    if pattern is not None:
        pattern = ",".join(map(str, pattern)) if isinstance(pattern, list) else str(pattern)
        known = [*groups, *(["kvm_hosts"] if task_vars["groups"].get("kvm_hosts") else [])]
        return NoHostAnswered(
            "berth_kvm_hosts=%s selects no host" % pattern, hint=did_you_mean(pattern, known, "group")
        )
    message = "the inventory has no KVM host: its group kvm_hosts has none"
    return NoHostAnswered(message, hint=fleet_hints.name_group_of_hosts(nearest("kvm_hosts", groups)))


def check_no_group(field: str, name: str, groups: Collection[str] = ()) -> None:
    """Raise if the name of an instance is one of ``groups`` or one that Ansible reserves: --limit with it would also select
    others, and a delete would delete them too."""
    if name in RESERVED or name in groups:
        hint = fleet_hints.name_of_no_group()
        raise InvalidInput(field, name, "a name that is no group's, nor localhost", hint=hint)


def known_hosts(task_vars: Dict[str, Any], hosts: List[str]) -> List[str]:
    """The KVM hosts of the run, and those of the inventory that berth_kvm_hosts leaves out."""
    return list(dict.fromkeys([*hosts, *kvm_hosts(task_vars)]))


def check_hosts(spec: Dict[str, Any], zone: str, hosts: List[str]) -> None:
    """Raise KvmHostNotFound for each host that a request names and that is not a KVM host of the inventory.

    ``zone``: berth_availability_zone, which may also name a host."""
    target = (spec["requested_destination"] or {}).get("host")
    of_zone = [name for name in spec["force_hosts"] if name in zone.split(":")]
    named = (
        ("berth_target_host", [target] if target else []),
        ("berth_availability_zone", of_zone),
        ("berth_force_hosts", [name for name in spec["force_hosts"] if name not in of_zone]),
        ("berth_ignore_hosts", spec["ignore_hosts"]),
    )
    errors = [KvmHostNotFound.of(field, name, hosts) for field, names in named for name in names if name not in hosts]
    if errors:
        raise joined(errors)


def warn_of_lost(lost: Iterable[str], hosts: List[str], fleet: Fleet) -> None:
    """Report lost hosts that answer, or are not in the inventory and that no host remembers. No correction is suggested: nobody
    should guess which host to give up."""
    for name in sorted(set(lost) & set(fleet.documents)):
        warn("berth_lost_hosts: %s answers, so this run does not take it for lost" % name)
    places = [place for notes in fleet.notes.values() for note in notes.values() for place in hosts_named(note)]
    known = {place[key] for place in places for key in ("host", "host_uuid")}
    for name in sorted(set(lost) - known - set(hosts)):
        warn(
            "berth_lost_hosts: there is no KVM host %s, and no host remembers that one of these instances was on it. "
            "The inventory has %s" % (name, ", ".join(sorted(hosts)))
        )


def in_inventory(task_vars: Dict[str, Any], name: str) -> bool:
    """Whether the inventory describes the instance; the command line describes that of berth_name, if anything does."""
    return "berth_flavor" in raw_vars(task_vars, name)


def not_found(task_vars: Dict[str, Any], fleet: Fleet, name: str) -> InstanceNotFound:
    project = project_of(variables(task_vars, name, IDENTITY))
    uuid = fleet.own_names.get((project, name))
    if uuid:
        return InstanceNotFound(own_uuids.untold(fleet, name, uuid), hint=own_uuids.name_it(fleet, name, uuid))
    projects = _other_projects(fleet, name, project)
    if in_inventory(task_vars, name) and not is_only_requested(task_vars, name):
        hint = hints.create_it(name) if not projects else fleet_hints.name_its_project(name, projects[0])
        return InstanceNotFound("%s %s" % (name, nowhere(fleet, name, project)), hint=hint)
    described = with_variable(task_vars, task_vars["groups"]["all"], "berth_flavor")
    held = [str(place["name"]) for places in fleet.places.values() for place in places if place.get("name")]
    known = {*described, *held} - {name, *kvm_hosts(task_vars)}  # -e gives these a flavor, too
    if projects:
        text = "%s is in no inventory, and on hosts in another project: %s" % (name, ", ".join(projects))
        return InstanceNotFound(text, hint=fleet_hints.name_its_project(name, projects[0]))
    is_host = name in kvm_hosts(task_vars)
    text = "%s is a KVM host, and no instance" if is_host else "%s is in no inventory and on no host"
    return InstanceNotFound(text % name, hint=similar_instances(name, known))


def nowhere(fleet: Fleet, name: str, project: str) -> str:
    """What is said of an instance that no host has: they may have one of another project."""
    projects = _other_projects(fleet, name, project)
    return "is on no host in its project, but in project %s" % ", ".join(projects) if projects else "is on no host"


def _other_projects(fleet: Fleet, name: str, project: str) -> List[str]:
    """The other projects in which hosts have an instance of the name."""
    held = (place for places in fleet.places.values() for place in places)
    return sorted({str(place["project_id"]) for place in held if place.get("name") == name} - {project})


def check_new_name(task_vars: Dict[str, Any], uuid: str, new: str) -> None:
    """Raise InvalidInput if the name that an instance is to get is that of something else in the inventory."""
    groups = task_vars["groups"]
    if new not in groups and new not in groups["all"]:
        return
    is_instance = new in groups["all"] and new not in kvm_hosts(task_vars)
    if not is_instance or uuid_of(new, variables(task_vars, new, IDENTITY)) != uuid:
        hint = fleet_hints.another_new_name()
        raise InvalidInput("berth_new_name", new, "a name that nothing else in the inventory has", hint=hint)


def names_by_uuid(task_vars: Dict[str, Any]) -> Dict[str, str]:
    """uuid -> name of the instances that the inventory describes."""
    found = {}
    hosts = set(kvm_hosts(task_vars))
    for name in with_variable(task_vars, task_vars["groups"]["all"], "berth_flavor"):
        if name in hosts or name == "localhost":
            continue
        try:
            found[uuid_of(name, variables(task_vars, name, IDENTITY))] = name
        except BerthError:
            continue  # create reports what is wrong with its name
    return found


def instances_by_uuid(task_vars: Dict[str, Any], hosts: Collection[str]) -> Dict[str, str]:
    """uuid -> name, of those that the inventory describes or that its plugin found. No host gains by a name of the plugin's:
    the uuid follows from it."""
    found = names_by_uuid(task_vars)
    others = {*hosts, "localhost", *found.values()}
    for name in described(task_vars, task_vars["groups"]["all"]):
        if name not in others:
            with contextlib.suppress(BerthError):
                found.setdefault(uuid_of(name, variables(task_vars, name, IDENTITY)), name)
    return found
