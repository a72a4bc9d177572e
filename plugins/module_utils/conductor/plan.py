# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The course of a create: what is claimed where, what is built, what is tried next, and what hosts note at its end.

A plan is plain data and is passed from play to play. Each function takes a plan and updates it with what the hosts
answered; nothing here talks to a host. The rounds are: claims -> (hosts claim, then all are read again) -> commit.py ->
(hosts build) -> build_results.py -> claims of the next round.

The states of an instance: claiming -> building -> active, existing (it exists, its host converges it), unconfirmed (it
exists, resized: nothing is done until that is confirmed or reverted), away (its host was closed and is off), planned
(check mode would create it), failed.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, TypedDict

from ..model.errors import BerthError
from ..model.messages import Claim, Document, ErrorReply, Note
from .miscounting import LEAP

CLAIMING, BUILDING, ACTIVE, EXISTING, UNCONFIRMED, AWAY, PLANNED, FAILED = (
    "claiming",
    "building",
    "active",
    "existing",
    "unconfirmed",
    "away",
    "planned",
    "failed",
)
# The most attempts of a create. Each attempt is a round of the playbook, in which all hosts are asked.
MAX_ROUNDS = 5


class Attempt(TypedDict):
    """A host that was tried without success, and why it failed."""

    attempt: int
    host: str
    code: str
    cause: str


class PlannedInstance(TypedDict):
    """Where a run plans to create an instance, as sent to the hosts."""

    uuid: str
    host_uuid: str
    run: str


class Alternate(TypedDict, total=False):
    """A host that placement chose, with the allocation there and the limits that the claim must respect."""

    host: str
    host_uuid: str
    allocation: Document
    limits: Document
    zone: Optional[str]


class Instance(TypedDict, total=False):
    """An instance of a plan. Without ``state`` it is not placed yet."""

    uuid: str
    name: str
    project: str
    spec: Document
    state: str
    host: Optional[str]
    host_uuid: str
    zone: Optional[str]  # the availability zone of that host
    limits: Optional[Document]
    allocation: Optional[Document]
    alternates: List[Alternate]
    token: Optional[str]
    attempts: List[Attempt]
    error: Optional[Document]
    why: str
    choices: int  # how often addresses were chosen anew, see addressing.py
    given_up: bool  # placement has no further host for it
    gives_up: str  # that it is made empty, and what a lost host may have of it
    take_over: str  # the uuid of the lost host that owns its disks
    from_backup: bool  # an evacuation has its disks restored from its newest backup
    existing: bool
    changed: bool
    locked: str  # who locked it
    mend: bool  # undo what somebody changed in libvirt
    berth_state: str  # active or stopped; without it an existing instance is left as it is
    notes: Dict[str, Note]  # what each host remembered of it before this run
    generation: List[int]
    stale_claims: List[str]  # hosts with claims of runs that ended
    taken_gb: List[int]  # of the volumes whose claims it takes from an update_disks that was killed
    outlived: List[PlannedInstance]  # plans to create it on hosts that are given up as lost
    uncertain: List[PlannedInstance]  # where it may have been created in spite of a failure
    old_flavor: Document  # of an instance that is resized
    result: Document  # what its host reports about it after the build
    known_address: Optional[str]  # where its guest is reached, by a host that has looked
    content: Optional[Document]  # of the flavor that its record has
    differs: List[str]  # how the inventory differs from its record, by the facts
    unsaid: List[str]  # parts of the request that nobody has given: what it has of them is no difference


class HostAnswer(TypedDict, total=False):
    """A host of a plan: its uuid, or the reason why it does not count."""

    uuid: str
    reason: str


class Plan(TypedDict, total=False):
    """The plan of a create. ``rescan`` and ``tell`` are what the hosts are sent, see compute/record/whereabouts.py."""

    run: str
    round: int
    max_attempts: int
    least: int  # how many instances of a batch are built, or none, see commit.py
    hosts: Dict[str, HostAnswer]
    uuids: Dict[str, str]
    told: Document
    members: Dict[str, Document]  # which hosts belong to the fleet, see majority.py; none if no majority is needed
    planned: List[PlannedInstance]  # what this run plans to create, and where
    kept_addresses: Dict[str, Dict[str, str]]  # what pools give out to nobody, see addressing.reserved()
    ended: List[PlannedInstance]  # plans that created nothing, also those of earlier runs
    tell: Document
    unprepared: Dict[str, str]  # hosts that get no new instances, and what to do about it
    instances: Dict[str, Instance]
    claims: Dict[str, List[Claim]]
    withdraw: Dict[str, List[Dict[str, str]]]
    build: List[str]
    failed: List[str]
    faults: Dict[str, List[Document]]
    reachable: List[str]
    rescan: Document
    registry: (
        Document  # what the engine knew when hosts were chosen, see registry/engine.py; none if there is no engine
    )


class Built(TypedDict, total=False):
    """A host's answer to a build: {instance, changed, diff}, {error}, or {reason} if it did not answer."""

    instance: Document
    changed: bool
    diff: Document
    error: ErrorReply
    reason: str


