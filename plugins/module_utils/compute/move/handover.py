# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How source and destination of a live migration finish it in milliseconds, without the controller between them.

The source writes its receipt into the metadata of the paused guest on the destination, through the connection to the
destination's libvirt that the migration needs anyway; libvirt there notifies whoever waits for it. Answers go the same
way. It is a short cut and nothing depends on it: if a message is lost, the controller's next task carries the same data
and does the same steps.
"""

from __future__ import annotations

import json
import threading
import time
from xml.etree import ElementTree

from ...model.errors import BerthError
from ...model.record import fits
from ..connection import Bounded, hear_at_once, require_libvirt
from ..guest import domain as guests

NAMESPACE = "https://berth.kvm/xmlns/%s/1"
SOURCE, DESTINATION = "receipt", "answer"  # the metadata elements of the source and the destination
POLL_SECONDS = 1.0  # between two checks whether to wait any longer
PICKED_UP_SECONDS = 2.0  # if the other side has not picked up a message by then, it does not wait for one
CALL_SECONDS = 5.0  # for one libvirt call
ANSWER_SECONDS = 5.0  # if the other side has not answered by then, it will not
PARTS = {"role": str, "phase": str, "op": str, "attempt": int, "generation": list}


class MessageChannel:
    """One side's end of the messages about the move ``op``: ``outgoing`` and ``incoming`` are SOURCE and DESTINATION or
    vice versa. A message is the view of the record, {role, phase, op, attempt, generation}."""

    def __init__(self, connection, uuid, op, outgoing, incoming):
        self.connection, self.uuid, self.op = Bounded(connection, CALL_SECONDS), uuid, op
        self.outgoing, self.incoming = outgoing, incoming

    def send(self, view):
        """Write the message where the other host finds it. Return whether that worked."""
        library = require_libvirt()
        element = ElementTree.Element(self.outgoing)
        element.text = json.dumps({"move": self.op, **{part: view.get(part) for part in PARTS}})
        try:
            self._put(self.outgoing, ElementTree.tostring(element, encoding="unicode"))
        except (library.libvirtError, BerthError):
            return False
        return True

    def ask(self, view):
        """Send the message. Return the answer, or None if the other side is not there or does not answer in time."""
        if not self.send(view):
            return None
        began = time.monotonic()

        def is_wanted():
            waited = time.monotonic() - began
            return waited < PICKED_UP_SECONDS or (waited < ANSWER_SECONDS and self._read(self.outgoing) is None)

        return self.receive(is_wanted)

    def receive(self, is_wanted):
        """Return the other side's message as soon as it is here, or None once it is no longer wanted."""
        library = require_libvirt()
        news = threading.Event()
        hear_at_once()
        events = self.connection.domainEventRegisterAny(
            None, library.VIR_DOMAIN_EVENT_ID_METADATA_CHANGE, lambda *what: news.set(), None
        )
        try:
            while self.connection.isAlive() and is_wanted():
                message = self._take()
                if message:
                    return message
                news.wait(POLL_SECONDS)
                news.clear()
        except (library.libvirtError, BerthError):
            pass  # libvirt is gone: the controller's task does the rest
        finally:
            self._unregister(events)
        return None

    def _unregister(self, events):
        library = require_libvirt()
        try:
            self.connection.domainEventDeregisterAny(events)
        except library.libvirtError:
            pass

    def _take(self):
        """Remove and return the message in the guest's metadata; None if there is none for this move."""
        library = require_libvirt()
        text = self._read(self.incoming)
        if text is None:
            return None
        try:
            self._put(self.incoming, None)
            message = json.loads(ElementTree.fromstring(text).text or "")
            return {part: message[part] for part in PARTS} if message["move"] == self.op and is_plain(message) else None
        except (library.libvirtError, BerthError, ElementTree.ParseError, ValueError, KeyError, TypeError):
            return None

    def _read(self, element):
        library = require_libvirt()
        kind, live = library.VIR_DOMAIN_METADATA_ELEMENT, library.VIR_DOMAIN_AFFECT_LIVE
        try:
            guest = guests.find(self.connection, self.uuid)
            return guest and guest.metadata(kind, NAMESPACE % element, live)
        except library.libvirtError:
            return None  # no message, or no guest has arrived yet

    def _put(self, element, text):
        library = require_libvirt()
        kind, live = library.VIR_DOMAIN_METADATA_ELEMENT, library.VIR_DOMAIN_AFFECT_LIVE
        found = self.connection.lookupByUUIDString(self.uuid)
        found.setMetadata(kind, text, "berth-" + element, NAMESPACE % element, live)


def is_plain(message):
    plain = all(message[part] is None or isinstance(message[part], kind) for part, kind in PARTS.items())
    return plain and fits(message["attempt"] or 0, *(message["generation"] or ()))
