#!/usr/bin/env python
# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the entry of the version in galaxy.yml anew in changelogs/changelog.yaml and CHANGELOG.md, from all fragments.

antsibull-changelog adds to an entry only what fragments that are new in it say, and never new playbooks. So the entry is
dropped first, and released again with the date that it had.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    file = ROOT / "changelogs" / "changelog.yaml"
    before = file.read_text("utf-8")
    entries = yaml.safe_load(before)
    dropped = entries["releases"].pop(version(), {})
    file.write_text(yaml.safe_dump(entries), "utf-8")
    command = ["antsibull-changelog", "release", "--reload-plugins", "--version", version()]
    if dropped:
        command += ["--date", str(dropped["release_date"])]
    done = subprocess.run(command, cwd=ROOT, check=False).returncode
    if done:
        file.write_text(before, "utf-8")
    (ROOT / "changelogs" / ".plugin-cache.yaml").unlink(missing_ok=True)
    return done


def version() -> str:
    return yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))["version"]


if __name__ == "__main__":
    sys.exit(main())