def new_plan(
    run: str,
    instances: Dict[str, Instance],
    hosts: Dict[str, HostAnswer],
    max_attempts: int,
    told: Optional[Document] = None,
) -> Plan:
    """``hosts`` and ``instances`` are by inventory name; ``told``: what hosts are sent about each other's instances."""
    plan: Plan = {
        "run": run,
        "round": 0,
        "max_attempts": max_attempts,
        "hosts": hosts,
        "uuids": {name: host["uuid"] for name, host in hosts.items() if "uuid" in host},
        "told": told or {},
        "planned": [],
        "ended": [],
        "tell": {},
        "instances": instances,
        "claims": {},
        "withdraw": {},
        "build": [],
    }
    for instance in instances.values():
        instance.setdefault("attempts", [])
        instance.setdefault("error", None)
    return plan


def prepare_round(plan: Plan, new_token: Callable[[], str]) -> None:
    """Set the next steps: claims {host: [{spec, token, limits}]}, what to ask and tell all hosts, and what to build."""
    plan["round"] += 1
    plan["failed"] = [name for name, instance in plan["instances"].items() if instance["state"] == FAILED]
    plan["build"] = [name for name, instance in plan["instances"].items() if instance["state"] in (EXISTING, PLANNED)]
    plan["faults"] = _faults(plan)
    plan["claims"] = {}
    for instance in plan["instances"].values():
        if instance["state"] == CLAIMING:
            add_claim(plan, instance, new_token)
    claiming = [instance for instance in plan["instances"].values() if instance["state"] == CLAIMING]
    planned = [planned_instance(plan, instance) for instance in claiming]
    plan["planned"] += [entry for entry in planned if entry not in plan["planned"]]
    plan["reachable"] = [name for name, host in plan["hosts"].items() if "uuid" in host]
    plan["rescan"] = {
        "about": [instance["uuid"] for instance in claiming],
        "told": {
            **plan["told"],
            "planned": planned,
            "after": {each["uuid"]: (each.get("generation") or [0])[0] for each in claiming},
        },
    }
    plan["tell"] = _outcome(plan)


def add_claim(plan: Plan, instance: Instance, new_token: Callable[[], str]) -> None:
    token = instance["token"] = instance.get("token") or new_token()
    claim: Claim = {
        "spec": in_zone(instance["spec"], instance.get("zone")),
        "token": token,
        "limits": instance.get("limits") or {},
        "after": instance.get("generation") or [0, 0],
    }
    plan["claims"].setdefault(host_of(instance), []).append(claim)


def in_zone(spec: Document, zone: Optional[str]) -> Document:
    """The request as its host records it: with the host's availability zone, beside the zone that was asked for."""
    return {**spec, "host_zone": zone}


def host_of(instance: Instance) -> str:
    """The inventory name of the host of an instance that has been placed."""
    host = instance["host"]
    if host is None:
        raise ValueError("%s has not been placed" % instance["name"])
    return host


def planned_instance(plan: Plan, instance: Instance) -> PlannedInstance:
    return {"uuid": instance["uuid"], "host_uuid": plan["uuids"][host_of(instance)], "run": plan["run"]}


def _outcome(plan: Plan) -> Document:
    """What the hosts are sent at the end: who owns what was created, and which plans created nothing. May be {}."""
    known: Dict[str, Dict[str, List[int]]] = {}
    still: List[PlannedInstance] = []
    outlived: List[PlannedInstance] = []
    for instance in plan["instances"].values():
        made = instance["state"] == ACTIVE and not instance.get("existing")
        generation = (instance.get("result") or {}).get("generation") if made else None
        if generation and generation[0] < (instance.get("generation") or [0])[0] + LEAP:
            known.setdefault(plan["uuids"][host_of(instance)], {})[instance["uuid"]] = generation
            outlived += instance.get("outlived", ())
        elif generation or instance["state"] in (CLAIMING, BUILDING):
            still.append(planned_instance(plan, instance))
        still += instance.get("uncertain", ())
    ended = [entry for entry in plan["ended"] + plan["planned"] + outlived if entry not in still]
    names = {host["uuid"]: name for name, host in plan["hosts"].items() if "uuid" in host}
    return {"hosts": names, "known": known, "ended": ended} if known or ended else {}


def _faults(plan: Plan) -> Dict[str, List[Document]]:
    """What the hosts record as vm_state error: {host: [{uuid, name, project_id, host, error {code, message}}]}.

    The last host that was tried and still answers records the failure. If no host was tried, none does.
    """
    faults: Dict[str, List[Document]] = {}
    for instance in plan["instances"].values():
        tried = [attempt["host"] for attempt in instance["attempts"] if "uuid" in plan["hosts"][attempt["host"]]]
        if instance.get("given_up") and tried:
            entry = {
                "uuid": instance["uuid"],
                "name": instance["name"],
                "project_id": instance["project"],
                "host": tried[-1],
                "error": {part: instance["error"][part] for part in ("code", "message")} if instance["error"] else {},
            }
            faults.setdefault(tried[-1], []).append(entry)
    return faults


def fail(instance: Instance, error: BerthError) -> None:
    instance["state"] = FAILED
    instance["error"] = {**error.to_dict(), "message": str(error)}


def withdraw(plan: Plan, host: str, uuid: str, token: str) -> None:
    """Have the host drop a claim at its next request. If the claim got another token meanwhile, it stays."""
    plan["withdraw"].setdefault(host, []).append({"uuid": uuid, "token": token})


def withdraw_claim(plan: Plan, instance: Instance) -> None:
    """Have the instance's host drop the claim of this run."""
    withdraw(plan, host_of(instance), instance["uuid"], instance["token"] or "")
