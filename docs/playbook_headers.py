# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the comments at the head of playbooks and of the files that they import.

After the licence a header says what the playbook does. Then may come

    # Variables:
    #   berth_x: what it means; a long text goes on
    #     in deeper lines
    #   berth_y
    # Example:
    #   ansible-playbook -i fleet.yml berth.kvm.create

A name without a meaning is one that another header explains. A file that several playbooks import says for which group of
variables it speaks, as in "Variables of every run:".
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

PLAYBOOKS = Path(__file__).resolve().parent.parent / "playbooks"
LICENCE_LINES = 4
LABEL = re.compile(r"(Variables.*|Example):$")
VARIABLE = re.compile(r"  (\w+)(?:: (.*))?$")
IMPORTED = re.compile(r"(?<![\w{}])(?:[a-z_]+/)*[a-z_]+\.yml\b")
DECISION = re.compile(r"__berth_decision: (.+)")
MOVES = {"migrate": ("live_migrate", "cold_migrate")}
ROLE = re.compile(r"(?:name|role): berth\.kvm\.(\w+)")


@dataclasses.dataclass
class Header:
    path: Path
    text: str = ""
    group: str = ""
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    examples: list[str] = dataclasses.field(default_factory=list)


def read_header(path: Path) -> Header:
    header, label, last = Header(path), "", ""
    for line in comment_of(path):
        if LABEL.match(line):
            label = line.rstrip(":")
            header.group = header.group if label == "Example" else label
        elif not label:
            header.text = " ".join([header.text, line]).strip()
        elif label == "Example":
            header.examples.append(line.strip())
        elif line.startswith("    "):
            header.variables[last] += " " + line.strip()
        else:
            match = VARIABLE.match(line)
            if not match:
                raise SystemExit("%s: not a variable with its meaning: %s" % (path, line))
            last = match.group(1)
            header.variables[last] = match.group(2) or ""
    return header


def comment_of(path: Path) -> list[str]:
    lines = []
    for line in path.read_text("utf-8").splitlines()[LICENCE_LINES:]:
        if not line.startswith("#"):
            break
        lines.append(line[2:])
    return lines


def code_of(path: Path) -> str:
    return "\n".join(line for line in path.read_text("utf-8").splitlines() if not line.startswith("#"))


def public() -> list[Header]:
    """What people run, by name; no name from before 1.0."""
    found = [read_header(path) for path in sorted(PLAYBOOKS.glob("*.yml"))]
    return [header for header in found if not header.text.startswith("Internal:")]


def imported(path: Path) -> list[Path]:
    """The file and all files of the playbooks' directory that it imports, includes or reads, in the order they are named."""
    found, waiting = [], [path]
    while waiting:
        path = waiting.pop(0)
        if path in found or not path.exists():
            continue
        found.append(path)
        code = code_of(path)
        decisions = re.findall(r"\w+", " ".join(DECISION.findall(code)))
        names = IMPORTED.findall(code) + ["tasks/%s.yml" % name for name in decisions]
        waiting += [folder / name for name in names for folder in (PLAYBOOKS, PLAYBOOKS / "internal", path.parent)]
    return found


def roles(path: Path) -> list[str]:
    """The roles that a playbook runs, or that do the same in a play of one's own."""
    same = [name for name in (path.stem, *MOVES.get(path.stem, ())) if (PLAYBOOKS.parent / "roles" / name).is_dir()]
    return list(dict.fromkeys([*ROLE.findall(code_of(path)), *same]))
