# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A person presses Ctrl-C, or a program ends a run, in the middle of a task on a host that takes a minute."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
from fake_fleet import build, command_of

from ansible_collections.berth.kvm.plugins.module_utils.model import fleet_hints

FAR = 60  # seconds


def until(true):
    end = time.monotonic() + FAR
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def interrupted(folder, playbook, module, number):
    """(exit status, what was printed) of a run that gets the signal while a host runs the module; then no host halts."""
    (folder / "halts.json").write_text(json.dumps(module))
    command, environment = command_of(folder, build(folder, None), playbook)
    printed = folder / "printed"
    with printed.open("w") as file:
        run = subprocess.Popen(command, env=environment, stdout=file, stderr=file, start_new_session=True)
    try:
        until((folder / "halted").exists)
        run.send_signal(number)
        status = run.wait(FAR)
    finally:
        run.kill()
    (folder / "halts.json").unlink()
    return status, " ".join(printed.read_text().split())


def programs_of(folder):
    """The programs that run with a file of this folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                found += [pid] if os.fsencode(folder) in file.read() else []
        except OSError:
            pass
    return found


@pytest.mark.follows("run_again_after_interruption")
@pytest.mark.parametrize(
    ("playbook", "module", "number", "status"),
    [
        (["create", "--limit", "new-1"], "build_instances", signal.SIGINT, 99),
        (["resize", "--limit", "at-rest-h1"], "migration", signal.SIGTERM, -signal.SIGTERM),
    ],
    ids=["create-SIGINT", "resize-SIGTERM"],
)
def test_who_interrupts_a_run_is_told_once_to_run_it_again_and_that_goes_on(playbook, module, number, status, tmp_path):
    report = tmp_path / "report.json"
    playbook = [*playbook, "-e", "berth_report=%s" % report]
    ended, said = interrupted(tmp_path, playbook, module, number)
    assert ended == status, said
    assert said.count("The run was interrupted. " + fleet_hints.run_again_after_interruption()) == 1, said
    assert "Traceback" not in said
    assert json.loads(report.read_text()) == {"schema": 1, "finished": False}
    until(lambda: not programs_of(tmp_path))

    command, environment = command_of(tmp_path, tmp_path / "inventory.yml", playbook)
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * FAR, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert json.loads(report.read_text())["finished"] is True
