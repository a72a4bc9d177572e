# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The code that a host runs after an outage, without a controller: one file that Python runs, see compute/host/outage_unit.py."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

ROOMS = ("compute", "model", "placement")  # what code on hosts may import
TOP = Path(__file__).parents[1]
MAIN = """import sys
from module_utils.compute.guest import after_outage
sys.exit(after_outage.main(*sys.argv[1:]))
"""


def packed() -> bytes:
    """The same for the same files, whatever made them: not compressed, without times."""
    rooms = [TOP / "module_utils" / room for room in ROOMS]
    files = sorted(path for room in rooms for path in room.rglob("*.py"))
    folders = {folder for path in files for folder in path.relative_to(TOP).parents if folder.name}
    texts = {str(path.relative_to(TOP)): path.read_bytes() for path in files}
    texts.update({"%s/__init__.py" % folder: b"" for folder in folders}, **{"__main__.py": MAIN.encode()})
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(texts):
            archive.writestr(zipfile.ZipInfo(name), texts[name])
    return made.getvalue()
