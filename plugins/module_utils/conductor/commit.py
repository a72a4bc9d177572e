# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of each claim after all hosts were read again (name, quota, group, addresses): build it, withdraw it, or
try another host; and which plans of earlier runs created nothing, so that the hosts forget them.

Of two runs that write a claim and then read, at least one sees the other; give_way decides what it does then.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Collection, Dict, List, Mapping, Optional, Set, Tuple, TypedDict

from ..model import address_clash, fleet_hints, hints, input_hints
from ..model.errors import BerthError, InstanceExists
from ..model.identity import DEFAULT_PROJECT
from ..model.lifecycle import CLAIM, OWN
from ..model.messages import ClaimResult, Note, ScannedRecord, ScannedVolume
from . import addressing, groups, majority, volume_hosts
from .addressing import addresses
from .errors import ClaimConflict, InstanceMoving
from .next_host import attempt_failed, said_by
from .notes import Answers, Notes, called, check_absent, put_together
from .plan import (
    ACTIVE,
    BUILDING,
    CLAIMING,
    EXISTING,
    FAILED,
    Instance,
    Plan,
    PlannedInstance,
    fail,
    host_of,
    withdraw,
    withdraw_claim,
)
from .quotas import OverQuota


class Claimed(TypedDict, total=False):
    """A host's answer to the claims of this round, or the ``reason`` why it gave none."""

    results: List[ClaimResult]
    error: Mapping[str, str]
    reason: str


class Scan(TypedDict, total=False):
    """What a host reported when it was read after the claims, or the ``reason`` why it reported nothing."""

    host_uuid: str
    instances: List[ScannedRecord]
    notes: Dict[str, Note]
    volumes: List[ScannedVolume]
    error: Mapping[str, str]
    reason: str


@dataclasses.dataclass(frozen=True)
class AfterClaims:
    """All hosts after the claims. ``records``: host -> instance uuid -> record, of the hosts that answered."""

    scans: Dict[str, Scan]
    records: Dict[str, Dict[str, ScannedRecord]]
    lost: Collection[str]

    def addresses(self) -> address_clash.Index:
        return addresses({host: found.values() for host, found in self.records.items()})

    def elsewhere(self, instance: Instance) -> List[Tuple[str, ScannedRecord]]:
        """(host, record) of the instance on other hosts than its own."""
        uuid = instance["uuid"]
        return [(host, held[uuid]) for host, held in self.records.items() if host != instance["host"] and uuid in held]

    def silent(self, plan: Plan) -> Dict[str, str]:
        """The hosts that do not answer, except lost ones, and why."""
        return {
            host: answer["reason"]
            for host, answer in plan["hosts"].items()
            if "reason" in answer and host not in self.lost
        }

    def answers(self, plan: Plan) -> Answers:
        names = {scan["host_uuid"]: name for name, scan in self.scans.items()}
        return Answers(names, self.lost, silent=self.silent(plan), called=self.known_as)

    @functools.cached_property
    def own_names(self) -> Dict[Tuple[str, str], Dict[str, str]]:
        """(project, name) of the instances whose uuid does not follow from it -> their uuids and hosts."""
        names: Dict[Tuple[str, str], Dict[str, str]] = {}
        for host, found in self.records.items():
            for uuid, record in found.items():
                if "own_name" in record:
                    names.setdefault((record["project_id"] or DEFAULT_PROJECT, record["own_name"]), {})[uuid] = host
        return names

    @functools.cached_property
    def known_as(self) -> Dict[str, Set[str]]:
        """Host name -> the uuids of the hosts that any host remembers by that name."""
        return called(scan.get("notes") or {} for scan in self.scans.values())

    def notes_on(self, instance: Instance) -> Notes:
        """What the hosts remembered before this run and remember after its claim; of each host the later."""
        uuid = instance["uuid"]
        later = {
            scan["host_uuid"]: scan["notes"][uuid] for scan in self.scans.values() if uuid in (scan.get("notes") or {})
        }
        return put_together({**(instance.get("notes") or {}), **later})


def commit(
    plan: Plan,
    claims: Mapping[str, Claimed],
    scans: Mapping[str, Scan],
    lost_hosts: Collection[str] = (),
    over_quota: Optional[OverQuota] = None,
) -> None:
    """Decide for each claim. ``claims`` and ``scans`` are by host."""
    plan["withdraw"] = {}
    for host, scan in scans.items():
        planned = plan["hosts"][host].get("uuid")
        if planned and "instances" not in scan:
            plan["hosts"][host] = {"reason": _why(scan, "did not answer")}
        elif planned and scan["host_uuid"] != planned:
            # what was planned for the one machine is nothing that the other may build
            plan["hosts"][host] = {"reason": "another machine answers by its name than before (%s)" % scan["host_uuid"]}
    seen = {host: scan for host, scan in scans.items() if "uuid" in plan["hosts"][host]}
    records = {host: {record["uuid"]: record for record in scan["instances"]} for host, scan in seen.items()}
    after = AfterClaims(seen, records, set(lost_hosts))
    for instance in plan["instances"].values():
        if instance["state"] == CLAIMING:
            nothing = _came_to_nothing(plan, instance, after)
            plan["ended"] += [entry for entry in nothing if entry not in plan["ended"]]
            _commit_claim(plan, instance, claims.get(host_of(instance), {}), after)
    volume_hosts.check_claims(plan, seen, after.silent(plan), after.lost)
    _check_addresses(plan, after)
    _check_groups(plan, after)
    if over_quota:
        _check_quota(plan, after, over_quota)
    plan["claims"] = {}
    ready = (EXISTING,) if settle_batch(plan) else (BUILDING, EXISTING)
    plan["build"] = [name for name, instance in plan["instances"].items() if instance["state"] in ready]


