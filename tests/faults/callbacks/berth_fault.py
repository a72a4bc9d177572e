# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A callback that writes down the legs of the move that a run walks, and does harm in one of them.

BERTH_FAULT: JSON {leg: number, from 1, of the leg as it begins, or how its label begins; delay_ms: then; command: a shell
command, or null for the controller's own end: this process, its workers and their ssh}. What no leg is, is the end.
BERTH_FAULT_LEGS: a file that gets a JSON line {number, label, changed, took: {step: s}, seconds} per leg.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: berth_fault
type: notification
short_description: Does harm in a leg of a move
description: For the kill sweep.
"""


LEG = "berth.kvm.run_leg"
ACT = "berth.kvm.instance"  # what no move is: one leg with one step


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "berth_fault"

    def __init__(self):
        super().__init__()
        self.fault = json.loads(os.environ.get("BERTH_FAULT", "null"))
        self.log = os.environ.get("BERTH_FAULT_LEGS")
        self.number = 0
        self.leg, self.began = None, 0

    def v2_playbook_on_task_start(self, task, is_conditional):
        self._write_down()
        if task.action not in (LEG, ACT):
            return
        self.number += 1
        self.leg = {"number": self.number, "label": task.name, "changed": False, "took": {}}
        self.began = time.monotonic()
        if self.fault and self._is_due(task.name):
            fault, self.fault = self.fault, None
            if fault["delay_ms"]:
                threading.Timer(fault["delay_ms"] / 1000, harm, [fault["command"]]).start()
            else:
                harm(fault["command"])

    def _is_due(self, label):
        due = self.fault["leg"]
        return due == self.number if isinstance(due, int) else label.startswith(due)

    def v2_playbook_on_stats(self, stats):
        self._write_down()
        if self.fault:
            harm(self.fault["command"])

    def v2_runner_on_ok(self, result):
        if self.leg:
            seconds = round(time.monotonic() - self.began, 3)
            took = {"act": seconds} if result.task.action == ACT else result.result.get("took") or {}
            self.leg.update(changed=result.is_changed(), took=took, seconds=seconds)

    def _write_down(self):
        if self.log and self.leg:
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(json.dumps(self.leg) + "\n")
        self.leg = None


def harm(command):
    if command:
        subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)
        return
    for pid in [*descendants(os.getpid()), os.getpid()]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def descendants(pid):
    """Workers lead sessions of their own, so the process group alone would leave them at work."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name, encoding="ascii", errors="replace") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, front = [], [pid]
    while front:
        front = [child for child, parent in parents.items() if parent in front]
        found += front
    return found
