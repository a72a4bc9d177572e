# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an instance holds in the registry: its name, its addresses, a share of its project's quota, its seat in a server group and
its room on a host. It is taken whole, in one transaction, and goes whole."""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional

from ...model import address_clash, hints, nics, registry_hints, shelves
from ...model.errors import InstanceExists
from ...model.messages import Document
from ...model.quota import Amounts
from ...model.volumes import volume_uuid
from .. import groups, quotas, volume_hosts
from ..plan import Instance
from ..procedures.steps import Procedure
from . import keys
from .hosts import bounded, reservation
from .transactions import Draft


def held_by(spec: Mapping[str, Any], project: str) -> List[str]:
    """The keys that have to be its own."""
    own = [keys.name(project, spec["name"]), *map(keys.of_nic, nics.taken(spec.get("networks")))]
    return [*own, *_volumes(spec, project)]


def _volumes(spec: Mapping[str, Any], project: str) -> Dict[str, str]:
    """Key -> name."""
    return {keys.volume(volume_uuid(project, each["name"])): each["name"] for each in spec.get("volumes") or ()}


def wanted(instance: Instance) -> List[str]:
    """The keys of all that the instance is about to take, and of what it has."""
    project, group = instance["project"], instance["spec"].get("group")
    own = [keys.instance(instance["uuid"]), keys.host(instance["host_uuid"]), keys.quota(project)]
    return [*own, *([keys.group(group["uuid"])] if group else []), *held_by(instance["spec"], project)]


def take(
    draft: Draft,
    instance: Instance,
    entry: Document,
    limits: Mapping[str, Amounts],
    names: Mapping[str, str],
    lost: Collection[str] = (),
) -> Procedure[None]:
    """Have the instance take all of it. ``entry``: what the registry has of it; ``names``: host uuid -> name; ``lost``: uuids of
    hosts that are gone for good. Raises what hold() does, GroupPolicyViolation or QuotaExceeded."""
    uuid, spec, project = instance["uuid"], instance["spec"], instance["project"]
    holds = held_by(spec, project)
    yield from hold(draft, instance, holds)
    yield from draft.read(*entry["holds"])
    let_go(draft, uuid, set(entry["holds"]) - set(holds))  # as where its host removed it, and nobody told the registry
    group = spec.get("group")
    members = others(draft, group["uuid"], uuid) if group else {}
    check_seat(spec, members, instance["host_uuid"], names, lost)
    request = quotas.request_of(uuid, instance, lambda _spec: len(members))
    goes_along = bool(lost_owner(instance, entry))
    built = bool(entry["owner"]) and not goes_along
    used = less(draft.get(keys.quota(project)) or {}, _given_back(entry, built))
    over = quotas.over([request], {project: used}, limits)
    if over:
        raise over[uuid]
    if group:
        draft.put(keys.group(group["uuid"]), {**members, uuid: [instance["host_uuid"]]})
    draft.put(keys.quota(project), more(used, request.needs))
    holds = list(dict.fromkeys([*holds, *entry["holds"]])) if goes_along else holds
    entry.update(amounts=dict(request.needs), holds=holds, group=group["uuid"] if group else None, stays=_stays(spec))
    take_room(draft, instance, keys.epoch_of(instance) + 1)


def lost_owner(instance: Instance, entry: Document) -> Optional[str]:
    """The uuid of the lost host from which another one is to take the instance over, by its disks or by a backup. Until that has it,
    it is that host's, with all that it holds."""
    source = instance.get("take_over") or shelves.evacuated_from(instance["spec"])
    return entry["owner"] if entry["owner"] and entry["owner"] == source else None


def hold(draft: Draft, instance: Mapping[str, Any], holds: Iterable[str]) -> Procedure[None]:
    """Have the instance hold the keys, which were read. Raises InstanceExists, AddressTaken or VolumeInUse if another one has one."""
    for key in holds:
        other = draft.get(key)
        if other not in (None, instance["uuid"]):
            yield from draft.read(keys.instance(other))
            raise _taken(instance, key, other, (draft.get(keys.instance(other)) or {}).get("name", other))
        draft.put(key, instance["uuid"])


def let_go(draft: Draft, uuid: str, holds: Iterable[str]) -> None:
    for key in holds:
        if draft.get(key) == uuid:
            draft.remove(key)


def take_room(draft: Draft, instance: Instance, epoch: int) -> None:
    """``epoch``: in which the host will show it. ``provider`` counts who takes and gives back room there: placement saw one number,
    and for a create that has to be it still."""
    host = draft.get(keys.host(instance["host_uuid"]))
    reserved = {**host["reserved"], instance["uuid"]: reservation(instance, epoch)}
    removed = {other: epoch for other, epoch in host["removed"].items() if other != instance["uuid"]}
    told = {"provider": host["provider"] + 1, "reserved": reserved, "removed": removed}
    draft.put(keys.host(instance["host_uuid"]), {**host, **told})


def check_seat(
    spec: Document,
    members: Mapping[str, List[str]],
    host_uuid: str,
    names: Mapping[str, str],
    lost: Collection[str] = (),
) -> None:
    """Raise GroupPolicyViolation if the other ``members`` of its group, where they are not ``lost``, forbid that host.
    Anti-affinity is for the host to decide."""
    if groups.spans_hosts(spec):
        elsewhere = {names.get(at, at) for hosts in members.values() for at in hosts if at not in (host_uuid, *lost)}
        violated = groups.violation(spec, sorted(elsewhere))
        if violated:
            raise violated


