# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A callback that writes down the legs of the move that a run walks, and does harm in one of them.

BERTH_FAULT: JSON {leg: number, from 1, of the leg as it begins, or how its label begins; delay_ms: then; command: a shell
command, or null for the controller's own end: its process, its workers and their ssh}. What no leg is, is the end.
BERTH_FAULT_LEGS: a file that gets a JSON line {number, label, changed, took: {step: s}, seconds} per leg.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: berth_fault
type: notification
short_description: Does harm in a leg of a move
description: For the kill sweep.
"""


sys.path.append(str(Path(__file__).resolve().parents[2]))  # what tests share
import legs_said  # noqa: E402

MOVE = "berth.kvm.move_instances"
ACTS = ("berth.kvm.operate_instances", "berth.kvm.create_instances")  # what no move is: one leg with one step


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "berth_fault"

    def __init__(self):
        super().__init__()
        self.fault = json.loads(os.environ.get("BERTH_FAULT", "null"))
        self.log = os.environ.get("BERTH_FAULT_LEGS")
        self.controller = os.getpid()
        self.number = 0
        self.struck, self.harmed = (multiprocessing.Value("b", 0) for _each in range(2))  # in whichever process
        self.timer = None  # of this one
        self.began = 0
        legs_said.before_each(self._begin)

    def v2_playbook_on_task_start(self, task, is_conditional):
        if task.action in ACTS:
            self._begin(task.name)

    def _begin(self, label):
        """Legs of a move begin in the process of its task, which counts them from where this one was."""
        self.number += 1
        self.began = time.monotonic()
        if self.fault and not self.struck.value and self._is_due(label):
            self.struck.value = 1
            if self.fault["delay_ms"]:
                self.timer = threading.Timer(self.fault["delay_ms"] / 1000, self._harm)
                self.timer.start()
            else:
                self._harm()

    def _is_due(self, label):
        due = self.fault["leg"]
        return due == self.number if isinstance(due, int) else label.startswith(due)

    def _harm(self):
        harm(self.fault["command"], self.controller)
        self.harmed.value = 1

    def v2_playbook_on_stats(self, stats):
        """A run that is faster than the one from which moments were learned is hit at its end."""
        if self.timer:
            self.timer.join()
        if self.fault and not self.harmed.value:
            self._harm()

    def v2_runner_on_ok(self, result):
        if result.task.action == MOVE:
            for leg in result.result.get("legs") or ():
                self.number += 1
                self._write_down({"number": self.number, **leg})
        elif result.task.action in ACTS:
            seconds = round(time.monotonic() - self.began, 3)
            of_it = {"changed": result.is_changed(), "took": {"act": seconds}, "seconds": seconds}
            self._write_down({"number": self.number, "label": result.task.name, **of_it})

    def _write_down(self, leg):
        if self.log:
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(json.dumps(leg) + "\n")


def harm(command, controller):
    if command:
        subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)
        return
    for pid in sorted([*descendants(controller), controller], key=lambda pid: pid == os.getpid()):
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
