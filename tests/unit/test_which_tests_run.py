# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the options --cases and --turn of tests/conftest.py leave of a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

@pytest.mark.parametrize("at", range(5))
def test_many(at): pass

def test_one(): pass

@pytest.mark.long
@pytest.mark.parametrize("at", range(40))
def test_long(at): pass
"""


def collected(tmp_path, *options):
    (tmp_path / "test_some.py").write_text(TESTS)
    conftest = str(Path(__file__).resolve().parent.parent)
    given = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--confcutdir", conftest]
    # The conftest is loaded as a plugin, since the file is not below it.
    run = subprocess.run(
        [*given, "-p", "conftest", *options, str(tmp_path / "test_some.py")],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": conftest,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "ignore",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return [line.split("::")[1] for line in run.stdout.splitlines() if "::" in line]


def test_of_each_test_so_many_cases_run(tmp_path):
    names = [name.split("[")[0] for name in collected(tmp_path, "--cases=1")]
    assert names == ["test_many", "test_one", "test_long"]
    assert len(collected(tmp_path, "--cases=3")) == 3 + 1 + 3


def test_of_the_long_ones_alone_some_wait_for_another_commit(tmp_path):
    names = [name.split("[")[0] for name in collected(tmp_path, "--turn=4")]
    assert names.count("test_many") == 5 and names.count("test_one") == 1 and 0 < names.count("test_long") < 30
