# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from the results of a round's builds. A host that fell silent may have built: no other is tried."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, TypedDict

from ..model import hints, nics, request_digest, volumes
from ..model.messages import Document
from .errors import HostUnknown
from .next_host import attempt_failed, said_by
from .plan import (
    ACTIVE,
    BUILDING,
    EXISTING,
    PLANNED,
    Built,
    Instance,
    Plan,
    fail,
    host_of,
    planned_instance,
    withdraw_claim,
)


class Look(TypedDict):
    """What a host reports about an instance that is as its record says, see compute/guest/settled.py."""

    uuid: str
    converged: bool
    compared: bool
    filters: Dict[str, str]
    instance: Document


def power_state(berth_state: Any, locked: Any) -> Optional[str]:
    """The power state that berth_state asks for. None leaves the guest as it is, as for a locked instance."""
    return None if locked else {"active": "running", "stopped": "shutdown"}.get(berth_state)


def builds_of_hosts(plan: Plan) -> Dict[str, Dict[str, Instance]]:
    """Host -> inventory name -> instance, for those that one call of the host can build: their claims stand, and the
    host fetches their images itself."""
    found: Dict[str, Dict[str, Instance]] = {}
    for name in plan["build"]:
        instance = plan["instances"][name]
        if instance["state"] == BUILDING and not instance.get("take_over") and not to_upload(instance["spec"]):
            found.setdefault(host_of(instance), {})[name] = instance
    return found


def to_upload(spec: Mapping[str, Any]) -> List[Tuple[Document, int]]:
    """[(image, GiB of the disk made from it)]: the images of a new request that the controller sends to the host."""
    root = [(spec["image"], volumes.root_gb(spec))] if spec["image"].get("upload") else []
    made_from = [(entry.get("image") or {}, entry["size_gb"]) for entry in spec.get("volumes") or ()]
    return root + [(image, size_gb) for image, size_gb in made_from if image.get("upload")]


def pass_over_unchanged(plan: Plan, looks: Mapping[str, Iterable[Look]]) -> None:
    """Remove from the builds the instances that are already as requested, judging by ``looks`` (host -> its reports).
    Any other instance gets a call of its own, also one that its host did not report."""
    found = {host: {look["uuid"]: look for look in told} for host, told in looks.items()}
    for name in list(plan["build"]):
        instance = plan["instances"][name]
        if instance["state"] != EXISTING:
            continue
        look = found.get(host_of(instance), {}).get(instance["uuid"])
        if look and _is_as_wanted(instance, look):
            instance["state"], instance["changed"], instance["result"] = ACTIVE, False, look["instance"]
            plan["build"].remove(name)


def _is_as_wanted(instance: Instance, look: Look) -> bool:
    """Whether the module instance would change nothing and report nothing new."""
    power, shown = power_state(instance.get("berth_state"), instance.get("locked")), look["instance"]
    if power and not shown.get("locked") and not (look["converged"] and shown.get("power_state") == power):
        return False
    asked = nics.asking_filters(instance["spec"].get("networks"))
    if instance.get("mend") and not (look["compared"] and set(asked) <= set(look["filters"])):
        return False
    return request_digest.follows_filters(look["filters"], instance["spec"].get("networks"))


def settle(plan: Plan, built: Dict[str, Built]) -> None:
    """Apply the results of the hosts' builds, given by inventory name."""
    silent: Built = {"reason": "was not asked"}
    for name in plan["build"]:
        instance, result = plan["instances"][name], built.get(name) or silent
        if instance["state"] == PLANNED:
            continue
        if "reason" in result:
            # the build may still run there: another host could build a second instance now
            instance.setdefault("uncertain", []).append(planned_instance(plan, instance))
            fail(
                instance,
                HostUnknown(
                    "%s stopped answering while it built %s: %s"
                    % (instance["host"], instance["name"], result["reason"]),
                    hint=hints.create_again_when_back(host_of(instance)),
                ),
            )
        elif "error" in result:
            error = result["error"]
            retryable = bool(error.get("retryable")) and instance["state"] == BUILDING
            if instance["state"] == BUILDING:
                withdraw_claim(plan, instance)  # a build that ended removed it; one that did not begin left it there
            if not retryable:
                instance.setdefault("uncertain", []).append(planned_instance(plan, instance))
            instance["generation"] = [(instance.get("generation") or [0])[0] + 1, 0]
            attempt_failed(
                plan, instance, error.get("code", "BuildFailed"), said_by(error, "the build failed"), retryable
            )
        else:
            instance["state"] = ACTIVE
            instance["changed"] = bool(result.get("changed"))
            instance["result"] = result.get("instance") or {}
    plan["build"] = []
