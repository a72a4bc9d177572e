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

from typing import Any, Callable, Dict, Optional

from ..model.errors import BerthError
from ..model.record import CLAIM, OWN
from ..placement.errors import MaxRetriesExceeded
from . import groups
from .errors import (
    ClaimConflict,
    HostUnknown,
    InstanceExists,
    InstanceMoving,
    InstanceUnknown,
)

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

    ``told`` is what the hosts are told of each other's instances, see compute/whereabouts.py.
    """
    plan = {
        "run": run,
        "round": 0,
        "max_attempts": max_attempts,
        "hosts": hosts,
        "told": told or {},
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
            plan["claims"].setdefault(instance["host"], []).append(claim)
    claiming = [instance for instance in plan["instances"].values() if instance["state"] == CLAIMING]
    places = {
        instance["uuid"]: {
            "host": instance["host"],
            "host_uuid": plan["hosts"][instance["host"]]["uuid"],
            "run": plan["run"],
        }
        for instance in claiming
    }
    plan["reachable"] = [name for name, host in plan["hosts"].items() if "uuid" in host]
    plan["rescan"] = {
        "about": [instance["uuid"] for instance in claiming],
        "answered": [plan["hosts"][name]["uuid"] for name in plan["reachable"]],
        "told": {**plan.get("told", {}), **places},
    }


def _faults(plan: Plan) -> Dict[str, list]:
    """What the hosts are to remember as vm_state error (C14, C15): {host: [{uuid, name, project_id, host, error {code, message}}]}.

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
    """Keep the cause (C10) and go on with the next alternate, or give up with the whole list of attempts (C11)."""
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
            _commit_one(plan, instance, claims.get(instance["host"], {}), seen, records, set(lost_hosts))
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
            InstanceExists(
                "%s came into being on %s meanwhile" % (instance["name"], owner), hint="Run create again to converge it"
            ),
        )
    elif moving:
        withdraw(plan, host, uuid, token)
        fail(
            instance,
            InstanceMoving(
                "%s is in the middle of a move on %s" % (instance["name"], moving), hint="Finish the move first"
            ),
        )
    elif others:
        _meet(plan, instance, others)
    else:
        note = _last_seen(plan, instance, seen, lost_hosts)
        if note:
            withdraw(plan, host, uuid, token)
            fail(instance, unknown_place(instance["name"], note))
        else:
            instance["state"] = BUILDING


def unknown_place(name: str, host: str) -> InstanceUnknown:
    return InstanceUnknown(
        "%s was last seen on %s, which does not answer; it may still run there" % (name, host),
        hint="Bring %s back, or if it is gone for good pass -e berth_lost_hosts=%s" % (host, host),
    )


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


def _last_seen(plan, instance, seen, lost_hosts) -> Optional[str]:
    """The host that others remember for the instance, where that host cannot be asked (it is unknown: fail closed)."""
    answering = {scan["host_uuid"] for scan in seen.values()}
    for scan in seen.values():
        note = (scan.get("notes") or {}).get(instance["uuid"])
        if (
            note
            and note.get("run") != plan["run"]
            and note["host_uuid"] not in answering
            and note["host"] not in lost_hosts
        ):
            return note["host"]
    return None


def _check_groups(plan, records) -> None:
    """Affinity spans hosts, so it is decided here; anti-affinity is decided by each host under its lock (S41)."""
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
    """Count again with all claims in sight (A05); the last ones of this run give way first."""
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
            fail(
                instance,
                HostUnknown(
                    "%s stopped answering while it built %s: %s"
                    % (instance["host"], instance["name"], result["reason"]),
                    hint="Run create again when the host answers; it finishes or cleans up there",
                ),
            )
        elif "error" in result:
            error = result["error"]
            retryable = bool(error.get("retryable")) and instance["state"] == BUILDING
            attempt_failed(
                plan, instance, error.get("code", "BuildFailed"), error.get("message", "the build failed"), retryable
            )
        else:
            instance["state"] = ACTIVE
            instance["changed"] = bool(result.get("changed"))
            instance["result"] = result.get("instance") or {}
    plan["build"] = []
