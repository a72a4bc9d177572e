# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order the steps of a move run on which host, and where a run that follows a crash goes on.

The roles walk these lists, the property test walks the same ones. No list decides anything: each step looks at the
record. What a run begins with follows from the two views and the wish alone (``next_sequence``).
"""

from __future__ import annotations

from ...model import lifecycle
from ...model import migration as names
from ...model.lifecycle import IN, OUT, OWN

SOURCE, DESTINATION = "source", "destination"

SEQUENCES = {
    # R1-R8
    "resize": (
        (SOURCE, ("begin",)),
        (DESTINATION, ("claim", "receive")),
        (SOURCE, ("presend", "freeze", "send", "release")),
        (DESTINATION, ("acquire", "start")),
    ),
    # R7-R8: the source has let go, there is no way but on
    "hand_over": ((DESTINATION, ("acquire", "start")),),
    # F1-F3
    "confirm": ((DESTINATION, ("confirm",)), (SOURCE, ("purge",)), (DESTINATION, ("drop_old", "finish"))),
    # V1-V6
    "revert": (
        (DESTINATION, ("revert", "give_back")),
        (SOURCE, ("take_back", "start")),
        (DESTINATION, ("purge",)),
        (SOURCE, ("finish",)),
    ),
    # A1-A3, and its rest and that of a revert
    "abort": ((SOURCE, ("abort", "start")), (DESTINATION, ("purge",)), (SOURCE, ("finish",))),
    "restore": ((SOURCE, ("start",)), (DESTINATION, ("purge",)), (SOURCE, ("finish",))),
    # D1-D3: the instance is deleted in the middle of a move, or before it was confirmed
    "delete": ((SOURCE, ("erase",)), (DESTINATION, ("purge",)), (SOURCE, ("forget",))),
    "delete_there": ((DESTINATION, ("erase",)), (SOURCE, ("purge",)), (DESTINATION, ("forget",))),
    # L1-L8
    "live_migrate": (
        (SOURCE, ("begin",)),
        (DESTINATION, ("claim", "inspect_live", "receive_seed")),
        (SOURCE, ("check_live", "send_seed")),
        (DESTINATION, ("prepare_live", "take_over")),
        (SOURCE, ("migrate_live", "release", "tell")),
        (DESTINATION, ("verify_live", "acquire", "start", "confirm")),
        (SOURCE, ("purge",)),
        (DESTINATION, ("finish",)),
    ),
    "live_hand_over": (
        (DESTINATION, ("verify_live", "acquire", "start", "confirm")),
        (SOURCE, ("purge",)),
        (DESTINATION, ("finish",)),
    ),
    # the other host is lost for good: the steps are told so
    "abort_alone": ((SOURCE, ("abort", "start", "finish")),),
    "reclaim_alone": ((SOURCE, ("reclaim", "start", "finish")),),
    "confirm_alone": ((DESTINATION, ("confirm", "drop_old", "finish")),),
    "delete_alone": ((SOURCE, ("erase", "forget")),),
    "delete_there_alone": ((DESTINATION, ("erase", "forget")),),
    # a host that was lost is back: what it holds is not the instance any more
    "sweep": ((DESTINATION, ("purge",)),),
    # one host
    "resize_here": ((SOURCE, ("begin", "freeze", "resize_here", "start")),),
    "start_here": ((SOURCE, ("start",)),),
    "confirm_here": ((SOURCE, ("confirm", "drop_old", "finish")),),
    "revert_here": ((SOURCE, ("restore_here", "start", "finish")),),
    "delete_here": ((SOURCE, ("erase", "forget")),),
}

# These hand out the attempt which the steps after them carry.
TAKING = ("begin", "confirm", "revert", "abort", "reclaim", "restore_here", "erase")


# What the two hosts hold, and what may be wished for: the move that was found or would begin, another one (another
# kind, flavor or target), its confirmation, its end with the instance where it was, or the end of the instance.
REST, BEGUN, UNCLAIMED, LOST, RELEASED, RESIZED, CONFIRMING, REVERTING, RESTORING, ERASING, KEPT, LEFT = (
    "rest", "begun", "unclaimed", "lost", "released", "resized", "confirming", "reverting", "restoring", "erasing", "kept",
    "left",
)  # fmt: skip
MOVE, OTHER, CONFIRM, REVERT, DELETE = "move", "other", "confirm", "revert", "delete"

# state -> wish -> (the sequence that comes first, whether it brings what is wished for). Where it does not, the run
# looks again after it and goes on. None: nothing can be done for this wish. What cannot be undone is ended first.
NEXT = {
    REST: {MOVE: ("resize", True), OTHER: ("resize", True), CONFIRM: None, REVERT: None},
    BEGUN: {MOVE: ("resize", True), OTHER: ("abort", False), CONFIRM: None, REVERT: ("abort", True)},
    # Only the source knows where it was to go and as what: it is placed anew.
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
# A live migration is confirmed as it ends: nobody is asked.
NEXT_LIVE = {
    **NEXT,
    RESIZED: {wish: ("hand_over", wish == MOVE) for wish in (MOVE, OTHER, CONFIRM, REVERT)},
    CONFIRMING: {**NEXT[CONFIRMING], MOVE: ("confirm", True)},
}
# One host is lost for good. Before the source let go, and from the hand-over on, the other has all that it takes; KEPT is
# the source's copy from before the resize, so only who asks for a revert gets it. Else there is nothing to go on with.
GIVE_UP = {MOVE: ("abort_alone", False), OTHER: ("abort_alone", False), REVERT: ("abort_alone", True)}
NEXT_ALONE = {
    BEGUN: GIVE_UP,
    LOST: GIVE_UP,
    RESTORING: GIVE_UP,
    KEPT: {REVERT: ("reclaim_alone", True)},
    RESIZED: {MOVE: ("hand_over", True), CONFIRM: ("confirm_alone", True)},
    CONFIRMING: {wish: ("confirm_alone", wish == CONFIRM) for wish in (MOVE, OTHER, CONFIRM, REVERT)},
    REVERTING: {CONFIRM: ("confirm_alone", True)},
    LEFT: NEXT[LEFT],
}
NEXT_LIVE_ALONE = {
    **NEXT_ALONE,
    **{
        found: {wish: ("confirm_alone", wish == MOVE) for wish in (MOVE, OTHER, CONFIRM, REVERT)}
        for found in (RESIZED, CONFIRMING)
    },
}
# The same sequences where they have another name.
LIVE_NAMES = {"resize": "live_migrate", "hand_over": "live_hand_over"}
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


def state(source, destination):
    """What a move has come to, from the views of the two hosts ({"role": None} for no record, with ``lost`` where the
    host is; with ``left`` where what it holds is of a move that ended without it); None: nothing known."""
    if destination.get("left"):
        return LEFT
    move = source.get("migration") or destination.get("migration")
    if not move:
        return REST if source["role"] == OWN else None
    owner = next((view for view in (source, destination) if view["role"] == OWN), None)
    if owner is None:
        if source["role"] == OUT and destination.get("lost"):
            return KEPT
        return {(OUT, IN): RELEASED, (OUT, OUT): REVERTING}.get((source["role"], destination["role"]))
    found = PHASES.get(owner["phase"])
    if found == BEGUN and move["type"] == names.LIVE and source.get("halted"):
        # The migration was cut off and left it standing on the source, which has not let go: there it goes on.
        return LOST
    if found == BEGUN and move["type"] == names.LIVE and not source["running"]:
        # A guest that neither runs nor has gone over died with its host: it has to be started where its disks are.
        return BEGUN if source["has_left"] and destination.get("running") else LOST
    there = destination["role"] or destination.get("lost") or names.same_host(move)
    return UNCLAIMED if found == BEGUN and not there else found


def next_sequence(wish, source, destination):
    """What comes first: (name of the sequence or None, whether it brings what is wished for)."""
    move = source.get("migration") or destination.get("migration")
    live = bool(move) and move["type"] == names.LIVE
    lost = source.get("lost") or destination.get("lost")
    if wish == DELETE:
        return deletion(source, destination), True
    table = (NEXT_LIVE_ALONE if live else NEXT_ALONE) if lost else (NEXT_LIVE if live else NEXT)
    name, reaches = (table.get(state(source, destination)) or {}).get(wish) or (None, False)
    if live:
        name = LIVE_NAMES.get(name, name)
    elif move and names.same_host(move):
        name = HERE_NAMES.get(name, name)
    return name, reaches


def deletion(source, destination):
    """Who owns the instance, or would next, ends it: the other side has let go and can only be purged."""
    move = source.get("migration") or destination.get("migration")
    if not move:
        return None
    if names.same_host(move):
        return HERE_NAMES["delete"]
    there = destination["role"] == OWN or (source["role"], destination["role"]) in ((OUT, IN), (None, IN), (None, OUT))
    owner, other = (destination, source) if there else (source, destination)
    # Where the other holds nothing, no receipt can come that would make an owner of who is none.
    alone = other.get("lost") or (other["role"] is None and owner["role"] != OWN)
    return ("delete_there" if there else "delete") + ("_alone" if alone else "")
