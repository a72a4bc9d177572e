# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one table of the states of an instance (Nova's vm_state), and the one of the operations that are legal in each.

What a record says is the wish, what libvirt shows is the fact. Guards on hosts, recovery, moves, the doctor and the tables
read the columns; none of them compares the names of states.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from . import hints, rescues, snapshot_hints
from .lifecycle import (
    ALIVE,
    POWERING_OFF,
    POWERING_ON,
    REBOOTING_HARD,
    REBUILDING,
    RESCUING,
    RESUMING,
    SHELVING_OFFLOADING,
    UNPAUSING,
    UNRESCUING,
    UNSHELVING,
)
from .move_errors import InstanceInvalidState

BUILDING, ACTIVE, PAUSED, SUSPENDED, STOPPED = "building", "active", "paused", "suspended", "stopped"
RESCUED, RESIZED, ERROR, SHELVED = "rescued", "resized", "error", "shelved_offloaded"
OFF = "off"  # any power state without a QEMU


class VmState(NamedTuple):
    """``power_state``: that of the record, and of the guest in libvirt; None: that from before the move. ``memory``: libvirt
    keeps the memory of the guest, which is off. ``recovered``: recover starts the guest if its host lost it. ``back``: the
    operation that makes the instance active. ``defined``: libvirt knows its guest. ``findings``: what the doctor calls a guest
    that libvirt shows otherwise."""

    power_state: Optional[str]
    memory: bool = False
    recovered: bool = False
    back: Optional[str] = None
    defined: bool = True
    findings: Mapping[str, str] = {}

    def on(self) -> bool:
        """Whether the guest has a QEMU."""
        return self.power_state in ALIVE


PAUSED_OR_OFF = {"paused": "GuestPaused", OFF: "GuestOff"}

VM_STATES: Dict[str, VmState] = {
    BUILDING: VmState("running", findings=PAUSED_OR_OFF),
    ACTIVE: VmState("running", recovered=True, findings=PAUSED_OR_OFF),
    PAUSED: VmState("paused", recovered=True, back="unpause", findings={OFF: "PausedGuestOff"}),
    SUSPENDED: VmState(
        "shutdown", memory=True, back="resume", findings={"paused": "GuestPaused", OFF: "SavedMemoryGone"}
    ),
    STOPPED: VmState("shutdown", back="start", findings={"paused": "GuestPaused"}),
    RESCUED: VmState(
        "running", recovered=True, back="unrescue", findings={"paused": "GuestPaused", OFF: "RescuedGuestOff"}
    ),
    RESIZED: VmState(None),
    ERROR: VmState("shutdown"),
    SHELVED: VmState("shutdown", back="unshelve", defined=False),
}
ALL = tuple(VM_STATES)


class Change(NamedTuple):
    """``legal``: in which states Nova's API allows the operation; ``after``: the one that it leads to, in which it is legal
    too, since it may be run again. None: the same as before. ``task``: the record's task_state meanwhile."""

    legal: Tuple[str, ...]
    after: Optional[str] = None
    task: Optional[str] = None


