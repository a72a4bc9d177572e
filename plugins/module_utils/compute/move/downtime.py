# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures the downtime of a guest in a live migration: from libvirt's event on the source that it was suspended to the
event on the destination that it was resumed.

Both events come to the process that migrates the guest, and its clock counts. libvirt's own number (the statistics of
the ended job) stops when the guest has arrived, but then the guest waits until the source has let go. Nothing depends
on this number: if an event is missing, none is reported.
"""

from __future__ import annotations

import contextlib
import time

from ...model.errors import BerthError
from ..connection import Bounded, hear_at_once, require_libvirt

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
