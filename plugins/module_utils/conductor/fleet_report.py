# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole fleet as one document, for the report: what hosts have and hold, groups, and what waits for a person.

It is made from the answers of one run. Nothing acts on it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..model import host_hints, line
from ..model.host_state import HostState
from ..model.lifecycle import OWN, RESIZED
from ..model.messages import Document, View
from ..placement.capacity import limit_of
from . import doctor, unconfirmed
from .doctor import Finding
from .fleet import Fleet, Place
from .groups import broken_by
from .show_instance import utc
from .silence import is_there

UP, DISABLED, NOT_PREPARED, LEFT_OUT, SILENT = "up", "disabled", "not prepared", "left out", "no answer"


@dataclasses.dataclass(frozen=True)
class Answers:
    """What is known besides the hosts' facts. ``in_inventory``: uuid -> name of the inventory's instances; ``zones``:
    host -> its zone; ``groups``: the server groups of the catalog; ``moves``: host -> its views; ``addresses``:
    host -> uuid -> {address, source}; ``at``: when all had answered, on the controller's clock."""

    fleet: Fleet
    in_inventory: Mapping[str, str]
    zones: Mapping[str, str]
    groups: Mapping[str, Document]
    moves: Mapping[str, List[View]]
    addresses: Mapping[str, Mapping[str, Document]]
    at: float


def fleet_report(answers: Answers) -> Document:
    fleet = answers.fleet
    return {
        "at": utc(answers.at),
        "hosts": [*_hosts(answers), *_silent(answers)],
        "instances": sorted(_instances(answers), key=lambda row: (row["name"], row["uuid"])),
        "groups": _groups(answers),
        "confirms": sorted(_confirms(answers), key=_by_deadline),
        "domains": [dict(stray, uuid=uuid) for uuid, strays in sorted(fleet.strays.items()) for stray in strays],
    }


def errors(findings: Sequence[Finding], instances: Sequence[Document]) -> int:
    """How many things are wrong: the doctor's errors, and the instances in error that none of them names."""
    found = [finding.instance for finding in findings if finding.severity == doctor.ERROR and not finding.fixed]
    return len(found) + sum(row["state"] == "error" and row["name"] not in found for row in instances)


def add_what_became(decisions: Sequence[Document], fleet: Fleet) -> None:
    """Say beside the newest decision on each instance if it is not where that put it: ``became``, an empty text if it is."""
    failed = {(failure["uuid"], host): "%(code)s: %(message)s" % failure for host, failure in fleet.failures()}
    seen = set()
    for row in decisions:
        uuid, host = row["uuid"], row["host"]
        held = [place["host"] for place in fleet.places.get(uuid, ()) if place["role"] == OWN]
        row["became"] = ""
        if uuid in seen or not host:
            continue
        if not held and (uuid, host) in failed:
            row["became"] = "its build failed there: " + failed[uuid, host]
        elif held and host not in held:
            row["became"] = "it is on %s now" % ", ".join(held)
        seen.add(uuid)


def _hosts(answers: Answers) -> Iterator[Document]:
    for name, document in sorted(answers.fleet.documents.items()):
        host = HostState.from_document(document)
        state, reason = _state_of(name, document, answers.fleet)
        held = [instance for instance in document["instances"] if not instance.get("foreign")]
        yield {
            "name": name,
            "zone": answers.zones.get(name, ""),
            "state": state,
            "reason": reason,
            "instances": len(held),
            "domains": len(document["instances"]) - len(held),
            "resources": {
                resource: _measure(host.used.get(resource, 0), _limit(inventory))
                for resource, inventory in host.inventories.items()
            },
            "cells": [_cell(cell, document) for cell in (document.get("numa_topology") or {}).get("cells") or ()],
            "load": next((each["value"] for each in document.get("metrics") or () if each["name"] == "load.1"), None),
            "pools": {
                pool: {"used_gb": told["capacity_gb"] - told["free_gb"], "capacity_gb": told["capacity_gb"]}
                for pool, told in sorted((document.get("pools") or {}).items())
            },
        }


def _silent(answers: Answers) -> Iterator[Document]:
    for name, reason in sorted(answers.fleet.verdicts.items()):
        yield {
            "name": name,
            "zone": answers.zones.get(name, ""),
            "state": LEFT_OUT if is_there(reason) else SILENT,
            "reason": reason,
            "instances": None,
            "domains": None,
            "resources": {},
            "cells": [],
            "load": None,
            "pools": {},
        }


def _state_of(name: str, document: Document, fleet: Fleet) -> Tuple[str, str]:
    if name in fleet.unprepared():
        return NOT_PREPARED, host_hints.prepare_host(name)
    service = document.get("service") or {}
    reasons = [service.get("disabled_reason") if service.get("disabled") else "", line.described(document)]
    return DISABLED if service.get("disabled") else UP, ", ".join(filter(None, reasons))


def _limit(inventory: Document) -> int:
    return math.floor(limit_of(inventory["total"], inventory["reserved"], inventory["allocation_ratio"]))


def _measure(used: int, limit: int) -> Document:
    """Usage can exceed 100 percent, if a ratio was lowered later."""
    percent = round(100 * used / limit) if limit > 0 else 100 if used else 0
    return {"used": used, "limit": limit, "percent": percent}