CHANGES: Dict[str, Change] = {
    "start": Change((BUILDING, STOPPED), ACTIVE, POWERING_ON),
    "stop": Change((ACTIVE,), STOPPED, POWERING_OFF),
    "reboot": Change((ACTIVE,), ACTIVE, "rebooting"),
    "hard reboot": Change((ACTIVE, PAUSED, SUSPENDED), ACTIVE, REBOOTING_HARD),
    "pause": Change((ACTIVE,), PAUSED, "pausing"),
    "unpause": Change((PAUSED,), ACTIVE, UNPAUSING),
    "suspend": Change((ACTIVE,), SUSPENDED, "suspending"),
    "resume": Change((SUSPENDED,), ACTIVE, RESUMING),
    "update": Change((ACTIVE, PAUSED, STOPPED)),
    "update_disks": Change((ACTIVE, PAUSED, STOPPED)),
    "backup": Change((ACTIVE, PAUSED, SUSPENDED, STOPPED)),
    "backups": Change(ALL),
    "delete_backup": Change(tuple(state for state in ALL if state != SHELVED)),
    "clone": Change((ACTIVE, PAUSED, SUSPENDED, STOPPED)),
    "image_from_instance": Change((ACTIVE, PAUSED, SUSPENDED, STOPPED)),
    "restore": Change((STOPPED, ERROR), STOPPED, "restoring"),
    "rebuild": Change((ACTIVE, STOPPED, ERROR), task=REBUILDING),
    "rescue": Change((ACTIVE, STOPPED), RESCUED, RESCUING),
    "unrescue": Change((RESCUED,), ACTIVE, UNRESCUING),
    "shelve": Change((ACTIVE, STOPPED), SHELVED, SHELVING_OFFLOADING),
    "unshelve": Change((SHELVED,), ACTIVE, UNSHELVING),
    "snapshot": Change((ACTIVE, PAUSED, STOPPED), task="image_snapshot"),
    "revert_snapshot": Change((STOPPED,), task="reverting_snapshot"),
    "delete_snapshot": Change((ACTIVE, PAUSED, STOPPED), task="deleting_snapshot"),
    "snapshots": Change(ALL),
    "rename": Change((ACTIVE, PAUSED, STOPPED, RESCUED)),
    "resize": Change((ACTIVE, STOPPED)),
    "migration": Change((ACTIVE, STOPPED, SHELVED)),
    "live-migration": Change((ACTIVE, PAUSED)),
    "adopt": Change(ALL),
    "leave": Change(ALL),
    "recover": Change(ALL),
    "recover_record": Change(ALL),
    "keep_one": Change(ALL),
    "remove_set_aside": Change(ALL),
    "console": Change(ALL),
    "lock": Change(ALL),
    "unlock": Change(ALL),
    "delete": Change(ALL),
}


def said(vm_state: str) -> Dict[str, Any]:
    """What a record says of an instance that is, or is to be, in that state."""
    return {"vm_state": vm_state, "power_state": VM_STATES[vm_state].power_state}


def started(spec: Mapping[str, Any]) -> str:
    """The state of an instance whose guest is started: its request decides from which disk it boots."""
    return RESCUED if rescues.of(spec) else ACTIVE


def found(spec: Mapping[str, Any], runs: bool) -> str:
    """The state of an instance of which only its request and its guest are known."""
    return started(spec) if runs or rescues.of(spec) else STOPPED


def power_state(berth_state: Any, locked: Any) -> Optional[str]:
    """The power state that berth_state asks for. None leaves the guest as it is, as for a locked instance."""
    return VM_STATES[berth_state].power_state if berth_state in (ACTIVE, STOPPED) and not locked else None


def before(vm_state: str) -> str:
    """The state in which a move has found the instance, by what its source says."""
    return vm_state if vm_state in (*CHANGES["live-migration"].legal, SHELVED) else STOPPED


def is_meant_paused(record: Any) -> bool:
    """Whether a person has paused the guest: a move keeps it so."""
    return bool(record.power_state == VM_STATES[PAUSED].power_state)


def check(name: str, vm_state: Optional[str], operation: str, task_state: Optional[str] = None) -> None:
    """Raise InstanceInvalidState if the operation is not legal in that state, with what makes the instance active, or ends the task
    that was interrupted."""
    change, now = CHANGES[operation], vm_state or ACTIVE
    if now not in (*change.legal, change.after) and change.legal != ALL:
        back = VM_STATES[now].back if now in VM_STATES else None
        hint = hints.make_active(name, back) if back else None
        if now == ACTIVE and change.legal == (STOPPED,):
            hint = snapshot_hints.stop_first(name)
        elif now == ACTIVE and change.after == STOPPED:
            hint = hints.stop_to_restore(name)
        elif now == ERROR:
            hint = hints.finish_disks(name, task_state)
        raise InstanceInvalidState(name, "vm_state", now, operation, hint=hint)


def is_defined(vm_state: Optional[str]) -> bool:
    """Whether libvirt is to know the guest."""
    meant = VM_STATES.get(vm_state or ACTIVE)
    return meant is None or meant.defined


def finding_undefined(vm_state: Optional[str]) -> Optional[str]:
    """The doctor's code for a guest that libvirt does not know, if a start is not what brings it back."""
    meant = VM_STATES.get(vm_state or ACTIVE)
    return meant.findings.get(OFF) if meant and meant.back not in (None, "start") else None


def finding(vm_state: Optional[str], shown: str, has_memory: bool) -> Optional[str]:
    """The doctor's code for a guest that libvirt shows in the power state ``shown``, or None."""
    meant = VM_STATES.get(vm_state or ACTIVE)
    if meant is None or meant.memory and has_memory:
        return None
    return meant.findings.get(shown if shown in ALIVE else OFF)
