# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the source's receipt reaches the destination in milliseconds, while the guest waits there, paused.

The source puts it into the metadata of the waiting guest, by the connection to the destination's libvirt that the
migration needs anyway; on the destination libvirt tells who waits for it. It is a short cut and nothing hangs on it: where
it is lost, the controller's next task brings the same receipt and does the same steps.
"""

from __future__ import annotations

import json
import threading
from xml.etree import ElementTree

from .. import domain as guests
from ..connection import require_libvirt

NAMESPACE = "https://berth.kvm/xmlns/receipt/1"
LOOK = 1.0  # s between two looks whether there is still something to wait for
PARTS = ("role", "phase", "op", "attempt", "generation")


def post(connection, uuid, view):
    """Leave the receipt with the guest that waits where ``connection`` goes. -> whether it is there."""
    library = require_libvirt()
    element = ElementTree.Element("receipt")
    element.text = json.dumps({part: view[part] for part in PARTS})
    try:
        _put(connection.lookupByUUIDString(uuid), ElementTree.tostring(element, encoding="unicode"))
    except library.libvirtError:
        return False
    return True


def await_receipt(connection, uuid, is_wanted):
    """The receipt {role, phase, op, attempt, generation} as soon as it is here, or None when it is wanted no more."""
    library = require_libvirt()
    news = threading.Event()
    events = connection.domainEventRegisterAny(
        None, library.VIR_DOMAIN_EVENT_ID_METADATA_CHANGE, lambda *what: news.set(), None
    )
    try:
        while connection.isAlive() and is_wanted():
            receipt = _take(connection, uuid)
            if receipt:
                return receipt
            news.wait(LOOK)
            news.clear()
    except library.libvirtError:
        pass  # libvirt went away: the controller's task does it
    finally:
        _unregister(connection, events)
    return None


def _unregister(connection, events):
    library = require_libvirt()
    try:
        connection.domainEventDeregisterAny(events)
    except library.libvirtError:
        pass


def _take(connection, uuid):
    """The receipt that lies with the guest, removed from there; None where there is none or it is none."""
    library = require_libvirt()
    found = guests.find(connection, uuid)
    try:
        text = found and found.metadata(library.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE, library.VIR_DOMAIN_AFFECT_LIVE)
        if not text:
            return None
        _put(found, None)
        receipt = json.loads(ElementTree.fromstring(text).text or "")
        return {part: receipt[part] for part in PARTS}
    except (library.libvirtError, ElementTree.ParseError, ValueError, KeyError, TypeError):
        return None


def _put(found, text):
    library = require_libvirt()
    kind, live = library.VIR_DOMAIN_METADATA_ELEMENT, library.VIR_DOMAIN_AFFECT_LIVE
    found.setMetadata(kind, text, "berth-receipt", NAMESPACE, live)
