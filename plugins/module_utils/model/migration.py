# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's names for a migration and its states, and the part of a record that describes it."""

from __future__ import annotations

from .messages import Document, Migration, Side
from .record import Record

# Nova's migration_type.
RESIZE, COLD, LIVE = "resize", "migration", "live-migration"
KINDS = (RESIZE, COLD, LIVE)
# The steps that take up a move. They issue the fencing token {op, attempt} that the later steps carry.
TAKING = ("begin", "confirm", "revert", "abort", "reclaim", "restore_here", "erase")
# What a step returns besides the record. The other side may need it in any later step.
SAID = ("disks", "volumes", "guest", "seen", "targets", "transfer", "sent", "health", "history")


def new_migration(
    op: str,
    kind: str,
    source: Side,
    destination: Side,
    record: Record,
    spec: Document,
    now: int,
    confirm_window: int = 0,
) -> Migration:
    """The migration part of a record at the beginning of a move.

    ``source`` and ``destination`` are {uuid, name}; ``spec`` is the request with the new flavor; ``attempt`` counts how
    often the move was taken up and only grows; ``frozen`` is the attempt for which the guest was stopped, ``verified``
    the one in which a live guest arrived; ``shared`` is whether both hosts share the storage, as the destination finds
    out; ``confirm_window`` is in seconds, 0 = never confirmed automatically; ``waits_since`` is the destination's time
    since its boot when it took over, see confirm_window.py. The destination adds ``arriving``: the bytes to copy.
    """
    return {
        "id": op,
        "type": kind,
        "status": None,
        "source": source,
        "destination": destination,
        "attempt": 1,
        "frozen": None,
        "verified": None,
        "shared": False,
        "started": False,
        "vm_state_before": record.vm_state or "active",
        "old_spec": record.spec,
        "new_spec": spec,
        "old_resources": record.resources,
        "confirm_window": confirm_window,
        "waits_since": None,
        "created_at": now,
    }


def same_host(migration: Migration) -> bool:
    return migration["source"]["uuid"] == migration["destination"]["uuid"]