def follow(draft: Draft, uuid: str, entry: Document, now: Document) -> Procedure[None]:
    """Write what the registry has of the instance ``now``: the hosts that are in it no more have room again, and its seat is on
    those that are."""
    for left in set(keys.hosts_of(entry)) - set(keys.hosts_of(now)):
        yield from leave_host(draft, uuid, left, now["epoch"])
    if now["group"] and keys.hosts_of(now) != keys.hosts_of(entry):
        yield from draft.read(keys.group(now["group"]))
        members = others(draft, now["group"], uuid)
        draft.put(keys.group(now["group"]), {**members, uuid: keys.hosts_of(now)})
    draft.put(keys.instance(uuid), now)


def count(draft: Draft, entry: Document, *flavors: Mapping[str, Any]) -> Procedure[None]:
    """Have it count in its project with these flavors: its own, and while it moves that of the other side."""
    key, amounts = keys.quota(entry["project"]), quotas.of_flavors(*flavors)
    yield from draft.read(key)
    draft.put(key, more(_without_flavors(draft, entry), amounts))
    entry["amounts"] = {**entry["amounts"], **amounts}


def check_growth(draft: Draft, entry: Document, instance: Instance, limits: Mapping[str, Amounts]) -> None:
    """Raise QuotaExceeded if its project may not use both flavors of a resize until that is confirmed."""
    used = more(_without_flavors(draft, entry), quotas.of_flavors(instance["old_flavor"]))
    over = quotas.over(
        [quotas.request_of(instance["uuid"], instance, lambda _spec: 0)], {entry["project"]: used}, limits
    )
    if over:
        raise over[instance["uuid"]]


def held_of(record: Mapping[str, Any], project: str, name: str, volumes: Iterable[str]) -> List[str]:
    """The keys of what a host shows of the instance. ``volumes``: the keys of those that it has."""
    return [keys.name(project, name), *map(keys.of_nic, record.get("nics") or ()), *sorted(volumes)]


def _without_flavors(draft: Draft, entry: Document) -> Dict[str, int]:
    """What its project uses beside the flavors that it counts with."""
    own = {part: entry["amounts"].get(part, 0) for part in quotas.of_flavors()}
    return less(draft.get(keys.quota(entry["project"])) or {}, own)


def leave_host(draft: Draft, uuid: str, host_uuid: str, epoch: int) -> Procedure[None]:
    """The host has the instance no more. ``epoch``: of the last that it may show."""
    key = keys.host(host_uuid)
    yield from draft.read(key)
    host = draft.get(key)
    if host:
        reserved = {other: entry for other, entry in host["reserved"].items() if other != uuid}
        removed = yield from bounded(draft, host_uuid, {**host["removed"], uuid: epoch})
        draft.put(key, {**host, "provider": host["provider"] + 1, "reserved": reserved, "removed": removed})


def drop(draft: Draft, uuid: str, entry: Document, built: bool) -> Procedure[None]:
    """Give back all but the room, and if it was ``built``, but its volumes that outlive it. The entry stays with its epoch, after
    which the next owner begins."""
    quota, group = keys.quota(entry["project"]), keys.group(entry["group"] or "")
    yield from draft.read(quota, *entry["holds"], *([group] if entry["group"] else []))
    let_go(draft, uuid, entry["holds"])
    if entry["group"]:
        draft.put(group, others(draft, entry["group"], uuid))
    draft.put(quota, less(draft.get(quota) or {}, _given_back(entry, built)))
    entry.update(owner=None, pending=[], amounts={}, group=None, holds=[])
    entry.pop("stays", None)


def _stays(spec: Mapping[str, Any]) -> Dict[str, int]:
    new = [each for each in spec.get("volumes") or () if each.get("new") and not each.get("delete_on_termination")]
    return {"volumes": len(new), "gigabytes": sum(each["size_gb"] for each in new)}


def _given_back(entry: Document, built: bool) -> Dict[str, int]:
    return less(entry["amounts"], entry.get("stays", {})) if built else dict(entry["amounts"])


def _taken(instance: Mapping[str, Any], key: str, other: str, name: str) -> Exception:
    if key.startswith(keys.NAMES):
        text = "project %s has an instance %s already, with the uuid %s"
        return InstanceExists(
            text % (instance["project"], instance["spec"]["name"], other), hint=registry_hints.free_name()
        )
    if key.startswith(keys.VOLUMES):
        return volume_hosts.in_use(_volumes(instance["spec"], instance["project"])[key], name, instance["name"])
    held = {keys.nic_of(key): {other: "instance %s" % name}}
    return address_clash.clash(instance["spec"], held) or address_clash.AddressTaken(
        "%s has %s already" % (name, keys.nic_of(key)), hint=hints.another_address(instance["name"])
    )


def others(draft: Draft, group_uuid: str, uuid: str) -> Dict[str, List[str]]:
    """The other members of the group, each with its hosts."""
    return {other: at for other, at in (draft.get(keys.group(group_uuid)) or {}).items() if other != uuid}


def less(used: Amounts, amounts: Amounts) -> Dict[str, int]:
    return {**used, **{name: max(0, used.get(name, 0) - amount) for name, amount in amounts.items()}}


def more(used: Amounts, amounts: Amounts) -> Dict[str, int]:
    return {**used, **{name: used.get(name, 0) + amount for name, amount in amounts.items()}}
