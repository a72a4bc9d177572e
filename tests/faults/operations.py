# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations of the sweep, and every fault of each by its name.

A fault is OPERATION:KIND:LEG.STEP[+MILLISECONDS]. resize:cut-source:4.freeze+1840 is in the fourth leg of the move, in its
step freeze, 1840 ms after the leg has begun; without milliseconds it is before the leg; "end" is the end of the run. A leg
may also be given by how its label begins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ansible_collections.berth.kvm.plugins.module_utils.conductor.sequences import FLEET, SEQUENCES

SIDES = ("source", "destination")
KINDS = ("controller", *("%s-%s" % (what, side) for what in ("libvirtd", "crash", "cut") for side in SIDES))
END_OF_RUN = "end"
NAME = re.compile(
    r"(?P<operation>\w+):(?P<kind>[a-z-]+):(?P<leg>end|[^:+.]+)(\.(?P<step>[a-z_]+)(\+(?P<delay_ms>\d+))?)?\Z"
)
LONG = 1 / 4  # of all legs; a step that takes so much is hit by every kind, at these moments in it
MOMENTS = (0.2, 0.5, 0.8)
ACT = "act"  # the only step of what one module does on one host
MOMENT_OF_ACT = 0.7  # most of the time before goes by until the module runs on the host
MOMENTS_OF_ORDER = (0.4, 0.55, 0.7, 0.8, 0.9)  # of what asks its hosts several times, or copies disks
# label -> side; a label is said of one side alone
SIDE_OF = {leg.label: leg.side for sequence in SEQUENCES.values() for leg in sequence.legs if leg.side != FLEET}


@dataclass(frozen=True)
class Operation:
    """``begin`` and ``end``: states that the instance is in (see STATES); ``owner``: the side that owns it at the end."""

    playbook: str
    begin: str
    end: str
    owner: str
    stops: bool = True  # the guest is stopped and started
    gives_up_writes: bool = False
    anew: bool = False  # the guest is another one afterwards
    moves: bool = True
    repeats: bool = False  # done again, it does the same again
    moments: tuple = (MOMENT_OF_ACT,)  # in which it is hit, if it is one step in all
    keeper: bool = False  # the destination has a part in it: it keeps backups
    loses: bool = False  # its source is dead, and comes back when it has ended; the hosts have one storage
    empties: str = ""  # the side whose host it empties or opens again; it finds the instance by that
    variables: dict = field(default_factory=dict)  # of its playbook

    @property
    def here(self):
        """Whether one host does all of it."""
        return not (self.moves or self.keeper) or "here" in self.begin + self.end


def at_rest(playbook, begin, end, stops=False, **more):
    """An operation that moves nothing: it is the work of one module on the host that owns the instance."""
    return Operation(playbook, begin, end, "source", stops, moves=False, **more)


