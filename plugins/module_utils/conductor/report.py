# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table that ends every run: a line for each instance, and below it the errors, with names instead of
uuids, and the hosts that were left out."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

from ..model import disk_hints, hints, nics
from ..model.errors import shortened, worded
from ..model.lifecycle import PAUSED, SAVED
from ..model.line import CHANGED, FAILED, LEFT_OUT, UNCHANGED, marked
from ..placement.text import table

HEADS = ("INSTANCE", "STATE", "HOST", "FLAVOR", "ADDRESS", "WHY")
WIDTH = 80
LEAST_WHY = 24  # columns; if fewer are left, the details of an instance go below its name
# What became of an instance, by its state in the table. Any other state: it was changed.
KINDS = {FAILED: FAILED, UNCHANGED: UNCHANGED, "error": FAILED, "unknown": LEFT_OUT}


@dataclasses.dataclass
class Outcome:
    """What became of one instance. ``error`` is the error that the run reports for it, ``error_details`` what it says as
    data beside the text, such as the numbers of a quota."""

    instance: str
    state: str
    host: str = ""
    flavor: str = ""
    address: str = ""
    why: str = ""
    error: str = ""
    error_details: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> Dict[str, Any]:
        known = dataclasses.asdict(self)
        details = known.pop("error_details")
        known.update({"error_code": error_code(self.error)} if self.error else {})
        return {**known, **({"error_details": details} if details else {})}


def closing(
    outcomes: Iterable[Outcome], left_out: Mapping[str, str], details: Sequence[str] = (), acts: bool = True
) -> List[str]:
    """The lines of the table. ``left_out``: host -> why it does not count; ``details`` follow the errors. A table that
    only shows instances does not ``acts``."""
    known = list(outcomes)
    lines = _table(known, CHANGED if acts else UNCHANGED) if known else ["Nothing to do."]
    errors = marked(FAILED, ["%s: %s" % (outcome.instance, outcome.error) for outcome in known if outcome.error])
    for part, more in ((errors, details), (hosts_left_out(left_out), ())):
        lines += [*([""] if part else []), *part, *more]
    return lines


def hosts_left_out(left_out: Mapping[str, str]) -> List[str]:
    return marked(LEFT_OUT, ["host %s left out: %s" % entry for entry in sorted(left_out.items())])


def not_running(state: Optional[str]) -> str:
    """The state of a guest that does not run although nobody stopped it with berth, from libvirt's ``state``."""
    if state == SAVED:
        return "off: its memory was saved to a file with virsh save"
    return str(state) if state in PAUSED else "off, though nobody stopped it with berth.kvm.stop"


def disks_gone(host: str, name: str, instance: Mapping[str, Any]) -> Optional[str]:
    """What is wrong with the files of an instance's disks, and what to do before anything else is done with it; or None."""
    lost = instance.get("disks_missing") or ()
    if not lost:
        return None
    return "%s: %s. %s" % (
        "gone" if len(lost) == 1 else "gone are",
        shortened(lost),
        disk_hints.bring_files_back(host, name),
    )


def left_off(name: str, state: Optional[str], back: Optional[str] = None) -> str:
    """The same, with what helps. ``back``: the operation that makes the instance active, if that is not start."""
    if state == SAVED:
        return "%s. %s" % (not_running(state), disk_hints.restore_or_boot(name))
    return "%s; %s" % (not_running(state), hints.run_it(back or "start"))


def failure(done: Mapping[str, Any]) -> str:
    """Why an instance failed in the play, from what its tasks registered."""
    if "__berth_failure" in done:
        return str(done["__berth_failure"])
    return "HostUnknown: the host stopped answering, so its result is unknown" if done.get("gone") else ""


def named(text: str, uuid: str, name: str) -> str:
    """The text with the instance's name instead of the uuid by which hosts know it. Paths and virsh commands keep the
    uuid, since people copy them."""
    pattern = r"(virsh [a-z-]+ )?(?<![\w/-])%s(?![\w/-])" % re.escape(uuid)
    with_name = text.replace("%s (%s)" % (name, uuid), name)
    return re.sub(pattern, lambda found: found[0] if found[1] else name, with_name)


