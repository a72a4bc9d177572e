# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Theory of operation: moves
============================

A resize, a migration, a confirm and a revert are all the same thing: two hosts, each with its own record of the
instance, go through the phases of model/lifecycle.py, and a controller that may die at any moment tells them when.

    source    OWN active -> resizing -> frozen -------> OUT keep ---------------------------> (purged)
                              |           |  disks         |                                     ^
    controller   begin, claim |   judge   |  ===>  release | receipt                    confirm  |
                              v           |                v                                     |
    destination  (none) ->  IN incoming ->  verified -> OWN resized ------> OWN confirming -> OWN active

Only the host whose record says OWN may start the guest. So there is one step that matters, the commit: ``release`` on
the source. Before it the source owns the instance, and the way back (``abort``) is always open. After it nobody owns the
instance until the destination has seen the source's receipt and does ``acquire``; then there is only the way on. The
source keeps its disks until a person confirms. A revert is the same hand-over in the other direction.

A leg is a few steps that one host does in one run of a module. A sequence is a list of legs. The controller
carries from one host to the other what each says of its record (its view), the operation (``op``), the attempt, and a
token. A step that finds another op, attempt, role or phase than it needs changes nothing and says so. The attempt grows
with each run that takes the move up, so a run that was thought dead and is not is fenced off.

Nobody writes down how far a run has come. The next run reads both records, computes the state of the move from them, and
continues with the sequence for that state (``next_sequence``). Steps that are done already find that and do nothing. A
killed run therefore needs no clean-up of its own, and running again is always the right answer.

A live migration differs in two legs. The destination waits for the guest in a process of its own, and libvirt hands the
guest over paused; the destination resumes it after it has acquired the instance. If the controller dies meanwhile, the
two hosts still end the hand-over between them, through messages in the guest's metadata (compute/move/handover.py).

A shelved instance has neither guest nor disks: its record moves, with its seed and volumes, and nothing waits for a confirm.

A host that is lost for good has sequences of its own (``_alone``): the other host ends the move without it, and the move
is noted (``lost_moves``), so that whatever the lost host brings back counts as left over.

The sequences
=============

In which order the steps of a move run on which host, which sequence continues a move that is found half done, and
after which failures the next host is tried (of a claim, of the disks to receive, of the checks of a live migration).

No sequence decides anything: each step looks at the record of its host first. The two views and the action alone decide
what a run begins with (``next_sequence``). procedures/move.py carries these sequences out, for the hosts and in the
tests alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, Optional, Tuple

from ..model import lifecycle
from ..model import migration as names
from ..model.lifecycle import IN, OUT, OWN
from ..model.messages import Migration, View
from ..model.vm_states import PAUSED, SHELVED

# Where a leg runs. FLEET: on no host; all hosts are read again, and what they hold is judged.
SOURCE, DESTINATION, FLEET = "source", "destination", "fleet"

# What a leg needs besides the fencing token and the other side's view. What was decided when the move was planned:
DECISION = ("kind", "spec", "limits", "source", "destination", "confirm_window")


@dataclass(frozen=True)
class Leg:
    """Steps that run one after the other on one side. ``label`` is what people see; ``needs`` are arguments of module
    migration; ``other_candidate``: if the leg fails, the move begins again with the next candidate; ``may_be_last``:
    the hosts may have come to the end of the sequence, and then the later legs are skipped."""

    side: str
    steps: Tuple[str, ...]
    label: str
    needs: Tuple[str, ...] = ()
    other_candidate: bool = False
    may_be_last: bool = False

    @property
    def takes_token(self) -> bool:
        """Whether one of its steps takes up the move, and so issues the fencing token that later steps must carry."""
        return any(step in names.TAKING for step in self.steps)


@dataclass(frozen=True)
class Sequence:
    """``abandoned``: the sequence that gives up what this one began, if it fails; ``lost``: it continues without the
    other host, which is lost for good; ``prepares``: so many legs only claim room and do not touch the guest (None:
    the sequence cannot be prepared)."""

    legs: Tuple[Leg, ...]
    abandoned: Optional[str] = None
    lost: bool = False
    prepares: Optional[int] = None