BACKUPS = {"berth_backup_to": "/srv/shared/backups"}  # on both hosts
RESTORE = {**BACKUPS, "berth_restore_discards": "mover"}
SNAPSHOT = {"berth_snapshot": "sweep"}
RESCUE = {"berth_rescue_image": "guest"}
OTHER = "other"
CLONE = {"berth_name": "mover", "berth_new_name": OTHER, "berth_quotas": {"default": {"instances": 2}}}
# What the inventory says beside the rest of an instance that an update changes.
PLUGGED = {"berth_networks": [{"network": "lan"}, {"network": "lan"}], "berth_metadata": {"role": "db"}}
# snapped: at rest with a snapshot; snapped_off: the same, stopped
# active: at rest; resized: on the destination, to be confirmed; resized_here: the same on one host; attached: at rest with
# a volume; detached: at rest beside it; plugged: at rest with another NIC and other metadata; tight: at rest with a flavor below
# its ceilings; resized_here_grown: with more memory since, to be confirmed; found: a guest of libvirt alone; adopted: that one;
# shelved: its disks are in a backup; renamed: called OTHER, and the inventory does not say so; drained: the other host is closed
OPERATIONS = {
    "resize": Operation("resize", "active", "resized", "destination"),
    "confirm": Operation("confirm_resize", "resized", "active", "destination", stops=False),
    "revert": Operation("revert_resize", "resized", "active", "source", gives_up_writes=True),
    "cold": Operation("cold_migrate", "active", "resized", "destination"),
    "live": Operation("live_migrate", "active", "active", "destination", stops=False),
    "drain": Operation("drain", "active", "drained", "destination", stops=False, empties="source"),
    "evacuate": Operation("evacuate", "active", "active", "destination", loses=True, moments=MOMENTS_OF_ORDER),
    "return": Operation("return", "drained", "active", "destination", stops=False, empties="destination"),
    "resize_here": Operation("resize", "active", "resized_here", "source"),
    "confirm_here": Operation("confirm_resize", "resized_here", "active", "source", stops=False),
    "revert_here": Operation("revert_resize", "resized_here", "active", "source", gives_up_writes=True),
    "grow_here": Operation(
        "resize",
        "tight",
        "resized_here_grown",
        "source",
        stops=False,
        variables={"mover_flavor": "grows1m", "berth_quotas": {"default": {"instances": 1, "cores": 2, "ram": 384}}},
    ),
    "shrink_here": Operation(
        "revert_resize", "resized_here_grown", "tight", "source", stops=False, variables={"mover_flavor": "grows1"}
    ),
    "reboot": at_rest("reboot", "active", "active", stops=True, repeats=True),
    "reboot_hard": at_rest("reboot", "active", "active", stops=True, repeats=True, variables={"berth_reboot": "hard"}),
    "backup": at_rest("backup", "active", "active", repeats=True, moments=MOMENTS_OF_ORDER, variables=BACKUPS),
    "backup_away": at_rest(
        "backup", "active", "active", repeats=True, moments=MOMENTS_OF_ORDER, keeper=True, variables=BACKUPS
    ),
    "restore": at_rest("restore", "stopped", "stopped", repeats=True, moments=MOMENTS_OF_ORDER, variables=RESTORE),
    "restore_away": at_rest(
        "restore", "stopped", "stopped", repeats=True, moments=MOMENTS_OF_ORDER, keeper=True, variables=RESTORE
    ),
    "image": at_rest("image_from_instance", "active", "active", moments=MOMENTS_OF_ORDER),
    "clone": at_rest("clone", "active", "active", moments=MOMENTS_OF_ORDER, variables=CLONE),
    "adopt": at_rest("adopt", "found", "adopted", moments=MOMENTS_OF_ORDER),
    "leave": at_rest("leave", "adopted", "found", moments=MOMENTS_OF_ORDER),
    "shelve": at_rest("shelve", "active", "shelved", moments=MOMENTS_OF_ORDER, variables=BACKUPS),
    "shelve_away": at_rest("shelve", "active", "shelved", moments=MOMENTS_OF_ORDER, keeper=True, variables=BACKUPS),
    "unshelve": at_rest("unshelve", "shelved", "active", stops=True, moments=MOMENTS_OF_ORDER),
    "rename": at_rest("rename", "active", "renamed", moments=MOMENTS_OF_ORDER, variables={"berth_new_name": OTHER}),
    "rename_back": at_rest(
        "rename",
        "renamed",
        "active",
        moments=MOMENTS_OF_ORDER,
        variables={"berth_name": OTHER, "berth_new_name": "mover"},
    ),
    "stop": at_rest("stop", "active", "stopped"),
    "start": at_rest("start", "stopped", "active", stops=True),
    "pause": at_rest("pause", "active", "paused"),
    "unpause": at_rest("unpause", "paused", "active"),
    "suspend": at_rest("suspend", "active", "suspended"),
    "resume": at_rest("resume", "suspended", "active"),
    "rescue": at_rest("rescue", "active", "rescued", stops=True, variables=RESCUE),
    "unrescue": at_rest("unrescue", "rescued", "active", stops=True),
    "lock": at_rest("lock", "active", "locked"),
    "unlock": at_rest("unlock", "locked", "active"),
    "snapshot": at_rest("snapshot", "active", "snapped", variables=SNAPSHOT),
    "delete_snapshot": at_rest("delete_snapshot", "snapped", "active", variables=SNAPSHOT),
    "stop_snapped": at_rest("stop", "snapped", "snapped_off"),
    "revert_snapshot": at_rest(
        "revert_snapshot", "snapped_off", "snapped_off", gives_up_writes=True, variables=SNAPSHOT
    ),
    "start_snapped": at_rest("start", "snapped_off", "snapped", stops=True, gives_up_writes=True),
    "rebuild": at_rest(
        "rebuild",
        "active",
        "active",
        stops=True,
        repeats=True,
        anew=True,
        variables={"berth_rebuild_discards": "mover"},
    ),
    "detach": at_rest("update_disks", "attached", "detached"),
    "attach": at_rest("update_disks", "detached", "attached"),
    "grow": at_rest("update_disks", "attached", "attached"),
    "plug": at_rest("update", "active", "plugged", variables=PLUGGED),
    "unplug": at_rest("update", "plugged", "active"),
    "delete": at_rest("delete", "attached", "gone"),
}
# What brings an instance at rest to where an operation begins, and back without another boot.
PREPARE = {
    "resized": "resize",
    "resized_here": "resize_here",
    "resized_here_grown": "grow_here",
    "stopped": "stop",
    "paused": "pause",
    "suspended": "suspend",
    "rescued": "rescue",
    "locked": "lock",
    "detached": "detach",
    "snapped": "snapshot",
    "snapped_off": "stop_snapped",
    "plugged": "plug",
    "adopted": "adopt",
    "shelved": "shelve",
    "renamed": "rename",
    "drained": "drain",
}
END = {
    "resized": "confirm", "resized_here": "confirm_here", "stopped": "start", "locked": "unlock", "detached": "attach",
    "paused": "unpause", "suspended": "resume", "rescued": "unrescue", "snapped": "delete_snapshot", "snapped_off": "start_snapped",
    "plugged": "unplug", "resized_here_grown": "shrink_here", "adopted": "leave",
    "shelved": "unshelve", "renamed": "rename_back", "drained": "return",
}  # fmt: skip
# Where a new instance begins, else "active": a volume stays on its host, so an instance that had one is not moved, and one grows
# if its flavor has ceilings. One that is adopted was never made.
BASE = {"attached": "attached", "detached": "attached", "tight": "tight", "resized_here_grown": "tight", "found": "found",
        "adopted": "found"}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    operation: str
    kind: str
    leg: int | str
    step: str | None = None
    delay_ms: int = 0

    @classmethod
    def called(cls, name):
        found = NAME.match(name)
        if not found or found["operation"] not in OPERATIONS or found["kind"] not in KINDS:
            raise ValueError("%r names no fault; it is OPERATION:KIND:LEG.STEP[+MILLISECONDS]" % name)
        if (found["leg"] == END_OF_RUN) != (found["step"] is None):
            raise ValueError("%r names no fault: a leg goes with a step, and the end of a run has none" % name)
        leg = int(found["leg"]) if found["leg"].isdigit() else found["leg"]
        return cls(found["operation"], found["kind"], leg, found["step"], int(found["delay_ms"] or 0))

    def __str__(self):
        step = ".%s" % self.step if self.step else ""
        return "%s:%s:%s%s%s" % (self.operation, self.kind, self.leg, step, "+%d" % self.delay_ms * bool(self.delay_ms))


