# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The registry in an engine that all controllers share. What an instance takes is reserved there in one transaction, with the
intent to make it on its host; then that host is asked, whose lock decides. Before the build the intent is confirmed: of two
runs that follow the same intent, or of which one takes it over, only one gets that far. So only hosts that are to act are asked.

An intent of a run that was killed stays. It names the host, which a later run asks: see whereabouts().
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import Any, Callable, Collection, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple, TypeVar

from ...model import hints
from ...model.address_clash import AddressTaken, Index
from ...model.errors import BerthError, InstanceExists
from ...model.lifecycle import OWN
from ...model.messages import ClaimResult, Document, Note
from ...model.quota import Amounts
from .. import addressing, groups, quotas
from ..commit import claim_refused, result_of, settle_batch
from ..errors import ClaimConflict, GroupPolicyViolation, RegistryUnknown
from ..fleet import Fleet, Report
from ..plan import (
    ACTIVE,
    BUILDING,
    CLAIMING,
    EXISTING,
    FAILED,
    Instance,
    Plan,
    add_claim,
    fail,
    host_of,
    withdraw_claim,
)
from ..procedures.steps import Ask, Found, Procedure, Scan
from . import holdings, hosts, keys
from .interface import claim
from .transactions import Draft, RegistryBusy, check_open, heard, read_keys, transacted

NAME = "the registry"  # in place of a host that remembers, in what people read
PLACED_AGAIN = 30
Result = TypeVar("Result")
HELD = ("InstanceExists", "InstanceBusy")  # codes of a host


class RegistryOutdated(BerthError):
    """Another run has taken or given back room on the host since it was chosen. A host is chosen again."""


@dataclasses.dataclass
class Known:
    """What the registry knows of instances: ``entries`` by uuid, of those that it knows, and ``versions`` of them; ``used``:
    what each project uses; ``names``: uuid -> name of the hosts that own one of them, or were to get it, whom a run has to ask;
    ``given_up``: of those that were lost, and may be back."""

    entries: Dict[str, Document] = dataclasses.field(default_factory=dict)
    versions: Dict[str, int] = dataclasses.field(default_factory=dict)
    used: Dict[str, Amounts] = dataclasses.field(default_factory=dict)
    names: Dict[str, str] = dataclasses.field(default_factory=dict)
    given_up: Dict[str, str] = dataclasses.field(default_factory=dict)

    def asked(self) -> Set[str]:
        """The names of the hosts that a run asks."""
        return {*self.names.values(), *self.given_up.values()}

    def heard(self, reports: Mapping[str, Report]) -> Dict[str, Report]:
        """Without those that were given up and are still away."""
        return {
            host: report
            for host, report in reports.items()
            if "document" in report or host in self.names.values() or host not in self.given_up.values()
        }

    def used_beside(self, lost: Collection[str]) -> quotas.Used:
        """What each project uses without those that are to be made: a run that was killed has begun, or their owner is ``lost``."""
        gone = (None, *self.lost(lost))
        begun = [each for each in self.entries.values() if each["owner"] in gone]
        return quotas.without(
            self.used, (quotas.Request(each["name"], each["project"], each["amounts"]) for each in begun)
        )

    def ended(self) -> Dict[str, int]:
        """The last epoch of those that have no owner."""
        return {uuid: entry["epoch"] for uuid, entry in self.entries.items() if not entry["owner"]}

    def lost(self, lost: Collection[str]) -> List[str]:
        """The uuids of the hosts that ``lost`` names, by name or uuid."""
        return [host for host, name in self.names.items() if {host, name} & set(lost)]

    def names_owner(self, uuid: str, told: Any) -> bool:
        """Whether the owner that a host remembers is one that the registry names for the instance."""
        return bool(told) and uuid in self.entries and told["host_uuid"] in keys.hosts_of(self.entries[uuid])

    def notes(self) -> Dict[str, Note]:
        """The same as a host would remember it."""
        return {uuid: _note(entry, self.names) for uuid, entry in self.entries.items()}


def whereabouts(uuids: Sequence[str]) -> Procedure[Known]:
    """Raises RegistryUnknown, or RegistryClosed where what it knows does not count."""
    entries, versions = yield from _entries(uuids, check_open)
    at = sorted({host for entry in entries.values() for host in keys.hosts_of(entry)})
    left = sorted({host for entry in entries.values() for host in entry["given_up"]})
    return Known(entries, versions, (yield from usage()), (yield from hosts.names(at)), (yield from hosts.names(left)))


