# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The course of a creation: what is claimed where, what is built, what is tried next.

A plan is plain data and is passed from play to play. Each function here takes one and changes it by what the hosts
answered; nothing here talks to a host. The rounds are: claims -> (hosts claim, then all are read again) -> commit ->
(hosts build) -> settle -> claims of the next round.

An instance in a plan: {uuid, name, project, spec, state, host, limits, allocation, alternates, token, attempts, error, why},
with the states claiming -> building -> active, existing (it is there already, its host converges it), unconfirmed (it is
there, resized: nothing is done before that is confirmed or reverted), planned (check mode: it would be made), failed.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Optional

from ..model import hints, nics
from ..model.errors import BerthError
from ..model.lifecycle import CLAIM, OWN
from ..placement.errors import MaxRetriesExceeded
from . import groups
from .errors import (
    ClaimConflict,
    HostUnknown,
    InstanceExists,
    InstanceMoving,
)
from .notes import Answers, check_absent, put_together

CLAIMING, BUILDING, ACTIVE, EXISTING, UNCONFIRMED, PLANNED, FAILED = (
    "claiming",
    "building",
    "active",
    "existing",
    "unconfirmed",
    "planned",
    "failed",
)
MAX_ROUNDS = 5  # as many as the create playbook has

Plan = Dict[str, Any]
Instance = Dict[str, Any]


