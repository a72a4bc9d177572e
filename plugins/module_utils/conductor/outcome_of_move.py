# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a resize, migration, confirm or revert for one instance, for the closing table."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Tuple

from ..model import disk_words, hot_plug, lifecycle
from ..model import migration as migrations
from ..model.safe_text import clean_all
from . import downtime, unconfirmed
from .closing_table import FAILED, Outcome, address_of, first_word
from .fleet import Place

# Operation -> the state shown afterwards.
DONE = {
    "cold_migrate": "migrated",
    "confirm": "confirmed",
    "confirm_due": "confirmed",
    "delete": "deleted",
    "live_migrate": "migrated",
    "migrate": "migrated",
    "resize": "resized",
    "revert": "reverted",
}
# These operations end a move; the others begin one, which waits for a confirm unless it is live.
ENDS = ("confirm", "confirm_due", "delete", "revert")
WOULD = "would be "
GONE = "HostUnknown: the host stopped answering, so its result is unknown"
Where = Tuple[str, str]  # host, flavor
# What a sequence means for the guest, shown before anything happens. Other sequences only end what was begun.
_STOPS = "Its guest, if it runs, is stopped for the last part of the copy and started on {host}"
MEANS = {
    "resize": _STOPS,
    "resize_here": "Its guest, if it runs, is stopped and started again",
    "live_migrate": "Its guest keeps running",
    "migrate_shelved": "It stays shelved",
    **dict.fromkeys(
        ("confirm", "confirm_here", "confirm_alone"),
        "It cannot be reverted after this: what was kept for a revert is removed",
    ),
    **dict.fromkeys(
        ("revert", "revert_here", "reclaim_alone"), "Its guest is stopped, and what it wrote since the move is lost"
    ),
}

GROWS = "Its guest, if it runs, gets its CPUs and memory without a restart"
SHRINKS = "Its guest gives its CPUs and memory back without a restart, or is restarted if it does not. Nothing that it wrote is lost"


def outcome(operation: str, name: str, moves: Dict[str, Any], done: Dict[str, Any], check_mode: bool) -> Outcome:
    """``moves`` is the fact berth_moves; ``done`` what became of the instance: {failure, move, attempts, destination,
    away}, or {gone} if Ansible has dropped it from the play."""
    move = moves["moves"].get(name)
    gone = GONE if done.get("gone") else ""
    error = done.get("failure") or gone or moves["errors"].get(name) or ""
    if move is None:
        shown = moves.get("shown", {}).get(name) or {}
        line = Outcome(
            name, FAILED, shown.get("host") or "", shown.get("flavor") or "", address_of(shown.get("networks"))
        )
        line.why, line.error, line.error_details = first_word(error), error, _details(moves, name, error)
        return line
    before, after = _before(move), _after(move)
    last, attempts = done.get("move") or {}, done.get("attempts") or []
    if attempts and done.get("destination"):
        after = done["destination"], after[1]  # another candidate than the first
    line = Outcome(name, "unchanged", address=address_of((move["views"]["source"].get("spec") or {}).get("networks")))
    acted = name in moves["act"] and not error
    differs = moves.get("differs", {}).get(name, ())
    confirms = operation in ("confirm", "confirm_due")
    where = after if acted and operation != "revert" or not acted and confirms else before
    line.host, line.flavor = where
    if error:
        line.state, line.why, line.error = FAILED, first_word(error), error
    elif not acted:
        line.host, line.flavor = _now(move)
        line.why = "; ".join(filter(None, [str(move.get("why") or ""), *differs]))
    else:
        line.state = _state(operation, last, check_mode)
        line.why = _why(operation, line, before, after, last)
        if attempts:
            line.why += "; attempt %d, after %s" % (
                len(attempts) + 1,
                ", ".join("%s on %s" % (entry["code"], entry["host"]) for entry in attempts),
            )
        away = downtime.described(done)
        given_up = disk_words.given_up(_gone(move)) if operation == "delete" else ""
        line.why = "; ".join(filter(None, [line.why, given_up, away, *differs]))
    return line


def _gone(move: Dict[str, Any]) -> List[str]:
    """The disks that a delete removes, in words, on both hosts."""
    return disk_words.going(_owner(move).get("spec") or {})


def _details(moves: Dict[str, Any], name: str, error: str) -> Dict[str, Any]:
    """Those of the plan's error, if that is the one that is told."""
    return moves.get("error_details", {}).get(name, {}) if error == moves["errors"].get(name) else {}