def _entries(
    uuids: Sequence[str], check: Callable[[Optional[Found]], None] = lambda _meta: None
) -> Procedure[Tuple[Dict[str, Document], Dict[str, int]]]:
    """By uuid, of those that the registry knows: what it has of them, and the version of that. ``check``: of what is read with it of
    the registry itself."""
    wanted = {keys.instance(uuid): uuid for uuid in uuids}
    found = yield from read_keys([keys.META, *wanted])
    check(found.pop(keys.META, None))
    entries = {wanted[key]: keys.document(key, each) for key, each in found.items()}
    return entries, {wanted[key]: each.revision for key, each in found.items()}


def usage() -> Procedure[Dict[str, Amounts]]:
    """What each project uses."""
    found = (yield Scan(keys.QUOTAS))["found"]
    return {key[len(keys.QUOTAS) :]: keys.document(key, each) for key, each in found.items()}


def addresses() -> Procedure[Index]:
    """Who has which address."""
    found = (yield Scan(keys.ADDRESSES))["found"]
    return {keys.nic_of(key): {uuid: uuid} for key, uuid in ((key, keys.document(key, found[key])) for key in found)}


def fleet_of(
    names: Iterable[str], known: Known, live: Mapping[str, Report], read: Callable[[Dict[str, Report]], Fleet]
) -> Procedure[Tuple[Fleet, Dict[str, hosts.Seen]]]:
    """All hosts of these names, with what the registry has of each. ``live``: what those said that this run has asked; ``read``:
    as read_fleet."""
    seen = {name: _as_known(each, known) for name, each in (yield from hosts.hosts()).items()}
    return with_notes(read(hosts.reports(seen, names, live)), known), seen


def _as_known(seen: hosts.Seen, known: Known) -> hosts.Seen:
    """What a host said last of an instance that the registry knows elsewhere by now is over."""
    left = {uuid: entry["epoch"] for uuid, entry in known.entries.items() if seen.uuid not in keys.hosts_of(entry)}
    return seen._replace(host={**seen.host, "removed": {**seen.host["removed"], **left}}) if left else seen


def with_notes(fleet: Fleet, known: Known) -> Fleet:
    """The fleet with what the registry knows, in place of what hosts remember of each other, beside what those say of themselves
    that were asked, such as that they removed it."""
    # of what a host remembers of another, only that one knows whether it is over: it counts if that one is asked, too
    own: Any = {
        holder: {
            uuid: {**note, "known": note["known"] if known.names_owner(uuid, note["known"]) else None, "planned": []}
            for uuid, note in notes.items()
        }
        for holder, notes in fleet.notes.items()
    }
    fleet.notes = {**own, NAME: known.notes()}
    return fleet


def _note(entry: Document, names: Mapping[str, str]) -> Note:
    def named(host_uuid: str) -> Any:
        return {"host": names.get(host_uuid, host_uuid), "host_uuid": host_uuid}

    owner = entry["owner"]
    known = {**named(owner), "generation": [entry["epoch"], 0]} if owner else None
    begun = [each for each in entry["pending"] if not owner or each["kind"] != keys.CHANGE]
    planned = [{**named(each["host"]), "run": each["run"]} for each in begun]
    # an owner that answers has not let go for a move; where another host takes over, it was given up as lost
    stays = owner and all(each["kind"] == keys.MOVE for each in begun)
    note: Any = {
        "known": known,
        "planned": planned,
        "after": max(0, entry["epoch"] - 1) if stays else entry["epoch"],
        "gone": None,
        "left": None,
    }
    return note


def seen_by(
    known: Known, chosen: Collection[str], seen: Mapping[str, hosts.Seen], lost: Collection[str] = ()
) -> Document:
    """What a plan keeps of it: versions of its instances, the count of takers of each host that was chosen, and which of the hosts
    that had an instance are ``lost``."""
    providers = {each.uuid: each.host["provider"] for name, each in seen.items() if name in chosen}
    return {"versions": known.versions, "providers": providers, "lost": known.lost(lost)}