def new_plan(
    run: str, instances: Dict[str, Instance], hosts: Dict[str, Dict[str, Any]], max_attempts: int, told=None
) -> Plan:
    """``hosts``: inventory name -> {uuid} or {reason} (no answer); ``instances``: inventory name -> instance, see above.

    ``told`` is what the hosts are told of each other's instances, see compute/record/whereabouts.py. ``planned`` grows by what this
    run means to make where, ``ended`` by what has come to nothing, also of earlier runs.
    """
    plan = {
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
    """Write down what is next: claims {host: [{spec, token, limits}]}, what to ask and tell all hosts, and what to build."""
    plan["round"] += 1
    plan["failed"] = [name for name, instance in plan["instances"].items() if instance["state"] == FAILED]
    plan["build"] = [name for name, instance in plan["instances"].items() if instance["state"] == EXISTING]
    plan["faults"] = _faults(plan)
    plan["claims"] = {}
    for instance in plan["instances"].values():
        if instance["state"] == CLAIMING:
            instance["token"] = instance.get("token") or new_token()
            claim = {"spec": instance["spec"], "token": instance["token"], "limits": instance.get("limits") or {}}
            claim["after"] = instance.get("generation") or [0, 0]
            plan["claims"].setdefault(instance["host"], []).append(claim)
    claiming = [instance for instance in plan["instances"].values() if instance["state"] == CLAIMING]
    planned = [_planned(plan, instance) for instance in claiming]
    plan["planned"] += [one for one in planned if one not in plan["planned"]]
    plan["reachable"] = [name for name, host in plan["hosts"].items() if "uuid" in host]
    plan["rescan"] = {
        "about": [instance["uuid"] for instance in claiming],
        "told": {**plan["told"], "planned": planned},
    }
    plan["tell"] = _outcome(plan)


def _planned(plan: Plan, instance: Instance) -> Dict[str, str]:
    return {
        "uuid": instance["uuid"],
        "host_uuid": plan["uuids"][instance["host"]],
        "run": plan["run"],
    }


def _outcome(plan: Plan) -> Dict[str, Any]:
    """What the hosts are told at the end: who owns what was made, and which plans have come to nothing. {} where nothing."""
    known: Dict[str, Dict[str, Any]] = {}
    still = []
    for instance in plan["instances"].values():
        generation = (instance.get("result") or {}).get("generation")
        if instance["state"] == ACTIVE and generation and not instance.get("existing"):
            known.setdefault(plan["uuids"][instance["host"]], {})[instance["uuid"]] = generation
        elif instance["state"] in (CLAIMING, BUILDING):
            still.append(_planned(plan, instance))
        still += instance.get("uncertain", ())
    ended = [one for one in plan["ended"] + plan["planned"] if one not in still]
    names = {host["uuid"]: name for name, host in plan["hosts"].items() if "uuid" in host}
    return {"hosts": names, "known": known, "ended": ended} if known or ended else {}


def _faults(plan: Plan) -> Dict[str, list]:
    """What the hosts are to remember as vm_state error: {host: [{uuid, name, project_id, host, error {code, message}}]}.

    Each failure is kept by the last host that was tried and still answers. What failed before any host was tried has none.
    """
    faults: Dict[str, list] = {}
    for instance in plan["instances"].values():
        tried = [attempt["host"] for attempt in instance["attempts"] if "uuid" in plan["hosts"][attempt["host"]]]
        if instance.get("given_up") and tried:
            entry = {
                "uuid": instance["uuid"],
                "name": instance["name"],
                "project_id": instance["project"],
                "host": tried[-1],
                "error": {part: instance["error"][part] for part in ("code", "message")},
            }
            faults.setdefault(tried[-1], []).append(entry)
    return faults


def fail(instance: Instance, error: BerthError) -> None:
    instance["state"] = FAILED
    instance["error"] = error.to_dict()
    instance["error"]["message"] = str(error)


def attempt_failed(plan: Plan, instance: Instance, code: str, message: str, retryable: bool) -> None:
    """Keep the cause and go on with the next alternate, or give up with the whole list of attempts."""
    host = instance["host"]
    instance["attempts"].append(
        {"attempt": len(instance["attempts"]) + 1, "host": host, "code": code, "cause": message}
    )
    instance["token"] = None
    instance["given_up"] = True
    if not retryable:
        instance["state"] = FAILED
        instance["error"] = {"code": code, "message": message, "retryable": False}
        return
    tried = {attempt["host"] for attempt in instance["attempts"]}
    left = [
        alternate
        for alternate in instance["alternates"]
        if alternate["host"] not in tried and "uuid" in plan["hosts"][alternate["host"]]
    ]
    if plan["max_attempts"] == 1:
        instance["state"] = FAILED
        instance["error"] = {"code": code, "message": message, "retryable": True}
    elif len(instance["attempts"]) >= plan["max_attempts"]:
        fail(
            instance,
            MaxRetriesExceeded(
                "Exceeded maximum number of retries: %d attempts for instance %s. Last cause: %s"
                % (len(instance["attempts"]), instance["name"], message),
                attempts=instance["attempts"],
            ),
        )
    elif not left:
        fail(
            instance,
            MaxRetriesExceeded(
                "Exhausted all hosts available for retrying build failures for instance %s. Last cause: %s"
                % (instance["name"], message),
                attempts=instance["attempts"],
            ),
        )
    else:
        instance["given_up"] = False
        instance["state"] = CLAIMING
        instance["alternates"] = left[1:]
        instance.update({key: left[0].get(key) for key in ("host", "host_uuid", "limits", "allocation")})


def withdraw(plan: Plan, host: str, uuid: str, token: str) -> None:
    """Have the host drop a claim when it is asked next; a claim that was raised meanwhile stays (other token)."""
    plan["withdraw"].setdefault(host, []).append({"uuid": uuid, "token": token})


def commit(
    plan: Plan,
    claims: Dict[str, Dict[str, Any]],
    scans: Dict[str, Dict[str, Any]],
    lost_hosts=(),
    over_quota: Optional[Callable] = None,
) -> None:
    """Decide for each claim, now that all hosts were read after it: build, withdraw, or try elsewhere (C2 of the design).

    ``claims``: host -> {results: [{uuid, claimed, token, error}]} or {reason}. ``scans``: host -> {host_uuid, instances:
    [{uuid, role, token, phase, group, project_id, ...}], notes: {uuid: {host, host_uuid}}} or {reason}.
    Of two runs that write a claim and then read, at least one sees the other; whoever sees another gives way.
    """
    plan["withdraw"] = {}
    seen = {host: scan for host, scan in scans.items() if "instances" in scan}
    for host, scan in scans.items():
        if "instances" not in scan and "uuid" in plan["hosts"][host]:
            plan["hosts"][host] = {"reason": scan.get("reason", "did not answer")}
    records = {host: {record["uuid"]: record for record in scan["instances"]} for host, scan in seen.items()}
    for instance in plan["instances"].values():
        if instance["state"] == CLAIMING:
            nothing = _came_to_nothing(plan, instance, seen, records)
            plan["ended"] += [one for one in nothing if one not in plan["ended"]]
            _commit_one(plan, instance, claims.get(instance["host"], {}), seen, records, set(lost_hosts))
    _check_addresses(plan, records)
    _check_groups(plan, records)
    if over_quota:
        _check_quota(plan, records, over_quota)
    plan["claims"] = {}
    plan["build"] = [name for name, instance in plan["instances"].items() if instance["state"] in (BUILDING, EXISTING)]


def _commit_one(plan, instance, reply, seen, records, lost_hosts) -> None:
    host, uuid, token = instance["host"], instance["uuid"], instance["token"]
    result = next((entry for entry in reply.get("results", ()) if entry.get("uuid") == uuid), None)
    if result is None:
        attempt_failed(
            plan, instance, "HostUnreachable", reply.get("reason", "did not answer the claim"), retryable=True
        )
        return
    if not result.get("claimed"):
        error = result.get("error") or {}
        attempt_failed(
            plan,
            instance,
            error.get("code", "ClaimFailed"),
            error.get("message", "the claim was refused"),
            error.get("retryable", True),
        )
        return
    if host not in seen:
        attempt_failed(plan, instance, "HostUnreachable", "did not answer after the claim", retryable=True)
        return
    mine = records[host].get(uuid)
    if not mine or mine["token"] != token:
        fail(instance, ClaimConflict("another run has taken over the claim of %s on %s" % (instance["name"], host)))
        return
    others = [(name, held[uuid]) for name, held in records.items() if name != host and uuid in held]
    owner = next((name for name, record in others if record["role"] == OWN), None)
    moving = next((name for name, record in others if record["role"] not in (OWN, CLAIM)), None)
    if owner:
        withdraw(plan, host, uuid, token)
        fail(
            instance,
            InstanceExists("%s came into being on %s meanwhile" % (instance["name"], owner), hint=hints.create_again()),
        )
    elif moving:
        withdraw(plan, host, uuid, token)
        fail(
            instance,
            InstanceMoving(
                "%s is in the middle of a move on %s" % (instance["name"], moving),
                hint=hints.finish_move(instance["name"]),
            ),
        )
    elif others:
        _meet(plan, instance, others)
    else:
        try:
            check_absent(instance["name"], _notes(instance, seen), _answers(seen, lost_hosts), plan["run"])
            instance["state"] = BUILDING
        except BerthError as error:
            withdraw(plan, host, uuid, token)
            fail(instance, error)


def _notes(instance, seen):
    """What the hosts remembered before this run, and what they remember after its claim; of each host the later."""
    later = {
        scan["host_uuid"]: scan["notes"][instance["uuid"]]
        for scan in seen.values()
        if instance["uuid"] in (scan.get("notes") or {})
    }
    return put_together({**(instance.get("notes") or {}), **later})


def _answers(seen, lost_hosts=()):
    return Answers({scan["host_uuid"]: name for name, scan in seen.items()}, lost_hosts)


def _came_to_nothing(plan, instance, seen, records):
    """The plans of earlier runs of which this run knew before it read the planned host, and found nothing there. Of a plan that
    was written only since, nothing follows: its claim may have come after that host was read."""
    names = _answers(seen).names
    return [
        {"uuid": instance["uuid"], "host_uuid": one.host_uuid, "run": one.run}
        for one in put_together(instance.get("notes") or {}).planned
        if one.host_uuid in names and one.run != plan["run"] and instance["uuid"] not in records[names[one.host_uuid]]
    ]


def _meet(plan, instance, others) -> None:
    """Another claim of the same instance stands elsewhere."""
    host, uuid, token = instance["host"], instance["uuid"], instance["token"]
    stale = [(name, record) for name, record in others if name in instance.get("stale_claims", ())]
    if len(stale) == len(others):
        # left by a run that ended: drop them first, then look again; a run that still lives keeps its claim by building
        for name, record in stale:
            withdraw(plan, name, uuid, record["token"])
        instance["stale_claims"] = []
        return
    withdraw(plan, host, uuid, token)
    name, record = min(others, key=lambda entry: entry[1]["token"])
    if record["token"] < token:
        fail(instance, ClaimConflict("another run is creating %s on %s; it goes first" % (instance["name"], name)))
    else:
        attempt_failed(plan, instance, "ClaimConflict", "another run was creating it on %s" % name, retryable=True)


def _check_addresses(plan, records) -> None:
    """Two instances that would have one address are seen here by at least one of the runs that claimed for them."""
    held = addresses({host: found.values() for host, found in records.items()})
    for instance in plan["instances"].values():
        if instance["state"] == BUILDING:
            error = nics.clash(instance["spec"], held)
            if error:
                withdraw(plan, instance["host"], instance["uuid"], instance["token"])
                fail(instance, error)


def addresses(held: Dict[str, Iterable[Dict[str, Any]]]) -> nics.Index:
    """Who has which address on any host. ``held``: host -> its records."""
    found: nics.Index = {}
    for host, records in held.items():
        for nic, names in nics.index(records, " on %s" % host).items():
            found.setdefault(nic, {}).update(names)
    return found


def _check_groups(plan, records) -> None:
    """Affinity spans hosts, so it is decided here; anti-affinity is decided by each host under its lock."""
    held = {host: list(found.values()) for host, found in records.items()}
    for instance in plan["instances"].values():
        if instance["state"] != BUILDING:
            continue
        elsewhere = groups.elsewhere(instance["spec"], instance["host"], held)
        error = groups.violation(instance["spec"], elsewhere)
        if error:
            withdraw(plan, instance["host"], instance["uuid"], instance["token"])
            # only the members' own host can satisfy the policy
            instance["alternates"] = [
                alternate for alternate in instance["alternates"] if alternate["host"] == elsewhere[0]
            ]
            attempt_failed(plan, instance, error.code, str(error), retryable=True)


def _check_quota(plan, records, over_quota) -> None:
    """Count again with all claims in sight; the last ones of this run give way first."""
    for instance in reversed(list(plan["instances"].values())):
        if instance["state"] != BUILDING:
            continue
        error = over_quota(instance, [record for held in records.values() for record in held.values()])
        if error:
            withdraw(plan, instance["host"], instance["uuid"], instance["token"])
            records[instance["host"]].pop(instance["uuid"], None)
            fail(instance, error)


def settle(plan: Plan, built: Dict[str, Dict[str, Any]]) -> None:
    """Take in what the hosts built. ``built``: inventory name -> {instance, changed}, {error} or {reason} (no answer)."""
    for name in plan["build"]:
        instance, result = plan["instances"][name], built.get(name) or {"reason": "was not asked"}
        if "reason" in result:
            # the build may still run there: another host now could make a second one
            instance.setdefault("uncertain", []).append(_planned(plan, instance))
            fail(
                instance,
                HostUnknown(
                    "%s stopped answering while it built %s: %s"
                    % (instance["host"], instance["name"], result["reason"]),
                    hint=hints.create_again_when_back(instance["host"]),
                ),
            )
        elif "error" in result:
            error = result["error"]
            retryable = bool(error.get("retryable")) and instance["state"] == BUILDING
            if not retryable:
                instance.setdefault("uncertain", []).append(_planned(plan, instance))
            instance["generation"] = [(instance.get("generation") or [0])[0] + 1, 0]
            attempt_failed(
                plan, instance, error.get("code", "BuildFailed"), error.get("message", "the build failed"), retryable
            )
        else:
            instance["state"] = ACTIVE
            instance["changed"] = bool(result.get("changed"))
            instance["result"] = result.get("instance") or {}
    plan["build"] = []
