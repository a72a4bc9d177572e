# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the instances that hosts tell of may be hosts of an inventory: a host chooses neither names nor variables."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ..model.errors import BerthError
from ..model.identity import check_name, instance_uuid
from ..model.lifecycle import OWN
from ..model.safe_text import clean

RESERVED = ("all", "localhost", "ungrouped")
# What the inventory says of an instance that it knows counts more than its host's word.
OF_THE_INVENTORY = ("berth_project", "berth_flavor", "berth_server_group")
# What it has of the hosts alone.
PUBLISHED = ("berth_kvm_host", "berth_phase", "berth_power_state", "berth_uuid")


class NotListed(BerthError):
    """A host told of an instance that must not be a host of the inventory: its name, uuid or owner is in doubt."""


Described = Optional[Mapping[str, Any]]
Known = Callable[[str], Described]
Owner = Tuple[str, Mapping[str, Any], Described]


def listed(
    hosts: Mapping[str, List[Mapping[str, Any]]], known: Known
) -> Tuple[Dict[str, Dict[str, Any]], List[NotListed]]:
    """({instance: its variables}, what is left out and why). Only owners count, so that a move lists once.

    ``hosts``: inventory name of a host -> the instances in its checked document. ``known(name)``: the variables of an
    instance that the inventory describes, None for a name that it does not know; raises NotListed for a name of its own.
    """
    owners: Dict[str, List[Owner]] = {}
    left_out = []
    for host, instances in sorted(hosts.items()):
        for instance in instances:
            if instance.get("foreign") or instance.get("role") != OWN:
                continue
            try:
                described = _check(host, instance, known)
                owners.setdefault(instance["name"], []).append((host, instance, described))
            except NotListed as error:
                left_out.append(error)
    found = {}
    for name, claims in sorted(owners.items()):
        if len(claims) > 1:
            left_out.append(_twice(name, [owner[0] for owner in claims]))
        else:
            found[name] = _variables(*claims[0])
    return found, left_out


def _check(host: str, instance: Mapping[str, Any], known: Known) -> Described:
    """What the inventory says of the instance. Raises NotListed."""
    told = instance["name"]
    project = instance.get("project_id") or "default"
    try:
        name = check_name(told)
        if name in RESERVED:
            raise NotListed("the name is reserved")
        described = known(name)
    except BerthError as error:
        why = error.message if isinstance(error, NotListed) else error.rule
        raise NotListed("Host %s has an instance %r that is left out: %s" % (host, clean(told, 80), why)) from None
    if instance["uuid"] != instance_uuid(project, name):
        raise _foreign(host, name, "its uuid is not that of its project and name")
    if described is not None and instance["uuid"] != instance_uuid(described.get("berth_project") or "default", name):
        raise _foreign(host, name, "the inventory has one of another project under that name")
    return described


def _foreign(host: str, name: str, why: str) -> NotListed:
    return NotListed("Host %s has an instance %s that is left out: %s" % (host, name, why))


def _twice(name: str, hosts: List[str]) -> NotListed:
    return NotListed(
        "Instance %s is left out: %s each say that they own one of that name, so it is not known which host has it"
        % (name, " and ".join(sorted(hosts)))
    )


def _variables(host: str, instance: Mapping[str, Any], described: Described) -> Dict[str, Any]:
    found = {
        "berth_uuid": instance["uuid"],
        "berth_kvm_host": host,
        "berth_project": instance.get("project_id"),
        "berth_flavor": (instance.get("flavor") or {}).get("name"),
        "berth_server_group": instance.get("group"),
        "berth_power_state": instance.get("power_state"),
        "berth_phase": instance.get("phase"),
    }
    if described is None:
        return found
    return {name: value for name, value in found.items() if name not in OF_THE_INVENTORY}
