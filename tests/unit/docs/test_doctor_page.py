# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/doctor.md has every code that the doctor may tell."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_has_every_code():
    files = ("doctor.py", "registry/doctor.py")
    code = "".join((ROOT / "plugins/module_utils/conductor" / name).read_text("utf-8") for name in files)
    told = set(re.findall(r'Finding\(\s*"(\w+)"', code)) | set(re.findall(r'^    "(\w+)": lambda', code, re.MULTILINE))
    page = (ROOT / "docs/doctor.md").read_text("utf-8")
    rows = "".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    assert told and set(re.findall(r"`(\w+)`", rows)) == told | {"CheckFailed"}
