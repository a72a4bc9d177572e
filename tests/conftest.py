# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets the tests import the collection by its full name."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COLLECTIONS = ROOT / ".cache" / "collections"
LINK = COLLECTIONS / "ansible_collections" / "berth" / "kvm"

if not LINK.exists():
    LINK.parent.mkdir(parents=True, exist_ok=True)
    LINK.symlink_to("../../../..")
sys.path.insert(0, str(COLLECTIONS))
sys.path.insert(0, str(Path(__file__).resolve().parent))  # what unit and integration tests share

try:
    from hypothesis import HealthCheck, settings
except ImportError:
    pass  # the tests that need it say so themselves
else:
    # How fast examples come says something of the machine's load, not of the code.
    settings.register_profile("berth", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("berth")

# No test writes into the state directory of who runs it.
OWN, STATE = os.getpid(), tempfile.mkdtemp(prefix="berth-state-")
os.environ["XDG_STATE_HOME"] = STATE


@atexit.register
def remove_state():
    if os.getpid() == OWN:  # and not in a process that a test forked
        shutil.rmtree(STATE, ignore_errors=True)


def pytest_addoption(parser):
    parser.addoption(
        "--turn", type=int, metavar="N", help="run one in N of the tests marked long: others with each commit"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    turns = config.getoption("turn")
    if not turns:
        return
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False).stdout[:8]

    def waits(item):
        long = item.get_closest_marker("long")
        if long is None:
            return False
        drawn = item.path.name if "file" in long.args else item.nodeid
        return (zlib.crc32(drawn.encode()) + int(commit or b"0", 16)) % turns != 0

    config.hook.pytest_deselected(items=[item for item in items if waits(item)])
    items[:] = [item for item in items if not waits(item)]