BEGIN = Leg(SOURCE, ("begin",), "Begin the move on its source", DECISION)
CLAIM = Leg(DESTINATION, ("claim",), "Claim room on the destination", DECISION)
JUDGE = Leg(FLEET, (), "See whether the claim stands")
ACQUIRE = Leg(DESTINATION, ("acquire", "start"), "Take the instance over on the destination and start its guest")
PURGE_SOURCE = Leg(SOURCE, ("purge",), "Remove what the source kept")
PURGE_DESTINATION = Leg(DESTINATION, ("purge",), "Remove what the destination holds")
FINISH_ON_SOURCE = Leg(SOURCE, ("finish",), "End the move on the source")
FINISH_ON_DESTINATION = Leg(DESTINATION, ("finish",), "End the move on the destination")
GO_ON_LIVE = (
    Leg(
        DESTINATION,
        ("verify_live", "acquire", "start", "confirm"),
        "Take the running guest over on the destination and resume it",
    ),
    PURGE_SOURCE,
    FINISH_ON_DESTINATION,
)
GO_ON_SHELVED = (
    Leg(DESTINATION, ("acquire", "confirm"), "Take the shelved instance over on the destination"),
    PURGE_SOURCE,
    FINISH_ON_DESTINATION,
)
ERASE = ("changed_disks",)
# What a person or a timer said about the confirmation.
CONFIRMATION = ("when_due", "crashed")