def _why(reply: Scan, silent: str) -> str:
    """Why a host gave no answer; ``silent`` if its reply gives no reason."""
    error = reply.get("error")
    return "%s: %s" % (error["code"], said_by(error, silent)) if error else reply.get("reason", silent)


def _commit_claim(plan: Plan, instance: Instance, reply: Claimed, after: AfterClaims) -> None:
    host, uuid, name = host_of(instance), instance["uuid"], instance["name"]
    result = result_of(reply, uuid)
    error = result.get("error") if result else None
    taken = error is not None and error["code"] == address_clash.AddressTaken.__name__
    if taken and _chosen_again(plan, instance, after.addresses()):
        instance["token"] = None
    elif result is None or not result.get("claimed"):
        claim_refused(plan, instance, reply, result)
    elif host not in after.scans:
        why = plan["hosts"][host].get("reason", "did not answer after the claim")
        attempt_failed(plan, instance, "HostUnreachable", why, retryable=True)
    elif uuid not in after.records[host] or after.records[host][uuid]["token"] != instance["token"]:
        text = "another run has taken over the claim of %s on %s" % (name, host)
        fail(instance, ClaimConflict(text, hint=hints.another_run()))
    else:
        _check_the_only_claim(plan, instance, after)


def result_of(reply: Claimed, uuid: str) -> Optional[ClaimResult]:
    return next((entry for entry in reply.get("results", ()) if entry.get("uuid") == uuid), None)


def claim_refused(plan: Plan, instance: Instance, reply: Claimed, result: Optional[ClaimResult]) -> None:
    """Another host is tried, or the instance fails. ``result``: of its claim, None if the host gave none."""
    if result is not None:
        error = result.get("error") or {}
        code, message = error.get("code", "ClaimFailed"), said_by(error, "the claim was refused")
        attempt_failed(plan, instance, code, message, error.get("retryable", True))
    elif reply.get("error"):
        refused = reply["error"]
        attempt_failed(plan, instance, refused["code"], said_by(refused, "the claim was refused"), retryable=True)
    else:
        attempt_failed(
            plan, instance, "HostUnreachable", reply.get("reason", "did not answer the claim"), retryable=True
        )


def _check_the_only_claim(plan: Plan, instance: Instance, after: AfterClaims) -> None:
    """The claim stands. Build the instance unless another host has it, or may have it."""
    name, others = instance["name"], after.elsewhere(instance)
    owner = next((host for host, record in others if record["role"] == OWN), None)
    moving = next((host for host, record in others if record["role"] not in (OWN, CLAIM)), None)
    if others and not (owner or moving):
        give_way(plan, instance, others)
        return
    try:
        if owner:
            raise InstanceExists("%s was created on %s meanwhile" % (name, owner), hint=hints.create_again())
        if moving:
            raise InstanceMoving("%s is in the middle of a move on %s" % (name, moving), hint=hints.finish_move(name))
        named = after.own_names.get((instance["project"], name), {})
        others_named = [host for uuid, host in named.items() if uuid != instance["uuid"]]
        if others_named:
            text = "an instance on %s was given the name %s meanwhile" % (others_named[0], name)
            raise InstanceExists(text, hint=fleet_hints.another_new_name())
        check_absent(name, after.notes_on(instance), after.answers(plan), plan["run"])
        _check_majority(plan, name, after)
        instance["state"] = BUILDING
    except BerthError as error:
        withdraw_claim(plan, instance)
        fail(instance, error)


def _check_majority(plan: Plan, name: str, after: AfterClaims) -> None:
    """Hosts may have fallen silent since they were asked first."""
    answers = after.answers(plan)
    lists = {uuid: own for uuid, own in plan.get("members", {}).items() if uuid in answers.names}
    majority.check(name, lists, answers.names, answers.gives_up)


def _came_to_nothing(plan: Plan, instance: Instance, after: AfterClaims) -> List[PlannedInstance]:
    """The plans of earlier runs that created nothing: this run knew of them before it read the planned host, and the
    instance was not there. A plan that was written only since proves nothing: its claim may have come after that
    host was read."""
    names, uuid = after.answers(plan).names, instance["uuid"]
    return [
        {"uuid": uuid, "host_uuid": note.host_uuid, "run": note.run}
        for note in put_together(instance.get("notes") or {}).planned
        if note.host_uuid in names and note.run != plan["run"] and uuid not in after.records[names[note.host_uuid]]
    ]


