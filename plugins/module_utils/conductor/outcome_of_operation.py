# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of start, stop, delete, recover and other operations on one instance, for the closing table."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping

from ..model import disk_words
from ..model.lifecycle import SAVED
from ..model.vm_states import VM_STATES
from . import drift
from .closing_table import FAILED, Outcome, address_of, first_word, left_off, text_of
from .operations import OPERATIONS, Words
from .procedures.operate import Done

# Stopping a guest that is off already discards its saved memory.
STOPPED_SAVED = "its memory was saved to a file with virsh save, and the next start boots without it. Never restore that file afterwards"


# Of a guest that ran: its host has only let its packets go as its record says.
REPAIRED = Words("repaired", "would be repaired", "")
# Of a copy on a host that was off while another one took over its disks, or made it again.
OUTDATED = {
    "forgotten": Words("outdated copy removed", "outdated copy would be removed", ""),
    "set_aside": Words("outdated copy set aside", "outdated copy would be set aside", ""),
}


def _why(operation: str, name: str, done: Done) -> str:
    """Why nothing was changed. A recovery leaves a guest off that somebody ended since its host was booted."""
    state, meant = done.instance.get("state"), VM_STATES.get(str(done.instance.get("vm_state")))
    ended = operation == "recover" and state and state != "running"
    return left_off(name, state, meant and meant.back) if ended else OPERATIONS[operation].words.unchanged


def outcome(operation: str, name: str, located: Dict[str, Any], done: Done, check_mode: bool) -> Outcome:
    """``located`` is the fact berth_located; ``done`` what became of the instance."""
    mended = done.instance.get("mended") if operation == "start" else None
    names, shown = OPERATIONS[operation].words, located["shown"].get(name) or {}
    address = address_of(shown.get("networks"))
    line = Outcome(
        name,
        "unchanged",
        done.host or shown.get("host") or "",
        shown.get("flavor") or done.instance.get("flavor") or "",
        address,
    )
    line.error = located["errors"].get(name) or "; ".join(map(text_of, done.errors))
    if line.error:
        line.state, line.why = FAILED, first_word(line.error)
    elif done.changed:
        outdated = OUTDATED.get(str(done.instance.get("state"))) if operation == "recover" else None
        names = REPAIRED if mended else outdated or names
        line.state = names.would if check_mode else names.done
    else:
        line.why = located.get("skipped", {}).get(name) or (
            _why(operation, name, done) if line.host else "is on no host"
        )
    note = located.get("notes", {}).get(name)
    if operation == "stop" and done.instance.get("state") == SAVED:
        note = "; ".join(filter(None, (note, STOPPED_SAVED)))
    if not line.error:
        parts = (
            line.why,
            *(done.instance.get("updates") or ()),
            mended,
            disk_words.given_up(done.gives_up),
            _staying(done),
            "was %s" % shown.get("host") if done.host else "",
            note,
        )
        line.why = "; ".join(part for part in (*parts, *_by_hand(operation, name, located, done)) if part)
    return line


def _staying(done: Done) -> str:
    """The files of a guest that is no instance any more."""
    files = done.instance.get("files_stay") or ()
    return "its files stay: %s" % ", ".join(files) if files else ""


def _by_hand(operation: str, name: str, located: Mapping[str, Any], done: Done) -> Iterable[str]:
    """What somebody changed in libvirt: by the host's answer of this run, otherwise by its facts from before."""
    if operation == "leave" and done.changed:
        return ()  # the guest is no instance any more, so nothing repairs it
    if "domain_differs" in done.instance and not OPERATIONS[operation].everywhere:
        return filter(None, [drift.of_domain(name, done.instance["domain_differs"])])
    if done.changed and OPERATIONS[operation].repairs:
        return ()
    return located.get("by_hand", {}).get(name, ())
