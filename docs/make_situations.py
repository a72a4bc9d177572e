#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/situations.md from tests/unit/situations/situations.yml."""

from __future__ import annotations

import collections
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "unit" / "situations" / "situations.yml"
HEAD = """<!--
Copyright: (c) 2026, The berth.kvm authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
-->
<!-- Written by docs/make_situations.py from tests/unit/situations/situations.yml: change it there. -->
# Situations

Mistakes that new users make, and how the playbooks answer. A row whose test is *played* is itself a test: the command runs
against three simulated hosts (`tests/unit/situations`), and its output must contain the words in the second column.
"fixed": the answer was bad at first and was improved. "left": the answer is still not ideal, and the row says why.

%s

| what the user did | what berth answers | verdict | test |
|---|---|---|---|
"""


def text():
    rows = yaml.safe_load(TABLE.read_text("utf-8"))
    counts = collections.Counter(row["verdict"] for row in rows)
    told = "%d situations: %s." % (
        len(rows),
        ", ".join("%d %s" % (counts[name], name) for name in ("fine", "fixed", "left")),
    )
    return HEAD % told + "".join(_line(row) for row in rows)


def _line(row):
    done = row["did"] + (": `%s`" % row["run"] if "run" in row else "")
    said = row.get("said") or "; ".join(row["says"])
    if "rc" in row:
        said += " (rc %d)" % row["rc"]
    test = "`%s`" % row["test"].partition("::")[2] if "test" in row else "played"
    cells = (done, said, row["verdict"], test)
    return "| %s |\n" % " | ".join(cell.replace("|", "\\|") for cell in cells)


if __name__ == "__main__":
    (ROOT / "docs" / "situations.md").write_text(text(), "utf-8")
