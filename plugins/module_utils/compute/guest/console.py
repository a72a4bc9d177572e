# Copyright: (c) 2026, The berth.kvm authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where people find a guest: the last lines of its console, how to attach to it, its screen, its addresses."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional
from xml.etree import ElementTree

from ...model.safe_text import clean
from .. import paths
from ..connection import Deadline, LibvirtTimeout, require_libvirt
from . import agent, domain, health

MOST_LINES = 500
LONGEST = 255  # characters of a line
MOST_ADDRESSES = 64
ANSWER = 10  # s for the agent
# What a terminal would execute: CSI, OSC and short escape sequences.
ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[0-Z\\^-~]|[ -/][0-~])")


def look(connection: Any, uuid: str, count: int) -> Dict[str, Any]:
    """Return {lines (the last ``count``), attach, serial, vnc, addresses}; for a guest that is off, None or empty."""
    lines = last_lines(health.end_of(paths.console_log(uuid)), count)
    guest = domain.find_active(connection, uuid)
    root = ElementTree.Element("domain") if guest is None else ElementTree.fromstring(guest.XMLDesc(0))
    return {
        "lines": lines,
        "attach": "virsh console %s" % uuid,
        "serial": _attribute(root, "devices/serial/source", "path"),
        "vnc": _vnc(root),
        "addresses": addresses(guest) if guest is not None else [],
    }


def last_lines(text: str, count: int) -> List[str]:
    """Return the last lines, safe to show: without escapes, overwritten text, and empty lines at the end."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in ESCAPE.sub("", text).split("\n")]
    shown = [clean(line.replace("\t", " ").rstrip(), LONGEST) for line in lines]
    while shown and not shown[-1]:
        shown.pop()
    return shown[-min(count, MOST_LINES) :] if count else []


def _attribute(root: ElementTree.Element, path: str, name: str) -> Optional[str]:
    element = root.find(path)
    value = None if element is None else element.get(name)
    return clean(value) if value else None


def _vnc(root: ElementTree.Element) -> Optional[str]:
    graphics = root.find("devices/graphics[@type='vnc']")
    if graphics is None or not (graphics.get("port") or "").isdigit():
        return None
    return clean("%s:%s" % (graphics.get("listen") or "127.0.0.1", graphics.get("port")))


def addresses(found: Any) -> List[Dict[str, str]]:
    """Return [{mac, address, source}] from the guest's agent, and from the leases of libvirt's own networks."""
    library = require_libvirt()
    sources = {
        "agent": library.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT,
        "lease": library.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE,
    }
    listed = []
    for name, source in sources.items():
        if name == "agent" and not agent.answers(found):
            continue
        try:
            cards = Deadline(ANSWER).call(found.interfaceAddresses, source, 0, what="asking for addresses")
        except (library.libvirtError, LibvirtTimeout):
            continue
        listed += [
            _address(name, card, address) for card in (cards or {}).values() for address in card.get("addrs") or ()
        ]
    return listed[:MOST_ADDRESSES]


def _address(source: str, card: Dict[str, Any], address: Dict[str, Any]) -> Dict[str, str]:
    text = "%s/%s" % (address.get("addr"), address.get("prefix"))
    return {"mac": clean(str(card.get("hwaddr"))), "address": clean(text), "source": source}
