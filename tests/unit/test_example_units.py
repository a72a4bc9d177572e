# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The timers of examples/systemd: systemd takes them, and what they run is there."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "examples" / "systemd"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path):
    for path in UNITS.iterdir():
        # the program is where the administrator has it
        (tmp_path / path.name).write_text(path.read_text().replace("/usr/bin/ansible-playbook", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(map(str, tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if "berth" in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.parametrize("name, runs", [("berth-confirm-due", "confirm_due"), ("berth-recover", "start_after_outage")])
def test_the_timer_starts_the_service_of_its_name_which_runs_a_playbook_that_exists(name, runs):
    """R05."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read(UNITS / (name + ".service"))
    playbook = unit["Service"]["ExecStart"].split()[-1]
    assert playbook == "berth.kvm." + runs
    assert (ROOT / "playbooks" / (playbook.removeprefix("berth.kvm.") + ".yml")).exists()
    assert (UNITS / (name + ".timer")).exists()


@pytest.mark.parametrize("name", ["berth-confirm-due", "berth-recover"])
def test_timers_of_several_controllers_do_not_all_start_in_the_same_second(name):
    """S02."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read(UNITS / (name + ".timer"))
    assert int(unit["Timer"]["RandomizedDelaySec"].removesuffix("s")) > 0
