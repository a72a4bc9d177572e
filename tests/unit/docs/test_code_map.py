# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/code-map.md says of each file what the file says of itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_map_of_the_code_is_fresh():
    """`make docs` writes it again."""
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "make_map.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_each_file_of_the_map_says_what_it_is_about():
    lines = (ROOT / "docs" / "code-map.md").read_text("utf-8").splitlines()
    assert [line for line in lines if re.fullmatch(r"\| `.*` \|\s*\|", line)] == []


def test_what_the_map_names_for_a_change_is_there():
    page = (ROOT / "docs" / "code-map.md").read_text("utf-8")
    named = re.findall(r"`([a-z_]+/[^`]*)`", page.partition("## Where a change is made")[2].partition("\n## ")[0])
    places = (ROOT, ROOT / "plugins" / "module_utils")
    assert named and [name for name in named if not any((place / name).exists() for place in places)] == []


def test_the_map_is_short_enough_to_read():
    assert len((ROOT / "docs" / "code-map.md").read_text("utf-8").split()) < 7500
