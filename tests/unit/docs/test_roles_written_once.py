# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles that move instances have their options from one table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_files_of_the_roles_are_fresh():
    """`make docs` writes them again."""
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "make_roles.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
