# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What waits in the background ends by itself in every case, and holds nobody up (I5)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.berth.kvm.plugins.module_utils.compute.move import listener

# Says its process, then ends as the case says. What it works is written to the file of the first argument.
RUN = """
import importlib, os, pathlib, sys, time
listener = importlib.import_module(sys.argv[1])
def work(word):
    time.sleep(word["seconds"])
    pathlib.Path(sys.argv[2]).write_text(word["text"])
child = listener.Detached(work, longest=3)
print(*pathlib.Path("/proc/self/task/%d/children" % os.getpid()).read_text().split(), flush=True)
"""
ENDS = {
    "told to go": ('child.go({"seconds": 0.5, "text": "done"})', "done"),
    "never told": ("", None),
    "the run fails": ("raise SystemExit(3)", None),
    "the run is killed": ("os.kill(os.getpid(), 9)", None),
    "its work never ends": ('child.go({"seconds": 99, "text": "done"})', None),
}


@pytest.mark.parametrize("case", ENDS)
def test_it_ends_by_itself_and_the_output_of_the_run_ends_before(case, tmp_path):
    end, written = ENDS[case]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", RUN + end, listener.__name__, str(tmp_path / "said")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=30,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    child = Path("/proc") / str(int(done.stdout.split()[0]))
    if written:
        assert not (tmp_path / "said").exists(), "the run waited for it"
    until = began + 20
    while child.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not child.exists()
    assert ((tmp_path / "said").read_text() if (tmp_path / "said").exists() else None) == written
