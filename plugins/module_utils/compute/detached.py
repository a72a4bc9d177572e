# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that continues after the run that started it has ended."""

from __future__ import annotations

import json
import os
import signal

LONGEST = 86400  # s


class Detached:
    """Runs ``work(argument)`` once ``go`` is called, and ends at once if this run ends before that.

    It is a fork, so it has all code and needs no file of this run. Make it before libvirt is opened: the threads and
    connections of libvirt do not survive a fork.
    """

    def __init__(self, work, longest=LONGEST):
        reading, self._writing = os.pipe()
        if os.fork() == 0:
            _live(reading, work, longest)
        os.close(reading)

    def go(self, argument):
        """Start the work. JSON must be able to represent the ``argument``."""
        with open(self._writing, "w", encoding="utf-8") as file:
            json.dump(argument, file)


def _live(reading, work, longest):
    try:
        signal.alarm(longest)
        os.setsid()
        os.chdir("/")
        _keep_only(reading)
        with open(reading, encoding="utf-8") as file:
            argument = file.read()
        if argument:
            work(json.loads(argument))
    finally:
        os._exit(0)


def _keep_only(kept):
    """Close all other descriptors: whoever reads this run's output waits until no process has it open for writing."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # that of the listing itself
