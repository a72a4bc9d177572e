# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask Nova's own unit tests of this collection's placement: ``make nova-tests``.

Installs Nova, as it is on PyPI, into a virtual environment below .cache (once, some minutes), and runs ask.py there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache"
VENV, WHEELS = CACHE / "nova", CACHE / "nova-removed"
REQUIREMENTS = HERE / "requirements.txt"
# The last Nova that had all filters which have left it since, and are here.
REMOVED = "nova==17.0.13"


def main() -> int:
    python, stamp = VENV / "bin" / "python", VENV / "installed.txt"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", VENV], check=True)
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
        subprocess.run([*pip, "--requirement", REQUIREMENTS], check=True)
        stamp.write_text(wanted, encoding="utf-8")
    if not list(WHEELS.glob("nova-*.whl")):
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", WHEELS, REMOVED], check=True
        )
    wheel = next(WHEELS.glob("nova-*.whl"))
    return subprocess.run([python, HERE / "ask.py", "--removed", wheel, *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
