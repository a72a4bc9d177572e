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
    parser.addoption("--cases", type=int, metavar="N", help="run N cases of each test: others with each commit")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    turns, cases = config.getoption("turn"), config.getoption("cases")
    if not (turns or cases):
        return
    said = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False).stdout[:8]
    commit = int(said or b"0", 16)
    kept = [item for item in items if not turns or has_its_turn(item, turns, commit)]
    if cases:
        kept = some_cases(kept, cases, commit)
    runs = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in runs])
    items[:] = kept


def has_its_turn(item, turns, commit):
    long = item.get_closest_marker("long")
    if long is None:
        return True
    drawn = item.path.name if "file" in long.args else item.nodeid
    return (zlib.crc32(drawn.encode()) + commit) % turns == 0


def some_cases(items, cases, commit):
    """Of each test ``cases`` of its cases, drawn by the commit, in their order."""
    of_tests = {}
    for item in items:
        of_tests.setdefault(item.nodeid.split("[")[0], []).append(item)
    drawn = set()
    for of_test in of_tests.values():
        drawn.update(sorted(of_test, key=lambda item: (zlib.crc32(item.nodeid.encode()) + commit) % 2**32)[:cases])
    return [item for item in items if item in drawn]