@dataclasses.dataclass
class OnEngine:
    """``quotas``: by project; ``place``: chooses hosts for instances that have no state; ``hosts``: the names of all; ``read``: as
    fleet_of()."""

    quotas: Mapping[str, Amounts]
    place: Callable[[Dict[str, Instance], Fleet], None]
    hosts: Collection[str]
    read: Callable[[Dict[str, Report]], Fleet]

    def reserve(self, plan: Plan, new_token: Callable[[], str]) -> Procedure[None]:
        wanted = [each for each in plan["instances"].values() if each["state"] == CLAIMING]
        plan["claims"] = {}
        taken = []
        for instance in wanted:
            if (yield from self._take(plan, instance, new_token)):
                add_claim(plan, instance, new_token)
                plan["claims"][host_of(instance)][-1]["host_uuid"] = instance["host_uuid"]
                taken.append(instance)
        answers = yield from claim(plan, plan["hosts"], "claims", "withdraw")
        plan["withdraw"] = {}
        for instance in taken:
            reply = answers.get(host_of(instance), {})
            result = result_of(reply, instance["uuid"])
            if result is None or not result.get("claimed"):
                claim_refused(plan, instance, reply, _final_if_held(result))
            else:
                yield from self._confirm(plan, instance)
        plan["claims"] = {}
        ready = (EXISTING,) if settle_batch(plan) else (BUILDING, EXISTING)
        plan["build"] = [name for name, each in plan["instances"].items() if each["state"] in ready]

    def _take(self, plan: Plan, instance: Instance, new_token: Callable[[], str]) -> Procedure[bool]:
        """Reserve, on another host if need be. Return whether it has a place; else it has an error."""
        why: BerthError = RegistryBusy("other runs take what was chosen for %s" % instance["name"])
        for _again in range(PLACED_AGAIN):
            instance["token"] = instance.get("token") or new_token()
            try:
                reserved = functools.partial(self._reserved, plan=plan, instance=instance)
                wanted = holdings.wanted(instance)
                plan["registry"]["providers"][instance["host_uuid"]] = yield from transacted(reserved, wanted)
                return True
            except (RegistryOutdated, GroupPolicyViolation) as outdated:
                why = outdated
                yield from self._place_again(plan, instance)
                if instance["state"] != CLAIMING:
                    return False
            except AddressTaken as error:
                if not (yield from self._choose_address_again(plan, instance)):
                    fail(instance, error)
                    return False
            except BerthError as error:
                fail(instance, error)
                return False
        fail(instance, why)
        return False

    def _reserved(self, draft: Draft, plan: Plan, instance: Instance) -> Procedure[int]:
        """Return how many have taken or given back room on the host by now."""
        uuid, host_uuid = instance["uuid"], instance["host_uuid"]
        key, host = keys.instance(uuid), draft.get(keys.host(host_uuid))
        entry = draft.get(key) or keys.new_instance(instance["name"], instance["project"])
        own = [each for each in entry["pending"] if _is_of(plan["run"], each)]
        if any(each["op"] == instance["token"] and each["host"] == host_uuid for each in own):
            return host["provider"] if host else 0  # the answer was lost
        found = draft.found[key]
        if not own and (found.revision if found else 0) != plan["registry"]["versions"].get(uuid, 0):
            raise _made_meanwhile(plan, instance, entry)
        stays = holdings.lost_owner(instance, entry)
        begun = [each for each in keys.hosts_of(entry) if each != stays]
        has_room = begun == [host_uuid]  # another run's is gone on with, and the host may have begun: it stays there
        if not host:
            raise RegistryOutdated("the registry knows %s no more" % instance["host"])
        if not has_room and host["provider"] != plan["registry"]["providers"].get(host_uuid):
            yield from self._fit(draft, instance)
            plan["registry"]["providers"][host_uuid] = host["provider"]  # so far it need not be looked at again
        lost = plan["registry"]["lost"]
        # an owner there said that it removed it, or is given up as lost
        for left in set(begun) - {host_uuid}:
            yield from holdings.leave_host(draft, uuid, left, entry["epoch"])
            keys.give_up(entry, [left] if left in lost else [])
        entry["epoch"] = entry["epoch"] if stays else max(entry["epoch"], keys.epoch_of(instance))
        yield from holdings.take(draft, instance, entry, self.quotas, _names(plan), lost)
        intent = keys.intent(plan["run"], keys.CREATE, host_uuid, instance["token"], claimed=False)
        draft.put(key, {**entry, "owner": stays, "pending": [intent]})
        provider: int = host["provider"] + 1
        return provider

    def _fit(self, draft: Draft, instance: Instance) -> Procedure[None]:
        """Let the instance fit its host as that is now. Raise RegistryOutdated if it does not, or other hosts count, too."""
        seen = yield from hosts.of_draft(draft, instance["host_uuid"])
        again: Instance = {**instance, "alternates": []}
        del again["state"]
        if instance["host"] in seen and not instance["spec"].get("group"):
            self.place({instance["name"]: again}, self.read(hosts.reports(seen, list(seen), {})))
        if again.get("state") != CLAIMING:
            text = "%s is not as it was when it was chosen for %s"
            raise RegistryOutdated(text % (instance["host"], instance["name"]))
        instance.update({**again, "alternates": instance["alternates"]})

    def _place_again(self, plan: Plan, instance: Instance) -> Procedure[None]:
        fleet, seen = yield from fleet_of(self.hosts, Known(), {}, self.read)
        instance.pop("state")
        instance["host"], instance["alternates"], instance["token"] = None, [], None
        groups.set_members({instance["name"]: instance}, fleet)
        self.place({instance["name"]: instance}, fleet)
        for name in (instance["host"], *(each["host"] for each in instance["alternates"])):
            if name is not None and name in seen:
                uuid = fleet.documents[name]["uuid"]
                plan["hosts"][name] = {"uuid": uuid}
                plan["uuids"][name] = uuid
                plan["registry"]["providers"][uuid] = seen[name].host["provider"]
        plan["reachable"] = [name for name, host in plan["hosts"].items() if "uuid" in host]

    def _choose_address_again(self, plan: Plan, instance: Instance) -> Procedure[bool]:
        return addressing.choose_again(instance, (yield from addresses()), plan.get("kept_addresses", {}))

    def _confirm(self, plan: Plan, instance: Instance) -> Procedure[None]:
        """The host has claimed it. Build it, unless another run has taken over the intent meanwhile."""

        def change(draft: Draft) -> Procedure[bool]:
            intent = yield from _own_intent(draft, plan, instance)
            if intent and not intent["claimed"]:
                key = keys.instance(instance["uuid"])
                draft.put(key, {**draft.get(key), "pending": [{**intent, "claimed": True}]})
            return intent is not None

        try:
            if not (yield from transacted(change, [keys.instance(instance["uuid"])])):
                text = "another run is creating %s; it goes first" % instance["name"]
                raise ClaimConflict(text, hint=hints.another_run())
            instance["state"] = BUILDING
        except BerthError as error:
            withdraw_claim(plan, instance)
            fail(instance, error)

    def owned(self, plan: Plan) -> Procedure[None]:
        """What cannot be told now is told by a later run: the intent says where it was made."""
        for instance in plan["instances"].values():
            generation = (instance.get("result") or {}).get("generation")
            if instance["state"] == ACTIVE and generation:
                uuid, host_uuid = instance["uuid"], instance["host_uuid"]
                yield from heard(functools.partial(owned, uuid=uuid, host_uuid=host_uuid, epoch=generation[0]))

    def release(self, plan: Plan) -> Procedure[None]:
        """What a host has of an instance, or may have, stays reserved: a later run asks that host."""
        yield from claim(plan, plan["reachable"], "withdraw", "faults")
        failed = [each["uuid"] for each in plan["instances"].values() if each["state"] == FAILED]
        with contextlib.suppress(RegistryUnknown, RegistryBusy):
            entries, _versions = yield from _entries(failed)
            own = {uuid: entry for uuid, entry in entries.items() if _has_begun(plan["run"], entry)}
            chosen = {intent["host"] for entry in own.values() for intent in entry["pending"]}
            scans = yield Ask("rescan", {host: {} for host in plan["reachable"] if plan["uuids"][host] in chosen})
            # by the machine that answered: another one may have the name
            held = {scan.get("host_uuid"): scan["instances"] for scan in scans.values() if "instances" in scan}
            for uuid in own:
                without = {at for at, records in held.items() if uuid not in [each["uuid"] for each in records]}
                yield from transacted(functools.partial(given_back, run=plan["run"], uuid=uuid, without=without))