def _building(plan: Plan) -> List[Instance]:
    return [instance for instance in plan["instances"].values() if instance["state"] == BUILDING]


def _check_addresses(plan: Plan, after: AfterClaims) -> None:
    """If two instances would get the same address, at least one of the runs that claimed for them sees it here."""
    held = after.addresses()
    silent = after.silent(plan)
    for instance in _building(plan):
        try:
            addressing.check_seen(instance, silent)
        except BerthError as error:
            withdraw_claim(plan, instance)
            fail(instance, error)
            continue
        clash = address_clash.clash(instance["spec"], held)
        if clash:
            withdraw_claim(plan, instance)
            if _chosen_again(plan, instance, held):
                instance["state"], instance["token"] = CLAIMING, None
            else:
                fail(instance, clash)


def _chosen_again(plan: Plan, instance: Instance, held: address_clash.Index) -> bool:
    return addressing.choose_again(instance, held, plan.get("kept_addresses", {}))


def _check_groups(plan: Plan, after: AfterClaims) -> None:
    """Affinity spans hosts, so it is checked here; each host checks anti-affinity itself, under its lock."""
    held = {host: list(found.values()) for host, found in after.records.items()}
    records, silent = [record for found in held.values() for record in found], after.silent(plan)
    for instance in _building(plan):
        try:
            groups.check_seen(instance, records, silent)
        except BerthError as unseen:
            withdraw_claim(plan, instance)
            fail(instance, unseen)
            continue
        elsewhere = groups.elsewhere(instance["spec"], host_of(instance), held)
        error = groups.violation(instance["spec"], elsewhere)
        if error:
            withdraw_claim(plan, instance)
            # only the host that has the members can satisfy the policy
            instance["alternates"] = [
                alternate for alternate in instance["alternates"] if alternate["host"] == elsewhere[0]
            ]
            attempt_failed(plan, instance, error.code, str(error), retryable=True)


def _check_quota(plan: Plan, after: AfterClaims, over_quota: OverQuota) -> None:
    """Count again now that all claims are visible; the last instances of this run give way first."""
    over = over_quota(_building(plan), list(after.scans.values()))
    for instance in _building(plan):
        if instance["uuid"] in over:
            withdraw_claim(plan, instance)
            fail(instance, over[instance["uuid"]])


# Two runs create the same instance at the same time: the run whose claim has the smaller token goes first.
#
# Both claims are withdrawn. The run that goes first tries again, on another host if it has one; the other run ends.


def give_way(plan: Plan, instance: Instance, others: List[Tuple[str, ScannedRecord]]) -> None:
    """``others``: (host, record) of the claims of the same instance on other hosts."""
    stale = [(host, record) for host, record in others if host in instance.get("stale_claims", ())]
    if len(stale) == len(others):
        # left by runs that ended: drop them, then read again; a run that is still alive keeps its claim by building
        for host, record in stale:
            withdraw(plan, host, instance["uuid"], record["token"])
        instance["stale_claims"] = []
        return
    withdraw_claim(plan, instance)
    host, record = min(others, key=lambda entry: entry[1]["token"])
    if record["token"] < (instance["token"] or ""):
        text = "another run is creating %s on %s; it goes first" % (instance["name"], host)
        fail(instance, ClaimConflict(text, hint=hints.another_run()))
    else:
        attempt_failed(plan, instance, "ClaimConflict", "another run was creating it on %s" % host, retryable=True)


# A batch (berth_count) after its claims: it is built when enough of it have theirs, and else nothing of it is. Once a build
# has ended well, the others stay whatever becomes of one, as in Nova.


class BatchWithdrawn(BerthError):
    """The instance was asked for together with others (berth_count), and fewer than that can be had: none was built."""


def settle_batch(plan: Plan) -> bool:
    """Give the batch up if too few of it can be had. Return whether its builds have to wait for claims that are tried again."""
    least, batch = plan.get("least", 0), plan["instances"].values()
    built = any(instance["state"] == ACTIVE and not instance.get("existing") for instance in batch)
    if not least or built:
        return False
    failed = [instance for instance in batch if instance["state"] == FAILED]
    waiting = [instance for instance in batch if instance["state"] in (CLAIMING, BUILDING)]
    if len(batch) - len(failed) >= least:
        return any(instance["state"] == CLAIMING for instance in waiting)
    first = failed[0]
    why = "%s could not be had: %s" % (first["name"], (first["error"] or {}).get("message"))
    for instance in waiting:
        if instance["state"] == BUILDING:
            withdraw_claim(plan, instance)
        text = "%s is one of %d that were asked for together, of which at least %d have to be made. %s"
        fail(
            instance,
            BatchWithdrawn(text % (instance["name"], len(batch), least, why), hint=input_hints.accept_fewer()),
        )
    return False
