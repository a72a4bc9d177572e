# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of an instance's record on one host: its states, the legal changes between them, and Nova's names.

A state is (role, phase). The record store refuses every change that is not in this table, and the diagram in
docs/lifecycle.md is drawn from it. Only the role OWN may run the guest. If a move ended without this host (it was declared
lost), its record may be removed in any state of that move.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, FrozenSet, Optional, Tuple

from .errors import BerthError

# The roles of a host for an instance.
OWN, IN, OUT, CLAIM = "OWN", "IN", "OUT", "CLAIM"
ROLES = (OWN, IN, OUT, CLAIM)

# Phases of an instance that does not move.
CLAIMED, BUILDING, ACTIVE, DELETING = "claimed", "building", "active", "deleting"
SETTING_ASIDE = "setting_aside"
# Phases while it is resized or migrated.
RESIZING, FROZEN, INCOMING, VERIFIED, KEEP, RESIZED = "resizing", "frozen", "incoming", "verified", "keep", "resized"
CONFIRMING, REVERTING, REVERTED, RESTORING = "confirming", "reverting", "reverted", "restoring"
ERASING = "erasing"
MIGRATING = "migrating"  # the task_state of an instance that moves live, until its move has ended

# For people, the state of a guest that is off and whose memory is in a file (virsh managedsave or save).
SAVED = "saved"

State = Tuple[str, str]
# Nova's (vm_state or None for the one before the move, task_state, status of the migration).
Names = Tuple[Optional[str], Optional[str], str]


class IllegalChange(BerthError):
    """The life cycle of an instance does not allow this change of its record. Nothing was written."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """One state: ``after`` are the states that may follow (None: the record is removed); ``busy`` is whether the host
    works on the instance then; ``cold`` and ``live`` are Nova's names in a resize or cold migration and in a live one."""

    means: str
    after: FrozenSet[Optional[State]]
    busy: bool = True
    cold: Optional[Names] = None
    live: Optional[Names] = None


def _after(*states: Optional[State]) -> FrozenSet[Optional[State]]:
    return frozenset(states)


GONE = None
_ERASED = (None, "deleting", "cancelled")
_AFTER_BEGIN = _after(
    (OWN, RESIZING),
    (OWN, FROZEN),
    (OUT, KEEP),
    (OWN, RESIZED),
    (OWN, REVERTING),
    (OWN, RESTORING),
    (OWN, ERASING),
    GONE,
)