SEQUENCES: Dict[str, Sequence] = {
    "resize": Sequence(
        (
            BEGIN,
            replace(CLAIM, other_candidate=True),
            replace(JUDGE, other_candidate=True),
            # the guest still runs on the source, and nothing starts on the destination before the source has let go
            Leg(DESTINATION, ("receive",), "Open empty disks on the destination", ("key", "stop_timeout"), True),
            Leg(
                SOURCE,
                ("presend", "freeze", "send", "release"),
                "Copy the disks, stop the guest, copy the rest and give it up on the source",
                ("key", "bandwidth", "copy_while_running", "stop_timeout"),
            ),
            ACQUIRE,
        ),
        abandoned="abort",
        prepares=3,
    ),
    # The source has let go: the move can only continue.
    "hand_over": Sequence((ACQUIRE,), prepares=0),
    "confirm": Sequence(
        (
            Leg(DESTINATION, ("confirm",), "Confirm the move on the destination", CONFIRMATION),
            PURGE_SOURCE,
            Leg(DESTINATION, ("drop_old", "finish"), FINISH_ON_DESTINATION.label),
        )
    ),
    "revert": Sequence(
        (
            Leg(SOURCE, ("see_kept",), "See that the source still has its disks"),
            Leg(
                DESTINATION,
                ("revert", "give_back"),
                "Stop the guest on the destination and give the instance back",
                ("stop_timeout", "revert_volumes"),
            ),
            Leg(SOURCE, ("take_back", "start"), "Take the instance back on the source and start its guest"),
            PURGE_DESTINATION,
            FINISH_ON_SOURCE,
        )
    ),
    "abort": Sequence(
        (
            Leg(SOURCE, ("abort", "start"), "Give the move up on the source and let the guest continue there"),
            PURGE_DESTINATION,
            FINISH_ON_SOURCE,
        )
    ),
    # What is left of a move that was given up, or of a revert.
    "restore": Sequence(
        (Leg(SOURCE, ("start",), "Start the guest on the source"), PURGE_DESTINATION, FINISH_ON_SOURCE)
    ),
    # The instance is deleted in the middle of a move, or before it was confirmed.
    "delete": Sequence(
        (
            Leg(SOURCE, ("erase",), "Delete the instance on the source", ERASE),
            replace(PURGE_DESTINATION, needs=ERASE),
            Leg(SOURCE, ("forget",), "Remove its record on the source"),
        )
    ),
    "delete_there": Sequence(
        (
            Leg(DESTINATION, ("erase",), "Delete the instance on the destination", ERASE),
            replace(PURGE_SOURCE, needs=ERASE),
            Leg(DESTINATION, ("forget",), "Remove its record on the destination"),
        )
    ),
    "live_migrate": Sequence(
        (
            BEGIN,
            Leg(
                DESTINATION,
                ("claim", "inspect_live", "receive_seed"),
                "Claim room on the destination, and see whether it can take the running guest",
                (*DECISION, "key"),
                other_candidate=True,
            ),
            replace(JUDGE, other_candidate=True),
            Leg(
                SOURCE,
                ("check_live", "follow_live", "send_seed"),
                "Check all that the live migration needs, then send the seed",
                ("key", "permit_auto_converge", "max_pause", "timeout", "timeout_action", "tls"),
                other_candidate=True,
            ),
            # The process that waits there and the source's next leg together do what the later legs would do. If that
            # process is lost, only time is lost.
            Leg(
                DESTINATION,
                ("prepare_live", "take_over"),
                "Prepare the destination and have it wait for the guest",
            ),
            Leg(
                SOURCE,
                ("migrate_live", "release", "tell"),
                "Hand the running guest over and give it up on the source",
                ("bandwidth", "permit_auto_converge", "max_pause", "timeout", "timeout_action", "tls"),
                may_be_last=True,
            ),
            *GO_ON_LIVE,
        ),
        abandoned="abort",
    ),
    "live_hand_over": Sequence(GO_ON_LIVE),
    "migrate_shelved": Sequence(
        (
            BEGIN,
            replace(CLAIM, other_candidate=True),
            replace(JUDGE, other_candidate=True),
            Leg(DESTINATION, ("receive",), "Make room for its seed and volumes on the destination", ("key",), True),
            Leg(
                SOURCE,
                ("freeze", "send", "release"),
                "Copy its seed and volumes and give it up on the source",
                ("key", "bandwidth"),
            ),
            *GO_ON_SHELVED,
        ),
        abandoned="abort",
    ),
    "hand_over_shelved": Sequence(GO_ON_SHELVED),
    "abort_alone": Sequence(
        (Leg(SOURCE, ("abort", "start", "finish"), "Give the move up without its destination"),), lost=True
    ),
    "reclaim_alone": Sequence(
        (Leg(SOURCE, ("reclaim", "start", "finish"), "Take the instance back without its destination"),), lost=True
    ),
    "confirm_alone": Sequence(
        (Leg(DESTINATION, ("confirm", "drop_old", "finish"), "Confirm the move without its source"),), lost=True
    ),
    "delete_alone": Sequence(
        (Leg(SOURCE, ("erase", "forget"), "Delete the instance without its destination", ERASE),), lost=True
    ),
    "delete_there_alone": Sequence(
        (Leg(DESTINATION, ("erase", "forget"), "Delete the instance without its source", ERASE),), lost=True
    ),
    # A lost host is back: what it holds is no longer the instance.
    "sweep": Sequence((Leg(DESTINATION, ("purge",), "Remove what a host that was lost brought back"),), lost=True),
    # One host.
    "resize_here": Sequence(
        (
            BEGIN,
            JUDGE,
            Leg(SOURCE, ("grow",), "Give the running guest what it can get without a restart", may_be_last=True),
            Leg(
                SOURCE,
                ("freeze", "resize_here", "start"),
                "Stop the guest, keep its disks, let them grow and start it",
                ("stop_timeout",),
            ),
        ),
        abandoned="revert_here",
        prepares=0,
    ),
    "start_here": Sequence((Leg(SOURCE, ("start",), "Start the guest"),), prepares=0),
    "confirm_here": Sequence(
        (Leg(SOURCE, ("confirm", "drop_old", "finish"), "Confirm the resize on the same host", CONFIRMATION),)
    ),
    "revert_here": Sequence(
        (
            Leg(
                SOURCE,
                ("restore_here", "start", "finish"),
                "Revert the resize on the same host",
                ("stop_timeout",),
            ),
        )
    ),
    "delete_here": Sequence((Leg(SOURCE, ("erase", "forget"), "Delete the instance", ERASE),)),
}


