# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances reported by hosts may become hosts of an inventory, and with which ansible_host. A host chooses
neither names nor variables. Which groups it gets is in plugins/inventory/instances.py."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Collection, Dict, Iterable, List, Mapping, Optional, Tuple

from ..model.errors import BerthError
from ..model.identity import (
    ADOPTED,
    DEFAULT_PROJECT,
    KEPT,
    OWN_UUIDS,
    RESERVED,
    check_name,
    instance_uuid,
    project_of,
    uuid_of,
)
from ..model.lifecycle import OWN
from ..model.nics import guest_address
from ..model.safe_text import clean
from .fleet import own_name

# Variables that only hosts report. A host never reports what the inventory asks for, such as berth_flavor.
PUBLISHED = (
    "berth_kvm_host",
    "berth_phase",
    "berth_power_state",
    "berth_present_address",
    "berth_present_address_source",
    "berth_present_batch",
    "berth_present_flavor",
    "berth_present_project",
    "berth_present_server_group",
    "berth_present_zone",
    "berth_uuid",
)
ERROR = "berth_error"  # not from hosts but from this controller: why a request failed


class NotListed(BerthError):
    """A host reported an instance that must not become a host of the inventory: its name, uuid or owner is doubtful."""


Described = Optional[Mapping[str, Any]]
Known = Callable[[str], Described]
Owner = Tuple[str, Mapping[str, Any], Described]


def listed(
    hosts: Mapping[str, List[Mapping[str, Any]]], known: Known, taken: Collection[str] = ()
) -> Tuple[Dict[str, Dict[str, Any]], List[NotListed]]:
    """Return ({instance: its variables}, what is left out and why). Only owners count, so an instance in a move is
    listed once.

    ``hosts``: inventory name of a host -> the instances in its checked document. ``known(name)``: the variables of an
    instance that the inventory describes, or None if it does not; raises NotListed if the name belongs to something
    else in it.
    ``taken``: addresses that belong to others: an instance whose guest reports one of them gets none.
    """
    owners: Dict[str, List[Owner]] = {}
    left_out = []
    for host, instances in sorted(hosts.items()):
        for instance in map(_named, instances):
            if instance.get("foreign") or instance.get("role") != OWN:
                continue
            try:
                described = _check(host, instance, known)
                owners.setdefault(instance["name"], []).append((host, instance, described))
            except NotListed as error:
                left_out.append(error)
    found = {}
    times: Counter[str] = Counter()
    for name, claims in sorted(owners.items()):
        if len(claims) > 1:
            left_out.append(_twice(name, [owner[0] for owner in claims]))
        else:
            found[name] = _variables(*claims[0])
            times.update(list(_addresses(claims[0][1])))
    _give_addresses(found, times, known, taken)
    return found, left_out


def failed(requests: Iterable[Mapping[str, Any]], known: Known, found: Collection[str]) -> Dict[str, Dict[str, Any]]:
    """Instance -> variables, of those that could not be created or moved. ``requests``: as the controller kept them."""
    listed_too: Dict[str, Dict[str, Any]] = {}
    for request in requests:
        name, project = request["name"], request["project"]
        error = {part: request[part] for part in ("code", "message", "operation", "at")}
        try:
            if check_name(name) in RESERVED or request["uuid"] != instance_uuid(project, name):
                continue
            described = known(name)
        except BerthError:
            continue
        if name in found:
            listed_too[name] = {ERROR: error}
        elif request["operation"] == "create" and described is None:
            listed_too[name] = {ERROR: error, "berth_uuid": request["uuid"], "berth_project": project}
        elif request["operation"] == "create" and (described or {}).get("berth_project", project) == project:
            own = [uuid for uuid in map((described or {}).get, OWN_UUIDS) if uuid]  # no failure gives it another
            listed_too[name] = {ERROR: error, KEPT: own[0] if own else request["uuid"]}
    return listed_too


def _named(instance: Mapping[str, Any]) -> Mapping[str, Any]:
    """An instance that was adopted or renamed has the name that its host says if the inventory gives that name its uuid."""
    return {**instance, "name": own_name(instance) or instance["name"]}


def _check(host: str, instance: Mapping[str, Any], known: Known) -> Described:
    """Return what the inventory says about the instance. Raises NotListed."""
    reported = instance["name"]
    project = instance.get("project_id") or DEFAULT_PROJECT
    try:
        name = check_name(reported)
        if name in RESERVED:
            raise NotListed("the name is reserved")
        described = known(name)
    except BerthError as error:
        why = error.message if isinstance(error, NotListed) else error.rule
        raise NotListed("Host %s has an instance %r that is left out: %s" % (host, clean(reported, 80), why)) from None
    said = described is not None and instance["uuid"] == uuid_of(name, described)
    if own_name(instance) and not said:
        field, how = (ADOPTED, "adopted") if instance.get("adopted") else (KEPT, "renamed")
        why = "it was %s, and the inventory does not say that its %s is its uuid" % (how, field)
        raise _foreign(host, name, why)
    if not own_name(instance) and not said and instance["uuid"] != instance_uuid(project, name):
        raise _foreign(host, name, "its uuid is not that of its project and name")
    if described is not None and (instance["uuid"], project) != (uuid_of(name, described), project_of(described)):
        raise _foreign(host, name, "the inventory has one of another project under that name")
    return described


def _foreign(host: str, name: str, why: str) -> NotListed:
    return NotListed("Host %s has an instance %s that is left out: %s" % (host, name, why))


def _twice(name: str, hosts: List[str]) -> NotListed:
    return NotListed(
        "Instance %s is left out: %s each say that they own one of that name, so it is not known which host has it"
        % (name, " and ".join(sorted(hosts)))
    )


def _addresses(instance: Mapping[str, Any]) -> Dict[str, Any]:
    """Address -> source; the first is the best one to reach the instance at."""
    access = [{"address": text, "source": "access"} for text in instance.get("access_ips") or ()]
    found: Dict[str, Any] = {}
    for entry in [*access, instance.get("address") or {}]:
        address = guest_address(entry.get("address"))
        if address:
            found.setdefault(str(address), entry.get("source"))
    return found


def _variables(host: str, instance: Mapping[str, Any], described: Described) -> Dict[str, Any]:
    address, source = next(iter(_addresses(instance).items()), (None, None))
    project = instance.get("project_id")
    found = {
        "berth_uuid": instance["uuid"],
        "berth_kvm_host": host,
        "berth_power_state": instance.get("power_state"),
        "berth_phase": instance.get("phase"),
        "berth_present_flavor": (instance.get("flavor") or {}).get("name"),
        "berth_present_batch": instance.get("batch_id"),
        "berth_present_project": project,
        "berth_present_server_group": instance.get("group"),
        "berth_present_zone": instance.get("zone"),
        "berth_present_address": address,
        "berth_present_address_source": source,
    }
    found = {name: value or "" for name, value in found.items()}  # TOML has no null
    # Project and name identify an instance: no playbook finds one that nobody describes without its project.
    return {**found, "berth_project": project} if described is None and project else found


def _give_addresses(
    found: Mapping[str, Dict[str, Any]], times: Mapping[str, int], known: Known, taken: Collection[str]
) -> None:
    """Set ansible_host if the inventory has none and nobody else has the address, since a guest may report any.
    ``times``: how many instances have an address, also as one of their further addresses."""
    others = {*taken, *(str(guest_address(address)) for address in taken)}  # however the inventory writes it
    for name, variables in found.items():
        address = variables["berth_present_address"]
        if address and times[address] == 1 and address not in others and "ansible_host" not in (known(name) or {}):
            variables["ansible_host"] = address
