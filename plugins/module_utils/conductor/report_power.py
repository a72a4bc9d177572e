# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of start, stop, delete, recover and other operations on one instance, for the closing table."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, NamedTuple

from ..model import disk_words
from ..model.lifecycle import SAVED
from . import drift
from .report import FAILED, Outcome, address_of, failure, first_word, left_off


class Words(NamedTuple):
    """The states of an operation in the table, and why nothing was changed."""

    done: str
    would: str
    unchanged: str


WORDS = {
    "console": Words("shown", "would be shown", "is shown above"),
    "delete": Words("deleted", "would be deleted", "is on no host"),
    "keep_one": Words("one copy kept", "one copy would be kept", "has one copy"),
    "lock": Words("locked", "would be locked", "is locked already"),
    "reboot": Words("rebooted", "would be rebooted", "was not rebooted"),
    "recover": Words("started", "would be started", "runs, or is meant to be off"),
    "recover_record": Words("record written", "record would be written", "has a record"),
    "remove_set_aside": Words("copy removed", "copy would be removed", "nothing was set aside there"),
    "start": Words("started", "would be started", "runs already"),
    "stop": Words("stopped", "would be stopped", "is off already"),
    "update_disks": Words("disks updated", "disks would be updated", "has these data disks"),
    "unlock": Words("unlocked", "would be unlocked", "is not locked"),
}
# When these would change a guest, it may be as its record says again. After they did, its host compared the two.
REPAIRING = ("reboot", "recover", "start", "update_disks")
ANSWERS = ("instance", "instance_copy")  # what the modules of hosts call what they say of an instance
# Of a guest that was off already: to stop it is to do without its memory.
STOPPED_SAVED = "its memory was saved to a file with virsh save, and the next start boots without it. Never restore that file afterwards"


def _why(operation: str, name: str, result: Mapping[str, Any]) -> str:
    """Why nothing was changed. A recovery leaves a guest off that somebody ended since its host was booted."""
    state = (result.get("instance") or {}).get("state")
    ended = operation == "recover" and state and state != "running"
    return left_off(name, state) if ended else WORDS[operation].unchanged


def outcome(operation: str, name: str, located: Dict[str, Any], done: Dict[str, Any], check_mode: bool) -> Outcome:
    """``located`` is the fact berth_located; ``done`` what the play registered for the instance."""
    names, shown = WORDS[operation], located["shown"].get(name) or {}
    address = address_of(shown.get("networks"))
    line = Outcome(name, "unchanged", shown.get("host") or "", shown.get("flavor") or "", address)
    result = done.get("__delete_done" if operation == "delete" else "__berth_done") or {}
    line.error = located["errors"].get(name) or failure(done, result)
    if line.error:
        line.state, line.why = FAILED, first_word(line.error)
    elif result.get("changed"):
        line.state = names.would if check_mode else names.done
    else:
        line.why = located.get("skipped", {}).get(name) or (
            _why(operation, name, result) if line.host else "is on no host"
        )
    note = located.get("notes", {}).get(name)
    if operation == "stop" and (result.get("instance") or {}).get("state") == SAVED:
        note = "; ".join(filter(None, (note, STOPPED_SAVED)))
    if not line.error:
        parts = (line.why, given_up(result), note)
        line.why = "; ".join(part for part in (*parts, *_by_hand(operation, name, located, result)) if part)
    return line


def given_up(result: Mapping[str, Any]) -> str:
    """The disks whose data are gone, or would be, on each host that was asked; empty if none."""
    told = [answer.get(part) or {} for answer in (result, *result.get("results", ())) for part in ANSWERS]
    return disk_words.given_up(word for each in told for word in each.get("gives_up") or ())


def _by_hand(operation: str, name: str, located: Dict[str, Any], result: Mapping[str, Any]) -> Iterable[str]:
    """What somebody changed in libvirt: by the host's answer of this run, otherwise by its facts from before."""
    answer = result.get("instance") or {}
    if "domain_differs" in answer:
        return filter(None, [drift.of_domain(name, answer["domain_differs"])])
    if result.get("changed") and operation in REPAIRING:
        return ()
    return located.get("by_hand", {}).get(name, ())