# What the two hosts hold, and what may be asked for: the move that was found or would begin, another one (another
# kind, flavor or target), its confirmation, its end with the instance back where it was, or the instance's deletion.
REST, BEGUN, UNCLAIMED, LOST, RELEASED, RESIZED, CONFIRMING, REVERTING, RESTORING, ERASING, KEPT, LEFT = (
    "rest", "begun", "unclaimed", "lost", "released", "resized", "confirming", "reverting", "restoring", "erasing", "kept",
    "left",
)  # fmt: skip
MOVE, OTHER, CONFIRM, REVERT, DELETE = "move", "other", "confirm", "revert", "delete"

Row = Dict[str, Optional[Tuple[str, bool]]]
Table = Dict[str, Row]
# state -> action -> (the sequence that comes first, whether it does what was asked). If it does not, the run reads the
# hosts again after it and goes on. None: this action is impossible. What cannot be undone is finished first.
NEXT: Table = {
    REST: {MOVE: ("resize", True), OTHER: ("resize", True), CONFIRM: None, REVERT: None},
    BEGUN: {MOVE: ("resize", True), OTHER: ("abort", False), CONFIRM: None, REVERT: ("abort", True)},
    # Only the source knows the destination and the request: the instance is placed again.
    UNCLAIMED: {MOVE: ("abort", False), OTHER: ("abort", False), CONFIRM: None, REVERT: ("abort", True)},
    LOST: {MOVE: ("abort", False), OTHER: ("abort", False), CONFIRM: None, REVERT: ("abort", True)},
    RELEASED: {
        MOVE: ("hand_over", True),
        OTHER: ("hand_over", False),
        CONFIRM: ("hand_over", False),
        REVERT: ("hand_over", False),
    },
    RESIZED: {MOVE: ("hand_over", True), OTHER: None, CONFIRM: ("confirm", True), REVERT: ("revert", True)},
    CONFIRMING: {
        MOVE: ("confirm", False),
        OTHER: ("confirm", False),
        CONFIRM: ("confirm", True),
        REVERT: ("confirm", False),
    },
    REVERTING: {
        MOVE: ("revert", False),
        OTHER: ("revert", False),
        CONFIRM: ("revert", False),
        REVERT: ("revert", True),
    },
    RESTORING: {
        MOVE: ("restore", False),
        OTHER: ("restore", False),
        CONFIRM: ("restore", False),
        REVERT: ("restore", True),
    },
    ERASING: {MOVE: None, OTHER: None, CONFIRM: None, REVERT: None},
    LEFT: {MOVE: ("sweep", False), OTHER: ("sweep", False), CONFIRM: ("sweep", False), REVERT: ("sweep", False)},
}
# A live migration confirms itself at its end, and so does the move of a shelved instance: nobody is asked.
NEXT_LIVE: Table = {
    **NEXT,
    RESIZED: {action: ("hand_over", action == MOVE) for action in (MOVE, OTHER, CONFIRM, REVERT)},
    CONFIRMING: {**NEXT[CONFIRMING], MOVE: ("confirm", True)},
}
# One host is lost for good. Before the source let go, and after the hand-over, the other host has all that is needed;
# KEPT is the source's copy from before the resize, so only a revert uses it. Otherwise the move cannot continue.
GIVE_UP: Row = {MOVE: ("abort_alone", False), OTHER: ("abort_alone", False), REVERT: ("abort_alone", True)}
NEXT_ALONE: Table = {
    BEGUN: GIVE_UP,
    LOST: GIVE_UP,
    RESTORING: GIVE_UP,
    KEPT: {REVERT: ("reclaim_alone", True)},
    RESIZED: {MOVE: ("hand_over", True), CONFIRM: ("confirm_alone", True)},
    CONFIRMING: {action: ("confirm_alone", action == CONFIRM) for action in (MOVE, OTHER, CONFIRM, REVERT)},
    REVERTING: {CONFIRM: ("confirm_alone", True)},
    LEFT: NEXT[LEFT],
}
NEXT_LIVE_ALONE: Table = {
    **NEXT_ALONE,
    **{
        found: {action: ("confirm_alone", action == MOVE) for action in (MOVE, OTHER, CONFIRM, REVERT)}
        for found in (RESIZED, CONFIRMING)
    },
}
# The same sequences under other names.
LIVE_NAMES = {"resize": "live_migrate", "hand_over": "live_hand_over"}
SHELVED_NAMES = {"resize": "migrate_shelved", "hand_over": "hand_over_shelved"}
HERE_NAMES = {
    "resize": "resize_here",
    "hand_over": "start_here",
    "confirm": "confirm_here",
    "revert": "revert_here",
    "abort": "revert_here",
    "restore": "revert_here",
    "delete": "delete_here",
}
PHASES = {
    lifecycle.RESIZING: BEGUN,
    lifecycle.FROZEN: BEGUN,
    lifecycle.RESIZED: RESIZED,
    lifecycle.CONFIRMING: CONFIRMING,
    lifecycle.REVERTING: REVERTING,
    lifecycle.RESTORING: RESTORING,
    lifecycle.ERASING: ERASING,
}


