# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Closes the ports of a copy on the destination and removes its key once nobody uses them. It needs no controller."""

from __future__ import annotations

import json
import os
import signal
import time

from . import transfer, watchdog

FIRST_SECONDS = 3600  # until the source connects: in a run over many instances each waits for its turn
QUIET_SECONDS = 60  # without the source, plus the time in which its guest shuts down
POLL_SECONDS = 2.0
LONGEST_SECONDS = 30 * 86400


def to_guard(uuid, targets, stop_timeout, first=None):
    """Return the argument of ``guard``, as plain data. ``first``: seconds until the source connects, by default FIRST_SECONDS."""
    ports = [target["port"] for target in targets]
    return {"uuid": uuid, "ports": ports, "quiet": QUIET_SECONDS + stop_timeout, "first": first or FIRST_SECONDS}


def guard(argument):
    """On the destination, in a process of its own: close the ports and remove the key when nobody has been connected
    for too long, or a client has sent nothing. Also end if another copy has opened its own ports."""
    uuid, opened = argument["uuid"], _opened(argument["uuid"])
    seen, limit, before = time.monotonic(), argument["first"], (False, None)
    while opened is not None and _opened(uuid) == opened:
        connected = has_client(argument["ports"])
        now = connected, transfer.worked(uuid) if connected else None
        if now != before:
            # A client that lost power stays connected for ever, but sends nothing.
            seen, limit, before = time.monotonic(), (watchdog.STALLED_SECONDS if connected else argument["quiet"]), now
        elif time.monotonic() - seen > limit:
            transfer.close(uuid)
            return
        time.sleep(POLL_SECONDS)


def _opened(uuid):
    """Identify this opening of the ports: each one writes the file of the key again."""
    try:
        status = os.stat(transfer.directory(uuid, "keys.psk"))
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def has_client(ports, files=watchdog.FILES):
    """Whether anybody is connected to one of these ports of this host."""
    return any(connection.local_port in ports for connection in watchdog.established(files))


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
