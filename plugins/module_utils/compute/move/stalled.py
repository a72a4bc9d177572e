# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Breaks a live migration off whose destination is gone, or acknowledges nothing. libvirt may soon know that it is gone, but
waits for QEMU, and QEMU waits for TCP. Where only large packets are lost on the way, libvirt's own keepalive comes through.
"""

from __future__ import annotations

import contextlib
import time

from ...model.errors import BerthError
from ..connection import require_libvirt
from ..guest import qemu_nodes
from . import tcp_table
from .following import GONE_SECONDS, STALLED_SECONDS


class Stalled:
    """The migration of ``guest``. ``remote``: a connection to the destination's libvirt, ``address``: where the destination
    is reached, if this run knows them. ``stuck``: whether it was broken off since the destination acknowledged nothing."""

    def __init__(self, guest, remote=None, address=None):
        self.guest, self.remote, self.address = guest, remote, address
        self.done, self.since, self.stuck = None, time.monotonic(), False

    def check(self, told_to_end):
        """Break it off if nothing came on for GONE_SECONDS, though it was told to end or the destination does not
        answer or acknowledge anything; else for STALLED_SECONDS."""
        stats, now = self.guest.jobStats(0), time.monotonic()
        done = stats.get("disk_processed"), stats.get("memory_processed")
        if done != self.done:
            self.done, self.since = done, now
        elif now - self.since >= GONE_SECONDS:
            stuck = self.address is not None and tcp_table.is_stuck(self.address)
            if stuck or told_to_end or is_gone(self.remote) or now - self.since >= STALLED_SECONDS:
                self.since, self.stuck = now, stuck
                break_off(self.guest)
                with contextlib.suppress(BerthError):  # disks are cut, the memory's way libvirt ends
                    self.guest.abortJob()

    def why(self):
        """Say what was wrong with the destination when the migration failed; None if nothing was seen."""
        if self.stuck:
            return "the destination answers, but acknowledged nothing of what was sent to %s for %d s" % (
                self.address,
                GONE_SECONDS,
            )
        return "the destination stopped answering" if is_gone(self.remote) else None


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
