# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host did not accept an instance or failed to build it: which host is tried next, and when create gives up."""

from __future__ import annotations

from typing import Any, List, Mapping

from ..model.errors import worded
from ..placement.errors import MaxRetriesExceeded
from .plan import CLAIMING, FAILED, Alternate, Instance, Plan, fail, host_of


def attempt_failed(plan: Plan, instance: Instance, code: str, message: str, retryable: bool) -> None:
    """Record the cause and go on with the next alternate, or give up with the whole list of attempts."""
    host = host_of(instance)
    instance["attempts"].append(
        {"attempt": len(instance["attempts"]) + 1, "host": host, "code": code, "cause": message}
    )
    instance["token"] = None
    instance["given_up"] = True
    if not retryable:
        instance["state"] = FAILED
        instance["error"] = {"code": code, "message": message, "retryable": False}
        return
    left = _alternates_left(plan, instance)
    if plan["max_attempts"] == 1:
        instance["state"] = FAILED
        instance["error"] = {"code": code, "message": message, "retryable": True}
    elif len(instance["attempts"]) >= plan["max_attempts"]:
        fail(
            instance, _given_up("Exceeded maximum number of retries: %d attempts" % len(instance["attempts"]), instance)
        )
    elif not left:
        fail(instance, _given_up("Exhausted all hosts available for retrying build failures", instance))
    else:
        instance["given_up"] = False
        instance["state"] = CLAIMING
        instance["alternates"] = left[1:]
        set_host(instance, left[0])


def _alternates_left(plan: Plan, instance: Instance) -> List[Alternate]:
    """The alternates that were not tried yet, on hosts that answer."""
    tried = {attempt["host"] for attempt in instance["attempts"]}
    return [
        alternate
        for alternate in instance["alternates"]
        if alternate["host"] not in tried and "uuid" in plan["hosts"][alternate["host"]]
    ]


def _given_up(why: str, instance: Instance) -> MaxRetriesExceeded:
    attempts = instance["attempts"]
    last = attempts[-1]
    cause = last["cause"].removeprefix("%s: " % last["host"])
    return MaxRetriesExceeded(
        "%s for instance %s. Last cause, on %s: %s" % (why, instance["name"], last["host"], cause), attempts=attempts
    )


def said_by(error: Mapping[str, Any], otherwise: str) -> str:
    """What the error of a host says, with what to do about it."""
    return worded(error.get("message") or otherwise, error.get("rule"), error.get("hint"))


def set_host(instance: Instance, chosen: Alternate) -> None:
    instance["host"], instance["host_uuid"] = chosen["host"], chosen["host_uuid"]
    instance["limits"], instance["allocation"] = chosen.get("limits"), chosen.get("allocation")
    instance["zone"] = chosen.get("zone")