@dataclasses.dataclass(frozen=True)
class RemovesOnEngine:
    """What a delete tells the engine. ``known``: what that knew when the instances were located; ``lost``: the hosts that are
    gone for good."""

    known: Known
    lost: Collection[str] = ()

    def removed(self, gone: Iterable[Mapping[str, Any]], _hosts: Iterable[str]) -> Procedure[None]:
        """What cannot be told now is told by a later run: its hosts say that they removed it."""
        for task in gone:
            try:
                yield from transacted(
                    functools.partial(self._removed, uuid=task["uuid"], after=task.get("after") or [0])
                )
            except (RegistryUnknown, RegistryBusy):
                continue

    def _removed(self, draft: Draft, uuid: str, after: Sequence[int]) -> Procedure[None]:
        key = keys.instance(uuid)
        yield from draft.read(key)
        found, entry = draft.found[key], draft.get(key)
        if found and found.revision == self.known.versions.get(uuid) and (keys.hosts_of(entry) or entry["holds"]):
            keys.give_up(entry, set(keys.hosts_of(entry)).intersection(self.known.lost(self.lost)))
            yield from removed_from(draft, uuid, entry, max(after[0], entry["epoch"]), built=True)


def chosen(choice: Procedure[Result], at: Mapping[str, str]) -> Procedure[Result]:
    """A person has chosen the copy, or the record, that counts: carry that out, and have the registry hear it from its host.
    ``at``: instance uuid -> that host."""
    result = yield from choice
    scans = yield Ask("rescan", {host: {} for host in sorted(set(at.values()))})
    for host, scan in scans.items():
        for record in scan.get("instances") or ():
            if record["role"] == OWN and at.get(record["uuid"]) == host:
                epoch = record["generation"][0]
                yield from heard(
                    functools.partial(owned, uuid=record["uuid"], host_uuid=scan["host_uuid"], epoch=epoch)
                )
    return result


