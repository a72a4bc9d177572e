# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances whose resize or cold migration waits for confirm_resize or revert_resize (Nova's VERIFY_RESIZE): which wait,
which of them confirm_due confirms, and what people are told."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional

from ..model import fleet_hints, hints, lifecycle
from ..model.lifecycle import OWN
from ..model.messages import View
from ..model.vm_states import RESIZED
from .fleet import Place


def place_among(places: Iterable[Place]) -> Optional[Place]:
    """The place of an instance that was resized and waits for confirmation (VERIFY_RESIZE), or None."""
    owners = [place for place in places if place["role"] == OWN]
    # With a second owner, it is the copy of a host that was given up as lost.
    return owners[0] if len(owners) == 1 and is_at(owners[0]) else None


def is_at(place: Place) -> bool:
    return place["vm_state"] == RESIZED and not place["task_state"]


def is_due(move: Mapping[str, Any]) -> bool:
    """Whether ``confirm_due`` confirms the move: its host says that the window is over, or a confirm was begun."""
    return view_is_due({**owner(move), "confirm_in": move.get("confirm_in")})


def view_is_due(view: View) -> bool:
    """The same by what one host holds, where no move could be planned."""
    phase = view.get("phase")
    return phase == lifecycle.CONFIRMING or (phase == lifecycle.RESIZED and view.get("confirm_in") == 0)


def is_unconfirmed(move: Mapping[str, Any]) -> bool:
    return owner(move).get("phase") == lifecycle.RESIZED


def owner(move: Mapping[str, Any]) -> View:
    return move["views"]["destination"] if move["views"]["destination"]["role"] else move["views"]["source"]


def waits(phase: Optional[str]) -> str:
    """The message about an instance in VERIFY_RESIZE. A confirm that has begun cannot be taken back."""
    if phase == lifecycle.CONFIRMING:
        return "was being confirmed by a run that ended; confirm_resize goes on with it"
    return "waits for confirm_resize or revert_resize"


def to_end(place: Place, name: str) -> str:
    """The hint for an instance in VERIFY_RESIZE that is to be changed."""
    return (fleet_hints.end_confirm if place["phase"] == lifecycle.CONFIRMING else hints.confirm_or_revert)(name)


def described(phase: Optional[str], confirm_in: Optional[int]) -> str:
    """The same, with when confirm_due confirms it. ``confirm_in`` is in seconds; None means never."""
    return waits(phase) if confirm_in is None else "%s; confirm_due confirms it in %d s" % (waits(phase), confirm_in)


def guest_at_confirm(name: str, health: Mapping[str, str]) -> str:
    """The message about a guest whose move is confirmed, see compute/guest/health.py."""
    if health["state"] in ("no panic seen", "not looked at"):
        return "%s: nobody saw its guest come up (%s). It may still be booting: look again with berth.kvm.console --limit %s" % (
            name, health["seen"], name,
        )  # fmt: skip
    return "%s: its guest: %s (%s)" % (name, health["state"], health["seen"])
