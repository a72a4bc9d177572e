# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""While a module runs on a host, looks at that host every few seconds, over the same connection."""

from __future__ import annotations

import contextlib
import copy
import os
import threading
import time

FIRST, LONGEST = 2.0, 30.0  # seconds between two looks: the longer it takes, the fewer lines


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