def _cell(cell: Document, document: Document) -> Document:
    shared = math.floor(len(cell["cpuset"]) * document.get("cpu_allocation_ratio", 1.0))
    resources = {
        "VCPU": _measure(cell["cpu_usage"], shared),
        "PCPU": _measure(len(cell["pinned_cpus"]), len(cell["pcpuset"])),
        "MEMORY_MB": _measure(cell["memory_usage"], cell["memory_mb"]),
    }
    return {"id": cell["id"], "resources": {name: found for name, found in resources.items() if found["limit"]}}


def _instances(answers: Answers) -> Iterator[Document]:
    """What a host holds, failed to build, or is known to have had, and instances of the inventory that no host has."""
    fleet = answers.fleet
    seen = set(fleet.places)
    for uuid, places in fleet.places.items():
        yield _held(answers, uuid, places)
    for host, failure in fleet.failures():
        uuid = failure["uuid"]
        if uuid not in seen:
            seen.add(uuid)
            why = "this host was the last that failed to build it"
            yield _row(answers, uuid, name=failure["name"], state="error", host=host, why=why)
    for uuid in sorted({uuid for notes in fleet.notes.values() for uuid in notes} - seen):
        known = fleet.notes_on(uuid).known
        if known and known.host in fleet.verdicts:
            seen.add(uuid)
            yield _row(answers, uuid, state="unknown", host=known.host, why="its last known host gave no usable answer")
    for uuid in answers.in_inventory:
        if uuid not in seen and uuid not in fleet.strays:
            state, where = ("unknown", "no host that answers") if fleet.verdicts else ("absent", "no host")
            yield _row(answers, uuid, state=state, why="in the inventory, and on %s" % where)


def _held(answers: Answers, uuid: str, places: List[Place]) -> Document:
    owner = next((place for place in places if place["role"] == OWN), places[0])
    others = ["%s (%s)" % (place["host"], place["role"]) for place in places if place is not owner]
    why = [
        owner["task_state"],
        unconfirmed.waits(owner["phase"]) if unconfirmed.is_at(owner) else None,
        "locked" if owner["locked"] else None,
        "also on %s" % ", ".join(others) if others else None,
    ]
    return _row(
        answers,
        uuid,
        name=owner["name"],
        state=owner["vm_state"] or owner["phase"] or "unknown",
        guest=owner["power_state"],
        host=owner["host"],
        flavor=owner["flavor"] or "",
        project=owner["project_id"] or "",
        group=owner["group"] or "",
        why="; ".join(part for part in why if part),
    )


def _row(answers: Answers, uuid: str, host: str = "", **known: Any) -> Document:
    found = answers.addresses.get(host, {}).get(uuid) or {}
    empty = dict.fromkeys(("guest", "flavor", "project", "group", "why"), "")
    name = answers.in_inventory.get(uuid) or known.pop("name", uuid)
    place = {"host": host, "zone": answers.zones.get(host, ""), "address": found.get("address", "")}
    return {**empty, **known, **place, "uuid": uuid, "name": name}


def _groups(answers: Answers) -> List[Document]:
    """Every server group of the catalog or of an instance; the same name in two projects means two groups."""
    members: Dict[Tuple[str, str], List[Document]] = {}
    for uuid, places in answers.fleet.places.items():
        row = _held(answers, uuid, places)
        if row["group"]:
            members.setdefault((row["group"], row["project"]), []).append(
                {key: row[key] for key in ("name", "host", "uuid")}
            )
    used = {name for name, _project in members}
    for name in answers.groups:
        if name not in used:
            members[name, ""] = []
    return [
        _group(name, project, found, answers.groups.get(name)) for (name, project), found in sorted(members.items())
    ]


def _group(name: str, project: str, members: List[Document], group: Optional[Document]) -> Document:
    return {
        "name": name,
        "project": project,
        "policy": group["policy"] if group else "",
        "members": sorted(members, key=lambda member: (member["name"], member["uuid"])),
        "broken": broken_by(group, members) if group else "",
    }


def _confirms(answers: Answers) -> Iterator[Document]:
    """What waits for a confirm or a revert. The host counts the time left; the deadline is in the controller's time."""
    names = {uuid: name for name, uuid in answers.fleet.uuids().items()}
    for host, views in answers.moves.items():
        for view in views:
            if view["role"] != OWN or view["phase"] != RESIZED:
                continue
            move: Mapping[str, Any] = view.get("migration") or {}
            sides = {side: move.get(side) or {} for side in ("source", "destination")}
            left = view.get("confirm_in")
            yield {
                "name": answers.in_inventory.get(view["uuid"]) or view["name"],
                "host": host,
                "type": move.get("type") or "",
                **{side: names.get(found.get("uuid", ""), found.get("name", "")) for side, found in sides.items()},
                "was": _flavor(move.get("old_spec")),
                "flavor": _flavor(move.get("new_spec") or view.get("spec")),
                "confirm_in": left,
                "confirm_at": None if left is None else utc(answers.at + left),
            }


def _flavor(spec: Optional[Document]) -> str:
    return str(((spec or {}).get("flavor") or {}).get("name") or "")


def _by_deadline(row: Document) -> Tuple[float, str]:
    return (math.inf if row["confirm_in"] is None else row["confirm_in"], row["name"])
