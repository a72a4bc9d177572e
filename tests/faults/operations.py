# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations of the sweep, and every fault of each by its name.

A fault is OPERATION:KIND:POINT. POINT 7 is before the run's task 7, which is after task 6; 7+450 is 450 ms into it; the
number past the last task is the end of the run. A task may also be given by how its name begins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SIDES = ("source", "destination")
KINDS = ("controller", *("%s-%s" % (what, side) for what in ("libvirtd", "crash", "cut") for side in SIDES))
NAME = re.compile(r"(?P<operation>\w+):(?P<kind>[a-z-]+):(?P<task>[^:+]+)(\+(?P<delay_ms>\d+))?\Z")
LONG = 1 / 3  # of a run; a task that changes a host and takes so much is hit by every kind, at these moments in it
MOMENTS = (0.2, 0.5, 0.8)


@dataclass(frozen=True)
class Operation:
    """``begin`` and ``end``: states that the instance is in (see STATES); ``owner``: the side that owns it at the end."""

    playbook: str
    begin: str
    end: str
    owner: str
    stops: bool = True  # the guest is stopped and started
    gives_up_writes: bool = False

    @property
    def here(self):
        return "here" in self.begin + self.end


# active: at rest; resized: on the destination, to be confirmed; resized_here: the same on one host
OPERATIONS = {
    "resize": Operation("resize", "active", "resized", "destination"),
    "confirm": Operation("confirm_resize", "resized", "active", "destination", stops=False),
    "revert": Operation("revert_resize", "resized", "active", "source", gives_up_writes=True),
    "cold": Operation("cold_migrate", "active", "resized", "destination"),
    "live": Operation("live_migrate", "active", "active", "destination", stops=False),
    "resize_here": Operation("resize", "active", "resized_here", "source"),
    "confirm_here": Operation("confirm_resize", "resized_here", "active", "source", stops=False),
    "revert_here": Operation("revert_resize", "resized_here", "active", "source", gives_up_writes=True),
}
# What brings an instance at rest to where an operation begins, and back without another boot.
PREPARE = {"resized": "resize", "resized_here": "resize_here"}
END = {"resized": "confirm", "resized_here": "confirm_here"}


@dataclass(frozen=True)
class Fault:
    operation: str
    kind: str
    task: int | str
    delay_ms: int = 0

    @classmethod
    def called(cls, name):
        found = NAME.match(name)
        if not found or found["operation"] not in OPERATIONS or found["kind"] not in KINDS:
            raise ValueError("%r names no fault; it is OPERATION:KIND:TASK[+MILLISECONDS]" % name)
        task = int(found["task"]) if found["task"].isdigit() else found["task"]
        return cls(found["operation"], found["kind"], task, int(found["delay_ms"] or 0))

    def __str__(self):
        return "%s:%s:%s%s" % (self.operation, self.kind, self.task, "+%d" % self.delay_ms if self.delay_ms else "")


def faults_of(operation, tasks):
    """Every fault of an operation. ``tasks``: [{number, name, on_host, changed, seconds}] of a run without one."""
    kinds = [kind for kind in KINDS if not (OPERATIONS[operation].here and kind.endswith("destination"))]
    return [Fault(operation, kind, *point) for kind in kinds for point in points(kind, tasks)]


def points(kind, tasks):
    """[(task number, ms into it)]: a controller dies between any two tasks, the others strike where hosts work."""
    whole = sum(task["seconds"] for task in tasks)
    found = []
    for task in tasks:
        if kind == "controller" or task["on_host"]:
            found.append((task["number"], 0))
        if task["changed"] and task["on_host"]:
            parts = MOMENTS if task["seconds"] >= LONG * whole else (0.5,) if kind == "controller" else ()
            found += [(task["number"], int(1000 * part * task["seconds"])) for part in parts]
    return [*found, (len(tasks), 0)]
