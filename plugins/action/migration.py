# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action migration: runs the module of the same name, and shows the progress of its long steps."""

from __future__ import annotations

import contextlib
import copy
import os
import shlex
import threading
import time

from ..module_utils.conductor import progress, unconfirmed
from ..plugin_utils.berth_name import selected_by_name
from ..plugin_utils.host_reply import HostAction
from ..plugin_utils.screen import say

FIRST, LONGEST = 2.0, 30.0  # seconds between two looks: the longer it takes, the fewer lines
# The steps that write progress.json on their host.
LONG = {"presend", "send", "follow_live", "migrate_live"}
PROGRESS = "/run/berth/moves/%s/progress.json"


class ActionModule(HostAction):
    def on_host(self, task_vars):
        arguments = self._task.args
        if self._task.check_mode or not LONG.intersection(arguments.get("steps") or ()):
            return self._with_health_shown(super().on_host(task_vars), task_vars)
        name, shown = task_vars["inventory_hostname"], []

        def show(text):
            line = progress.line(name, text)
            if line and progress.amount_in(line) not in shown[-1:]:
                shown.append(progress.amount_in(line))
                say(line)

        with watching(self, "cat " + shlex.quote(PROGRESS % arguments["uuid"]), show):
            return super().on_host(task_vars)

    @staticmethod
    def _with_health_shown(reply, task_vars):
        """Show people what a confirmation knows about the guest."""
        health = (reply.get("move") or {}).get("health")
        if health:
            told = unconfirmed.guest_at_confirm(task_vars["inventory_hostname"], health)
            say(selected_by_name(told, task_vars))
        return reply


@contextlib.contextmanager
def watching(action, command, see):
    """Run ``command`` on the action's host from time to time, and pass its output to ``see``. The block runs unchanged.
    A failed look is ignored: only the module's own connection decides whether the host answers.
    """
    ended = threading.Event()
    onlooker = _own_connection(action)
    began, controller = time.monotonic(), os.getppid()

    def look():
        while not ended.wait(min(LONGEST, FIRST + (time.monotonic() - began) / 10)):
            if os.getppid() != controller:
                return  # the controller was killed: nobody reads any more, and the module continues by itself
            with contextlib.suppress(Exception):
                reply = onlooker._low_level_execute_command(command)
                if reply["rc"] == 0 and not ended.is_set():
                    see(reply["stdout"])

    # A look may hang as long as the connection does: it must not delay the end of the task.
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(1)


def _own_connection(action):
    """A copy of the action with its own connection to the same place: a connection keeps state of its command."""
    onlooker = copy.copy(action)
    onlooker._connection = copy.copy(action._connection)
    if onlooker._connection.become:
        onlooker._connection.become = copy.copy(action._connection.become)
    return onlooker
