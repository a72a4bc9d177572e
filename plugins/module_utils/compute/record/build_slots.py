# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits the builds at a time on a host to max_concurrent_builds (Nova: ComputeManager._build_semaphore)."""

from __future__ import annotations

import contextlib
import os
import time

from .. import durable, lock
from ..errors import HostBusy

POLL = 0.2  # s
TIMEOUT = 3600  # s: as long as a build may wait for another's download of its image


@contextlib.contextmanager
def slot(state_dir, limit, timeout=TIMEOUT):
    """Wait for one of ``limit`` slots, or raise HostBusy after ``timeout`` seconds. A killed build frees its slot."""
    directory, fd = _wait(state_dir, limit, time.monotonic() + timeout)
    try:
        yield
    finally:
        os.close(fd)
        os.close(directory)


def _wait(state_dir, limit, deadline):
    while True:
        for number in range(limit):
            try:
                return lock.acquire(
                    lambda: durable.open_directory(state_dir, create=True),
                    "build-%d.lock" % number,
                    0,
                    "build",
                    HostBusy,
                )
            except HostBusy as busy:
                last = busy
        if time.monotonic() >= deadline:
            raise HostBusy("%d builds are under way, the last of them by %s" % (limit, last))
        time.sleep(POLL)