def tried(name: str, uuid: str, attempts: Sequence[Mapping[str, Any]]) -> List[str]:
    rows = [(entry["attempt"], entry["host"], entry["code"], named(entry["cause"], uuid, name)) for entry in attempts]
    return ["", "%s was tried on:" % name, *table(("ATTEMPT", "HOST", "ERROR", "CAUSE"), rows)] if rows else []


def error_code(error: str) -> str:
    """The code at the beginning of an error, for programs; Failed if there is none."""
    found = re.match(r"([A-Z][A-Za-z0-9]+): ", error)
    return found.group(1) if found else "Failed"


def text_of(error: Mapping[str, Any]) -> str:
    """An error (BerthError.to_dict), as its own text is."""
    told = [
        worded(each.get("message") or "", each.get("rule"), each.get("hint"))
        for each in (error, *error.get("also", ()))
    ]
    return "%s: %s" % (error.get("code"), "; ".join(told))


def error_of(text: str) -> Dict[str, Any]:
    """The same, of a text that begins with its code."""
    code = error_code(text)
    return {"code": code, "message": text.removeprefix(code + ": ")}


def details_of(error: Mapping[str, Any]) -> Dict[str, Any]:
    """What an error (BerthError.to_dict) says as data beside its text."""
    said = ("code", "message", "retryable", "field", "value", "rule", "hint", "also")
    return {name: part for name, part in error.items() if name not in said}


def first_word(error: str) -> str:
    return error.partition(":")[0] if ":" in error else error


def address_of(networks: Any) -> str:
    """The first fixed address of an instance's NICs, as a request or the inventory has them, and how many more there are."""
    found = []
    for nic in (nic for nic in networks or () if isinstance(nic, dict)):
        found += [
            str(each).partition("/")[0] for each in nics.asked(nic.get("address")) + nics.asked(nic.get("address6"))
        ]
    return found[0] + (" +%d" % (len(found) - 1) if len(found) > 1 else "") if found else ""


def _table(outcomes: List[Outcome], other: str) -> List[str]:
    """``other``: the kind of the rows whose state does not say it."""
    kinds = [KINDS.get(outcome.state, other) for outcome in outcomes]
    cells = [[getattr(outcome, head.lower()) or "-" for head in HEADS[:-1]] for outcome in outcomes]
    taken = sum(max(len(row[at]) for row in [list(HEADS), *cells]) + 2 for at in range(len(HEADS) - 1))
    stacked = _stacked(cells, outcomes, kinds)
    if WIDTH - taken < LEAST_WHY:
        return stacked
    rows: List[List[str]] = []
    kind_of: List[str] = []
    for row, outcome, kind in zip(cells, outcomes, kinds):
        first, *more = _wrapped(outcome.why, WIDTH - taken) or [""]
        rows += [[*row, first], *([""] * len(row) + [line] for line in more)]
        kind_of += [kind] * (1 + len(more))
    if len(rows) >= len(stacked):
        return stacked
    head, *lines = table(HEADS, rows, indent="")
    return [head, *(line for kind, text in zip(kind_of, lines) for line in marked(kind, [text]))]


def _stacked(cells: List[List[str]], outcomes: List[Outcome], kinds: List[str]) -> List[str]:
    """For long names and reasons: each name on a line of its own, its details below."""
    head, *details = zip(*_folded(cells))
    found = [HEADS[0], *head]
    for lines, outcome, kind in zip(details, outcomes, kinds):
        found += marked(kind, [outcome.instance, *lines, *_wrapped(outcome.why, WIDTH, "    ")])
    return found


def _folded(cells: List[List[str]]) -> List[List[str]]:
    """The details as tables to be put below each other: each takes as many columns as there is room for."""
    folded: List[List[str]] = []
    begin, end = 1, len(HEADS) - 1
    while begin < end:
        widening = [table(HEADS[begin:to], [row[begin:to] for row in cells]) for to in range(begin + 1, end + 1)]
        fitting = [each for each in widening if max(map(len, each)) <= WIDTH] or widening[:1]
        folded.append(fitting[-1])
        begin += len(fitting)
    return folded


def _wrapped(text: str, width: int, indent: str = "") -> List[str]:
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
