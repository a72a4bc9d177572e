# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a report, made from the document of conductor/fleet_report.py.

The page needs nothing else: its own script and styles are allowed by their hashes and everything else is forbidden, so
what a host says is shown and never executed, even if it were not escaped.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterable, List, Mapping, Optional, Sequence

import jinja2

from ..module_utils.model.catalog import DEFAULT_ZONE
from ..module_utils.model.errors import BerthError, InvalidInput
from ..module_utils.placement.text import number
from . import state_directory
from .documents import check_replaceable, read_whole, unwritable, write_document, write_private
from .whose_fleet import Fleet

HERE = Path(__file__).parent
LEVELS = 5  # colours of the heat map
MOST_CELLS = 16  # NUMA cells shown of a host; the data contain all
MOST_MORE = 10  # of a flavor that are counted on a host
MOST_JUDGED = 16  # hosts shown of a decision; the data contain all
NAMES = {"VCPU": "shared CPUs", "PCPU": "dedicated CPUs", "MEMORY_MB": "MiB", "DISK_GB": "GiB"}
# What a state means to the reader: it works, somebody should look (any other state), or something is wrong.
GOOD = frozenset(("up", "active", "running"))
BAD = frozenset(("no answer", "no valid host", "left out", "error", "not prepared", "unknown", "crashed"))


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a cell. ``kind`` is how it looks; ``level`` its colour in the heat map."""

    text: str
    kind: str = ""
    level: int = 0


@dataclasses.dataclass(frozen=True)
class Cell:
    """``key`` is the sort key of a column of numbers."""

    lines: Sequence[Line]
    key: Any = None

    @property
    def sort(self) -> str:
        return str(self.key) if self.key is not None else " ".join(line.text for line in self.lines)


@dataclasses.dataclass(frozen=True)
class Table:
    """The first cell of a row names its subject. ``empty`` is shown if there are no rows."""

    id: str
    title: str
    caption: str
    heads: Sequence[str]
    rows: List[List[Cell]]
    empty: str


def render(document: Mapping[str, Any]) -> str:
    """The whole page. Every text of the document is escaped here, whatever its source."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    texts = {name: (HERE / ("report_page." + name)).read_text("utf-8") for name in ("html.j2", "css", "js")}
    style, script = (jinja2.utils.markupsafe.Markup(texts[name]) for name in ("css", "js"))
    return environment.from_string(texts["html.j2"]).render(
        about=ABOUT,
        document=document,
        facts=_facts(document),
        tables=[table for table in tables(document) if table.rows or table.empty],
        style=style,
        script=script,
        policy="default-src 'none'; style-src %s; script-src %s; base-uri 'none'; form-action 'none'"
        % (_hash(style), _hash(script)),
    )


def tables(document: Mapping[str, Any]) -> List[Table]:
    return [
        _hosts(document["hosts"]),
        _instances(document["instances"]),
        _confirms(document["confirms"]),
        _findings(document["findings"]),
        _groups(document["groups"], all(host["instances"] is not None for host in document["hosts"])),
        _decisions(document["decisions"]),
        _domains(document["domains"]),
    ]


