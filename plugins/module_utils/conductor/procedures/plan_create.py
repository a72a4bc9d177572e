# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a create, from what all hosts said: which instances exist, and which may be made. Then a host is chosen for each,
which is placement's part, and the first round is prepared."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Collection, Dict, Iterable, List, Mapping, Optional, Set

from ...model import registry_hints
from ...model.lifecycle import OWN
from ...model.messages import Document
from ...model.quota import Amounts
from .. import addressing, gossip, groups, kept_entries, locks, lost_data, quotas, take_over
from ..errors import RecordOutdated
from ..fleet import Fleet
from ..plan import CLAIMING, PLANNED, Instance, Plan, fail, new_plan, prepare_round
from ..unchanged import SettledInstance, pass_over_unchanged
from ..what_to_create import sort_out
from .steps import Procedure
from .telling import tell_owners


@dataclasses.dataclass(frozen=True)
class Request:
    """What is asked for one instance. ``after_the_build``: what the plan says beside the request, {berth_state, mend}, each only
    if it is asked for; ``kept``: what only its record has, see kept_entries.py; ``unsaid``: parts that nobody has given."""

    spec: Document
    locked_by: Any = None  # true, or a name
    after_the_build: Document = dataclasses.field(default_factory=dict)
    kept: List[str] = dataclasses.field(default_factory=list)
    unsaid: Collection[str] = ()


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a run asks for. ``requests``: by inventory name; ``rebuilt``: who may be made empty; ``least``: how many of a batch are
    made at least, 0 where it is none; ``fixed``: () -> who has which address in the inventory; ``dry``: in check mode. ``used``: what
    each project uses, by a registry that knows all instances whichever host is silent; None where only the hosts know them;
    ``ended``: uuid -> the last epoch of those of which it knows no owner; ``seen``: what hosts see beside the disks to take over,
    ``backups``: those of the ones whose disks none sees, and ``from_backup``: whether these are restored from the newest."""

    run: str
    requests: Mapping[str, Request]
    lost: Collection[str] = ()
    strict: bool = False
    needs_majority: bool = True
    rebuilt: Collection[str] = ()
    takes_over: bool = False
    disks_of: Optional[str] = None
    seen: take_over.Seen = dataclasses.field(default_factory=dict)
    backups: Mapping[str, take_over.Backups] = dataclasses.field(default_factory=dict)
    from_backup: bool = False
    quotas: Mapping[str, Amounts] = dataclasses.field(default_factory=dict)
    least: int = 0
    fixed: Callable[[], addressing.Index] = dict
    dry: bool = False
    used: Optional[Mapping[str, Amounts]] = None
    ended: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class ToPlace:
    """The instances of a plan: those that exist, those that cannot be made, and without a ``state`` those to place.
    ``kept_addresses``: what no pool gives out; ``reduced``: how the number of a batch was."""

    instances: Dict[str, Instance]
    kept_addresses: Dict[str, Any] = dataclasses.field(default_factory=dict)
    reduced: Optional[str] = None


def to_place(wanted: Wanted, fleet: Fleet) -> ToPlace:
    """All that is known of the instances before placement; those that fail before it have their error."""
    specs = {name: request.spec for name, request in wanted.requests.items()}
    unsaid = {name: request.unsaid for name, request in wanted.requests.items()}
    alone = wanted.used is None  # the hosts decide together, without a registry
    instances = sort_out(specs, fleet, wanted.lost, wanted.strict, not (wanted.needs_majority and alone), unsaid)
    _refuse_old_copies(instances, fleet, wanted.ended)
    if wanted.takes_over:
        take_over.mark(instances, fleet, wanted.lost, wanted.disks_of, wanted.seen, wanted.backups, wanted.from_backup)
    locks.hold_locked(instances, {name: request.locked_by for name, request in wanted.requests.items()}, fleet)
    for name, instance in instances.items():
        instance.update(wanted.requests[name].after_the_build)  # type: ignore[typeddict-item]
        kept_entries.tell(instance, wanted.requests[name].kept)
    # the hosts that do not report what they hold, except lost ones, and why
    silent = {host: why for host, why in fleet.verdicts.items() if alone and host not in wanted.lost}
    groups.set_members(instances, fleet)
    groups.refuse_unseen(instances, fleet, silent)
    lost_data.settle(instances, fleet, wanted.lost, wanted.rebuilt)
    quotas.before_placement(instances, fleet, wanted.quotas, wanted.used)
    found = ToPlace(instances, _give_addresses(wanted, instances, fleet, silent))
    if wanted.least:
        found.reduced = quotas.hold_to_count(instances, wanted.least)
    return found


def _refuse_old_copies(instances: Dict[str, Instance], fleet: Fleet, ended: Mapping[str, int]) -> None:
    """What a host has of an instance that was deleted or made elsewhere since: it was lost, and is back."""
    for name, instance in instances.items():
        place = fleet.place_on(instance["uuid"], instance.get("host"))
        epoch = place["generation"][0] if place and place["role"] == OWN and place["generation"] else None
        if epoch is not None and epoch <= ended.get(instance["uuid"], -1):
            text = "%s has a record of %s of epoch %d, and the registry knows that the instance ended in epoch %d"
            said = text % (instance["host"], name, epoch, ended[instance["uuid"]])
            fail(instance, RecordOutdated(said, hint=registry_hints.delete_old_copy(name, str(instance["host"]))))


def _give_addresses(
    wanted: Wanted, instances: Dict[str, Instance], fleet: Fleet, silent: Mapping[str, str]
) -> Dict[str, Any]:
    """Choose addresses from pools: never one that a host reports or that the inventory gives to an instance. Return those
    that are kept."""
    on_hosts = {host: document["instances"] for host, document in fleet.documents.items()}
    guests = addressing.of_guests(on_hosts)
    addressing.refuse_taken(instances, guests)
    if not any(nic.get("pool") for instance in instances.values() for nic in instance["spec"]["networks"]):
        addressing.give(instances, {}, silent)
        return {}
    kept = {**guests, **wanted.fixed()}
    reserved = addressing.reserved(instances, kept)
    addressing.give(instances, {**kept, **addressing.held_by(instances, on_hosts)}, silent)
    return reserved


def named_by(instance: Instance) -> Set[str]:
    """The hosts that have a part in its creation: its own, its alternates, and those with a claim that an ended run left."""
    alternates = (each["host"] for each in instance.get("alternates", ()))
    return {each for each in (instance.get("host"), *alternates, *instance.get("stale_claims", ())) if each}


def begin(
    wanted: Wanted,
    placed: ToPlace,
    fleet: Fleet,
    max_attempts: int,
    new_token: Callable[[], str],
    digests: Mapping[str, Any],
    settled: Optional[Mapping[str, Iterable[SettledInstance]]] = None,
) -> Procedure[Plan]:
    """The plan of what is ``placed``, with its first round. Where nothing is to be claimed all hosts are told here who owns what;
    else they are after the claims. ``settled``: host -> the instances that are as their records say."""
    instances = placed.instances
    for instance in instances.values() if wanted.dry else ():
        if instance["state"] == CLAIMING:
            instance["state"], instance["token"] = PLANNED, new_token()
    alone = wanted.used is None
    hosts: Dict[str, Any] = {host: {"uuid": uuid} for host, uuid in fleet.uuids().items()}
    hosts.update({host: {"reason": reason} for host, reason in fleet.verdicts.items()})
    if not alone:
        acting = {name for each in instances.values() for name in named_by(each)}
        hosts = {name: hosts[name] for name in hosts if name in acting}
    plan = new_plan(wanted.run, instances, hosts, max_attempts, gossip.whereabouts(fleet) if alone else {})
    plan["members"] = fleet.member_lists if wanted.needs_majority and alone else {}
    plan["unprepared"], plan["kept_addresses"] = fleet.unprepared(), placed.kept_addresses
    plan["least"] = wanted.least
    prepare_round(plan, new_token)
    pass_over_unchanged(plan, settled or {})
    if not plan["claims"] and not wanted.dry:
        yield from tell_owners(plan["told"], {host: digests.get(host) for host in plan["reachable"]})
    return plan
