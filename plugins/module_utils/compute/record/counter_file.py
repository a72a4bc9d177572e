# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small files of counters that a host keeps beside its records: read without a lock, changed under one."""

from __future__ import annotations

import contextlib
import json
import os

from .. import durable, lock
from ..errors import HostBusy
from . import state_file

LOCK = "counters.lock"
LOCK_TIMEOUT = 5  # s


class CounterFile:
    """One such file. ``parse`` checks its content: dict -> dict, or an error of state_file."""

    def __init__(self, name, parse):
        self.name = name
        self.parse = parse

    def peek(self, state_dir):
        """Return its content, without the lock: it is replaced by a rename. None if there is no state directory."""
        try:
            directory = durable.open_directory(state_dir)
        except FileNotFoundError:
            return None
        try:
            return self.read(directory)
        finally:
            os.close(directory)

    def read(self, directory):
        return state_file.decode(durable.read(directory, self.name), self.name, self.parse, {})

    def write(self, directory, state):
        durable.write(directory, self.name, json.dumps(state).encode("utf-8"))


@contextlib.contextmanager
def locked(state_dir):
    def busy(who):
        return HostBusy("the counters of the host are locked by %s" % who, holder=who)

    directory, fd = lock.acquire(lambda: durable.open_directory(state_dir), LOCK, LOCK_TIMEOUT, "counters", busy)
    try:
        yield directory
    finally:
        os.close(fd)
        os.close(directory)
