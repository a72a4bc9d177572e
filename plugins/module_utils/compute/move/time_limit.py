# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time limit of a live migration: after it, the migration is aborted, or the guest stopped until it has arrived.

The time counts from the end of the first copy of the disks. Until then a stopped guest would wait for whole disks.
"""

from __future__ import annotations

import contextlib
import time

from ...model.errors import BerthError
from ..guest import qemu_nodes

MAX_PAUSE = 60  # seconds
MEASURED = 3.0  # seconds of copying after which its rate is believed


class Limit:
    """``size``: a function that returns the virtual size of all disks to copy, in bytes.
    ``ended``: why the migration was aborted, or None. ``stopped``: whether the guest was, so that it can arrive."""

    def __init__(self, options, size):
        self.options, self.size = options, size
        self.seconds, self.longest = options.get("timeout") or 0, options.get("max_pause", MAX_PAUSE)
        self.force = options.get("timeout_action") == "force_complete"
        self.is_limited = bool(options.get("bandwidth"))
        self.began = self.paused = self.ended = None  # the first two: (time, bytes left, bytes copied)

    @property
    def stopped(self):
        return self.paused is not None

    def enforce(self, guest):
        """Call it again and again. What libvirt refuses, as between two phases, is tried by the next call."""
        if not self.seconds or self.ended:
            return
        stats = guest.jobStats(0)
        if self.began is None and first_copy_has_ended(stats, self.size):
            self.began = time.monotonic(), *left_and_copied(guest, stats)
        if self.began is None or time.monotonic() - self.began[0] < self.seconds:
            return
        if not self.force:
            self._abort(guest, "")
        elif self.stopped:
            self._watch_pause(guest, *left_and_copied(guest, stats))
            self._lift_for_memory(guest, stats)
        else:
            self._stop(guest, *left_and_copied(guest, stats))
            self._lift_for_memory(guest, stats)

    def _stop(self, guest, left, copied):
        """Stop the guest, unless what is left would take too long at the rate so far. A limit on it says nothing of that."""
        then, _left, before = self.began
        needed = forecast(left, copied - before, time.monotonic() - then)
        if needed > self.longest and not self.is_limited:
            self._abort(guest, _too_long(left, needed, self.longest))
            return
        guest.suspend()
        self.paused = time.monotonic(), left, copied
        if self.is_limited:
            with contextlib.suppress(BerthError):
                qemu_nodes.unlimit_copies(guest)

    def _lift_for_memory(self, guest, stats):
        """Lift the limit on the bandwidth for a guest that stands still. libvirt sets it when the copy of memory begins."""
        if self.stopped and self.is_limited and stats.get("memory_total"):
            guest.migrateSetMaxSpeed(guest.migrateGetMaxSpeed(0))
            self.is_limited = False

    def _watch_pause(self, guest, left, _copied):
        then, before, _before = self.paused
        seconds = time.monotonic() - then
        needed = seconds + forecast(left, before - left, seconds)
        if seconds >= min(MEASURED, self.longest) and needed > self.longest:
            self._abort(guest, _too_long(left, needed, self.longest))

    def _abort(self, guest, why):
        guest.abortJob()
        converge = "on" if self.options.get("permit_auto_converge", True) else "off"
        self.ended = "ended after %d s, its time limit%s; auto-converge was %s" % (self.seconds, why, converge)


def _too_long(left, needed, longest):
    takes = "about %d s" % needed if needed < 7 * 86400 else "no end, at the rate seen"
    return ": the guest would stand still for the %d MiB that are left (%s; live_migrate_max_pause is %d s)" % (
        left >> 20,
        takes,
        longest,
    )


def first_copy_has_ended(stats, size):
    """libvirt copies memory after all disks. If the guest writes faster than is copied, that never begins: then it counts
    when as much was sent as the disks have in all."""
    if stats.get("memory_total"):
        return True
    return bool(stats.get("disk_total")) and stats.get("disk_processed", 0) >= size()


def left_and_copied(guest, stats):
    """Return (bytes left, bytes copied) of disks and memory. Of memory, all is left until its copy begins."""
    disks = stats.get("disk_total", 0) - stats.get("disk_processed", 0)
    memory = stats.get("memory_remaining", 0) if stats.get("memory_total") else guest.maxMemory() << 10
    return disks + memory, stats.get("disk_processed", 0) + stats.get("memory_processed", 0)


def forecast(left, copied, seconds):
    """Return in how many seconds ``left`` bytes are copied if ``copied`` took ``seconds``."""
    return left * seconds / copied if copied > 0 else float("inf")
