# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/molecule.md shows the files of examples/molecule, which tests/molecule.sh runs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCENARIO = ROOT / "examples/molecule/roles/greeting/molecule/default"
ROLES_OWN = {"converge.yml", "verify.yml"}
HEADER = 4


def test_the_page_shows_the_files_that_are_run():
    page = (ROOT / "docs/molecule.md").read_text("utf-8")
    shown = dict(re.findall(r"^```yaml\n# (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    files = {str(path.relative_to(SCENARIO)): path.read_text("utf-8") for path in SCENARIO.rglob("*.yml")}
    assert shown == {
        name: "".join(text.splitlines(keepends=True)[HEADER:]) for name, text in files.items() if name not in ROLES_OWN
    }
