#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/playbooks.md, the reference of the playbooks, from their headers and from the roles' argument specifications."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent))

from playbook_headers import PLAYBOOKS, Header, imported, public, read_header, roles  # noqa: E402

ROOT = PLAYBOOKS.parent
PAGE = ROOT / "docs" / "playbooks.md"
INTRODUCTION = """<!-- Written by docs/make_playbooks.py from the headers of the playbooks: change it there. -->
# The playbooks

Run them as `ansible-playbook -i fleet.yml berth.kvm.NAME`; `fleet.yml` is the inventory of the [README](../README.md).
With `--check` no playbook changes anything. `--limit`, `berth_instances` and `berth_name` select instances; every run
still asks all KVM hosts. (`prepare_hosts` works on KVM hosts, so its `--limit` selects those.) The variables of
[the catalog](catalog.md) describe instances, those of [the hosts](#prepare_hosts) how hosts are used. An unknown
variable `berth_...` stops the run before a host is asked.
"""


def page() -> str:
    headers, groups = public(), shared()
    lines = [INTRODUCTION, "| playbook | what it does |", "| --- | --- |"]
    lines += ["| [%s](#%s) | %s |" % (name(one), name(one), first_sentence(one.text)) for one in headers]
    for group in groups.values():
        lines += ["", "## " + group.group, "", *table(group.variables, meanings())]
    for header in headers:
        lines += ["", *section(header, groups)]
    return "\n".join(lines) + "\n"


def shared() -> dict[Path, Header]:
    """The files that several playbooks import and that say what their variables mean."""
    used = dict.fromkeys(path for header in public() for path in imported(header.path)[1:])
    found = {path: read_header(path) for path in used if path not in {header.path for header in public()}}
    return {path: header for path, header in sorted(found.items()) if header.variables}


def meanings() -> dict[str, str]:
    headers = [*public(), *shared().values()]
    return {variable: text for header in headers for variable, text in header.variables.items() if text}


def name(header: Header) -> str:
    return header.path.stem


def first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) (?=[A-Z])", text)[0]


def section(header: Header, groups: dict[Path, Header]) -> list[str]:
    lines = ["## " + name(header), "", header.text, "", *("    " + line for line in header.examples)]
    if header.variables:
        lines += ["", *table(header.variables, meanings())]
    for role in roles(header.path):
        options = role_options(role)
        if options:
            lines += ["", "From the role [`%s`](../roles/%s/README.md):" % (role, role), "", *options]
    also = [groups[path].group for path in imported(header.path)[1:] if path in groups]
    if also:
        links = ["[%s](#%s)" % (group.lower(), anchor(group)) for group in also]
        lines += ["", "Also: %s." % ", ".join(links)]
    return lines


def anchor(title: str) -> str:
    """As GitHub and the site make it of a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def table(variables: dict[str, str], texts: dict[str, str]) -> list[str]:
    rows = ["| `%s` | %s |" % (variable, text or texts[variable]) for variable, text in variables.items()]
    return ["| variable | meaning |", "| --- | --- |", *rows]


def role_options(role: str) -> list[str]:
    folder = ROOT / "roles" / role
    specs = yaml.safe_load((folder / "meta" / "argument_specs.yml").read_text("utf-8"))["argument_specs"]["main"]
    rows = []
    for option, spec in (specs.get("options") or {}).items():
        if not spec.get("required"):  # what is required is given by the playbook
            rows.append("| `%s` | %s | %s |" % (option, described(spec["description"]), default_of(spec)))
    return ["| variable | meaning | default |", "| --- | --- | --- |", *rows] if rows else []


def described(text: object) -> str:
    text = " ".join(" ".join(text if isinstance(text, list) else [str(text)]).split())
    return re.sub(r"[CVOIB]\(([^)]*)\)", r"`\1`", text).replace("|", "\\|")


def default_of(spec: dict) -> str:
    value = spec.get("default")
    return "" if value is None else "`%s`" % (str(value).lower() if isinstance(value, bool) else value)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
