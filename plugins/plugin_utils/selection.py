# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances a run is about (berth_instances, berth_name, --limit), and the error for a name that is no instance: what
was probably meant.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, Iterable, List

from ..module_utils.conductor.errors import KvmHostNotFound
from ..module_utils.conductor.fleet import Fleet
from ..module_utils.conductor.sides import InstanceNotFound
from ..module_utils.model import hints, input_hints
from ..module_utils.model.errors import InvalidInput, joined, together
from ..module_utils.model.suggest import did_you_mean
from .controller import instances_among, kvm_hosts, raw_vars, with_variable
from .screen import warn


def selected(task_vars: Dict[str, Any], names: List[str], hosts: List[str]) -> List[str]:
    """Those of the names that are instances. Raises InstanceNotFound where the pattern berth_instances matches none, and
    InvalidInput where one is a KVM host."""
    found = instances_among(task_vars, names)
    together(functools.partial(_check_no_kvm_host, name, hosts) for name in [*found, *_meant(task_vars, hosts)])
    if not found and "berth_instances" in task_vars:
        pattern = str(task_vars["berth_instances"])
        known = instances_among(task_vars, task_vars["groups"]["all"])
        raise InstanceNotFound("no instance matches %s" % pattern, hint=did_you_mean(pattern, known, "instance"))
    return found


def _meant(task_vars: Dict[str, Any], hosts: List[str]) -> List[str]:
    """The KVM hosts that somebody also describes as instances: where only some of them have a flavor, it is their own."""
    found = with_variable(task_vars, hosts, "berth_flavor")
    return found if len(found) < len(hosts) else []


def _check_no_kvm_host(name: str, hosts: List[str]) -> None:
    if name in hosts:
        raise InvalidInput(
            "inventory_hostname", name, "a name that no KVM host has", hint=input_hints.name_of_no_host(name)
        )


def known_hosts(task_vars: Dict[str, Any], hosts: List[str]) -> List[str]:
    """The KVM hosts of the run, and those of the inventory that berth_kvm_hosts leaves out."""
    return list(dict.fromkeys([*hosts, *kvm_hosts(task_vars)]))


def check_hosts(spec: Dict[str, Any], zone: str, hosts: List[str]) -> None:
    """Raise KvmHostNotFound, for each host that a request names and that the inventory does not have as a KVM host.

    ``zone``: berth_availability_zone, which may name one, too."""
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
    """Say which lost hosts are in no inventory and remembered by no host. None is proposed: a host is not given up by guessing."""
    noted = [note for notes in fleet.notes.values() for note in notes.values()]
    told = {place["host"] for note in noted for place in (note.get("known"), *note.get("planned", ())) if place}
    for name in sorted(set(lost) - told - set(hosts)):
        warn(
            "berth_lost_hosts: there is no KVM host %s, and of these instances no host remembers it. The inventory has %s"
            % (name, ", ".join(sorted(hosts)))
        )


def in_inventory(task_vars: Dict[str, Any], name: str) -> bool:
    """Whether the inventory describes the instance; one of berth_name is described on the command line, if at all."""
    return "berth_flavor" in raw_vars(task_vars, name)


def not_found(task_vars: Dict[str, Any], fleet: Fleet, name: str) -> InstanceNotFound:
    """The error for an instance that no host holds."""
    if in_inventory(task_vars, name):
        return InstanceNotFound("%s is on no host" % name, hint=hints.create_it(name))
    described = with_variable(task_vars, task_vars["groups"]["all"], "berth_flavor")
    held = [str(place["name"]) for places in fleet.places.values() for place in places if place.get("name")]
    known = {*described, *held} - {name}
    hint = did_you_mean(name, known, "instance")
    return InstanceNotFound("%s is in no inventory and on no host" % name, hint=hint)
