# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Closes the ports of a copy on the destination and removes its key once nobody uses them. It needs no controller."""

from __future__ import annotations

import os
import time

from . import following, tcp_table, transfer

FIRST_SECONDS = 3600  # until the source connects: in a run over many instances each waits for its turn
QUIET_SECONDS = 60  # without the source, plus the time in which its guest shuts down
POLL_SECONDS = 2.0
LONGEST_SECONDS = 30 * 86400


def to_guard(uuid, targets, stop_timeout):
    """Return the argument of ``guard``, as plain data."""
    ports = [target["port"] for target in targets]
    return {"uuid": uuid, "ports": ports, "quiet": QUIET_SECONDS + stop_timeout}


def guard(argument):
    """On the destination, in a process of its own: close the ports and remove the key when nobody has been connected
    for too long, or a client has sent nothing. Also end if another copy has opened its own ports."""
    uuid, opened = argument["uuid"], _opened(argument["uuid"])
    seen, limit, before = time.monotonic(), FIRST_SECONDS, (False, None)
    while opened is not None and _opened(uuid) == opened:
        connected = has_client(argument["ports"])
        now = connected, transfer.worked(uuid) if connected else None
        if now != before:
            # A client that lost power stays connected for ever, but sends nothing.
            seen, limit, before = time.monotonic(), (following.STALLED_SECONDS if connected else argument["quiet"]), now
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


def has_client(ports, files=tcp_table.FILES):
    """Whether anybody is connected to one of these ports of this host."""
    return any(connection.local_port in ports for connection in tcp_table.established(files))