def faults_of(operation, legs):
    """Every fault of an operation. ``legs``: [{number, label, changed, seconds, took: {step: s}}] of a run without one."""
    without = "destination" if OPERATIONS[operation].here else "source" if OPERATIONS[operation].loses else None
    kinds = [kind for kind in KINDS if kind.rpartition("-")[2] != without]
    moments = OPERATIONS[operation].moments
    return [Fault(operation, kind, *point) for kind in kinds for point in points(kind, legs, moments)]


def points(kind, legs, moments=(MOMENT_OF_ACT,)):
    """[(leg, step, ms since the leg began)]: before each step, within the long ones, at the end of the run. Within the
    short ones only the controller dies: for the others that is much the same as before the next one. What is one step in
    all is hit in it, at these ``moments``."""
    whole = sum(leg["seconds"] for leg in legs)
    found = []
    if [list(leg["took"]) for leg in legs] == [[ACT]]:
        return [(legs[0]["number"], ACT, int(1000 * moment * whole)) for moment in moments]
    for leg in legs:
        # What the module needs to begin comes before its first step.
        at = max(0.0, leg["seconds"] - sum(leg["took"].values()))
        for number, (step, seconds) in enumerate(leg["took"].items()):
            parts = MOMENTS if seconds >= LONG * whole else (0.5,) if kind == "controller" and leg["changed"] else ()
            found.append((leg["number"], step, int(1000 * at) if number else 0))
            found += [(leg["number"], step, int(1000 * (at + part * seconds))) for part in parts]
            at += seconds
    return [*found, (END_OF_RUN,)]


def described(fault, legs):
    """Which leg, on which side, in which step."""
    leg = next((leg for leg in legs if leg["number"] == fault.leg), None)
    return (
        "%s, on the %s, step %s"
        % (leg["label"], SIDE_OF.get(leg["label"], OPERATIONS[fault.operation].owner), fault.step)
        if leg
        else "the end"
    )
