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
from ..model.errors import shortened
from ..model.errors_of_instances import each_once, worded_all
from ..model.lifecycle import PAUSED, SAVED
from ..model.line import CHANGED, FAILED, LEFT_OUT, UNCHANGED, marked
from ..model.safe_text import visible
from ..placement.text import WIDTH, cut_if_many, table

HEADS = ("INSTANCE", "STATE", "HOST", "FLAVOR", "ADDRESS", "WHY")
LEAST_WHY = 24  # columns; if fewer are left, the reason goes below its line
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
    outcomes: Iterable[Outcome],
    left_out: Mapping[str, str],
    details: Sequence[str] = (),
    acts: bool = True,
    width: int = WIDTH,
) -> List[str]:
    """The lines of the table. ``left_out``: host -> why it does not count; ``details`` follow the errors. A table that
    only shows instances does not ``acts``. ``width``: the columns of the terminal."""
    known = list(outcomes)
    lines = _table(known, CHANGED if acts else UNCHANGED, width) if known else ["Nothing to do."]
    told = each_once((outcome.instance, outcome.error) for outcome in known if outcome.error)
    errors = marked(FAILED, told)
    for part, more in ((errors, details), (hosts_left_out(_not_told(left_out, errors, width), width), ())):
        lines += [*([""] if part else []), *part, *more]
    return lines


def _not_told(left_out: Mapping[str, str], errors: Iterable[str], width: int) -> Dict[str, str]:
    """The reasons, without what is longer than a line and is told above as the reason of an instance."""
    told = "\n".join(errors)
    return {
        host: "%s: see above" % reason.partition(":")[0] if len(reason) > width and reason in told else reason
        for host, reason in left_out.items()
    }


def hosts_left_out(left_out: Mapping[str, str], width: int = WIDTH) -> List[str]:
    """Why each is left out; of many the reason is cut where the line ends."""
    lines = ["host %s left out: %s" % entry for entry in sorted(left_out.items())]
    return marked(LEFT_OUT, cut_if_many(lines, width))


def not_running(state: Optional[str]) -> str:
    """The state of a guest that does not run although nobody stopped it with berth, from libvirt's ``state``."""
    if state == SAVED:
        return "off: its memory was saved to a file with virsh save"
    return str(state) if state in PAUSED else "off, though nobody stopped it with berth.kvm.stop"


def power(state: Optional[str]) -> str:
    """The state, in the table, of an instance that should run and whose guest is in libvirt's ``state`` instead."""
    return str(state) if state in (*PAUSED, "crashed") else "off"


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


def named(text: str, uuid: str, name: str) -> str:
    """The text with the instance's name instead of the uuid by which hosts know it. Paths, virsh commands and variables keep
    the uuid, since people copy them."""
    pattern = r"(virsh [a-z-]+ |berth_[a-z_]+(?:=|: ))?(?<![\w/-])%s(?![\w/-])" % re.escape(uuid)
    with_name = text.replace("%s (%s)" % (name, uuid), name)
    return re.sub(pattern, lambda found: found[0] if found[1] else name, with_name)


def tried(name: str, uuid: str, attempts: Sequence[Mapping[str, Any]]) -> List[str]:
    """The hosts on which it failed, if they are several: of one the table has all."""
    rows = [(entry["attempt"], entry["host"], entry["code"], named(entry["cause"], uuid, name)) for entry in attempts]
    return ["", "%s was tried on:" % name, *table(("ATTEMPT", "HOST", "ERROR", "CAUSE"), rows)] if len(rows) > 1 else []


def error_code(error: str) -> str:
    """The code at the beginning of an error, for programs; Failed if it has none."""
    found = re.match(r"([A-Z][A-Za-z0-9]+): ", error)
    return found.group(1) if found else "Failed"


def text_of(error: Mapping[str, Any]) -> str:
    """An error (BerthError.to_dict), as its own text is."""
    faults = (error, *error.get("also", ()))
    told = worded_all((each.get("message") or "", each.get("rule"), each.get("hint")) for each in faults)
    return "%s: %s" % (error.get("code"), told)


def why_of(answer: Mapping[str, Any]) -> str:
    """Why a host did not do, or tell, what it was asked: its error, or why it gave no answer."""
    return text_of(answer["error"]) if "error" in answer else str(answer.get("reason") or "did not answer")


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


def _table(outcomes: List[Outcome], other: str, width: int) -> List[str]:
    """``other``: the kind of the rows whose state does not say it. A row that is too long for the columns of the others has
    lines of its own, so the others keep theirs."""
    cells = [[str(visible(getattr(outcome, head.lower()) or "-")) for head in HEADS[:-1]] for outcome in outcomes]
    widths = _widths(cells, width - LEAST_WHY) or _widths(cells, width) or [0] * len(HEADS)
    lines: List[str] = ["  ".join([head.ljust(wide) for head, wide in zip(HEADS, widths)] + [HEADS[-1]]).rstrip()]
    for row, outcome in zip(cells, outcomes):
        fits = all(len(cell) <= wide for cell, wide in zip(row, widths))
        first = ["  ".join(cell.ljust(wide) for cell, wide in zip(row, widths))] if fits else _loose(row, width)
        lines += marked(KINDS.get(outcome.state, other), _with_why(first, str(visible(outcome.why)), width, fits))
    return lines


def _widths(cells: List[List[str]], room: int) -> List[int]:
    """The widths of the columns in which as many rows as possible have room, the shortest first; none if no row has."""
    widths: List[int] = []
    wider = [len(head) for head in HEADS[:-1]]
    for row in sorted(cells, key=lambda row: sum(map(len, row))):
        wider = [max(wide, len(cell)) for wide, cell in zip(wider, row)]
        if sum(wider) + 2 * len(wider) > room:
            break
        widths = wider
    return widths


def _loose(row: List[str], width: int) -> List[str]:
    """The name on a line of its own, then the other cells, as many on a line as there is room for."""
    lines = [row[0], " "]
    for cell in row[1:]:
        if len(lines[-1]) + 2 + len(cell) > width and lines[-1].strip():
            lines.append(" ")
        lines[-1] += ("  " if lines[-1].strip() else " ") + cell
    return lines


def _with_why(lines: List[str], why: str, width: int, beside: bool) -> List[str]:
    """The reason ``beside`` the line, or below where that takes fewer lines."""
    left = len(lines[-1]) + 2
    below = _wrapped(why, width, "    ")
    right = _wrapped(why, width - left) if beside and width - left >= LEAST_WHY else []
    if right and len(right) <= 1 + len(below):
        return [lines[0] + "  " + right[0], *(" " * left + line for line in right[1:])]
    return [*(line.rstrip() for line in lines), *below]


def _wrapped(text: str, width: int, indent: str = "") -> List[str]:
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