def difference(operation: str, line: Outcome, moves: Dict[str, Any]) -> Optional[Dict[str, str]]:
    """What check mode shows as Ansible's diff for an instance that would be moved; None if nothing would change."""
    move = moves["moves"].get(line.instance)
    if move is None or not line.state.startswith(WOULD):
        return None
    owner, (host, flavor) = _owner(move), _now(move)
    migration = _migration(move) or {}
    vm_state = migration.get("vm_state_before") or owner.get("vm_state")
    placed = operation not in ENDS and move["kind"] != migrations.LIVE and move["sequence"] != "migrate_shelved"
    before = {"host": host, "flavor": flavor, "vm_state": owner.get("vm_state")}
    after = {"host": line.host, "flavor": line.flavor, "vm_state": "resized" if placed else vm_state}
    if operation == "delete":
        before["gives_up"] = _gone(move)
    texts = [json.dumps(state, indent=1, sort_keys=True) + "\n" for state in (before, after)]
    gone = operation == "delete"
    header = {"before_header": line.instance, "after_header": line.instance}
    return {**header, "before": texts[0], "after": "" if gone else texts[1]}


def afterwards(operation: str, move: Dict[str, Any], place: Place) -> Place:
    """The instance as the operation leaves it, to compare it with the inventory then. A guest that runs on keeps what
    somebody changed in it; its definition, and any other guest, is made anew from the record."""
    flavor = clean_all((_spec_before(move) if operation == "revert" else _spec_after(move)).get("flavor") or {})
    runs_on, differs = move["kind"] == migrations.LIVE, place["domain_differs"]
    if operation not in ("confirm", "confirm_due"):
        differs = {"now": differs["now"]} if runs_on and differs and "now" in differs else None
    return {
        **place,
        "role": lifecycle.OWN,
        "phase": lifecycle.ACTIVE if runs_on or operation in ENDS else lifecycle.RESIZED,
        "flavor": flavor.get("name"),
        "content": flavor,
        "domain_differs": differs,
    }


def _meaning(move: Dict[str, Any]) -> str:
    """What it means for the guest."""
    if move["sequence"] == "resize_here":
        why = hot_plug.restart_needed(_spec_before(move), _spec_after(move))
        return GROWS if why is None else MEANS["resize_here"] + (", because %s" % why if why else "")
    if move["sequence"] == "revert_here" and (_migration(move) or {}).get("grown"):
        return SHRINKS
    return MEANS.get(move["sequence"], "")


def plan_line(name: str, operation: str, move: Dict[str, Any]) -> str:
    """One line on what a run is about to do, with the direction in which the instance really moves."""
    if move["sequence"] is None:
        return "%s: nothing to do, it %s" % (name, move["why"])
    start, end = move["source"], move["destination"]
    if operation == "revert":
        start, end = end, start
    way = "on %s" % start if start == end or end is None else "%s -> %s" % (start, end)
    if operation in ("confirm", "confirm_due"):
        way = "on %s" % end
    line = "%s: %s, %s%s" % (name, operation, way, " (%s)" % move["why"] if move["why"] else "")
    meaning = _meaning(move).format(source=move["source"], host=end)
    return "%s. %s" % (line, meaning) if meaning else line


def _state(operation: str, last: Dict[str, Any], check_mode: bool) -> str:
    done = "prepared" if operation == "resize" and not last else DONE[operation]
    return WOULD + DONE[operation] if check_mode else done


def _why(operation: str, line: Outcome, before: Where, after: Where, last: Dict[str, Any]) -> str:
    other = after if operation == "revert" else before
    was = " ".join(part for part, now in zip(other, (line.host, line.flavor)) if part and part != now)
    parts = ["was %s" % was] if was else []
    if last.get("phase") == lifecycle.RESIZED and (last.get("migration") or {}).get("grown"):
        parts.append("without a restart")
    if last.get("phase") == lifecycle.RESIZED:
        parts.append(unconfirmed.described(last["phase"], last.get("confirm_in")))
    return "; ".join(parts)


def _before(move: Dict[str, Any]) -> Where:
    return move["source"], _flavor(_spec_before(move))


def _after(move: Dict[str, Any]) -> Where:
    return move["destination"] or move["source"], _flavor(_spec_after(move))


def _spec_before(move: Dict[str, Any]) -> Dict[str, Any]:
    return (_migration(move) or {}).get("old_spec") or move["views"]["source"].get("spec") or {}


def _spec_after(move: Dict[str, Any]) -> Dict[str, Any]:
    return move.get("spec") or (_migration(move) or {}).get("new_spec") or move["views"]["source"].get("spec") or {}


def _owner(move: Dict[str, Any]) -> Dict[str, Any]:
    there = move["views"]["destination"]
    return there if there.get("role") == "OWN" else move["views"]["source"]


def _now(move: Dict[str, Any]) -> Where:
    owner = _owner(move)
    host = move["destination"] if owner is move["views"]["destination"] else move["source"]
    return host, _flavor(owner.get("spec") or {})


def _migration(move: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    views = move["views"]
    return views["source"].get("migration") or views["destination"].get("migration")


def _flavor(spec: Dict[str, Any]) -> str:
    return str((spec.get("flavor") or {}).get("name") or "")
