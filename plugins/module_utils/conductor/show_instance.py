# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known about one instance, for people: its state, where it is, what it has, and who did what to it."""

from __future__ import annotations

import datetime
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..model import nics
from ..model.lifecycle import ACTIVE, ALIVE, OWN
from ..model.messages import Document
from ..model.travelled_history import ON
from ..model.vm_states import RESIZED, VM_STATES
from ..placement.text import table
from . import unconfirmed
from .closing_table import Outcome, disks_gone, left_off, power

Held = Sequence[Tuple[str, Document]]  # (host, what its module instance_info reports about the instance)
DELETED = "deleted"  # the vm_state of an instance that no longer exists
HEADS = ("AT", "EVENT", "HOST", "BY", "RUN", "RESULT")
# The parts of an event that have a column of their own, or are the state that was reached.
WITH_COLUMNS = ("event", "at", ON, "who", "run", "vm_state", "task_state", "migration_status")


def outcome(name: str, held: Held) -> Outcome:
    """The line for an instance that a host holds, or remembers as failed."""
    host, instance = owner(held)
    state = str(instance.get("vm_state") or instance.get("phase") or "unknown")
    why = [instance["task_state"]] if instance.get("task_state") else []
    at_rest = (instance.get("role"), instance.get("phase")) == (OWN, ACTIVE)
    meant = VM_STATES.get(state)
    gone = disks_gone(host, name, instance)
    if gone:
        why += [gone]
    elif at_rest and meant and meant.on() and instance.get("state") != meant.power_state:
        state, why = power(instance.get("state")), [*why, left_off(name, instance.get("state"), meant.back)]
    if instance.get("disks_differ"):
        why += ["a move would be refused: %s" % "; ".join(instance["disks_differ"])]
    why += ["locked"] if instance.get("locked") else []
    why += (
        [unconfirmed.waits(instance.get("phase"))]
        if (instance.get("vm_state"), instance.get("task_state")) == (RESIZED, None)
        else []
    )
    addresses = [each for nic in instance.get("networks") or () for each in nics.addresses(nic)]
    address = str(addresses[0]).partition("/")[0] if addresses else ""
    return Outcome(name, state, host, instance.get("flavor") or "", address, "; ".join(map(str, why)))


def lines(name: str, held: Held, problem: Optional[str], most: int, live: Optional[str] = None) -> List[str]:
    """All details, with the last ``most`` events. ``problem``: why no playbook would act on the instance; ``live``: whether it
    would move live, or why not."""
    host, instance = owner(held)
    parts = {
        "state": "%s, guest %s" % (instance.get("vm_state") or instance.get("phase"), instance.get("state")),
        "task": instance.get("task_state"),
        "hosts": ", ".join("%s (%s)" % (place, part.get("role") or "failed there") for place, part in held),
        "flavor": _flavor(instance),
        "image": instance.get("image"),
        "networks": ", ".join(_nic(nic) for nic in instance.get("networks") or ()),
        "disks": ", ".join("%s %s GiB" % entry for entry in sorted((instance.get("disks") or {}).items())),
        "snapshots": ", ".join(each["name"] for each in instance.get("snapshots") or ()),
        "volumes": ", ".join("%s %s GiB" % entry for entry in sorted((instance.get("volumes") or {}).items())),
        "zone": instance.get("availability_zone"),
        "access": ", ".join(instance.get("access_ips") or ()),
        "group": instance.get("group"),
        "metadata": ", ".join("%s=%s" % entry for entry in sorted((instance.get("metadata") or {}).items())),
        "reservation": instance.get("batch_id"),
        "console": instance.get("console_log"),
        "locked": instance.get("locked") and "by %s" % instance["locked"],
        "move": _move(instance.get("migration")),
        "live": live,
        "problem": problem,
    }
    columns = [(key, value) for key, value in parts.items() if value]
    rows = history(held)[-most:]
    shown = ["%s (%s)" % (name, instance["uuid"]), *table(columns[0], columns[1:])]
    return shown + (table(HEADS, rows) if rows else [])


def lines_of_deleted(name: str, held: Held, most: int, is_known: bool = True) -> List[str]:
    """The history of a deleted instance, which the hosts that removed it keep for a while. ``is_known``: that it was not made
    again since, on a host that does not answer."""
    rows = history(held)[-most:]
    if not rows:
        return []
    return [
        "%s (%s), deleted from %s%s"
        % (
            name,
            held[0][1]["uuid"],
            ", ".join(host for host, _found in held),
            "" if is_known else "; it may have been made again since",
        ),
        *table(HEADS, rows),
    ]


def owner(held: Held) -> Tuple[str, Document]:
    """The owner of the instance, as far as the hosts that answered say; otherwise the first that has a part of it."""
    return next((entry for entry in held if entry[1].get("role") == OWN), held[0])


def history(held: Held) -> List[Tuple[str, ...]]:
    """The events and failures of all hosts. Their times come from different clocks: the order is only for people."""
    rows = []
    for host, instance in held:
        for event in instance.get("history") or ():
            rows.append(_row(event, str(event.get(ON) or host), str(event.get("event")), _result(event)))
        for fault in instance.get("faults") or ():
            rows.append(_row(fault, host, "failed", "%s: %s" % (fault.get("code"), fault.get("message"))))
    return sorted(dict.fromkeys(rows), key=lambda row: row[0])  # two hosts tell the same of one that moves


def _row(entry: Mapping[str, Any], host: str, event: str, result: str) -> Tuple[str, ...]:
    who, run = str(entry.get("who") or "-"), str(entry.get("run") or "-")
    return str(entry.get("at") or "-"), event, host, who, run, result


def _result(event: Mapping[str, Any]) -> str:
    details = ["%s: %s" % (key, value) for key, value in sorted(event.items()) if key not in WITH_COLUMNS and value]
    reached = [str(event[key]) for key in ("vm_state", "task_state", "migration_status") if event.get(key)]
    return ", ".join(reached + details) or "done"


def _flavor(found: Document) -> str:
    sizes = "%s vCPU, %s MiB, %s GiB" % tuple(found.get(key) for key in ("vcpus", "memory_mb", "root_gb"))
    return "%s: %s" % (found["flavor"], sizes) if found.get("flavor") else ""


def _nic(nic: Document) -> str:
    return " ".join(str(nic[key]) for key in ("network", "address", "address6", "mac") if nic.get(key))


def _move(move: Optional[Dict[str, Any]]) -> Optional[str]:
    if not move:
        return None
    line = "%s from %s to %s, %s" % (move["type"], move["source"], move["destination"], move.get("status"))
    if not move.get("confirm_by"):
        return line
    return "%s; confirm_due confirms it from %s on" % (line, utc(move["confirm_by"]))


def utc(seconds: float) -> str:
    """Seconds since 1970 as UTC text for people."""
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def console_lines(name: str, host: str, instance: Document) -> List[str]:
    """The console of an instance, as people read it. ``instance``: as module instance_info returns it."""
    console = instance["console"]
    is_off = instance.get("state", ALIVE[0]) not in ALIVE
    ways = ["%s on %s%s" % (name, host, " is off" if is_off else ": attach there with %s" % console["attach"])]
    ways += ["screen (VNC) at %s there" % console["vnc"]] if console["vnc"] else []
    if console["addresses"]:
        ways.append("addresses %s" % ", ".join("%(address)s (%(source)s)" % each for each in console["addresses"]))
    shown = ["    " + line for line in console["lines"]] or ["    its console log is empty"]
    return ["", "; ".join(ways), *shown]
