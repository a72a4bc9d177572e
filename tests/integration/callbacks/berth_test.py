# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A callback for tests: counts what runs on which host, and runs a command when a play begins.

BERTH_TEST_COUNTS: a file that gets JSON lines {play, task, host}, one per task result or loop item; ``host`` is the inventory host.
BERTH_TEST_AT: a JSON object {start of a task's name, or of a move's leg: shell command}; the command runs before it, once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: berth_test
type: notification
short_description: Counts and interrupts runs in tests
description: For the integration tests.
"""
sys.path.append(str(Path(__file__).resolve().parents[2]))  # what tests share
import legs_said  # noqa: E402


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "berth_test"

    def __init__(self):
        super().__init__()
        self.play = None
        self.counts = os.environ.get("BERTH_TEST_COUNTS")
        self.commands = json.loads(os.environ.get("BERTH_TEST_AT", "{}"))
        legs_said.before_each(self._begin)

    def _begin(self, name):
        for start in [start for start in self.commands if name.startswith(start)]:
            subprocess.run(self.commands.pop(start), shell=True, check=True)

    def v2_playbook_on_play_start(self, play):
        self.play = play.name

    def v2_playbook_on_task_start(self, task, is_conditional):
        self._begin(task.name)

    def _note(self, result):
        if self.counts and not result.is_skipped():
            line = {"play": self.play, "task": result.task.name, "host": result.host.get_name()}
            with open(self.counts, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def v2_runner_on_ok(self, result):
        if "results" not in result.result:
            self._note(result)

    v2_runner_item_on_ok = _note
    v2_runner_item_on_failed = _note
    v2_runner_on_failed = v2_runner_on_ok