def state(source: View, destination: View) -> Optional[str]:
    """The state of a move, from the views of the two hosts ({"role": None} if it has no record; with ``lost`` if the
    host is lost; with ``left`` if its record is of a move that ended without it). None: unknown."""
    if destination.get("left"):
        return LEFT
    move = source.get("migration") or destination.get("migration")
    if not move:
        return REST if source["role"] == OWN else None
    owner = next((view for view in (source, destination) if view["role"] == OWN), None)
    if owner is None:
        if source["role"] == OUT and destination.get("lost"):
            return KEPT
        if source["role"] != OUT:
            return None
        return {IN: RELEASED, OUT: REVERTING}.get(destination["role"] or "")
    found = PHASES.get(owner["phase"])
    is_meant = source.get("power_state") == PAUSED
    if found == BEGUN and move["type"] == names.LIVE and source.get("halted") and not is_meant:
        # The migration was cut off and left the guest paused on the source, which has not let go: it resumes there.
        return LOST
    if found == BEGUN and move["type"] == names.LIVE and not source["running"]:
        # A guest that neither runs nor has moved died with its host: it must be started where its disks are.
        return BEGUN if source["has_left"] and destination.get("running") else LOST
    there = destination["role"] or destination.get("lost") or names.same_host(move)
    return UNCLAIMED if found == BEGUN and not there else found


def next_sequence(action: str, source: View, destination: View) -> Tuple[Optional[str], bool]:
    """What comes first: (name of the sequence or None, whether it does what was asked)."""
    move = source.get("migration") or destination.get("migration")
    live, shelved = (move["type"] == names.LIVE, is_shelved(move)) if move else (False, False)
    lost = source.get("lost") or destination.get("lost")
    if action == DELETE:
        return deletion(source, destination), True
    ends_itself = live or shelved
    table = (NEXT_LIVE_ALONE if ends_itself else NEXT_ALONE) if lost else (NEXT_LIVE if ends_itself else NEXT)
    found = state(source, destination)
    first = table.get(found, {}).get(action) if found else None
    if first is None:
        return None, False
    name, reaches = first
    here = bool(move and names.same_host(move))
    others = LIVE_NAMES if live else SHELVED_NAMES if shelved else HERE_NAMES if here else {}
    return others.get(name, name), reaches


def is_shelved(move: Migration) -> bool:
    return move.get("vm_state_before") == SHELVED


def beginning(kind: str, source: View, stays: bool) -> str:
    """The sequence of a move that begins; ``stays``: on its host."""
    if stays:
        return HERE_NAMES["resize"]
    others = LIVE_NAMES if kind == names.LIVE else SHELVED_NAMES if source.get("vm_state") == SHELVED else {}
    return others.get("resize", "resize")


def deletion(source: View, destination: View) -> Optional[str]:
    """The owner of the instance, or its next owner, ends the move: the other side gave it up and can only be purged."""
    move = source.get("migration") or destination.get("migration")
    if not move:
        return None
    if names.same_host(move):
        return HERE_NAMES["delete"]
    there = destination["role"] == OWN or (source["role"], destination["role"]) in ((OUT, IN), (None, IN), (None, OUT))
    owner, other = (destination, source) if there else (source, destination)
    # If the other side holds nothing, it cannot send the receipt that would make this side the owner.
    alone = other.get("lost") or (other["role"] is None and owner["role"] != OWN)
    return ("delete_there" if there else "delete") + ("_alone" if alone else "")
