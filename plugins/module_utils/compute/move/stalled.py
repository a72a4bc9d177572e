# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Breaks a live migration off that copies disks to a destination which is gone. libvirt soon knows that it is gone, but
waits for QEMU, and QEMU waits for TCP.
"""

from __future__ import annotations

import contextlib
import time

from ...model.errors import BerthError
from ..connection import require_libvirt
from ..guest import qemu_nodes
from .following import GONE_SECONDS, STALLED_SECONDS


class Stalled:
    """The copying of disks by the migration of ``guest``. ``remote``: a connection to the destination's libvirt, if this
    run has one."""

    def __init__(self, guest, remote=None):
        self.guest, self.remote = guest, remote
        self.done, self.since = None, time.monotonic()

    def check(self, told_to_end):
        """Break it off if nothing came on for GONE_SECONDS, though it was told to end or the destination does not
        answer; else for STALLED_SECONDS."""
        stats, now = self.guest.jobStats(0), time.monotonic()
        done = stats.get("disk_processed"), stats.get("memory_processed")
        if done != self.done:
            self.done, self.since = done, now
        elif now - self.since >= (GONE_SECONDS if told_to_end or is_gone(self.remote) else STALLED_SECONDS):
            self.since = now
            break_off(self.guest)


def is_gone(remote):
    """Whether the destination has stopped answering on this connection; of None it is not known."""
    if remote is None:
        return False
    with contextlib.suppress(require_libvirt().libvirtError):
        return not remote.isAlive()
    return True


def break_off(guest):
    """Break the copying off. What QEMU or libvirt says against it is left out: the migration's own end tells why."""
    with contextlib.suppress(BerthError):
        qemu_nodes.break_migration_off(guest)
