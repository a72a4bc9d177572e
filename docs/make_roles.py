#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes argument specs, meta data and READMEs of the roles that move instances: they differ in their options.

docs/make_roles.py            writes the files
docs/make_roles.py --check    changes nothing; exit status 1 where a file is not what would be written
"""

from __future__ import annotations

import dataclasses
import re
import sys
import textwrap
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
HEADER = "\n".join(Path(__file__).read_text("utf-8").splitlines()[1:4])
NOTE = "# Written by docs/make_roles.py: change it there."
ALONE = (
    "Needs nothing that runs before it, and no connection to the guests. One task reads the KVM hosts and plans for all "
    "instances of the play, then each is moved by itself and says what became of it."
)


@dataclasses.dataclass
class Option:
    variable: str
    type: str
    default: str
    meaning: str
    choices: str = ""


OPTIONS = {
    "confirm_window": Option(
        "berth_confirm_window", "int", "0", "Seconds after which the playbook C(confirm_due) confirms it. 0 is never."
    ),
    "bandwidth": Option("berth_bandwidth", "int", "0", "The most that is copied per second, in MiB. 0 is no limit."),
    "copy_while_running": Option(
        "berth_copy_while_running",
        "bool",
        "true",
        "Copy the disks while the guest still runs, and the rest when it is stopped.",
    ),
    "stop_timeout": Option(
        "berth_shutdown_timeout", "int", "60", "Seconds that the guest has to shut down before it is powered off."
    ),
    "timeout": Option(
        "berth_migration_timeout",
        "int",
        "0",
        "Seconds after which the timeout action is taken, from the end of the first copy of the disks. 0 is never.",
    ),
    "timeout_action": Option(
        "berth_migration_timeout_action",
        "str",
        "abort",
        "What is done then, as Nova's live_migration_timeout_action. V(abort) leaves the guest running where it is; "
        "V(force_complete) stops it until it has arrived, and lifts the limit on the bandwidth.",
        "[abort, force_complete]",
    ),
    "max_pause": Option(
        "berth_max_pause",
        "int",
        "60",
        "Seconds for which V(force_complete) may stop the guest. If what is left takes longer, the migration is aborted "
        "and the guest goes on where it is.",
    ),
    "permit_auto_converge": Option(
        "berth_permit_auto_converge",
        "bool",
        "true",
        "Slow the guest down step by step if it writes memory faster than is copied, as Nova's "
        "live_migration_permit_auto_converge.",
    ),
    "tls": Option(
        "berth_migration_tls",
        "bool",
        "true",
        "Encrypt the migration. Without it the memory of the guest can be read on the network.",
    ),
}
COPY = ["confirm_window", "bandwidth", "copy_while_running", "stop_timeout"]
# Role -> (short description, description, options).
ROLES = {
    "resize": (
        "Give an instance another flavor, on another host or on its own",
        "Stops the guest, copies its disks to the selected host over TLS with a key for this transfer alone, verifies the "
        "copy, hands the instance over and starts it. The source keeps everything until the resize is confirmed or "
        "reverted. After a crash, run it again: it continues. Claims the room first, unless role prep_resize has done so.",
        COPY,
    ),
    "cold_migrate": (
        "Move a stopped or running instance to another host",
        "Works as a resize with the same flavor. It has to be confirmed or reverted too.",
        COPY,
    ),
    "live_migrate": (
        "Move a running instance to another host without stopping it",
        "The guest arrives paused and goes on when the source has let go of it.",
        ["bandwidth", "max_pause", "permit_auto_converge", "timeout", "timeout_action", "tls"],
    ),
    "prep_resize": (
        "Choose a host for an instance with a new flavor and claim the room there",
        "The first half of a resize: takes the move up on the source and claims room on the destination or the next "
        "alternate. The guest is not touched.",
        ["confirm_window"],
    ),
    "confirm_resize": (
        "Confirm a resize or cold migration",
        "Removes what the source kept. There is no way back after it. The guest is not stopped.",
        [],
    ),
    "revert_resize": (
        "Go back to the instance as it was before the resize",
        "Stops the guest, hands the instance back to the source and removes the copy. What the guest wrote since the resize "
        "is lost.",
        ["stop_timeout"],
    ),
}


def files(role: str) -> dict[str, str]:
    """Path below the role -> text."""
    short, description, names = ROLES[role]
    start = "---\n%s\n%s\n" % (HEADER, NOTE)
    return {
        "meta/argument_specs.yml": start + argument_specs(role, short, description, names),
        "meta/main.yml": start + META % short,
        "README.md": readme(role, short, description, names),
    }


def folded(text: str, indent: int) -> str:
    return textwrap.fill(text, 118, initial_indent=" " * indent, subsequent_indent=" " * indent)


def argument_specs(role: str, short: str, description: str, names: list[str]) -> str:
    lines = ["argument_specs:", "  main:", "    short_description: " + short, "    description:"]
    for text in (description, ALONE):
        lines += ["      - >-", folded(text, 8)]
    lines += [
        "    version_added: 0.1.0",
        "    author: The berth.kvm authors",
        "    options:" if names else "    options: {}",
    ]
    for option in map(OPTIONS.get, names):
        lines += ["      %s:" % option.variable, "        description: >-", folded(option.meaning, 10)]
        lines += ["        type: " + option.type] + ["        choices: " + option.choices] * bool(option.choices)
        lines += ["        default: " + option.default]
    return "\n".join(lines) + "\n"


def readme(role: str, short: str, description: str, names: list[str]) -> str:
    lines = ["# Role %s" % role, "", "%s. %s" % (short, description)]
    if names:
        lines += ["", "| variable | type | default | meaning |", "|---|---|---|---|"]
    for option in map(OPTIONS.get, names):
        lines.append(
            "| `%s` | %s | `%s` | %s |" % (option.variable, option.type, option.default, plain(option.meaning))
        )
    return "\n".join(lines) + "\n"


def prepares(role: str) -> dict[str, str]:
    """The README of a role that prepares hosts, with the rows of its table from its argument specification."""
    folder = ROOT / "roles" / role
    specs = yaml.safe_load((folder / "meta/argument_specs.yml").read_text("utf-8"))["argument_specs"]["main"]
    rows = []
    for name, option in specs["options"].items():
        meaning = plain(option["description"])
        if "default" in option and option["default"] != []:
            value = option["default"]
            meaning += " Default, %s." % (str(value).lower() if isinstance(value, bool) else value)
        rows.append("| `%s` | %s | no | %s |\n" % (name, option["type"], meaning))
    text = (folder / "README.md").read_text("utf-8")
    return {"README.md": re.sub(r"(?:\| `.*\n)+", lambda _old: "".join(rows), text, count=1)}


def plain(text: str) -> str:
    """Ansible's marks as those of Markdown."""
    for mark in ("C(", "V("):
        while mark in text:
            before, _mark, rest = text.partition(mark)
            inner, _end, after = rest.partition(")")
            text = "%s`%s`%s" % (before, inner, after)
    return text


PREPARE = ("kvm_host", "kvm_registry")
META = """galaxy_info:
  author: The berth.kvm authors
  description: %s
  license: GPL-3.0-or-later
  min_ansible_version: "2.19"
  platforms:
    - name: Debian
      versions: [bookworm, trixie]
    - name: Ubuntu
      versions: [noble]
    - name: EL
      versions: ["9"]
dependencies: []
"""


def main() -> int:
    stale = []
    for role in (*ROLES, *PREPARE):
        for name, text in (prepares(role) if role in PREPARE else files(role)).items():
            path = ROOT / "roles" / role / name
            if not path.exists() or path.read_text("utf-8") != text:
                stale.append(path)
                if "--check" not in sys.argv[1:]:
                    path.write_text(text, "utf-8")
    for path in stale if "--check" in sys.argv[1:] else ():
        print("%s is not what docs/make_roles.py writes" % path.relative_to(ROOT))
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