STAGES: Dict[State, Stage] = {
    (CLAIM, CLAIMED): Stage(
        "room is reserved; another run may take over the claim",
        _after((CLAIM, CLAIMED), (CLAIM, DELETING), (OWN, BUILDING), (OWN, ACTIVE), GONE),
    ),
    (CLAIM, DELETING): Stage("a claim is deleted, the instance was never built", _after((CLAIM, DELETING), GONE)),
    (OWN, BUILDING): Stage(
        "disks, seed and definition are being made; the guest has never run",
        _after((OWN, BUILDING), (OWN, ACTIVE), (OWN, DELETING)),
    ),
    (OWN, ACTIVE): Stage(
        "the guest runs or is stopped; its disks are never recreated",
        _after((OWN, ACTIVE), (OWN, DELETING), (OWN, SETTING_ASIDE), (OWN, RESIZING)),
        busy=False,
    ),
    (OWN, DELETING): Stage(
        "guest, disks and record are being removed", _after((OWN, DELETING), (OWN, SETTING_ASIDE), GONE)
    ),
    (OWN, SETTING_ASIDE): Stage(
        "another copy of the instance stays; this copy and its disks are renamed and kept",
        _after((OWN, SETTING_ASIDE), (OWN, ACTIVE), GONE),
    ),
    (OWN, RESIZING): Stage(
        "a move has begun; the guest is unchanged, or gets CPUs and memory while it runs",
        _AFTER_BEGIN,
        cold=(None, "resize_prep", "pre-migrating"),
        live=(None, MIGRATING, "preparing"),
    ),
    (OWN, FROZEN): Stage(
        "the guest is stopped for the move",
        _AFTER_BEGIN,
        cold=(None, "resize_migrating", "migrating"),
    ),
    (IN, INCOMING): Stage(
        "room is reserved for an arriving instance; its disks are copied here",
        _after((IN, INCOMING), (IN, VERIFIED), (OWN, RESIZED), (OWN, ERASING), GONE),
        cold=(None, "resize_migrating", "migrating"),
        live=(None, MIGRATING, "preparing"),
    ),
    (IN, VERIFIED): Stage(
        "the guest of a live migration has arrived completely and is paused",
        _after((IN, VERIFIED), (IN, INCOMING), (OWN, RESIZED), (OWN, ERASING), GONE),
        live=(None, MIGRATING, "running"),
    ),
    (OUT, KEEP): Stage(
        "the source has given up the instance and keeps its disks until the confirm",
        _after((OUT, KEEP), (OWN, RESTORING), (OWN, ERASING), GONE),
        busy=False,
        cold=(None, "resize_migrated", "post-migrating"),
        live=(None, MIGRATING, "running"),
    ),
    (OWN, RESIZED): Stage(
        "the instance is here and waits for confirm or revert",
        _after((OWN, RESIZED), (OWN, CONFIRMING), (OWN, REVERTING), (OWN, ERASING), GONE),
        busy=False,
        cold=("resized", None, "finished"),
        live=(None, MIGRATING, "running"),
    ),
    (OWN, CONFIRMING): Stage(
        "a revert is no longer possible; the source's disks are removed",
        _after((OWN, CONFIRMING), (OWN, ACTIVE), (OWN, ERASING), GONE),
        cold=("resized", None, "confirming"),
        live=(None, MIGRATING, "completed"),
    ),
    (OWN, REVERTING): Stage(
        "the guest is stopped for the revert",
        _after((OWN, REVERTING), (OUT, REVERTED), (OWN, RESTORING), (OWN, CONFIRMING), (OWN, ERASING), GONE),
        cold=("resized", "resize_reverting", "reverting"),
    ),
    (OUT, REVERTED): Stage(
        "the destination has given the instance back",
        _after((OUT, REVERTED), (OWN, ERASING), GONE),
        busy=False,
        cold=("resized", "resize_reverting", "reverting"),
    ),
    (OWN, RESTORING): Stage(
        "the instance is back on its old host; what the other host holds is removed",
        _after((OWN, RESTORING), (OWN, ACTIVE), (OWN, FROZEN), (OWN, ERASING), GONE),
        cold=("resized", "resize_reverting", "reverting"),
        live=(None, MIGRATING, "failed"),
    ),
    (OWN, ERASING): Stage(
        "the instance is deleted during a move", _after((OWN, ERASING), GONE), True, _ERASED, _ERASED
    ),
}
# The states in which a record may begin.
FIRST = frozenset({(CLAIM, CLAIMED), (IN, INCOMING)})
BUSY = frozenset(state for state, stage in STAGES.items() if stage.busy)
MOVING = frozenset(phase for (_role, phase), stage in STAGES.items() if stage.cold or stage.live)


def check_change(old: Optional[State], new: Optional[State]) -> None:
    """Raise IllegalChange if a record in state ``old`` (None: there is none) may not become ``new`` (None: removed)."""
    if new is not None and new not in STAGES:
        raise IllegalChange("there is no %s of an instance in role %s" % (new[1], new[0]))
    if old is None:
        legal: FrozenSet[Optional[State]] = frozenset(FIRST)
    elif old in STAGES:
        legal = STAGES[old].after
    else:
        legal = frozenset({GONE})  # written by hand, or by a newer version: it may only be removed
    if new not in legal:
        raise IllegalChange("a record cannot become %s after %s" % (_shown(new), _shown(old)), before=old, after=new)


def _shown(state: Optional[State]) -> str:
    return "%s (%s)" % (state[1], state[0]) if state else "no record"


def names(live: bool, role: str, phase: str, vm_state_before: Optional[str]) -> Names:
    """Nova's (vm_state, task_state, status of the migration) of a record in a move."""
    stage = STAGES[role, phase]
    found = stage.live if live else stage.cold
    if found is None:
        raise IllegalChange("%s is no state of a %s" % (_shown((role, phase)), "live migration" if live else "resize"))
    vm_state, task_state, status = found
    return vm_state or vm_state_before, task_state, status


# Of a start or a stop that has begun and not ended.
SPAWNING = "spawning"  # until the guest was first started
POWERING_ON, POWERING_OFF = "powering-on", "powering-off"
REBUILDING = "rebuilding"
REBOOTING_HARD = "rebooting_hard"
UNPAUSING, RESUMING = "unpausing", "resuming"
RESCUING, UNRESCUING = "rescuing", "unrescuing"
SHELVING_OFFLOADING, UNSHELVING = "shelving_offloading", "unshelving"
STARTING = (SPAWNING, POWERING_ON, UNPAUSING, RESUMING, RESCUING, UNRESCUING)
# The power states of a guest with a QEMU.
PAUSED = ("paused", "suspended")
ALIVE = ("running", *PAUSED)