def _hash(text: str) -> str:
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _facts(document: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """The numbers at the top, each with the section that it links to."""
    hosts, counts = document["hosts"], document["counts"]
    silent = sum(host["instances"] is None for host in hosts)
    return [
        _fact("Hosts", len(hosts), "%d did not say" % silent if silent else "all answered", "hosts", silent),
        _fact("Instances", len(document["instances"]), _states(document["instances"]), "instances", 0),
        _fact("To confirm", len(document["confirms"]), "confirm or revert", "confirms", 0),
        _fact(
            "Errors",
            document["errors"],
            "warnings: %d, notes: %d" % (counts["warning"], counts["note"]),
            "findings" if counts["error"] else "instances",
            document["errors"],
        ),
    ]


def _fact(title: str, value: int, more: str, leads_to: str, bad: int) -> Dict[str, Any]:
    return {"title": title, "value": value, "more": more, "to": leads_to, "kind": "bad" if bad else ""}


def _states(instances: Iterable[Mapping[str, Any]]) -> str:
    found: Dict[str, int] = {}
    for row in instances:
        found[row["state"]] = found.get(row["state"], 0) + 1
    return ", ".join("%d %s" % (count, state) for state, count in sorted(found.items())) or "none"


def _hosts(hosts: Iterable[Mapping[str, Any]]) -> Table:
    rows = [
        [
            _text(host["name"], "name"),
            _state(host["state"], host["reason"]),
            _text(_zone(host)),
            _heat(host["resources"], ("VCPU", "PCPU")),
            _heat(host["resources"], ("MEMORY_MB",)),
            _heat(host["resources"], [name for name in host["resources"] if name.split(":")[0] == "DISK_GB"]),
            Cell(_cells(host["cells"]), len(host["cells"])),
            _held(host),
            _fits(host["fits"]),
            _in_use(host),
        ]
        for host in hosts
    ]
    caption = (
        "Resources of instances, as a share of what instances may use: the more, the darker. NUMA cells count only guests"
        " that are bound to them. Fits: how many more of each flavor alone. In use now: what the host measures itself, the"
        " load of the last minute and what its storage pools hold."
    )
    heads = ("Host", "State", "Zone", "CPU", "Memory", "Disk", "NUMA cells", "Instances", "Fits", "In use now")
    return Table("hosts", "Hosts", caption, heads, rows, "The inventory has no KVM host.")


def _instances(instances: Iterable[Mapping[str, Any]]) -> Table:
    rows = [
        [
            _text(row["name"], "name"),
            _state(row["state"], ("guest %s" % row["guest"]) if row["guest"] not in ("", "running") else ""),
            _text(row["host"]),
            _text(row["flavor"]),
            _text(row["address"], "code"),
            _text(_zone(row) if row["host"] else ""),
            _text(row["live"]),
            _text(row["why"]),
        ]
        for row in instances
    ]
    heads = ("Instance", "State", "Host", "Flavor", "Address", "Zone", "Live", "Why")
    caption = (
        "Every instance that a host has, or that the inventory describes. Live: whether it would move to another host while it"
        " runs."
    )
    return Table("instances", "Instances", caption, heads, rows, "There is no instance.")


def _confirms(confirms: Iterable[Mapping[str, Any]]) -> Table:
    rows = [
        [
            _text(row["name"], "name"),
            _text(row["type"]),
            _way(row["source"], row["destination"]),
            _way(row["was"], row["flavor"]),
            Cell([Line(row["confirm_at"] or "when somebody says so")], row["confirm_at"] or "z"),
        ]
        for row in confirms
    ]
    heads = ("Instance", "What", "Host", "Flavor", "Confirmed by confirm_due from")
    caption = "Resized or migrated, and waiting for berth.kvm.confirm_resize or berth.kvm.revert_resize."
    return Table("confirms", "Waiting for a confirm", caption, heads, rows, "Nothing waits.")


def _findings(findings: Sequence[Mapping[str, Any]]) -> Table:
    severities = ("error", "warning", "note")
    rows = [
        [
            _text(finding["code"], "name"),
            Cell([Line(finding["severity"], _kind(finding["severity"]))], severities.index(finding["severity"])),
            _text(finding["where"]),
            _text(finding["instance"]),
            _text(finding["said"]),
            _text(finding["todo"]),
        ]
        for finding in findings
    ]
    heads = ("Code", "Severity", "Host", "Instance", "What was found", "What to do")
    return Table(
        "findings", "Findings", "What berth.kvm.doctor finds, the worst first.", heads, rows, "Nothing was found."
    )


def _groups(groups: Iterable[Mapping[str, Any]], all_answered: bool) -> Table:
    state = _text("kept", "good") if all_answered else _text("kept on the hosts that answered", "warn")
    rows = [
        [
            _text(group["name"], "name"),
            _text(group["project"]),
            _text(group["policy"] or "not in the catalog"),
            Cell([Line("%s on %s" % (member["name"], member["host"])) for member in group["members"]] or [Line("-")]),
            Cell([Line("broken: " + group["broken"], "bad")]) if group["broken"] else state,
        ]
        for group in groups
    ]
    heads = ("Server group", "Project", "Policy", "Members", "Kept")
    return Table(
        "groups",
        "Server groups",
        "Instances that should be on the same host or on different hosts.",
        heads,
        rows,
        "There is none.",
    )


def _decisions(decisions: Iterable[Mapping[str, Any]]) -> Table:
    rows = [
        [
            _text(row["instance"], "name"),
            _decided(row),
            _text(row["at"]),
            _text("%s by %s" % (row["operation"], row["by"])),
            Cell(_judged(row["hosts"]), len(row["hosts"])),
        ]
        for row in decisions
    ]
    heads = ("Instance", "Host", "When", "What", "Why: each host's place and weight, or the rule that refused it")
    caption = "The last decisions of this controller, the newest first. berth.kvm.why shows all weights of a decision."
    return Table("decisions", "Decisions", caption, heads, rows, "No receipt of a decision is kept here.")


def _decided(row: Mapping[str, Any]) -> Cell:
    if not row["host"]:
        return _state("no valid host", row["error"])
    became = [Line(row["became"], "warn")] if row["became"] else []
    return Cell([Line(row["host"]), *became], row["host"])


def _judged(hosts: Sequence[Mapping[str, str]]) -> List[Line]:
    lines = []
    for row in hosts[:MOST_JUDGED]:
        placed = [row["place"], "weight %s" % row["weight"]] if row["weight"] else []
        lines.append(Line("%s: %s" % (row["host"], " ".join([*placed, *filter(None, [row["why"]])]))))
    if len(hosts) > MOST_JUDGED:
        lines.append(Line("and %d more" % (len(hosts) - MOST_JUDGED)))
    return lines or [Line("-")]


def _domains(domains: Iterable[Mapping[str, Any]]) -> Table:
    rows = [
        [_text(row["name"], "name"), _text(row["host"]), _text(row["power_state"]), _text(row["uuid"], "code")]
        for row in domains
    ]
    caption = "Guests in libvirt without a record. They count against the capacity, and berth never touches them."
    return Table("domains", "Other guests", caption, ("Domain", "Host", "State", "UUID"), rows, "")


def _text(text: str, kind: str = "") -> Cell:
    return Cell([Line(text or "-", kind if text else "")], text)


def _state(state: str, more: str) -> Cell:
    return Cell([Line(state, _kind(state)), *([Line(more)] if more else [])], state)


def _kind(state: str) -> str:
    return "good" if state in GOOD else "bad" if state in BAD else "note" if state == "note" else "warn"


def _zone(row: Mapping[str, Any]) -> str:
    return row["zone"] or DEFAULT_ZONE


def _way(before: str, after: str) -> Cell:
    return _text(after if before in ("", after) else "%s to %s" % (before, after))


def _held(host: Mapping[str, Any]) -> Cell:
    if host["instances"] is None:
        return Cell([Line("not known")], -1)
    others = [Line("and %d other guests" % host["domains"])] if host["domains"] else []
    return Cell([Line(str(host["instances"])), *others], host["instances"])


def _fits(fits: Mapping[str, int]) -> Cell:
    lines = [
        Line("%d%s %s" % (count, " or more" if count == MOST_MORE else "", flavor))
        for flavor, count in sorted(fits.items(), key=lambda entry: (-entry[1], entry[0]))
        if count
    ]
    more = [Line("and %d more" % (len(lines) - MOST_CELLS))] if len(lines) > MOST_CELLS else []
    return Cell([*lines[:MOST_CELLS], *more] or [Line("-")], sum(fits.values()))


def _in_use(host: Mapping[str, Any]) -> Cell:
    load = [] if host["load"] is None else [Line("load %s" % number(host["load"]))]
    pools = [
        Line("%s: %s of %s GiB" % (pool, number(told["used_gb"]), number(told["capacity_gb"])))
        for pool, told in host["pools"].items()
    ]
    return Cell([*load, *pools] or [Line("-")], -1 if host["load"] is None else host["load"])


def _heat(resources: Mapping[str, Any], names: Iterable[str]) -> Cell:
    found = [(name, resources[name]) for name in names if name in resources]
    lines = [Line(*_measured(name, measure)) for name, measure in found]
    return Cell(lines or [Line("-")], max((measure["percent"] for _name, measure in found), default=-1))


def _measured(name: str, measure: Mapping[str, Any]) -> Sequence[Any]:
    unit, _colon, pool = name.partition(":")
    what = NAMES.get(unit, unit) + (" in %s" % pool if pool else "")
    text = "%d %%: %s of %s %s" % (measure["percent"], number(measure["used"]), number(measure["limit"]), what)
    return text, "heat", level(measure["percent"])


def level(percent: int) -> int:
    """0 if nothing is used, otherwise 1 to LEVELS; the last means more than the limit."""
    return 0 if percent <= 0 else LEVELS if percent > 100 else min(LEVELS - 1, 1 + percent * (LEVELS - 1) // 100)


def _cells(cells: Sequence[Mapping[str, Any]]) -> List[Line]:
    lines = []
    for cell in cells[:MOST_CELLS]:
        measures = cell["resources"]
        uses = ", ".join(
            "%s of %s %s" % (number(measure["used"]), number(measure["limit"]), NAMES[name])
            for name, measure in measures.items()
        )
        most = max((measure["percent"] for measure in measures.values()), default=0)
        lines.append(Line("%d: %s" % (cell["id"], uses), "heat", level(most)))
    if len(cells) > MOST_CELLS:
        lines.append(Line("and %d more" % (len(cells) - MOST_CELLS)))
    return lines or [Line("-")]


# The files of a report: a page and its data beside it. They never replace other files, and no link is followed.

VARIABLE = "berth_report_page"
ABOUT = "berth.kvm.report"  # near the beginning of both files
FOLDER, ENDING = "report", ".html"


def page_path(value: Optional[str], fleet: Fleet) -> str:
    """The full path of the page to write. Raises InvalidInput, before anything is written, if it must not be."""
    path = os.path.abspath(value or _default(fleet))
    if not path.endswith(ENDING) or os.path.basename(path) == ENDING:
        raise InvalidInput(VARIABLE, value, "a file name that ends in .html")
    is_to_be_made = _is_in_own_folder(path) and not os.path.isdir(os.path.dirname(path))
    for file in () if is_to_be_made else (path, data_path(path)):
        check_replaceable(
            file, VARIABLE, file, _is_report, "a new file or an earlier report: the existing file is neither"
        )
    return path


def data_path(page: str) -> str:
    return page[: -len(ENDING)] + ".json"


def write_report(page: str, html: str, document: Any) -> None:
    """Write both files, each completely or not at all, readable by their owner only."""
    try:
        if _is_in_own_folder(page):
            with state_directory.opened(FOLDER, make=True):
                pass
        write_document(data_path(page), document)
        write_private(page, html.encode("utf-8"))
    except OSError as error:
        raise unwritable(VARIABLE, page, error) from None


def _is_in_own_folder(page: str) -> bool:
    """Whether it is where a page without a path is, in a folder that the first one makes."""
    return os.path.dirname(page) == state_directory.path_of(FOLDER)


def _default(fleet: Fleet) -> str:
    """The first page that is of this fleet, or new: fleet.html, else fleet-2.html and so on."""
    names = itertools.chain(["fleet"], map("fleet-%d".__mod__, itertools.count(2)))
    name = next(name for name in names if fleet.has(_machines_of(name + ".json")))
    return state_directory.path_of(FOLDER, name + ENDING)


def _machines_of(data: str) -> Any:
    """Those of an earlier report; None where there is none that says so."""
    with contextlib.suppress(BerthError, OSError, ValueError, RecursionError, AttributeError):
        with state_directory.opened(FOLDER) as folder:
            return json.loads(read_whole(folder, data)).get("machines") if folder is not None else None
    return None


def _is_report(file: BinaryIO) -> bool:
    return ABOUT.encode() in file.read(1000)