def _final_if_held(result: Optional[ClaimResult]) -> Optional[ClaimResult]:
    """A host that has something of the instance already: what, a later run asks it. No other one is tried."""
    error = result.get("error") if result else None
    if result is None or error is None or error["code"] not in HELD:
        return result
    return {**result, "error": {**error, "retryable": False}}


def _names(plan: Plan) -> Dict[str, str]:
    return {uuid: name for name, uuid in plan["uuids"].items()}


def _made_meanwhile(plan: Plan, instance: Instance, entry: Document) -> BerthError:
    name, names = instance["name"], _names(plan)
    if entry["owner"]:
        host = names.get(entry["owner"], entry["owner"])
        return InstanceExists("%s was created on %s meanwhile" % (name, host), hint=hints.create_again())
    return ClaimConflict("another run has just begun or ended with %s" % name, hint=hints.another_run())


def _own_intent(draft: Draft, plan: Plan, instance: Instance) -> Procedure[Optional[Document]]:
    key = keys.instance(instance["uuid"])
    yield from draft.read(key)
    pending: Iterable[Document] = (draft.get(key) or {}).get("pending", ())
    own = (each for each in pending if (each["run"], each["op"]) == (plan["run"], instance["token"]))
    return next(own, None)


def owned(draft: Draft, uuid: str, host_uuid: str, epoch: int) -> Procedure[None]:
    """Where the registry has an intent for this host, or the record there is later than what it knows, as after a person has
    chosen the copy there. Of any other difference an audit decides."""
    key = keys.instance(uuid)
    yield from draft.read(key)
    entry = draft.get(key)
    if not entry:
        return
    intended = [each["host"] for each in entry["pending"] if each["kind"] == keys.CREATE] == [host_uuid]
    if intended or epoch > entry["epoch"]:
        now = {**entry, "owner": host_uuid, "epoch": max(epoch, entry["epoch"]), "pending": []}
        if intended and entry["owner"]:  # it was taken over from there
            keys.give_up(now, [entry["owner"]])
        yield from holdings.follow(draft, uuid, entry, now)


def _has_begun(run: str, entry: Document) -> bool:
    return any(_is_of(run, each) for each in entry["pending"])


def _is_of(run: str, intent: Document) -> bool:
    """Whether it is one to create it, of this run."""
    return bool((intent["run"], intent["kind"]) == (run, keys.CREATE))


def given_back(draft: Draft, run: str, uuid: str, without: Collection[str]) -> Procedure[None]:
    """What the run has reserved, if the host is among those ``without`` a record of it."""
    yield from draft.read(keys.instance(uuid))
    entry = draft.get(keys.instance(uuid))
    if entry and _has_begun(run, entry) and all(each["host"] in without for each in entry["pending"]):
        if entry["owner"]:  # it was to be taken over from there
            yield from holdings.follow(draft, uuid, entry, {**entry, "pending": []})
        else:
            yield from removed_from(draft, uuid, entry, entry["epoch"] + 1, built=False)


def removed_from(draft: Draft, uuid: str, entry: Document, epoch: int, built: bool) -> Procedure[None]:
    """No host has the instance any more: it gives back all, see drop(), and its epoch stays."""
    for host_uuid in keys.hosts_of(entry):
        yield from holdings.leave_host(draft, uuid, host_uuid, epoch)
    yield from holdings.drop(draft, uuid, entry, built)
    draft.put(keys.instance(uuid), {**entry, "epoch": max(epoch, entry["epoch"])})
