# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order the steps of a move run on which host, and where a run that follows a crash goes on.

The roles walk these lists, the property test walks the same ones. No list decides anything: each step looks at the
record. What a run begins with follows from the two views alone (``next_sequence``).
"""

from __future__ import annotations

from ...model import migration as names
from ...model.record import IN, OUT, OWN

SOURCE, DESTINATION = "source", "destination"

SEQUENCES = {
    # R1-R8
    "resize": (
        (SOURCE, ("begin",)),
        (DESTINATION, ("claim", "receive")),
        (SOURCE, ("presend", "freeze", "send")),
        (DESTINATION, ("verify",)),
        (SOURCE, ("release",)),
        (DESTINATION, ("acquire", "start")),
    ),
    # R7-R8: the source has let go, there is no way but on
    "hand_over": ((DESTINATION, ("acquire", "start")),),
    # F1-F3
    "confirm": ((DESTINATION, ("confirm",)), (SOURCE, ("purge",)), (DESTINATION, ("finish",))),
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
    # L1-L8
    "live_migrate": (
        (SOURCE, ("begin",)),
        (DESTINATION, ("claim", "receive_seed")),
        (SOURCE, ("send_seed",)),
        (DESTINATION, ("prepare_live",)),
        (SOURCE, ("migrate_live", "release")),
        (DESTINATION, ("verify_live", "acquire", "start", "confirm")),
        (SOURCE, ("purge",)),
        (DESTINATION, ("finish",)),
    ),
    "live_hand_over": (
        (DESTINATION, ("verify_live", "acquire", "start", "confirm")),
        (SOURCE, ("purge",)),
        (DESTINATION, ("finish",)),
    ),
    # one host
    "resize_here": ((SOURCE, ("begin", "freeze", "resize_here", "start")),),
    "start_here": ((SOURCE, ("start",)),),
    "confirm_here": ((SOURCE, ("confirm", "drop_here", "finish")),),
    "revert_here": ((SOURCE, ("restore_here", "start", "finish")),),
}

# These hand out the attempt which the steps after them carry.
TAKING = ("begin", "confirm", "revert", "abort", "restore_here")


def next_sequence(wish, source, destination):
    """The name of the sequence that brings the move nearer to ``wish`` (resize, confirm, revert, abort), or None.

    ``source`` and ``destination`` are the views of the two hosts ({"role": None} for no record). What was begun and
    cannot be undone is finished first, whatever the wish is: run again for the wish.
    """
    move = source.get("migration") or destination.get("migration")
    if not move:
        return "resize" if wish == "resize" and source["role"] == OWN else None
    live = move["type"] == names.LIVE
    if names.same_host(move):
        return _next_here(wish, source)
    if destination["role"] == OWN and destination["phase"] == names.CONFIRMING:
        return "confirm"
    if source["role"] == OWN and source["phase"] == names.RESTORING:
        return "restore"
    if destination.get("phase") in (names.REVERTING, names.REVERTED):
        return "revert"
    if source["role"] == OUT and destination["role"] == IN:
        return "live_hand_over" if live else "hand_over"
    if destination["role"] == OWN and destination["phase"] == names.RESIZED:
        if live:
            return "live_hand_over"
        return {"resize": "hand_over", "confirm": "confirm", "revert": "revert", "abort": "revert"}[wish]
    if source["role"] == OWN and source["phase"] in (names.RESIZING, names.FROZEN):
        if wish in ("abort", "revert"):
            return "abort"
        return "live_migrate" if live else "resize"
    return None


def _next_here(wish, source):
    phase = source.get("phase")
    if phase == names.CONFIRMING:
        return "confirm_here"
    if phase in (names.REVERTING, names.RESTORING):
        return "revert_here"
    if phase == names.RESIZED:
        return {"resize": "start_here", "confirm": "confirm_here"}.get(wish, "revert_here")
    if phase in (names.RESIZING, names.FROZEN):
        return "resize_here" if wish in ("resize", "confirm") else "revert_here"
    return None
