# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What watches a live migration while it runs: its time limit, a destination that is gone, and the downtime of the guest."""

from __future__ import annotations

import contextlib
import time

from ...model.errors import BerthError
from ..connection import Bounded, hear_at_once, require_libvirt
from ..guest import qemu_nodes
from . import watchdog
from .watchdog import GONE_SECONDS, STALLED_SECONDS

# The time limit of a live migration: after it, the migration is aborted, or the guest stopped until it has arrived.
#
# The time counts from the end of the first copy of the disks. Until then a stopped guest would wait for whole disks.
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
        """Stop the guest, unless what is left would take too long at the rate so far. A limited rate does not predict that."""
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
    return ": the guest would stand still for the %d MiB that are left (%s; berth_max_pause is %d s)" % (
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
    """Return (bytes left, bytes copied) of disks and memory. All of the memory counts as left until its copy begins."""
    disks = stats.get("disk_total", 0) - stats.get("disk_processed", 0)
    memory = stats.get("memory_remaining", 0) if stats.get("memory_total") else guest.maxMemory() << 10
    return disks + memory, stats.get("disk_processed", 0) + stats.get("memory_processed", 0)


def forecast(left, copied, seconds):
    """Return in how many seconds ``left`` bytes are copied if ``copied`` took ``seconds``."""
    return left * seconds / copied if copied > 0 else float("inf")


# Breaks a live migration off whose destination is gone, or acknowledges nothing. libvirt may soon know that it is gone,
# but waits for QEMU, and QEMU waits for TCP. Where only large packets are lost on the way, libvirt's own keepalive
# comes through.


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
            stuck = self.address is not None and watchdog.is_stuck(self.address)
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


# Measures the downtime of a guest in a live migration: from libvirt's event on the source that it was suspended to the
# event on the destination that it was resumed.
#
# Both events come to the process that migrates the guest, and its clock counts. libvirt's own number (the statistics of
# the ended job) stops when the guest has arrived, but then the guest waits until the source has let go. Nothing depends
# on this number: if an event is missing, none is reported.
CALL_SECONDS = 5.0  # for one call to libvirt


class Downtime:
    """Listens to both hosts from its creation until ``end``. ``source`` and ``destination`` are libvirt connections.
    ``forced``: whether the time limit stopped the guest."""

    def __init__(self, source, destination, uuid):
        self.uuid, self.since, self.until, self.forced = uuid, None, None, False
        self._heard = []  # (connection, number of the registration)
        self._listen(source, self._on_source)
        self._listen(destination, self._on_destination)

    def end(self):
        """Stop listening. Return the downtime in milliseconds, or None if it is not known."""
        library = require_libvirt()
        for connection, number in self._heard:
            with contextlib.suppress(library.libvirtError, BerthError):
                connection.domainEventDeregisterAny(number)
        self._heard = []
        if self.since is None or self.until is None:
            return None
        return max(0, round((self.until - self.since) * 1000))

    def _listen(self, connection, on_event):
        library, limited = require_libvirt(), Bounded(connection, CALL_SECONDS)

        def heard(_connection, guest, event, _detail, _opaque):
            if guest.UUIDString() == self.uuid:
                on_event(event, time.monotonic())

        hear_at_once()
        with contextlib.suppress(library.libvirtError, BerthError):
            number = limited.domainEventRegisterAny(None, library.VIR_DOMAIN_EVENT_ID_LIFECYCLE, heard, None)
            self._heard.append((limited, number))

    def _on_source(self, event, now):
        """If the time limit suspends the guest so that it can leave, the downtime begins then."""
        library = require_libvirt()
        if event == library.VIR_DOMAIN_EVENT_SUSPENDED and self.since is None:
            self.since = now
        elif event == library.VIR_DOMAIN_EVENT_RESUMED:
            self.since = None  # this attempt failed

    def _on_destination(self, event, now):
        """A guest that is suspended here waits to be taken over, or somebody stopped it again: it does not run then."""
        library = require_libvirt()
        if event == library.VIR_DOMAIN_EVENT_RESUMED:
            self.until = now
        elif event == library.VIR_DOMAIN_EVENT_SUSPENDED:
            self.until = None
